"""Options by name."""

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from IPython.lib.pretty import pretty
from sklearn.base import clone
from torch import nn

from wiesel import MajorityVote, OneCoin, TwoStage, WeaSEL
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import NotFittedError, ParameterError
from wiesel.parameters import Parameterized, check_choice, check_number


@dataclass(eq=False, kw_only=True)
class Inner(Parameterized):
    tol: float = 0.1


@dataclass(eq=False, kw_only=True)
class Outer(Parameterized):
    label_model: Any = None
    epochs: int = 3
    fast: bool = False
    labels_: str = field(init=False, repr=False)


def test_options_are_what_the_constructor_takes() -> None:
    assert Outer.option_names() == ("label_model", "epochs", "fast")
    assert Outer.learned_names() == ("labels_",)
    assert Outer(epochs=5).get_params() == {"label_model": None, "epochs": 5, "fast": False}


def test_nested_options_have_two_underscores() -> None:
    model = Outer(label_model=Inner(tol=0.5))
    assert model.get_params()["label_model__tol"] == 0.5
    assert "label_model__tol" not in model.get_params(deep=False)
    assert model.set_params(label_model__tol=0.25, epochs=9) is model
    assert (model.label_model.tol, model.epochs) == (0.25, 9)


def test_a_misspelled_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"Outer has no option 'epoch'. Did you mean 'epochs'"):
        Outer(epoch=5)  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match=r"Outer has no option 'epoch'. Did you mean 'epochs'"):
        Outer().set_params(epoch=5)
    with pytest.raises(ParameterError, match=r"Inner has no option 'tool'. Did you mean 'tol'"):
        Outer(label_model=Inner()).set_params(label_model__tool=5)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_a_flag_is_true_or_false(value: object) -> None:
    Outer(fast=np.bool_(True)).check_options()  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"'fast' option of Outer must be True or False; got"):
        Outer(fast=value).check_options()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "estimator", [WeaSEL(nn.Linear(2, 2), voting_only="no"), OneCoin(stop_at_drift=1)]
)
def test_every_fit_checks_flags_first(estimator: Any) -> None:
    votes, gold = make_votes(20, 3, 2)
    given = (votes,) if isinstance(estimator, OneCoin) else (make_features(gold, 2), votes)
    with pytest.raises(ParameterError, match="must be True or False"):
        estimator.fit(*given)


def test_an_option_of_something_without_options_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"'epochs__x' cannot be set.*a int, which has no"):
        Outer().set_params(epochs__x=1)


def test_scikit_learn_can_clone_an_estimator() -> None:
    model = Outer(label_model=Inner(tol=0.5))
    model.labels_ = "learned"
    copied = clone(model)
    assert copied.label_model.tol == 0.5
    assert copied.label_model is not model.label_model
    assert not hasattr(copied, "labels_")
    assert copy.deepcopy(model).labels_ == "learned"


def test_an_estimator_must_be_fitted_first() -> None:
    model = Outer()
    with pytest.raises(NotFittedError, match=r"This Outer is not fitted yet: call fit\(...\)"):
        model.check_fitted()
    model.labels_ = "learned"
    model.check_fitted()


def test_a_choice_is_one_of_the_allowed_words() -> None:
    check_choice(Outer(), "loss", "ce", ("ce", "l1"))
    with pytest.raises(
        ParameterError, match=r"'loss' option of Outer must be one of 'ce', 'l1'; got 'l2'"
    ):
        check_choice(Outer(), "loss", "l2", ("ce", "l1"))
    with pytest.raises(ParameterError, match="got None"):
        check_choice(Outer(), "loss", None, ("ce", "l1"))


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), np.int64(1)])
def test_numbers_within_the_limits_pass(value: Any) -> None:
    check_number(Outer(), "rate", value, low=0, high=1)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "1", None, True, [1], 1j])
def test_what_is_no_number_within_the_limits_is_refused(value: Any) -> None:
    with pytest.raises(
        ParameterError, match="'rate' option of Outer must be a number at least 0 and at most 1"
    ):
        check_number(Outer(), "rate", value, low=0, high=1)


@pytest.mark.parametrize("value", [1.0, 0, "2", True])
def test_whole_numbers_are_whole(value: Any) -> None:
    with pytest.raises(ParameterError, match=f"must be a whole number at least 1; got {value!r}"):
        check_number(Outer(), "epochs", value, low=1, whole=True)


def test_without_limits_any_finite_number_passes() -> None:
    check_number(Outer(), "shift", -1e300)
    with pytest.raises(ParameterError, match="must be a number; got nan"):
        check_number(Outer(), "shift", math.nan)


def test_notebooks_show_only_changed_options_and_networks_by_their_class():
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model = TwoStage(MajorityVote(), network, epochs=3)
    shown = "TwoStage(epochs=3, label_model=MajorityVote("
    text = pretty(model)
    assert text.startswith(shown)
    assert "end_model=Sequential(...)" in text
    assert "lr=" not in text


def test_the_old_name_of_the_check_says_the_new_one():
    with pytest.raises(ParameterError, match=r"_check_options is called check_options now"):

        class Old(Parameterized):
            def _check_options(self) -> None:
                """As until version 0.1."""
