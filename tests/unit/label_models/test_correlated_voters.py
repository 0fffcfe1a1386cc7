"""Voters that repeat each other's errors count less, and grades count as what they are."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, zscore

from wiesel import LabelSpace, MajorityVote, VoteMatrix
from wiesel.datasets import make_panel
from wiesel.end_to_end import Stacked
from wiesel.errors import ParameterError
from wiesel.label_models import CorrelatedVoters, correlated_voters

LABELS = LabelSpace("no", "yes")


def right(proba: np.ndarray, gold: np.ndarray) -> float:
    return float((proba.argmax(axis=1) == gold).mean())


def noisy(gold: np.ndarray, accuracy: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(gold)) < accuracy, gold, 1 - gold)


@pytest.fixture(scope="module")
def crowd() -> tuple[VoteMatrix, np.ndarray]:
    """Four voters that mostly repeat one (70 % right), and six independent ones (75 %)."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 4000)
    leader = noisy(gold, 0.7, rng)
    followers = [noisy(leader, 0.95, rng) for _ in range(4)]
    others = [noisy(gold, 0.75, rng) for _ in range(6)]
    return VoteMatrix.from_dense(np.stack([*followers, *others], axis=1), LABELS), gold


def test_voters_that_repeat_each_other_count_as_about_one(crowd) -> None:
    votes, gold = crowd
    model = CorrelatedVoters().fit(votes)
    majority = right(MajorityVote().fit(votes).predict_proba(votes), gold)
    assert right(model.predict_proba(votes), gold) > majority + 0.03
    weights = model.discriminant_[:, 1]
    assert weights[:4].sum() < 1.5 * weights[4:].mean()


def test_independent_voters_have_the_weights_of_a_linear_discriminant() -> None:
    """With E diagonal, a voter with correlation a has the weight a / (1 - a^2)."""
    rng = np.random.default_rng(1)
    gold = np.arange(20_000) % 2
    accuracies = np.array([0.9, 0.8, 0.7, 0.6])
    votes = VoteMatrix.from_dense(
        np.stack([noisy(gold, each, rng) for each in accuracies], axis=1), LABELS
    )
    model = CorrelatedVoters().fit(votes)
    expected = 2 * accuracies - 1  # the correlation of a vote with a balanced class
    assert model.reliabilities_[:, 1] == pytest.approx(expected, abs=0.03)
    assert model.discriminant_[:, 1] == pytest.approx(expected / (1 - expected**2), abs=0.12)


def test_the_soft_label_is_the_posterior_of_two_normals() -> None:
    """Bayes' rule on the documented model: x is normal around a z with the covariance E."""
    rng = np.random.default_rng(3)
    gold = (rng.random(2000) < 0.2).astype(int)
    dense = np.stack([noisy(gold, each, rng) for each in (0.9, 0.8, 0.7)], axis=1)
    votes = VoteMatrix.from_dense(dense, LABELS)
    model = CorrelatedVoters(power=0.0).fit(votes, class_balance=[0.8, 0.2])
    x = (dense - dense.mean(axis=0)) / dense.std(axis=0)
    a, errors = model.reliabilities_[:, 1], model.error_covariance_[1]
    # A class with a share of 0.2 has the standard deviation 0.4.
    present = 0.2 * multivariate_normal(a * (1 - 0.2) / 0.4, errors).pdf(x)
    absent = 0.8 * multivariate_normal(a * (0 - 0.2) / 0.4, errors).pdf(x)
    assert model.predict_proba(votes)[:, 1] == pytest.approx(present / (present + absent))


def test_standardized_votes_are_z_scores_of_what_each_voter_said() -> None:
    dense = np.random.default_rng(4).choice([-1, 0, 1], (200, 3), p=[0.3, 0.5, 0.2])
    votes = VoteMatrix.from_dense(dense, LABELS)
    found = CorrelatedVoters().fit(votes).standardized(votes)
    for c in range(2):
        said = np.where(dense < 0, np.nan, dense == c)
        expected = np.nan_to_num(zscore(said, nan_policy="omit"))
        assert found[:, :, c] == pytest.approx(expected)


def test_voters_that_never_vary_leave_the_class_balance() -> None:
    """What a voter always says is no evidence: its weight is 0, and the posterior the prior."""
    constant = VoteMatrix.from_dense(np.zeros((6, 3), dtype=int), LABELS)
    model = CorrelatedVoters().fit(constant, class_balance=[0.7, 0.3])
    assert model.predict_proba(constant) == pytest.approx(np.tile([0.7, 0.3], (6, 1)))
    varied = VoteMatrix.from_dense(np.column_stack([np.zeros(6, int), np.arange(6) % 2]), LABELS)
    model.fit(varied)
    assert model.scales_.tolist() == [[0, 0], [0.5, 0.5]]  # the standard deviations
    assert model.discriminant_[0].tolist() == [0, 0]


def test_power_changes_how_sure_it_is_and_not_the_class(crowd) -> None:
    votes, _ = crowd
    sure = CorrelatedVoters(power=0.0).fit(votes).predict_proba(votes)
    careful = CorrelatedVoters(power=1.0).fit(votes).predict_proba(votes)
    assert (sure.argmax(axis=1) == careful.argmax(axis=1)).all()
    assert sure.max(axis=1).mean() > careful.max(axis=1).mean() + 0.01


