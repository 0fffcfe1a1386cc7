"""Agreement coefficients against published tables."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from wiesel import LabelSpace, VoteMatrix
from wiesel.analysis import agreement
from wiesel.analysis.reliability import reliability
from wiesel.errors import ParameterError

# Krippendorff 2011, "Computing Krippendorff's alpha-reliability": four observers, twelve units.
KRIPPENDORFF = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""

# Fleiss 1971 style table (14 raters, 10 subjects, 5 categories) of the literature: kappa 0.210.
FLEISS = [
    *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
    *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
]


def krippendorff_votes() -> VoteMatrix:
    observers = [line.split() for line in KRIPPENDORFF.strip().splitlines()]
    dense = [
        [None if said == "." else said for said in unit] for unit in zip(*observers, strict=True)
    ]
    return VoteMatrix.from_dense(dense, ["1", "2", "3", "4", "5"])


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_equals_the_published_values(level, published):
    found = reliability(krippendorff_votes(), level)
    assert found.alpha == pytest.approx(published, abs=6e-4)
    assert found.low < found.alpha < found.high <= 1
    assert found.n_items == 11  # one unit has a single answer
    assert reliability(krippendorff_votes(), level) == found


def test_fleiss_kappa_equals_the_published_value():
    dense = [np.repeat(np.arange(5), row).tolist() for row in FLEISS]
    found = reliability(VoteMatrix.from_dense(dense, [f"c{k}" for k in range(5)]))
    assert found.fleiss == pytest.approx(0.210, abs=6e-4)


def test_cohen_kappa_equals_the_published_value():
    # 50 proposals, two readers: both yes 20, both no 15, only the first yes 5, only the second 10.
    dense = [[1, 1]] * 20 + [[0, 0]] * 15 + [[1, 0]] * 5 + [[0, 1]] * 10
    found = reliability(VoteMatrix.from_dense(dense, ["no", "yes"]))
    assert found.cohen == pytest.approx(0.40)
    assert found.agreement == pytest.approx(0.70)


def test_agreement_is_unknown_without_two_answers_and_for_a_single_class():
    lone = reliability(VoteMatrix.from_dense([[0, -1], [-1, 1]], ["a", "b"]))
    assert np.isnan(lone.alpha)
    assert lone.sentence() == "Agreement: unknown, because no item has two answers"
    same = reliability(VoteMatrix.from_dense([[0, 0]] * 3, ["a", "b"]))
    assert np.isnan([same.alpha, same.fleiss, same.low, same.cohen]).all()
    assert same.agreement == 1
    assert same.to_record()["alpha"] is None


def test_levels_and_classes_are_checked():
    votes = VoteMatrix.from_dense([[0, 1]], ["bad", "good"])
    with pytest.raises(ParameterError, match=r"'interval' needs classes that are numbers.*'bad'"):
        reliability(votes, "interval")
    with pytest.raises(ParameterError, match="level must be one of"):
        reliability(votes, "ratio")


def test_the_interval_holds_the_alpha_of_many_items():
    # Workers copy the truth with probability 0.7, else guess: pairs agree beyond chance in 0.49.
    inside = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        gold = rng.integers(0, 2, 150)
        sure = rng.random((150, 3)) < 0.7
        dense = np.where(sure, gold[:, None], rng.integers(0, 2, (150, 3)))
        found = reliability(VoteMatrix.from_dense(dense, ["a", "b"]), seed=seed)
        inside += found.low <= 0.49 <= found.high
    assert 34 <= inside <= 40


def test_ordered_classes_are_ordinal_by_default():
    votes = krippendorff_votes()
    ranks = replace(votes, labels=LabelSpace(*votes.labels, ordered=True))
    assert reliability(ranks) == reliability(votes, "ordinal")
    assert reliability(ranks, "nominal") == reliability(votes)
    assert "(ordinal, 95 % interval" in reliability(ranks).sentence()


def test_pairs_of_ordered_classes_have_a_distance_and_a_weighted_kappa():
    """Equal to scikit-learn's linearly weighted kappa on the items that both rated."""
    rng = np.random.default_rng(0)
    dense = rng.integers(-1, 5, (200, 3))
    dense[:, 1] = np.where(rng.random(200) < 0.6, dense[:, 0], dense[:, 1])
    votes = VoteMatrix.from_dense(dense, LabelSpace(*"abcde", ordered=True), ["x", "y", "z"])
    for row in agreement(votes).frame.iter_rows(named=True):
        first, second = (votes.voters.index(row[name]) for name in ("first", "second"))
        both = (dense[:, [first, second]] >= 0).all(axis=1)
        a, b = dense[both, first], dense[both, second]
        assert row["distance"] == pytest.approx(np.abs(a - b).mean())
        assert row["kappa"] == pytest.approx(cohen_kappa_score(a, b, weights="linear"))
    assert "distance" in agreement(votes).to_text()
    nominal = VoteMatrix.from_dense(dense, list("abcde"), ["x", "y", "z"])
    assert "distance" not in agreement(nominal).frame.columns
