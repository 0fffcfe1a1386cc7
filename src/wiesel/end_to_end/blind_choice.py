"""Choosing among models without gold: the best mean rank over several noisy losses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.base import clone

from wiesel.end_to_end.base import EndToEndModel
from wiesel.errors import ParameterError
from wiesel.label_models import OneCoin
from wiesel.training import as_inputs
from wiesel.votes import VoteMatrix

__all__ = ["BlindChoice", "choose_without_gold", "noisy_losses"]

_LEAST = 1e-6


@dataclass(frozen=True)
class BlindChoice:
    """Which model was best without gold, and by what."""

    best: int
    """The position of the model with the lowest mean rank."""
    ranks: npt.NDArray[np.float64]
    """The mean rank of every model; 1 is best."""
    losses: dict[str, npt.NDArray[np.float64]]
    """By name of the loss, the mean over folds for every model."""


def choose_without_gold(
    models: Sequence[EndToEndModel], X: Any, votes: VoteMatrix, folds: int = 3, seed: int = 0
) -> BlindChoice:
    """Return the model of the best mean rank over noisy losses, in folds of items and voters.

    In every fold the models learn from the other items, and from the votes of the other voters
    where there are twice as many voters as folds; what they predict for the held-out items is
    compared with the votes on them (`noisy_losses`), and with those of the held-out voters. For
    each loss the models are ranked. Gold is never looked at. Voters that share their mistakes can
    mislead every one of these losses.

    >>> import torch
    >>> from wiesel import MajorityVote, TwoStage
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 6, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> net = torch.nn.Linear(4, 2)
    >>> models = [TwoStage(MajorityVote(), net, epochs=3, lr=lr) for lr in (0.0, 0.05)]
    >>> choose_without_gold(models, X, votes).best
    1
    """
    if not models:
        raise ParameterError("There are no models to choose from.")
    if folds < 2:
        raise ParameterError(f"Held-out scores need at least two folds; got folds={folds!r}.")
    inputs, rng = as_inputs(X), np.random.default_rng(seed)
    covered = rng.permutation(np.flatnonzero(votes.covered))
    voters = rng.permutation(votes.n_voters)
    found: dict[str, list[list[float]]] = {}
    for number in range(folds):
        held_out = np.sort(covered[number::folds])
        kept = np.setdiff1d(covered, held_out)
        learn_from, judges = _split_voters(votes, voters, number, folds)
        train, test = inputs.take(kept), inputs.take(held_out)
        of_models = []
        for model in models:
            fitted = clone(model, safe=False).fit(train, learn_from[kept])
            proba = fitted.predict_proba(test)
            of_models.append(_fold_losses(proba, votes[held_out], judges, held_out))
        for name in of_models[0]:
            found.setdefault(name, []).append([losses[name] for losses in of_models])
    # A loss of held-out voters exists in the folds in which they voted.
    losses = {name: np.mean(values, axis=0) for name, values in found.items()}
    ranks = np.mean([rankdata(values) for values in losses.values()], axis=0)
    return BlindChoice(int(np.argmin(ranks)), ranks, losses)


def noisy_losses(proba: npt.NDArray[np.float64], votes: VoteMatrix) -> dict[str, float]:
    """Return how far predictions are from votes: cross-entropy and share of errors.

    `majority` is the class with most votes, `weighted` the one by the log odds of the voters'
    accuracies (one-coin model); `agreed` weighs items by how far their votes agree; `answers`
    compares with every vote.

    >>> votes = VoteMatrix.from_dense([[0, 0], [1, 1], [0, 0]], ["no", "yes"])
    >>> noisy_losses(np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]]), votes)["answers_error"]
    0.0
    """
    counts = votes.counts()
    agreement = counts.max(axis=1) / np.maximum(counts.sum(axis=1), _LEAST)
    weighted = OneCoin(smoothing=1.0).fit(votes).predict_proba(votes).argmax(axis=1)
    targets = {"majority": counts.argmax(axis=1), "weighted": weighted}
    losses: dict[str, float] = {}
    rows = np.arange(len(proba))
    for name, classes in targets.items():
        log_loss = -np.log(np.maximum(proba[rows, classes], _LEAST))
        wrong = proba.argmax(axis=1) != classes
        for kind, values in (("log", log_loss), ("error", wrong.astype(float))):
            losses[f"{name}_{kind}"] = float(values.mean())
            losses[f"{name}_agreed_{kind}"] = float(np.average(values, weights=agreement))
    return {**losses, **_answer_losses("answers", proba, votes)}


def _answer_losses(
    name: str, proba: npt.NDArray[np.float64], votes: VoteMatrix
) -> dict[str, float]:
    """How far predictions are from single votes."""
    said = proba[votes.item_index, votes.class_index]
    wrong = proba.argmax(axis=1)[votes.item_index] != votes.class_index
    log_loss = -np.log(np.maximum(said, _LEAST))
    return {f"{name}_log": float(log_loss.mean()), f"{name}_error": float(wrong.mean())}


def _fold_losses(
    proba: npt.NDArray[np.float64],
    votes: VoteMatrix,
    judges: VoteMatrix | None,
    rows: npt.NDArray[np.int64],
) -> dict[str, float]:
    losses = noisy_losses(proba, votes)
    if judges is not None and judges[rows].n_votes:
        losses |= _answer_losses("held_out_voters", proba, judges[rows])
    return losses


def _split_voters(
    votes: VoteMatrix, order: npt.NDArray[np.int64], number: int, folds: int
) -> tuple[VoteMatrix, VoteMatrix | None]:
    """The votes to learn from, and those of voters that are held out, if there are enough."""
    if votes.n_voters < 2 * folds:
        return votes, None
    names = np.array(votes.voters, dtype=object)
    held_out = np.zeros(votes.n_voters, dtype=bool)
    held_out[order[number::folds]] = True
    return votes.select(list(names[~held_out])), votes.select(list(names[held_out]))
