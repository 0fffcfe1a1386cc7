"""Bootstrap resamples: every figure of a resample is the figure of the items drawn."""

import numpy as np
import pytest

from wiesel.evaluation import percentile_interval, resampled_figures
from wiesel.evaluation.intervals import draw_items
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


def test_unknown_samples_do_not_count() -> None:
    assert percentile_interval(np.array([np.nan, 1.0, np.nan])) == (1.0, 1.0)
    assert np.isnan(percentile_interval(np.array([np.nan]))).all()
