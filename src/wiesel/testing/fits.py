"""Quick fits of the method to check, shared by all checks that do not modify them."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from sklearn.base import clone
from torch import nn

from wiesel.end_to_end import EndToEndModel, Supervised
from wiesel.testing.modules import Task, network, small_task, weights

__all__ = ["FirstFit", "first_fit", "fit", "fitted", "forget_fits", "fresh", "with_another_seed"]

_QUICK = {"epochs": 3, "epoch_size": None, "batch_size": 16, "progress": False}
"""Options that make fits short; all other options are those of the model to check."""


def fresh(model: EndToEndModel, end_model: nn.Module | None = None, **options: Any) -> Any:
    """A copy of the model that trains quickly, with a small test network."""
    own = {**_QUICK, "end_model": end_model or network(), **options}
    # What is replaced need not be copied, such as the network.
    others = {
        name: value for name, value in model.get_params(deep=False).items() if name not in own
    }
    copies = {name: clone(value, safe=False) for name, value in others.items()}
    return type(model)(**copies, **own)


def fit(model: Any, task: Task, X: Any = None, validation: Any = None) -> Any:
    """Fit on votes, or on gold labels if the method learns from those."""
    X = task.X if X is None else X
    validation = task.validation if validation is None else validation
    if isinstance(model, Supervised):
        model.set_params(labels=task.votes.labels)
        return model.fit(X, task.gold, validation=validation)
    return model.fit(X, task.votes, validation=validation)


class FirstFit(NamedTuple):
    """A fit on the small task, and the state before and after it."""

    fitted: Any
    returned: Any
    end_model: nn.Module
    before: dict[str, Any]
    after: dict[str, Any]


@lru_cache(maxsize=1)
def first_fit(model: EndToEndModel) -> FirstFit:
    """Fit the model on the small task once, for all checks that do not modify it."""
    task, net = small_task(), network()
    own = fresh(model, net)
    if isinstance(own, Supervised):
        own.set_params(labels=task.votes.labels)

    def look() -> dict[str, Any]:
        options = own.get_params(deep=False)
        return {
            "options": {name: repr(value) for name, value in options.items()},
            "weights": weights(net),
            "mode": net.training,
            "X": task.X.copy(),
            "random state": torch.get_rng_state(),
        }

    before = look()
    returned = fit(own, task)
    return FirstFit(own, returned, net, before, look())


def fitted(model: EndToEndModel) -> Any:
    """Return the model, fitted on the small task."""
    return first_fit(model).fitted


@lru_cache(maxsize=1)
def with_another_seed(model: EndToEndModel) -> Any:
    """Return the model, fitted with seed 4."""
    return fit(fresh(model, seed=4), small_task())


def forget_fits() -> None:
    """Clear the cached fits, so that the next check fits again."""
    first_fit.cache_clear()
    with_another_seed.cache_clear()
