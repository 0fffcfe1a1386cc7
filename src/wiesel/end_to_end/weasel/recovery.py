"""What is done when training has collapsed: start again, closer to the votes."""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wiesel.end_to_end.diagnosis import predicts_one_class
from wiesel.errors import CollapseWarning, WieselWarning

if TYPE_CHECKING:
    from wiesel.end_to_end.base import Given, GoldSet
    from wiesel.end_to_end.weasel.model import WeaSEL

__all__ = ["recover"]


def recover(model: "WeaSEL", given: "Given", validation: "GoldSet | None") -> None:
    """Replace what collapsed: drop such members, or else fit again with less freedom; and say so.

    First with a third of tau_1, so that the weights of the voters stay near equal; then without
    the joint phase, which is two-stage training on the start.
    """
    members = model.members_ or (model,)
    healthy = [member for member in members if not predicts_one_class(member.history_)]
    if len(healthy) == len(members):
        return
    if healthy:
        _keep_only(model, healthy, validation)
        return
    for changes, words in _attempts(model):
        # The checkpoint is of the training that collapsed; what follows is not that run.
        changes |= {"fall_back": False, "checkpoint": None}
        fitted = type(model)(**{**model.get_params(deep=False), **changes})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            fitted._fit(given, validation)
        _take_over(model, fitted, words)
        if not all(predicts_one_class(m.history_) for m in fitted.members_ or (fitted,)):
            break
    done = model.selection_["fell_back_to"]
    _say(f"Training collapsed to one class and was done again with {done}.")


def _take_over(model: "WeaSEL", fitted: "WeaSEL", words: str) -> None:
    for name in model.learned_names():
        setattr(model, name, getattr(fitted, name))
    model.selection_ = {**model.selection_, "fell_back_to": words}


def _attempts(model: "WeaSEL") -> Iterator[tuple[dict[str, Any], str]]:
    yield {"tau_1": model.tau_1_ / 3}, "a third of tau_1"
    everything = {"warm_up": max(model.epochs, model.blind_epochs or 0)}
    start = {} if model.warm_start is not None else {"warm_start": "auto"}
    yield {**everything, **start}, "the start alone (two-stage training)"


def _keep_only(model: "WeaSEL", healthy: list["WeaSEL"], validation: "GoldSet | None") -> None:
    n_dropped = len(model.members_) - len(healthy)
    model.join(healthy, validation)
    model.selection_ = {**model.selection_, "dropped_members": n_dropped}
    _say(f"{n_dropped} members collapsed to one class and were dropped; {len(healthy)} are kept.")


def _say(message: str) -> None:
    warnings.warn(message, WieselWarning, stacklevel=6)
