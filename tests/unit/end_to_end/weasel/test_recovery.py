"""What WeaSEL does when it has collapsed."""

import numpy as np
import pytest
from tiny_task import ONE_PASS, linear, tiny_task

from wiesel import WeaSEL, fit_together, load_model
from wiesel.end_to_end.weasel.model import recover
from wiesel.errors import CollapseWarning, WieselWarning
from wiesel.labels import LabelSpace
from wiesel.tasks import OneLabelTask
from wiesel.training import History

TASK = OneLabelTask(LabelSpace("ham", "spam"))
ONE_SIDED = {"predicted_shares": [1.0, 0.0], "voted_shares": [0.6, 0.4]}


def collapsing(**options) -> WeaSEL:
    """A class balance that nothing fits makes targets, and so predictions, one-sided."""
    given = {"class_balance": [0.9999, 0.0001], "encoder": (4,), "epochs": 40, "lr": 0.05}
    return WeaSEL(linear(), **{**ONE_PASS, **given, "warm_up": 1, "members": 1, **options})


def test_one_class_for_all_is_a_collapse():
    assert TASK.collapsed(History([ONE_SIDED]))


def test_one_sided_votes_are_no_collapse():
    assert not TASK.collapsed(History([{**ONE_SIDED, "voted_shares": [1.0, 0.0]}]))


def test_classes_that_are_told_apart_are_no_collapse_whatever_the_threshold():
    assert not TASK.collapsed(History([{**ONE_SIDED, "validation_auc": 0.8}]))
    assert TASK.collapsed(History([{**ONE_SIDED, "validation_auc": 0.5}]))


@pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")
def test_a_collapsed_fit_learns_the_start_alone_and_says_so():
    X, votes, _ = tiny_task()
    model = collapsing()
    with pytest.warns(WieselWarning, match="the start alone was learned"):
        model.fit(X, votes)
    assert "fell_back_to" in model.selection_


@pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")
def test_a_collapsed_fit_with_a_checkpoint_learns_the_start_too(tmp_path):
    X, votes, _ = tiny_task()
    model = collapsing(checkpoint=tmp_path / "run.checkpoint")
    with pytest.warns(WieselWarning, match="the start alone was learned"):
        model.fit(X, votes)
    assert model.checkpoint == tmp_path / "run.checkpoint"


@pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")
def test_models_that_are_fitted_together_recover_as_one_alone_does():
    X, votes, _ = tiny_task()
    with pytest.warns(WieselWarning, match="the start alone was learned"):
        models = fit_together([collapsing(seed=seed) for seed in (0, 1)], X, votes)
    alone = collapsing(seed=1)
    with pytest.warns(WieselWarning, match="the start alone was learned"):
        alone.fit(X, votes)
    assert models[1].selection_ == alone.selection_
    assert np.allclose(models[1].predict_proba(X), alone.predict_proba(X), atol=1e-4)


def test_without_a_start_a_collapse_is_only_told():
    X, votes, _ = tiny_task()
    with pytest.warns(CollapseWarning, match="nearly all items"):
        model = collapsing(start=None).fit(X, votes)
    assert "fell_back_to" not in model.selection_


def test_a_healthy_fit_is_left_alone():
    X, votes, gold = tiny_task()
    model = collapsing(class_balance="auto", members=2).fit(X, votes)
    assert model.selection_.keys() == {"by", "epoch"}
    assert (model.predict_proba(X).argmax(axis=1) == gold).mean() > 0.6


@pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")
def test_members_that_collapsed_are_dropped_from_an_ensemble_also_when_it_is_saved(tmp_path):
    X, votes, _ = tiny_task()
    model = collapsing(class_balance="auto", members=3).fit(X, votes)
    bad = model.members_[1]
    bad.history_.records[-1] |= ONE_SIDED
    with pytest.warns(WieselWarning, match="1 members collapsed"):
        recover(model, model.fit_inputs(X, votes), None)
    assert bad not in model.members_
    assert len(model.members_) == 2
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model", end_model=linear())
    assert (again.members, len(again.members_)) == (3, 2)
    assert np.allclose(again.predict_proba(X), model.predict_proba(X))
