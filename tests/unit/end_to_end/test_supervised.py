import numpy as np
import polars as pl
import pytest
import torch
from tiny_task import ONE_PASS, linear, same_weights, tiny_task, weights_of
from torch import nn

from wiesel import Committee, Supervised
from wiesel.end_to_end.supervised import gold_member
from wiesel.end_to_end.together import fit_together
from wiesel.errors import DataError, FeatureError, NotFittedError, ParameterError
from wiesel.training import Validation, as_inputs
from wiesel.training.validation import stratified_folds

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


def test_a_network_does_not_learn_the_fold_it_leaves_out():
    X, _, gold = tiny_task(n_items=40)
    fold = stratified_folds(gold, 4)[1]
    model = supervised(fold=(1, 4))
    plan = model.planned(model.fit_inputs(X, gold), None).plan
    assert (plan.targets[fold] == 0).all()
    assert (np.delete(plan.targets, fold, axis=0).sum(axis=1) == 1).all()


def test_each_item_is_predicted_by_the_network_that_left_it_out():
    X, _, gold = tiny_task(n_items=40)
    ensemble = supervised(members=4)
    parts = ensemble.without_folds()
    assert [part.fold for part in parts] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    for part in parts:
        part.fit(X, gold)
    ensemble.join(parts)
    proba = ensemble.out_of_fold_proba(X, gold)
    for part, fold in zip(parts, stratified_folds(gold, 4), strict=True):
        assert np.allclose(proba[fold], part.predict_proba(X[fold]))
    whole = supervised().fit(X, gold)
    assert (whole.out_of_fold_proba(X, gold) == 0.5).all(), "nothing was left out"


def test_networks_that_leave_out_folds_are_trained_as_one_stack():
    X, _, gold = tiny_task(n_items=40)
    parts = supervised(members=3).without_folds()
    assert len({part.stack_key() for part in parts}) == 1
    assert len({part.plan_key() for part in parts}) == 3
    alone = [part.fit(X, gold).predict_proba(X) for part in supervised(members=3).without_folds()]
    together = fit_together(parts, X, gold)
    for part, expected in zip(together, alone, strict=True):
        assert np.allclose(part.predict_proba(X), expected, atol=1e-4)


@pytest.mark.parametrize("fold", [(4, 4), (-1, 4), (0, 1), (0.5, 2)])
def test_a_fold_that_does_not_exist_is_refused(fold):
    X, _, gold = tiny_task()
    with pytest.raises(ParameterError, match="'fold' option of Supervised"):
        supervised(fold=fold).fit(X, gold)


def held_out(n_items: int, n_present: int = 2) -> Validation:
    return Validation(as_inputs(np.zeros((n_items, 3))), np.arange(n_items) % n_present, 2)


@pytest.mark.parametrize(("epochs", "trained"), [(None, 8), (3, 3), (100, 8)])
def test_a_committee_member_that_learns_from_gold_has_no_gold_to_choose_its_epochs(
    epochs: int | None, trained: int
):
    committee = Committee(nn.Linear(3, 2), networks=3, epochs=epochs, seed=5, lr=0.25)
    member = gold_member(committee, held_out(12))
    assert (member.epochs, member.members, member.lr) == (trained, 6, 0.25)
    assert member.seed != 5


def test_a_committee_learns_from_gold_with_two_items_for_each_network():
    committee = Committee(nn.Linear(3, 2), networks=3)
    assert gold_member(committee, held_out(11)) is None
    assert gold_member(committee, held_out(12, n_present=1)) is None
    assert gold_member(committee.set_params(train_on_gold=False), held_out(12)) is None
