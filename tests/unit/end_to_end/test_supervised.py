import numpy as np
import polars as pl
import pytest
import torch
from tiny_task import ONE_PASS, linear, same_weights, tiny_task, weights_of
from torch import nn

from wiesel import Supervised
from wiesel.errors import DataError, FeatureError, NotFittedError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")

NAMES = ["ham", "spam"]


def supervised(**options) -> Supervised:
    quick = {**ONE_PASS, "epochs": 3, "lr": 0.05, "batch_size": 16, "labels": NAMES}
    return Supervised(linear(), **{**quick, **options})


def test_it_learns_what_can_be_learned():
    X, _, gold = tiny_task(n_items=200)
    model = supervised(epochs=40).fit(X, gold)
    assert (model.predict(X) == np.array(NAMES)[gold]).mean() > 0.9


@pytest.mark.parametrize(
    "as_given",
    [
        lambda gold: gold,
        lambda gold: gold.astype(float),
        torch.from_numpy,
        lambda gold: np.array(NAMES)[gold],
        lambda gold: [NAMES[k] for k in gold],
        lambda gold: pl.Series([NAMES[k] for k in gold]),
    ],
    ids=["indices", "floats", "tensor", "names", "list", "polars"],
)
def test_gold_may_be_names_or_indices(as_given):
    X, _, gold = tiny_task()
    expected = supervised().fit(X, gold)
    model = supervised().fit(X, as_given(gold))
    assert same_weights(weights_of(model.end_model_), weights_of(expected.end_model_))


def test_without_labels_the_classes_are_the_sorted_names():
    X, _, gold = tiny_task()
    model = supervised(labels=None).fit(X, ["spam" if k else "ham" for k in gold])
    assert model.labels_.names == ("ham", "spam")
    with pytest.raises(ParameterError, match=r"class names are needed.*labels=\['ham', 'spam'\]"):
        supervised(labels=None).fit(X, gold)


def test_items_whose_label_is_unknown_are_left_out():
    X, _, gold = tiny_task()
    some = gold.copy()
    some[::3] = -1
    model = supervised().fit(X, some)
    assert model.trained_on_["items"] == (some >= 0).sum()
    only = supervised().fit(X[some >= 0], some[some >= 0])
    assert same_weights(weights_of(model.end_model_), weights_of(only.end_model_))
    names = [None if k < 0 else NAMES[k] for k in some]
    assert same_weights(
        weights_of(supervised().fit(X, names).end_model_), weights_of(model.end_model_)
    )


@pytest.mark.parametrize(
    ("gold", "error", "words"),
    [
        (lambda gold: gold[:40], FeatureError, "X has 48 items, but there are 40 gold labels"),
        (lambda gold: np.full(48, -1), FeatureError, "at least two gold labels; 0 are known"),
        (lambda gold: gold + 1, DataError, "it must be one of 'ham', 'spam'"),
        (lambda gold: ["eggs"] * 48, DataError, "row 0 is 'eggs'"),
        (lambda gold: tiny_task().votes, ParameterError, "for votes use Committee"),
    ],
)
def test_gold_that_cannot_be_used_is_refused(gold, error, words: str):
    X, _, labels = tiny_task()
    with pytest.raises(error, match=words):
        supervised().fit(X, gold(labels))


def test_a_failed_fit_leaves_the_model_unfitted():
    X, _, gold = tiny_task()
    model = Supervised(nn.Linear(9, 2), labels=NAMES)
    with pytest.raises(FeatureError):
        model.fit(X, gold)
    with pytest.raises(NotFittedError, match="This Supervised is not fitted yet"):
        model.predict(X)


def test_there_are_no_voters():
    X, _, gold = tiny_task()
    assert supervised().fit(X, gold).voters_ == ()