@pytest.mark.parametrize("seed", range(3))
def test_a_panel_without_labels_beats_its_best_judge_and_its_majority(seed: int) -> None:
    votes, gold = make_panel(2500, 20, seed=seed)
    dense = votes.dense()
    best = max((d[d >= 0] == gold[d >= 0]).mean() for d in dense.T)
    proba = CorrelatedVoters().fit(votes).predict_proba(votes)
    assert right(proba, gold) > best
    assert right(proba, gold) > right(MajorityVote().fit(votes).predict_proba(votes), gold) + 0.02


def test_a_grade_is_worth_what_others_say_where_it_was_given() -> None:
    # The last judge means yes by 0.4 and no by 0.45; its grades are read backwards.
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 2, 3000)
    plain = np.stack([noisy(gold, 0.75, rng) for _ in range(3)], axis=1)
    odd = np.where(noisy(gold, 0.9, rng) == 1, 0.4, 0.45)
    yes = np.column_stack([plain, odd])
    votes = VoteMatrix.from_proba(np.stack([1 - yes, yes], axis=2), LABELS)
    model = CorrelatedVoters().fit(votes)
    assert model.grades_[3, 1, 8] > model.grades_[3, 1, 9]  # 0.4 is grade 8 of 20
    assert model.reliabilities_[3, 1] == pytest.approx(0.8, abs=0.05)
    assert right(model.predict_proba(votes), gold) > 0.88
    # Grades between those that were given lie between their values.
    assert model.grades_[0, 1, 0] < model.grades_[0, 1, 10] < model.grades_[0, 1, 20]


def test_votes_without_grades_are_read_as_they_are(crowd) -> None:
    votes, _ = crowd
    model = CorrelatedVoters().fit(votes)
    assert model.grades_.size == 0
    shares = np.eye(2)[votes.dense()]
    same = CorrelatedVoters().fit(VoteMatrix.from_proba(shares, LABELS, votes.voters))
    assert same.discriminant_ == pytest.approx(model.discriminant_)


@pytest.mark.parametrize("seed", range(3))
def test_a_few_labels_make_more_of_a_panel_that_leans(seed: int) -> None:
    """As on a real panel: a regression on 200 labels is better than the majority by far."""
    from sklearn.linear_model import LogisticRegression

    leaning = {"families": (10, 6, 4), "shared": 0.5, "ceiling": 0.83, "coarse": 0.25}
    votes, gold = make_panel(4500, seed=seed, habits=0.8, tendency=0.5, **leaning)
    learned, judged, truth = votes[:3000], votes[3000:], gold[3000:]
    stacked = Stacked().fit(learned, gold=(learned[:200], gold[:200]))
    ratings = np.full((4500, 20), 0.5)
    ratings[votes.item_index, votes.voter_index] = votes.distribution[:, 1]
    regression = LogisticRegression(C=0.1).fit(ratings[:200], gold[:200])
    by_regression = right(regression.predict_proba(ratings[3000:]), truth)
    assert right(stacked.predict_proba(judged), truth) > by_regression - 0.002
    majority = right(MajorityVote().fit(learned).predict_proba(judged), truth)
    assert by_regression > majority + 0.02


def test_an_item_uses_the_voters_that_voted_on_it(crowd) -> None:
    votes, _ = crowd
    model = CorrelatedVoters(power=0.0).fit(votes)
    one = VoteMatrix.from_dense([[1] + [-1] * 9, [-1] * 9 + [1]], LABELS, votes.voters)
    proba = model.predict_proba(one)[:, 1]
    # A voter alone is as right as it is: 68 % (.7 * .95 + .3 * .05), and 75 %.
    assert proba[1] == pytest.approx(0.75, abs=0.06)
    assert proba[0] > 0.5


def test_crowds_are_refused_with_advice() -> None:
    many = VoteMatrix.from_dense(np.zeros((2, 1001), int), LABELS)
    with pytest.raises(ParameterError, match=r"at most 1,000; there are 1,001\. Use DawidSkene"):
        CorrelatedVoters().fit(many)


def test_classes_computed_together_are_those_computed_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    gold = rng.integers(5, size=400)
    dense = np.where(rng.random((400, 6)) < 0.5, gold[:, None], rng.integers(5, size=(400, 6)))
    dense[:, 5] = 3  # a voter that never varies
    dense[:20, 0] = -1
    votes = VoteMatrix.from_dense(dense, LabelSpace("a", "b", "c", "d", "e"))
    together = CorrelatedVoters().fit(votes)
    monkeypatch.setattr(correlated_voters, "_NUMBERS_AT_ONCE", 1)
    alone = CorrelatedVoters().fit(votes)
    np.testing.assert_allclose(alone.reliabilities_, together.reliabilities_, atol=1e-12)
    np.testing.assert_allclose(alone.discriminant_, together.discriminant_, atol=1e-10)
    assert len(np.unique(together.reliabilities_[:5].round(6))) == 25  # each class has its own


def test_medians_count_only_some_values():
    values = np.random.default_rng(0).normal(size=(4, 3, 3))
    counted = np.random.default_rng(1).random((4, 3, 3)) < 0.6
    counted[2] = False
    expected = [np.median(v[c]) if c.any() else 0 for v, c in zip(values, counted, strict=True)]
    np.testing.assert_allclose(correlated_voters._medians(values, counted), expected)
