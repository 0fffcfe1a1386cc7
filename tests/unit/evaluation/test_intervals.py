"""Bootstrap resamples: every figure of a resample is the figure of the items drawn."""

import numpy as np
import pytest
from scipy.stats import norm, t
from sklearn.metrics import f1_score

from wiesel.evaluation import (
    evaluate_presence,
    intervals,
    percentile_interval,
    resampled_figures,
    several_labels,
)
from wiesel.evaluation.intervals import (
    auc_interval,
    difference_interval,
    draw_items,
    figure_intervals,
    paired_interval,
)
from wiesel.evaluation.metrics import FIGURES, figures


def predictions(n_classes: int, n_items: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    gold = rng.integers(n_classes, size=n_items)
    scores = np.round(rng.random((n_items, n_classes)) + 0.4 * np.eye(n_classes)[gold], 1) + 0.1
    return gold, scores / scores.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("n_classes", "n_items"), [(2, 30), (3, 40), (4, 6), (2, 1)])
def test_figures_of_a_resample_are_those_of_the_items_drawn(n_classes: int, n_items: int) -> None:
    gold, proba = predictions(n_classes, n_items)
    predicted = proba.argmax(axis=1)
    samples = resampled_figures(gold, proba, predicted, n_resamples=20, seed=3)
    draws = np.concatenate(list(draw_items(n_items, 20, seed=3)))
    for number, counts in enumerate(draws):
        items = np.repeat(np.arange(n_items), counts.astype(int))
        expected = figures(gold[items], proba[items], predicted[items])
        got = {name: samples[name][number] for name in FIGURES}
        assert got == pytest.approx(expected, nan_ok=True)


def test_a_resample_has_as_many_items_as_there_are() -> None:
    blocks = list(draw_items(100_000, 5, seed=0))
    assert [block.shape for block in blocks] == [(2, 100_000), (2, 100_000), (1, 100_000)]
    assert all((block.sum(axis=1) == 100_000).all() for block in blocks)


def test_the_same_seed_gives_the_same_resamples() -> None:
    gold, proba = predictions(2, 20)
    first, again, other = (
        resampled_figures(gold, proba, proba.argmax(axis=1), n_resamples=50, seed=seed)["auc"]
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again, equal_nan=True)
    assert not np.array_equal(first, other, equal_nan=True)


