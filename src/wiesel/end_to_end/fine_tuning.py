"""Learning from gold labels: networks trained on votes are fine-tuned, pulled to their weights."""

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from wiesel.end_to_end.checks import gold_validation
from wiesel.end_to_end.plan import GoldItems
from wiesel.end_to_end.sklearn_stage import ClassifierModule
from wiesel.errors import FeatureError, ParameterError, SavedModelError, WieselWarning, warn_user
from wiesel.nn.stacking import NotStackable
from wiesel.tasks import OneLabelTask, Task
from wiesel.training import (
    Inputs,
    Objective,
    TrainingData,
    TrainOptions,
    seeded,
    train,
    train_together,
)
from wiesel.training.loop import stratified_folds

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel

__all__ = [
    "FineTuning",
    "LearnedGold",
    "checked_gold",
    "fine_tune",
    "gold_folds",
    "keep_honest",
    "learn_gold",
    "supported_share",
]

Array = npt.NDArray[np.float64]

_FOLDS = 5
_FEWEST = 2
"""With fewer gold items than this, nothing is learned from them."""
_PULL = 1000.0
"""The weight of the squared distance from the weights before, divided by the square of the number
of items: ten items move a network little, and hundreds wherever they say."""
_STEPS, _RATE, _BATCH = 150, 2e-3, 256
_PRIOR_ITEMS = 20.0
"""What is believed before the labels counts as if so many items supported it."""
_WAY = 0.85
"""How much of the way to the labels networks go, if nothing is known of it."""
_UNSURE = 0.1
"""The share of a gold label that is spread over the classes: few items make nothing certain."""


@dataclass(frozen=True)
class FineTuning:
    """What training on gold items changed, on items that a network had not seen."""

    items: int
    loss_before: float
    """The mean log loss of the gold items before fine-tuning."""
    loss_after: float
    """The mean log loss after it; each item is predicted by networks that left it out."""


@dataclass(frozen=True)
class LearnedGold:
    """The gold items that a model learned, and predictions by networks that left them out."""

    items: tuple[str, ...]
    """A hash of each item."""
    proba: Array
    """P(class) of each item."""

    @classmethod
    def of(cls, inputs: Inputs, proba: Array) -> "LearnedGold":
        """Return the predictions of some inputs."""
        return cls(tuple(_hashes(inputs)), proba)

    def replaced(self, inputs: Inputs, proba: Array) -> Array:
        """Return P(class) in which the items that the model learned have these predictions."""
        place = {item: row for row, item in enumerate(self.items)}
        found = [(row, place[item]) for row, item in enumerate(_hashes(inputs)) if item in place]
        honest = proba.copy()
        for row, own in found:
            honest[row] = self.proba[own]
        return honest

    def to_dict(self) -> dict[str, Any]:
        """Return plain data to save."""
        return {"items": list(self.items), "proba": self.proba.tolist()}

    @classmethod
    def from_dict(cls, values: Any, task: Task) -> "LearnedGold | None":
        """Return what was saved, checked; None for a model without gold."""
        if values is None:
            return None
        items = tuple(str(item) for item in values["items"])
        proba = np.asarray(values["proba"], dtype=np.float64)
        if len(items) != len(proba) or not np.isfinite(proba).all() or proba.ndim != 2:
            raise SavedModelError("The saved predictions of the gold items do not fit them.")
        return cls(items, task.checked_proba(proba, "The saved predictions of the gold items"))


def fine_tune(model: "EndToEndModel", X: Any, y: Any) -> FineTuning:
    """Train all networks of a fitted model on further gold items, which are a random sample."""
    known: Any = gold_validation((X, y), model.task_, model.end_model_)
    if len(known.gold) < _FEWEST:
        raise FeatureError(
            f"fine_tune() needs {_FEWEST} gold items or more; got {len(known.gold)}."
        )
    if any(isinstance(leaf.end_model_, ClassifierModule) for leaf, _ in _leaves(model)):
        raise ParameterError(
            "A scikit-learn classifier cannot be trained further: fit it again, with the gold "
            "items among its rows."
        )
    seen = model.learned_gold_
    if seen is not None and not set(_hashes(known.inputs)).isdisjoint(seen.items):
        raise ParameterError(
            "The model has already learned from some of these gold items. Fine-tune it on others, "
            "or fit it again with all of them as gold."
        )
    before = known.proba_by(model.end_model_)
    learn_gold(model, GoldItems(known, np.ones(len(known.gold), dtype=np.bool_)))
    after: Any = model.learned_gold_
    return FineTuning(len(known.gold), known.log_loss(before), known.log_loss(after.proba))


