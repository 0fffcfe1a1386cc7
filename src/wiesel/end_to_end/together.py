"""Several models on the same data, trained as stacks if possible, and ensembles of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch

from wiesel.end_to_end.plan import ReadyFit, short_hash, warn_if_collapsed
from wiesel.errors import WieselWarning, warn_user
from wiesel.nn.stacking import NotStackable, reseeded
from wiesel.training import History, seeded, train, train_together
from wiesel.training.history import one_line
from wiesel.training.objective import resolve_device

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel
    from wiesel.end_to_end.plan import FitInputs, FitPlan, GoldSet, PlannedFit

__all__ = [
    "begun",
    "fit_together",
    "plan_all",
    "separate",
    "train_all",
]

Model = TypeVar("Model", bound="EndToEndModel")


class Separable(Protocol):
    """A model that `separate` and `train_all` can turn into an ensemble."""

    seed: int
    members: Any
    history_: History

    @property
    def fits_itself(self) -> bool: ...

    @property
    def network(self) -> torch.nn.Module: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


Part = TypeVar("Part", bound=Separable)


def fit_together(
    models: Sequence[Model],
    X: Any,
    votes: Any,
    validation: "GoldSet | None" = None,
    encoder_X: Any = None,
    quiet: bool = False,
) -> list[Model]:
    """Fit models on the same data, as one stack if possible, and return them.

    Models are stacked if they differ only in seed, learning rate, initial weights or soft labels. A
    stack of small networks trains several times as fast as the networks one by one. Each model has
    its own random numbers, best epoch and threshold, so the result equals that of its own `fit`
    within floating-point tolerance. Networks that cannot be stacked are trained one by one, and a
    warning gives the reason unless `quiet`.

    >>> from wiesel import WeaSEL
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> net = torch.nn.Linear(X.shape[1], 2)
    >>> models = [WeaSEL(net, epochs=2, warm_up=1, lr=lr) for lr in (0.01, 0.001)]
    >>> [model.predict_proba(X).shape for model in fit_together(models, X, votes)]
    [(200, 2), (200, 2)]
    """
    models = list(models)
    if models:
        given = models[0].fit_inputs(X, votes, encoder_X)
        train_all(plan_all(models, given, validation), quiet)
        for model in models:
            model.recover(given, validation)
    return models


def separate(model: Part) -> list[Part]:
    """Return the parts of an ensemble: models with one network and one seed each."""
    if model.members == 1 or model.fits_itself:
        return [model]
    parts = []
    for number in range(model.members):
        seed = model.seed + number
        options = {**model.get_params(deep=False), "seed": seed, "members": 1}
        if number:
            options["end_model"] = reseeded(model.network, seed)
        parts.append(type(model)(**options))
    return parts


def plan_all(
    models: "Sequence[EndToEndModel]", given: "FitInputs", validation: "GoldSet | None"
) -> "list[PlannedFit]":
    """Return the fits of models on the same data, ready to be trained.

    Models without a single network to train, such as ensembles, are fitted at once.
    """
    plans: dict[str, FitPlan] = {}
    fits = []
    for model in models:
        if model.fits_itself or model.members != 1:
            model.fit_given(given, validation)
            continue
        same = model.plan_key()
        fits.append(model.planned(given, validation, plans.get(same)))
        plans.setdefault(same, fits[-1].plan)
    return fits


def train_all(fits: Sequence[ReadyFit], quiet: bool = False) -> None:
    """Train planned fits, as one stack where possible, and store the results in their models.

    An interruption (Ctrl-C) stops the training in progress. Later fits are not started, and
    their histories have no epochs.
    """
    groups: dict[str, list[ReadyFit]] = {}
    for fit in fits:
        groups.setdefault(fit.model.stack_key(), []).append(fit)
    interrupted = False
    with one_line(fit=True):
        for group in groups.values():
            histories = _not_begun(group) if interrupted else _train_group(group, quiet)
            interrupted = interrupted or any(history.interrupted for history in histories)
            for fit, history in zip(group, histories, strict=True):
                fit.finish(history)
    warn_if_collapsed([fit.model for fit in fits])


def begun(models: Sequence[Part]) -> list[Part]:
    """Return the models whose training started before an interruption; at least one."""
    return [model for model in models if len(model.history_)] or list(models[:1])


def _not_begun(fits: Sequence[ReadyFit]) -> list[History]:
    return [History([]) for _ in fits]


def _train_group(fits: Sequence[ReadyFit], quiet: bool) -> list[History]:
    if len(fits) > 1:
        try:
            return _train_stack(fits)
        except NotStackable as reason:
            if not quiet:
                name = type(fits[0].model).__name__
                # The objective is internal: the user knows the method.
                why = str(reason).replace(type(fits[0].objective).__name__, name)
                message = f"The {len(fits)} networks of {name} are trained one by one: {why}."
                warn_user(message, WieselWarning)
    histories: list[History] = []
    for number, fit in enumerate(fits):
        if histories and histories[-1].interrupted:
            return histories + _not_begun(fits[number:])
        histories.append(_train_alone(number, fit, len(fits)))
    return histories


def _train_stack(fits: Sequence[ReadyFit]) -> list[History]:
    options = fits[0].options
    device = resolve_device(options.device) if options.engine is None else options.engine.device
    if device.type != "cpu":
        raise NotStackable(f"stacks are trained on the CPU, not on {device}")
    return train_together(
        [fit.objective for fit in fits],
        [fit.random_state for fit in fits],
        fits[0].data,
        [fit.options for fit in fits],
        fits[0].validation,
        short_hash("".join(fit.fingerprint for fit in fits)),
    )


def _train_alone(number: int, fit: ReadyFit, n_fits: int) -> History:
    options = fit.options
    if options.checkpoint is not None and n_fits > 1:
        options = replace(options, checkpoint=f"{options.checkpoint}.{number}")
    with seeded(fit.model.seed):
        torch.set_rng_state(fit.random_state)
        return train(fit.objective, fit.data, options, fit.validation, fit.fingerprint)
