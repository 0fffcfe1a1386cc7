"""Where WeaSEL starts: soft labels of a label model, the best of several if need be."""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.class_balance import aligned_to, chosen_class_balance
from wiesel.end_to_end.cross_check import MOST_PAIRED, cross_checked
from wiesel.end_to_end.soft_labels import SoftLabelObjective
from wiesel.errors import WieselError
from wiesel.label_models import DawidSkene, LabelModel, MajorityVote, Snorkel, Triplet
from wiesel.nn.end_models import shipped_module, shipped_spec
from wiesel.nn.stacking import NotStackable
from wiesel.training import (
    History,
    TrainingData,
    TrainOptions,
    Validation,
    seeded,
    train,
    train_together,
)
from wiesel.votes import VoteMatrix

__all__ = [
    "Trial",
    "WarmStart",
    "agreed_soft_labels",
    "choose_warm_start",
    "starts",
    "warm_start_from",
]

Balance = npt.NDArray[np.float64]
SoftLabels = npt.NDArray[np.float64]
SoftLabelMaker = Callable[[TrainingData, Balance], SoftLabels | None]

_TRIED_SEEDS = 3
"""How many networks try every candidate: one alone would choose by luck."""
_SHARE_SCALE, _COUNT_SCALE = 3.0, 2.0
"""From votes to logits: of the share of votes that a class got, and of their number."""


class Candidate(NamedTuple):
    """A way to start."""

    makers: tuple[SoftLabelMaker, ...]
    """What makes the soft labels; of several, what most of them say counts."""
    loss: Literal["ce", "mig"] = "ce"
    """How the end model learns them. Mutual information does not mind that some classes got too
    many votes; of two classes that only moves the threshold, so there it has nothing to gain."""


@dataclass(frozen=True)
class WarmStart:
    """The soft labels to begin with, and how they were chosen."""

    name: str
    soft_labels: SoftLabels
    loss: str = "ce"
    scores: dict[str, float] = field(default_factory=dict)
    """The validation score of every candidate; empty where none was needed."""


@dataclass(frozen=True)
class Trial:
    """How candidates are tried: with which network, for how long, and how they are judged."""

    network: nn.Module
    validation: Validation
    options: TrainOptions
    seed: int


def warm_start_from(label_model: LabelModel, votes: VoteMatrix, balance: Balance) -> WarmStart:
    """Return the soft labels of one label model, which is copied and fitted."""
    fitted = copy.deepcopy(label_model).fit(votes, class_balance=balance)
    return WarmStart(type(label_model).__name__, fitted.predict_proba(votes))


def choose_warm_start(data: TrainingData, balance: Balance, trial: Trial | None) -> WarmStart:
    """Return the candidate whose end models do best on the validation set of the trial.

    Label models fail on different data: each is by far the best somewhere, and far worse than
    majority vote elsewhere. Only the end model trained on it shows which, and a short training
    shows it well enough. Interrupting it (Ctrl-C) interrupts `fit`: nothing is trained yet.

    Without gold nothing tells one that works from one that fails. Of two classes, votes are
    trusted as far as the features confirm them; where these cannot be asked, the committee is, for
    label models rarely fail in the same way. Of more classes, most of them exaggerate the same one.
    """
    n_classes = data.votes.n_classes  # type: ignore[union-attr]
    if trial is None:
        blind = ("cross-checked", "committee") if n_classes == 2 else ("vote counts, aligned, mig",)
        return next(starts(blind, data, balance))
    names = [name for name, own in CANDIDATES.items() if own.loss == "ce" or n_classes > 2]
    found = {start.name: start for start in starts(names, data, balance)}
    scores = {name: _score(trial, data, start, balance) for name, start in found.items()}
    best = max(scores, key=scores.__getitem__)
    return replace(found[best], scores=scores)


def starts(names: Iterable[str], data: TrainingData, balance: Balance) -> Iterator[WarmStart]:
    """Yield the candidates of these names that can be used on the data."""
    # Candidates share what makes their soft labels: it is run once.
    made = cache(lambda make: _soft_labels(make, data, balance))
    for name in names:
        makers, loss = CANDIDATES[name]
        parts = [part for make in makers if (part := made(make)) is not None]
        if parts:
            yield WarmStart(name, agreed_soft_labels(parts), loss)


def agreed_soft_labels(parts: Sequence[SoftLabels]) -> SoftLabels:
    """Return what most of several soft labels say: the extremes of each probability are left out.

    >>> parts = [np.array([[p, 1 - p]]) for p in (0.9, 0.8, 0.7, 0.0)]
    >>> agreed_soft_labels(parts).round(2)
    array([[0.75, 0.25]])
    """
    if len(parts) == 1:
        return parts[0]
    ranked = np.sort(np.stack(parts), axis=0)
    kept = ranked[1:-1] if len(parts) > 2 else ranked
    # Where all disagree nothing may be left over.
    proba = kept.mean(axis=0) + 1e-6
    agreed: SoftLabels = proba / proba.sum(axis=1, keepdims=True)
    return agreed