def checked_gold(gold: GoldItems, task: Task) -> GoldItems | None:
    """Return gold items if something can be learned from them; else None, with a warning."""
    if len(gold) < _FEWEST:
        return None
    found = np.unique(gold.known.gold)
    if task.kind == OneLabelTask.kind and len(found) == 1:
        # Nothing tells what other classes look like: every network would learn to say this one.
        name = task.labels.names[found[0]]
        warn_user(
            f"All {len(gold)} gold labels are {name!r}, so they cannot teach what other classes "
            "look like, and are ignored. Give labels of several classes.",
            WieselWarning,
        )
        return None
    return gold


def learn_gold(model: Any, gold: GoldItems) -> None:
    """Train all networks of a fitted model on gold items, pulled toward their weights.

    Each network minimizes, by Adam, with dropout off and the statistics of BatchNorm fixed::

        mean cross-entropy of the gold items + 1000 / items**2 * |theta - theta_before|^2

    All of them learn all items. Copies of them leave out one of five folds of the items each: an
    item's predictions by those that have not seen it are honest, and tune the threshold. They also
    say how much of the way to the new weights is taken (`supported_share` of the predictions before
    and after): few labels may say less than many votes. Networks that have not seen votes are not
    pulled, and go all the way; how much they count is learned from the honest predictions, too. A
    scikit-learn classifier has learned the items before, in its own fit.
    """
    known: Any = gold.known
    parts: list[tuple[Any, Array]] = []
    stacks: dict[float, list[tuple[nn.Module, Array]]] = {}
    for leaf, weight in _leaves(model):
        if isinstance(leaf.end_model_, ClassifierModule):
            parts.append((weight, leaf.out_of_fold_proba(known.inputs)))
        else:
            pull = _PULL / len(gold) ** 2 if leaf.voters_ else 0.0
            stacks.setdefault(pull, []).append((leaf.end_model_, np.asarray(weight)))
    for pull, stack in stacks.items():
        networks, weights = [network for network, _ in stack], [weight for _, weight in stack]
        parts.append((np.sum(weights, axis=0), _learned(model, networks, weights, gold, pull)))
    sample: Any = gold.sample
    share = None
    if len(parts) == len(stacks) == 2 and sample is not None:
        places = [*stacks]
        alone, others = parts[places.index(0.0)], parts[1 - places.index(0.0)]
        before = float(alone[0] / (alone[0] + others[0]))
        pair = alone[1][gold.random], others[1][gold.random]
        share = supported_share(before, *pair, sample.gold)
        parts = [(np.asarray(share), alone[1]), (np.asarray(1 - share), others[1])]
    total = np.sum([weight for weight, _ in parts], axis=0)
    proba = np.sum([weight / total * own for weight, own in parts], axis=0)
    keep_honest(model, gold, proba, share)


def supported_share(share: float, own: Array, others: Array, gold: npt.NDArray[np.int64]) -> float:
    """Return the share of the first of two averaged models under which gold items are most likely.

    The given share counts as 20 items that support it: few items hardly change it, and hundreds
    decide. Found by expectation maximization.

    >>> own, others = np.array([[0.9, 0.1]] * 20), np.array([[0.3, 0.7]] * 20)
    >>> gold = np.zeros(20, dtype=np.int64)
    >>> round(supported_share(0.2, own, others, gold), 2)
    0.46
    """
    items = np.arange(len(gold))
    pair = np.maximum([own[items, gold], others[items, gold]], 1e-9)
    found = share
    for _ in range(100):
        mixed = found * pair[0] + (1 - found) * pair[1]
        support = found * pair[0] / mixed
        found = float((support.sum() + _PRIOR_ITEMS * share) / (len(gold) + _PRIOR_ITEMS))
    return found


def gold_folds(gold: npt.NDArray[np.int64], seed: int) -> list[npt.NDArray[np.int64]]:
    """Return the folds of gold items that are left out to predict them."""
    return stratified_folds(gold, min(_FOLDS, len(gold)), seed)


def keep_honest(
    model: "EndToEndModel", gold: GoldItems, proba: Array, share: float | None = None
) -> None:
    """Keep honest predictions of gold items; calibrate on the random ones, and tune thresholds.

    `share` is what the networks count that learned labels alone, if labels decided it.
    """
    rows = np.flatnonzero(gold.random)
    sample: Any = gold.sample
    if sample is not None and getattr(model, "calibrated", False):
        logits = torch.logit(torch.from_numpy(proba), eps=1e-6)
        model.calibration_ = model.task_.calibration(logits[rows], sample)
        proba = model.task_.proba(logits, model.calibration_)
    if sample is not None:
        threshold = sample.best_threshold(proba[rows])
        model.threshold_ = model.task_.default_threshold if threshold is None else threshold
    learned, earlier = LearnedGold.of(gold.known.inputs, proba), model.learned_gold_
    if earlier is not None:
        both = np.concatenate([earlier.proba, proba])
        learned = LearnedGold(earlier.items + learned.items, both)
    model.learned_gold_ = learned
    trained = {"items": len(learned.items)} | ({} if share is None else {"alone": share})
    model.selection_ = {**model.selection_, "trained_on_gold": trained}


