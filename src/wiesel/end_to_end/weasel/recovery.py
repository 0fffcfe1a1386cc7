"""Recovery from collapsed training: drop collapsed members, or train on the start alone."""

import warnings
from typing import TYPE_CHECKING

from wiesel.errors import WieselWarning, warn_user

if TYPE_CHECKING:
    from wiesel.end_to_end.plan import FitInputs, GoldSet
    from wiesel.end_to_end.weasel.model import WeaSEL

__all__ = ["recover"]


def recover(model: "WeaSEL", given: "FitInputs", validation: "GoldSet | None") -> None:
    """Drop collapsed members, or train on the start alone if all collapsed; with a warning."""
    members = model.members_ or (model,)
    healthy = [member for member in members if not model.task_.collapsed(member.history_).all()]
    if len(healthy) == len(members):
        return
    if healthy:
        n_dropped, kept = len(members) - len(healthy), len(healthy)
        model.join(healthy, validation)
        model.selection_ = {**model.selection_, "dropped_members": n_dropped}
        warn_user(
            f"{n_dropped} members collapsed to one class and were dropped; {kept} are kept.",
            WieselWarning,
        )
        return
    # The checkpoint belongs to the collapsed run, not to the new one.
    changes = {"warm_up": len(model.history_), "checkpoint": None}
    fitted = type(model)(**{**model.get_params(deep=False), **changes})
    # Warnings about another collapse or the long warm-up would tell the user nothing new.
    with warnings.catch_warnings(action="ignore", category=WieselWarning):
        fitted.fit_given(given, validation)
    for name in model.learned_names():
        setattr(model, name, getattr(fitted, name))
    model.selection_ = {**model.selection_, "fell_back_to": "the start alone"}
    message = "Training collapsed to one class; the start alone was learned instead."
    warn_user(message, WieselWarning)