def test_the_interval_of_accuracy_is_that_of_a_binomial_share() -> None:
    # 1000 items, 80 % right: the standard error is sqrt(0.8 * 0.2 / 1000) = 0.01265.
    gold = np.zeros(1000, dtype=int)
    predicted = (np.arange(1000) >= 800).astype(int)
    samples = resampled_figures(gold, np.full((1000, 2), 0.5), predicted, n_resamples=2000)
    low, high = percentile_interval(samples["accuracy"])
    assert low == pytest.approx(0.8 - 1.96 * 0.01265, abs=0.004)
    assert high == pytest.approx(0.8 + 1.96 * 0.01265, abs=0.004)


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.97, 0.03], [0.85, 0.1, 0.05]])
def test_resampled_groups_vary_as_resampled_items_do(
    shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deviations of every metric, and those of the difference of two models on the same items."""
    rng = np.random.default_rng(2)
    n_classes = len(shares)
    gold = rng.choice(n_classes, size=3000, p=shares)
    deviations, means = {}, {}
    for n_groups in (10_000, 600):
        monkeypatch.setattr(intervals, "_N_GROUPS", n_groups)
        rng = np.random.default_rng(3)
        both = []
        for signal in (0.3, 0.5):
            scores = 0.1 + np.round(
                rng.random((3000, n_classes)) + signal * np.eye(n_classes)[gold], 2
            )
            proba = scores / scores.sum(axis=1, keepdims=True)
            predicted = proba.argmax(axis=1)
            both.append(resampled_figures(gold, proba, predicted, n_resamples=2000))
        first, second = both
        means[n_groups] = {name: first[name].mean() for name in FIGURES}
        deviations[n_groups] = {
            name: [first[name].std(), second[name].std(), (first[name] - second[name]).std()]
            for name in FIGURES
        }
    for name in FIGURES:
        spread = deviations[10_000][name][0]
        assert means[600][name] == pytest.approx(means[10_000][name], abs=spread / 5), name
        assert deviations[600][name] == pytest.approx(deviations[10_000][name], rel=0.12), name


def test_groups_are_drawn_whole_and_rare_classes_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gold, proba = predictions(2, 40)
    gold[:] = 0
    gold[7] = 1
    predicted = proba.argmax(axis=1)
    row_samples = resampled_figures(gold, proba, predicted, n_resamples=1000)
    monkeypatch.setattr(intervals, "_N_GROUPS", 20)
    samples = resampled_figures(gold, proba, predicted, n_resamples=1000)
    # Two items a group: every resample is right on a whole number of the 40.
    assert np.allclose(samples["accuracy"] * 40 % 1, 0, atol=1e-9)
    # The one item of the second class is missing from (1 - 1/20)^20 = 36 % of the resamples.
    for found in (samples, row_samples):
        assert np.isnan(found["auc"]).mean() == pytest.approx(0.36, abs=0.06)


def test_intervals_of_several_labels_are_alike_with_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    truth = (rng.random((2000, 3)) < [0.5, 0.2, 0.05]).astype(int)
    proba = np.clip(0.6 * rng.random(truth.shape) + 0.35 * truth, 0, 1)
    truth[rng.random(truth.shape) < 0.1] = -1
    widths = {}
    for n_groups in (10_000, 500):
        monkeypatch.setattr(intervals, "_N_GROUPS", n_groups)
        report = evaluate_presence(proba, truth, ["a", "b", "c"])
        scores = {name: getattr(report, name) for name in several_labels.FIGURES}
        widths[n_groups] = {name: own.high - own.low for name, own in scores.items()}
        assert all(own.low < own < own.high for own in scores.values())
    assert widths[500] == pytest.approx(widths[10_000], rel=0.15)


def test_unknown_samples_do_not_count() -> None:
    assert percentile_interval(np.array([np.nan, 1.0, np.nan])) == (1.0, 1.0)
    assert np.isnan(percentile_interval(np.array([np.nan]))).all()


def test_fifteen_right_items_leave_room_for_errors() -> None:
    gold, proba = predictions(2, 15)
    proba = np.eye(2)[gold] * 0.8 + 0.1
    samples = resampled_figures(gold, proba, gold, n_resamples=100)
    found = figure_intervals(gold, proba, gold, samples)
    # Wilson: 1 / (1 + 1.96^2 / 15) = 0.796.
    assert found["accuracy"] == pytest.approx((0.796, 1.0), abs=5e-4)
    assert found["auc"][0] < 0.9 < found["auc"][1]
    assert found["f1"][0] < 0.9 < found["f1"][1]


def test_the_interval_of_f1_is_that_of_a_share_of_the_items_named_or_true() -> None:
    # 8 right, 4 false alarms, 4 misses, so 8 of 16: Wilson's 0.28 and 0.72, and F1 = 2 j / (1 + j).
    gold = np.repeat([1, 0, 1, 0], [8, 4, 4, 30])
    predicted = np.repeat([1, 1, 0, 0], [8, 4, 4, 30])
    proba = np.eye(2)[predicted] * 0.8 + 0.1
    samples = resampled_figures(gold, proba, predicted, n_resamples=50)
    low, high = figure_intervals(gold, proba, predicted, samples)["f1"]
    assert (low, high) == pytest.approx((2 * 0.28 / 1.28, 2 * 0.72 / 1.72), abs=2e-3)


def test_the_interval_of_macro_f1_is_that_of_the_delta_method() -> None:
    """With many items it is normal; its variance follows from the slopes in the cells' shares."""
    confusion = np.array([[300, 90, 10], [20, 200, 80], [5, 15, 280]])
    gold, predicted = (
        np.repeat(side, confusion.ravel()) for side in np.indices((3, 3)).reshape(2, -1)
    )

    def macro_f1(cells: np.ndarray) -> float:
        return float((2 * cells.diagonal() / (cells.sum(axis=0) + cells.sum(axis=1))).mean())

    expected, n = f1_score(gold, predicted, average="macro"), len(gold)
    assert macro_f1(confusion) == pytest.approx(expected)
    shares, steps = confusion / n, 1e-6 * np.eye(9).reshape(9, 3, 3)
    slopes = np.array([macro_f1(shares + e) - macro_f1(shares - e) for e in steps]) / 2e-6
    mean = shares.ravel() @ slopes
    error = np.sqrt((shares.ravel() @ (slopes - mean) ** 2) / n)
    proba = np.eye(3)[predicted] * 0.7 + 0.1
    samples = resampled_figures(gold, proba, predicted, n_resamples=2000)
    found = figure_intervals(gold, proba, predicted, samples)["macro_f1"]
    limits = expected - 1.96 * error, expected + 1.96 * error
    assert found == pytest.approx(limits, abs=0.2 * error)


def test_a_class_without_items_makes_the_mean_f1_uncertain() -> None:
    gold = np.arange(40) % 2
    widths = []
    for n_classes in (2, 4):
        proba = np.eye(n_classes)[gold] * 0.8 + 0.2 / n_classes
        samples = resampled_figures(gold, proba, gold, n_resamples=400)
        low, high = figure_intervals(gold, proba, gold, samples)["macro_f1"]
        widths.append(high - low)
    assert widths[0] < 0.15
    assert widths[1] > 0.4


def test_the_interval_of_a_large_auc_is_the_one_of_hanley_and_mcneil() -> None:
    # AUC 0.8 of 500 and 500 items: Q1 = 0.8 / 1.2, Q2 = 1.28 / 1.8; the standard error is 0.014.
    low, high = auc_interval(0.8, 500, 500)
    assert (low, high) == pytest.approx((0.8 - 1.96 * 0.014, 0.8 + 1.96 * 0.014), abs=0.003)
    assert np.isnan(auc_interval(0.8, 0, 10)).all()


def test_models_that_never_differ_on_a_few_items_may_differ() -> None:
    low, high = paired_interval(0, 0, 14)
    # Half an item on each side of 16: 1.96 / 16.
    assert (low, high) == pytest.approx((-0.1225, 0.1225), abs=1e-4)


def test_a_difference_of_unrelated_values_has_the_root_of_both_squares() -> None:
    samples = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])  # correlation 0
    low, high = difference_interval((0.8, 0.5, 0.9), (0.6, 0.4, 1.0), *samples)
    assert (low, high) == pytest.approx((0.2 - 0.5, 0.2 + np.sqrt(0.1**2 + 0.2**2)))