def _learned(
    model: "EndToEndModel",
    networks: list[nn.Module],
    weights: list[Array],
    gold: GoldItems,
    pull: float,
) -> Array:
    """Train networks in place; return the predictions of their copies that left an item out."""
    known: Any = gold.known
    folds = gold_folds(known.gold, model.seed)
    # Every network is copied, and more than once if there are fewer networks than folds.
    copied = np.arange(-(-len(folds) // len(networks)) * len(networks)) % len(networks)
    judges = [copy.deepcopy(networks[k]) for k in copied]
    left_out = [folds[number % len(folds)] for number in range(len(judges))]
    everyone = [*networks, *judges]
    before = [copy.deepcopy(network.state_dict()) for network in everyone] if pull else []

    def honest() -> Array:
        proba = np.empty_like(known.proba_by(networks[0]))
        for number, fold in enumerate(folds):
            own = range(number, len(judges), len(folds))
            # A network without weight, because it has collapsed, judges only what no other does.
            shares = np.array([weights[copied[k]] + 1e-9 for k in own])
            shares = (shares / shares.sum(axis=0)).reshape(len(own), 1, -1)
            judged = np.stack([known.proba_by(judges[k])[fold] for k in own])
            proba[fold] = (shares * judged).sum(axis=0)
        return proba

    unchanged = honest() if pull else None
    _train(model, everyone, [*[None] * len(networks), *left_out], known, pull)
    proba = honest()
    if unchanged is None or model.task_.kind != OneLabelTask.kind:
        return proba
    way, rows = _WAY, gold.random
    if rows.any():
        way = supported_share(way, proba[rows], unchanged[rows], known.gold[rows])
    for network, old in zip(everyone, before, strict=True):
        network.load_state_dict(_between(old, network.state_dict(), way))
    return honest()


def _between(old: dict[str, Any], new: dict[str, Any], way: float) -> dict[str, Any]:
    """The weights a part of the way from old ones to new ones; whole numbers are the new ones."""
    return {
        name: old[name] + way * (value - old[name]) if value.is_floating_point() else value
        for name, value in new.items()
    }


def _leaves(model: Any, weight: Any = 1.0) -> Iterator[tuple[Any, Any]]:
    """The models with a network of their own, and their weights: the members of members."""
    if not model.members_:
        yield model, weight
        return
    given = getattr(model, "member_weights_", None)
    weights = [1 / len(model.members_)] * len(model.members_) if given is None else given.values()
    for member, own in zip(model.members_, weights, strict=True):
        yield from _leaves(member, np.asarray(weight) * np.asarray(own))


def _hashes(inputs: Inputs) -> Iterator[str]:
    """A hash of every item, equal for equal items."""
    for row in range(len(inputs)):
        item = inputs.take(np.array([row]))
        parts = [item[key] for key in sorted(item)] if isinstance(item, dict) else [item]
        content = b"".join(part.contiguous().numpy(force=True).tobytes() for part in parts)
        yield hashlib.sha256(content).hexdigest()[:16]


def _train(
    model: "EndToEndModel",
    networks: list[nn.Module],
    left_out: list[npt.NDArray[np.int64] | None],
    gold: Any,
    pull: float,
) -> None:
    """Train networks in place, as one stack if possible; each leaves out some of the items."""
    size = min(_BATCH, len(gold.gold))
    options = TrainOptions(
        epochs=1,
        epoch_size=_STEPS * size,
        batch_size=size,
        lr=_RATE,
        weight_decay=0.0,
        pull=pull,
        device=model.device,
        progress=False,
    )
    objectives: list[Objective] = [
        model.task_.gold_objective(copy.deepcopy(network), gold, _UNSURE, rows)
        for network, rows in zip(networks, left_out, strict=True)
    ]
    data = TrainingData(gold.inputs)
    with seeded(model.seed):
        try:
            states = [torch.get_rng_state()] * len(objectives)
            train_together(objectives, states, data, [options] * len(objectives))
        except NotStackable:
            for objective in objectives:
                train(objective, data, options)
    # In place: the members of an ensemble share their parameters with it.
    for network, objective in zip(networks, objectives, strict=True):
        network.load_state_dict(model.task_.original(objective.end_model).state_dict())
