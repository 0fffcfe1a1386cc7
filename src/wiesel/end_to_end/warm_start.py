"""Where WeaSEL starts: soft labels of a label model, the best of several if need be."""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.soft_labels import SoftLabelObjective
from wiesel.end_to_end.teaching import aligned_to
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

__all__ = ["Trial", "WarmStart", "choose_warm_start", "warm_start_from"]

Balance = npt.NDArray[np.float64]
SoftLabels = npt.NDArray[np.float64]
SoftLabelMaker = Callable[[VoteMatrix, Balance], SoftLabels]

_TRIED_SEEDS = 3
"""How many networks try every candidate: one alone would choose by luck."""
_SHARE_SCALE, _COUNT_SCALE = 3.0, 2.0
"""From votes to logits: of the share of votes that a class got, and of their number."""


class Candidate(NamedTuple):
    """A way to start."""

    soft_labels: SoftLabelMaker
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
    """How candidates are tried: on what, with which network, for how long."""

    network: nn.Module
    data: TrainingData
    validation: Validation
    options: TrainOptions
    seed: int


def warm_start_from(label_model: LabelModel, votes: VoteMatrix, balance: Balance) -> WarmStart:
    """Return the soft labels of one label model, which is copied and fitted."""
    fitted = copy.deepcopy(label_model).fit(votes, class_balance=balance)
    return WarmStart(type(label_model).__name__, fitted.predict_proba(votes))


def choose_warm_start(votes: VoteMatrix, balance: Balance, trial: Trial | None) -> WarmStart:
    """Return the candidate whose end models do best on the validation set of the trial.

    Label models fail on different data: each is by far the best somewhere, and far worse than
    majority vote elsewhere. Only the end model trained on it shows which, and a short training
    shows it well enough. Interrupting it (Ctrl-C) interrupts `fit`: nothing is trained yet.
    """
    if trial is None:
        # Without gold nothing tells a label model that works from one that fails.
        name = "majority_vote" if votes.n_classes == 2 else "vote counts, aligned, mig"
        chosen = CANDIDATES[name]
        return WarmStart(name, chosen.soft_labels(votes, balance), chosen.loss)
    found = {start.name: start for start in _starts(votes, balance)}
    scores = {name: _score(trial, start, balance) for name, start in found.items()}
    best = max(scores, key=scores.__getitem__)
    return replace(found[best], scores=scores)


def _starts(votes: VoteMatrix, balance: Balance) -> Iterator[WarmStart]:
    # Candidates that differ in the loss have the same soft labels: they are made once.
    made = cache(lambda make: _soft_labels(make, votes, balance))
    for name, candidate in CANDIDATES.items():
        if candidate.loss == "mig" and votes.n_classes == 2:
            continue
        soft_labels = made(candidate.soft_labels)
        if soft_labels is not None:
            yield WarmStart(name, soft_labels, candidate.loss)


def _soft_labels(make: SoftLabelMaker, votes: VoteMatrix, balance: Balance) -> SoftLabels | None:
    """What a candidate makes of the votes; None where it cannot be used on them."""
    try:
        with warnings.catch_warnings():
            # A label model that has to fall back says so; here it is one of many.
            warnings.simplefilter("ignore")
            return make(votes, balance)
    except WieselError:
        return None


def _score(trial: Trial, start: WarmStart, balance: Balance) -> float:
    """The mean over some seeds of the best validation score on the way."""
    data = replace(trial.data, votes=None, features=None, targets=start.soft_labels)
    histories = _train_some(trial, data, start.loss, balance)
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


def _fitted(label_model: LabelModel, votes: VoteMatrix, balance: Balance) -> SoftLabels:
    return label_model.fit(votes, class_balance=balance).predict_proba(votes)


def _majority_vote(votes: VoteMatrix, _: Balance) -> SoftLabels:
    return MajorityVote().fit(votes).predict_proba(votes)


def _aligned_shares(votes: VoteMatrix, balance: Balance) -> SoftLabels:
    return _aligned(_SHARE_SCALE * _majority_vote(votes, balance), votes, balance)


def _aligned_counts(votes: VoteMatrix, balance: Balance) -> SoftLabels:
    return _aligned(_COUNT_SCALE * votes.counts(), votes, balance)


def _aligned(logits: npt.NDArray[np.float64], votes: VoteMatrix, balance: Balance) -> SoftLabels:
    """Soft labels of these logits, aligned over the covered items; the others stay as they are."""
    proba = torch.softmax(torch.from_numpy(logits), dim=1).numpy()
    covered = np.flatnonzero(votes.covered)
    proba[covered] = aligned_to(balance, proba[covered])
    return proba


def _dawid_skene(votes: VoteMatrix, balance: Balance) -> SoftLabels:
    return _fitted(DawidSkene(), votes, balance)


def _triplet(votes: VoteMatrix, balance: Balance) -> SoftLabels:
    return _fitted(Triplet(), votes, balance)


def _snorkel(votes: VoteMatrix, _: Balance) -> SoftLabels:
    return Snorkel().fit(votes).predict_proba(votes)


CANDIDATES: dict[str, Candidate] = {
    "majority_vote": Candidate(_majority_vote),
    "majority_vote, mig": Candidate(_majority_vote, "mig"),
    "majority_vote, aligned": Candidate(_aligned_shares),
    "vote counts, aligned": Candidate(_aligned_counts),
    "vote counts, aligned, mig": Candidate(_aligned_counts, "mig"),
    "snorkel": Candidate(_snorkel),
    "dawid_skene": Candidate(_dawid_skene),
    "dawid_skene, mig": Candidate(_dawid_skene, "mig"),
    "triplet": Candidate(_triplet),
    "triplet, mig": Candidate(_triplet, "mig"),
}
"""What `warm_start="auto"` chooses from: soft labels of votes and a class balance, and a loss."""
