"""What a panel of judges is worth, and whether judges of pairs prefer a position."""

import numpy as np
import pytest

from wiesel import LabelSpace, VoteMatrix
from wiesel.analysis import consistent_votes, judge_panel, position_bias
from wiesel.datasets import make_panel
from wiesel.errors import DataError, ParameterError, VoteError

LABELS = LabelSpace("no", "yes")


def noisy(gold: np.ndarray, accuracy: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(gold)) < accuracy, gold, 1 - gold)


def test_copies_are_worth_one_and_independent_judges_their_number() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 5000)
    one = noisy(gold, 0.75, rng)
    copies = VoteMatrix.from_dense(np.stack([one] * 9, axis=1), LABELS)
    assert judge_panel(copies, gold).n_effective == pytest.approx(1)
    apart = VoteMatrix.from_dense(np.stack([noisy(gold, 0.75, rng) for _ in range(9)], 1), LABELS)
    assert judge_panel(apart, gold).n_effective == pytest.approx(9, abs=0.7)
    assert judge_panel(apart).n_effective == pytest.approx(9, abs=1)


def test_the_number_is_that_of_the_formula() -> None:
    """Three judges; two of them err on the same items. r = (1 + r12 + r12) / 3 by hand."""
    gold = np.zeros(40, int)
    first = np.repeat([1, 0], [10, 30])
    third = np.tile([1, 0, 0, 0], 10)
    votes = VoteMatrix.from_dense(np.stack([first, first, third], axis=1), LABELS)
    other = np.corrcoef(first, third)[0, 1]
    mean = (1 + 2 * other) / 3
    report = judge_panel(votes, gold)
    assert report.error_correlations[0] == pytest.approx([1, 1, other])
    assert report.n_effective == pytest.approx(3 / (1 + 2 * mean))


def test_errors_that_families_share_are_seen_without_gold() -> None:
    votes, _ = make_panel(3000, 12, ceiling=0.95, shared=0.8, seed=0)
    report = judge_panel(votes)
    same_family, others = report.error_correlations[0, 3], report.error_correlations[0, 1]
    assert same_family > others + 0.2
    assert report.n_effective < 7
    assert "so at most" in report.findings[0]
    assert not report.accuracies


def test_the_best_judge_beats_a_panel_of_weak_ones() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 800)
    rumor = noisy(gold, 0.55, rng)
    columns = [noisy(rumor, 0.9, rng) for _ in range(6)] + [noisy(gold, 0.9, rng)]
    votes = VoteMatrix.from_dense(np.stack(columns, axis=1), LABELS)
    report = judge_panel(votes, gold)
    assert any("Your best judge beats the panel: 'voter_6'" in each for each in report.findings)
    assert report.accuracies["best_judge"] == pytest.approx(0.9, abs=0.03)
    assert report.accuracies["majority"] < 0.65


def test_chance_alone_makes_no_best_judge() -> None:
    """Twenty judges of pure noise: one of them looks best, on the items that chose it."""
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 2, 100)
    votes = VoteMatrix.from_dense(rng.integers(0, 2, (100, 20)), LABELS)
    assert not any("beats the panel" in each for each in judge_panel(votes, gold).findings)


def test_the_judge_to_drop_is_missed_least_for_its_price() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 1000)
    columns = [noisy(gold, 0.8, rng) for _ in range(5)] + [rng.integers(0, 2, 1000)] * 2
    votes = VoteMatrix.from_dense(np.stack(columns, axis=1), LABELS)
    free = judge_panel(votes, gold)
    assert "Drop 'voter_5' first" in free.findings[-1]
    prices = dict(zip(votes.voters, [1, 1, 1, 1, 1, 5, 10], strict=True))
    priced = judge_panel(votes, gold, prices)
    assert "Drop 'voter_6' first" in priced.findings[-1]
    assert "saves 50 % of the price" in priced.findings[-1]
    assert priced.judges.frame["closest"][5] == "voter_6"


def test_of_the_judges_that_are_not_missed_the_one_that_harms_most_goes_first() -> None:
    """On a tenth of the items, three of five judges are wrong; on another, other three.

    One of them is wrong on both. Without it, both tenths are ties, which count half: 0.1 more is
    right. Without one of the others, one tenth is a tie.
    """
    place = np.arange(200) % 10
    wrong = {"a": place == 0, "b": place == 0, "c": place == 5, "d": place == 5}
    wrong = {"a": wrong.pop("a"), "harmful": (place == 0) | (place == 5), **wrong}
    votes = VoteMatrix.from_dense(np.stack([*wrong.values()], axis=1).astype(int), LABELS, [*wrong])
    report = judge_panel(votes, np.zeros(200, int))
    gains = dict(report.judges.frame.select("voter", "gain").iter_rows())
    expected = dict.fromkeys(wrong, -0.05) | {"harmful": -0.1}
    assert gains == pytest.approx(expected)
    assert "Drop 'harmful' first" in report.findings[-1]
    assert "+10.0 % points" in report.findings[-1] or "+10.0 points" in report.findings[-1]


def test_what_cannot_be_judged_is_refused() -> None:
    votes, gold = make_panel(100, 4)
    with pytest.raises(ParameterError, match="two judges or more"):
        judge_panel(votes.select(votes.voters[:1]))
    with pytest.raises(DataError, match="at least 20 gold labels; there are 1"):
        judge_panel(votes, [0] + [None] * 99)
    with pytest.raises(ParameterError, match="no price of 'judge_1'"):
        judge_panel(votes, gold, {"judge_0": 1.0})


def test_a_judge_that_prefers_the_first_option_is_found() -> None:
    rng = np.random.default_rng(0)
    better = rng.integers(0, 2, 300)
    fair = noisy(better, 0.8, rng), noisy(1 - better, 0.8, rng)
    lazy = (
        np.where(rng.random(300) < 0.3, 0, better),
        np.where(rng.random(300) < 0.3, 0, 1 - better),
    )
    names = ["first", "second"], ["a", "b"]
    votes = VoteMatrix.from_dense(np.stack([fair[0], lazy[0]], 1), *names)
    swapped = VoteMatrix.from_dense(
        np.stack([fair[1], lazy[1]], 1), ["first", "second"], ["a", "b"]
    )
    table = position_bias(votes, swapped)
    rows = {row["voter"]: row for row in table.to_records()}
    assert rows["a"]["p"] > 0.01
    assert rows["b"]["p"] < 1e-6
    assert rows["b"]["first"] == pytest.approx(0.65, abs=0.03)
    assert "depend on the position: b." in table.caption
    kept = consistent_votes(votes, swapped).dense()[:, 1]
    assert (kept[kept >= 0] == better[kept >= 0]).all()
    with pytest.raises(VoteError, match="judges differ"):
        position_bias(votes, swapped.select(["b", "a"]))
