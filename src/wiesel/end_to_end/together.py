"""Several models of one kind, trained as one stack; and ensembles, which are made of them."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from wiesel.end_to_end.fingerprints import short_hash
from wiesel.errors import ParameterError, WieselWarning
from wiesel.nn.end_models import shipped_module, shipped_spec
from wiesel.nn.stacking import NotStackable
from wiesel.training import History, seeded, train, train_together
from wiesel.training.options import resolve_device

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel, Given, GoldSet, Run

__all__ = ["fit_ensemble", "fit_together"]

Model = TypeVar("Model", bound="EndToEndModel")
_MAY_DIFFER = {"seed", "lr", "end_model"}


def fit_together(
    models: Sequence[Model],
    X: Any,
    votes: Any,
    validation: "GoldSet | None" = None,
    encoder_X: Any = None,
    quiet: bool = False,
) -> list[Model]:
    """Fit models that differ in seed, learning rate and first weights only, and return them.

    Small networks are trained as one stack, several times as fast as one after the other. Each
    model ends up as its own `fit` would have left it, within floating-point tolerance: with its
    own random numbers, best epoch and threshold. Where networks cannot be stacked they are trained
    one by one, and a warning says why unless `quiet`. (Ensembles are stacks already: several are
    fitted one after the other.)

    >>> from wiesel import WeaSEL
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> net = torch.nn.Linear(X.shape[1], 2)
    >>> models = [WeaSEL(net, epochs=2, lr=lr, tau_1=1.0) for lr in (0.01, 0.001)]
    >>> [model.predict_proba(X).shape for model in fit_together(models, X, votes)]
    [(200, 2), (200, 2)]
    """
    models = list(models)
    if not models:
        return []
    _refuse_differences(models)
    given = models[0]._given(X, votes, encoder_X)
    _fit_all(models, given, validation, quiet)
    for model in models:
        model._recover(given, validation)
    return models


def fit_ensemble(model: Model, given: "Given", validation: "GoldSet | None") -> Model:
    """Fit the members of an ensemble, and make `model` their average."""
    members = [_member(model, number) for number in range(model.members)]
    _fit_all(members, given, validation)
    model.join(members, validation)
    return model


def _member(model: Model, number: int) -> Model:
    """A model of one network, with a seed of its own."""
    seed = model.seed + number
    options = {**model.get_params(deep=False), "seed": seed, "members": 1}
    spec = shipped_spec(model._network)
    if number and spec is not None:
        with seeded(seed):
            options["end_model"] = shipped_module(spec)
    return type(model)(**options)


def _fit_all(
    models: list[Model], given: "Given", validation: "GoldSet | None", quiet: bool = False
) -> None:
    """Fit all models on the same data, as a stack where that can be."""
    first = models[0]
    if len(models) == 1 or first.members != 1 or not isinstance(first._network, torch.nn.Module):
        for model in models:
            model._fit(given, validation)
        return
    runs: list[Run] = []
    for model in models:
        with seeded(model.seed):
            if runs:
                model._share(models[0])
            runs.append(model._start(given, validation, runs[0] if runs else None))
    try:
        histories = _train_stack(models, runs)
    except NotStackable as reason:
        if not quiet:
            name = type(models[0]).__name__
            message = f"The {len(models)} networks of {name} are trained one by one: {reason}."
            warnings.warn(message, WieselWarning, stacklevel=4)
        histories = [
            _train_alone(k, model, run)
            for k, (model, run) in enumerate(zip(models, runs, strict=True))
        ]
    for model, run, history in zip(models, runs, histories, strict=True):
        with seeded(model.seed):
            model._finish(run, history)


def _train_stack(models: "Sequence[EndToEndModel]", runs: "Sequence[Run]") -> list[History]:
    device = resolve_device(models[0].device)
    if device.type != "cpu":
        raise NotStackable(f"stacks are trained on the CPU, not on {device}")
    marks = "".join(run.fingerprint for run in runs)
    return train_together(
        [run.objective for run in runs],
        [run.random_state for run in runs],
        runs[0].data,
        [model._train_options(run.validation) for model, run in zip(models, runs, strict=True)],
        runs[0].validation,
        short_hash(marks),
    )


def _train_alone(number: int, model: "EndToEndModel", run: "Run") -> History:
    options = model._train_options(run.validation)
    if options.checkpoint is not None:
        options = replace(options, checkpoint=f"{options.checkpoint}.{number}")
    with seeded(model.seed):
        torch.set_rng_state(run.random_state)
        return train(run.objective, run.data, options, run.validation, run.fingerprint)


def _refuse_differences(models: "Sequence[EndToEndModel]") -> None:
    first = models[0].get_params(deep=False)
    for model in models:
        if type(model) is not type(models[0]):
            kinds = f"{type(models[0]).__name__} and {type(model).__name__}"
            raise ParameterError(f"Models that are fitted together are of one class; got {kinds}.")
        for name, value in model.get_params(deep=False).items():
            if name not in _MAY_DIFFER and repr(value) != repr(first[name]):
                found = f"{name}={first[name]!r:.40} and {value!r:.40}"
                raise ParameterError(
                    "Models that are fitted together may differ in seed and lr only, and in the "
                    f"weights of their end models; got {found}."
                )