def _soft_labels(make: SoftLabelMaker, data: TrainingData, balance: Balance) -> SoftLabels | None:
    """What a label model makes of the votes; None where it cannot be used on them."""
    if make in _PAIRWISE and _votes(data).n_voters > MOST_PAIRED:
        return None
    try:
        with warnings.catch_warnings():
            # A label model that has to fall back says so; here it is one of many.
            warnings.simplefilter("ignore")
            return make(data, balance)
    except WieselError:
        return None


def _score(trial: Trial, data: TrainingData, start: WarmStart, balance: Balance) -> float:
    """The mean over some seeds of the best validation score on the way."""
    labeled = replace(data, votes=None, features=None, targets=start.soft_labels)
    histories = _train_some(trial, labeled, start.loss, balance)
    if any(history.interrupted for history in histories):
        raise KeyboardInterrupt
    name = f"validation_{trial.validation.metric}"
    return float(np.mean([history.kept[name] for history in histories]))


def _train_some(trial: Trial, data: TrainingData, loss: str, balance: Balance) -> list[History]:
    objectives, states = [], []
    for seed in range(trial.seed, trial.seed + _TRIED_SEEDS):
        with seeded(seed):
            objectives.append(SoftLabelObjective(_fresh(trial.network), loss, balance))
            states.append(torch.get_rng_state())
    try:
        options = [trial.options] * _TRIED_SEEDS
        return train_together(objectives, states, data, options, trial.validation)
    except NotStackable:
        # Not worth three times the time: a network of this kind is slow enough alone.
        return [_train_one(trial, objectives[0], states[0], data)]


def _train_one(
    trial: Trial, objective: SoftLabelObjective, state: Tensor, data: TrainingData
) -> History:
    with seeded(trial.seed):
        torch.set_rng_state(state)
        return train(objective, data, trial.options, trial.validation)


def _fresh(network: nn.Module) -> nn.Module:
    spec = shipped_spec(network)
    return copy.deepcopy(network) if spec is None else shipped_module(spec)


def _votes(data: TrainingData) -> VoteMatrix:
    votes: VoteMatrix = data.votes  # type: ignore[assignment]
    return votes


def _fitted(label_model: LabelModel, data: TrainingData, balance: Balance | None) -> SoftLabels:
    votes = _votes(data)
    return label_model.fit(votes, class_balance=balance).predict_proba(votes)


def _majority_vote(data: TrainingData, _: Balance) -> SoftLabels:
    return _fitted(MajorityVote(), data, None)


def _aligned_shares(data: TrainingData, balance: Balance) -> SoftLabels:
    return _aligned(_SHARE_SCALE * _majority_vote(data, balance), data, balance)


def _aligned_counts(data: TrainingData, balance: Balance) -> SoftLabels:
    return _aligned(_COUNT_SCALE * _votes(data).counts(), data, balance)


def _aligned(logits: npt.NDArray[np.float64], data: TrainingData, balance: Balance) -> SoftLabels:
    """Soft labels of these logits, aligned over the covered items; the others stay as they are."""
    proba = torch.softmax(torch.from_numpy(logits), dim=1).numpy()
    covered = np.flatnonzero(_votes(data).covered)
    proba[covered] = aligned_to(balance, proba[covered])
    return proba


def _dawid_skene(data: TrainingData, balance: Balance) -> SoftLabels:
    return _fitted(DawidSkene(), data, balance)


def _triplet(data: TrainingData, balance: Balance) -> SoftLabels:
    return _fitted(Triplet(), data, balance)


def _snorkel(data: TrainingData, _: Balance) -> SoftLabels:
    return _fitted(Snorkel(), data, None)


def _cross_checked(data: TrainingData, balance: Balance) -> SoftLabels | None:
    votes = _votes(data)
    if votes.n_classes == 2:
        # The threshold takes care of the balance; labels are learned best as the votes have it.
        balance = chosen_class_balance("auto", votes, None)
    return cross_checked(votes, data.inputs, balance)


_PAIRWISE = (_snorkel, _triplet)
"""Label models that look at all pairs of voters."""

CANDIDATES: dict[str, Candidate] = {
    "majority_vote": Candidate((_majority_vote,)),
    "majority_vote, mig": Candidate((_majority_vote,), "mig"),
    "majority_vote, aligned": Candidate((_aligned_shares,)),
    "vote counts, aligned": Candidate((_aligned_counts,)),
    "vote counts, aligned, mig": Candidate((_aligned_counts,), "mig"),
    "snorkel": Candidate((_snorkel,)),
    "dawid_skene": Candidate((_dawid_skene,)),
    "dawid_skene, mig": Candidate((_dawid_skene,), "mig"),
    "triplet": Candidate((_triplet,)),
    "triplet, mig": Candidate((_triplet,), "mig"),
    "cross-checked": Candidate((_cross_checked,)),
    "cross-checked, mig": Candidate((_cross_checked,), "mig"),
    "committee": Candidate((_majority_vote, _aligned_counts, _snorkel, _dawid_skene, _triplet)),
}
"""What `warm_start="auto"` chooses from: what makes soft labels, and a loss."""