@pytest.mark.parametrize("n_items", [2, 5, 60])
def test_percentile_intervals_of_few_items_are_wider_as_students_t_says(n_items):
    # Hesterberg 2015: the tail of a normal at sqrt(n / (n - 1)) t_{n-1}.
    samples = np.linspace(0, 1, 100_001)
    tail = norm.cdf(np.sqrt(n_items / (n_items - 1)) * t(n_items - 1).ppf(0.025))
    assert percentile_interval(samples, n_items=n_items) == pytest.approx(
        (tail, 1 - tail), abs=1e-5
    )


@pytest.mark.parametrize("name", ["log_loss", "brier", "average_precision"])
def test_intervals_from_fifteen_items_hold_errors_that_did_not_occur_in_them(name: str) -> None:
    """One prediction in twenty is confidently wrong; half of such samples have no wrong one."""
    rng = np.random.default_rng(5)
    gold = np.arange(4000) % 2
    confidence = rng.uniform(0.9, 0.999, size=4000)
    wrong = rng.random(4000) < 0.05
    positive = np.where((gold == 1) ^ wrong, confidence, 1 - confidence)
    proba = np.stack([1 - positive, positive], axis=1)
    truth = figures(gold, proba, proba.argmax(axis=1))[name]
    holds = []
    for number in range(100):
        rows = rng.permutation(4000)[:15]
        drawn = gold[rows], proba[rows], proba[rows].argmax(axis=1)
        low, high = figure_intervals(*drawn, resampled_figures(*drawn, 200, number))[name]
        holds.append(low <= truth <= high)
    assert np.mean(holds) >= 0.9  # of resamples alone: 0.53, 0.53 and 0.5


def test_losses_of_an_exact_model_have_an_interval_with_a_width() -> None:
    gold = np.array([0, 1] * 10)
    proba = np.where(np.eye(2)[gold] == 1, 0.99, 0.01)
    drawn = gold, proba, proba.argmax(axis=1)
    found = figure_intervals(*drawn, resampled_figures(*drawn, 200))
    low, high = found["log_loss"]
    assert low == pytest.approx(-np.log(0.99))
    assert 0.2 < high < 1.0
    assert found["average_precision"][0] < 0.8


def test_without_resamples_losses_have_no_interval() -> None:
    gold, proba = predictions(3, 20)
    predicted = proba.argmax(axis=1)
    found = figure_intervals(
        gold, proba, predicted, resampled_figures(gold, proba, predicted, n_resamples=1)
    )
    assert found["brier"][0] == found["brier"][1]


def test_resamples_of_several_labels_are_as_many_as_were_asked_for(monkeypatch) -> None:
    """They are computed some at a time: a last part that is smaller draws the same ones."""
    rng = np.random.default_rng(0)
    truth = (rng.random((60, 2)) < 0.4).astype(int)
    gold = [tuple(np.array(["a", "b"])[row == 1]) for row in truth]
    proba = np.clip(0.5 * rng.random(truth.shape) + 0.4 * truth, 0, 1)
    monkeypatch.setattr(several_labels, "_AT_ONCE", 1)
    alone = several_labels.evaluate_presence(proba, gold, ["a", "b"], n_resamples=7).micro_f1
    monkeypatch.setattr(several_labels, "_AT_ONCE", 5)
    found = several_labels.evaluate_presence(proba, gold, ["a", "b"], n_resamples=7).micro_f1
    assert (found.low, found.high) == (alone.low, alone.high)
