"""Choices without gold: among models, and predictions that no item's votes have shaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.checks import predicted_proba
from wiesel.errors import ParameterError
from wiesel.label_models import OneCoin
from wiesel.training import as_inputs
from wiesel.votes import VoteMatrix

__all__ = ["BlindChoice", "choose_without_gold", "noisy_losses", "out_of_sample_proba"]

_LEAST = 1e-6


@dataclass(frozen=True)
class BlindChoice:
    """The best model without gold, with the ranks and losses behind the choice."""

    best: int
    """The position of the model with the lowest mean rank."""
    ranks: npt.NDArray[np.float64]
    """The mean rank of every model; 1 is best."""
    losses: dict[str, npt.NDArray[np.float64]]
    """For each loss, by name, the mean over folds for every model."""


def choose_without_gold(
    models: Sequence[EndToEndModel], X: Any, votes: VoteMatrix, folds: int = 3, seed: int = 0
) -> BlindChoice:
    """Return the model with the best mean rank over noisy losses, cross-validated.

    In every fold the models are trained on the other items. If there are at least twice as many
    voters as folds, voters are held out, too. Predictions for the held-out items are compared with
    the votes on them (`noisy_losses`), and with those of the held-out voters. The models are
    ranked by each loss. Gold is never used. Voters that share their mistakes can mislead all of
    these losses.

    >>> import torch
    >>> from wiesel import MajorityVote, TwoStage
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 6, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> net = torch.nn.Linear(4, 2)
    >>> models = [TwoStage(MajorityVote(), net, epochs=3, lr=lr) for lr in (0.002, 0.05)]
    >>> choose_without_gold(models, X, votes).best
    1
    """
    if not models:
        raise ParameterError("There are no models to choose from.")
    if folds < 2:
        raise ParameterError(f"Held-out scores need at least two folds; got folds={folds!r}.")
    inputs, rng = as_inputs(X, votes=votes), np.random.default_rng(seed)
    covered = rng.permutation(np.flatnonzero(votes.covered))
    voters = rng.permutation(votes.n_voters)
    from scipy.stats import rankdata
    from sklearn.base import clone

    found: dict[str, list[list[float]]] = {}
    for number in range(folds):
        held_out = np.sort(covered[number::folds])
        kept = np.setdiff1d(covered, held_out)
        learn_from, judges = _split_voters(votes, voters, number, folds)
        train, test = inputs.take(kept), inputs.take(held_out)
        of_models = []
        for model in models:
            fitted = clone(model, safe=False).fit(train, learn_from[kept])
            proba = predicted_proba(fitted, test, len(held_out))
            of_models.append(_fold_losses(proba, votes[held_out], judges, held_out))
        for name in of_models[0]:
            found.setdefault(name, []).append([losses[name] for losses in of_models])
    # The losses on held-out voters exist only in folds in which they voted.
    losses = {name: np.mean(values, axis=0) for name, values in found.items()}
    ranks = np.mean([rankdata(values) for values in losses.values()], axis=0)
    return BlindChoice(int(np.argmin(ranks)), ranks, losses)


def noisy_losses(proba: npt.NDArray[np.float64], votes: VoteMatrix) -> dict[str, float]:
    """Return losses of predictions against votes: cross-entropy and error rate.

    The target `majority` is the class with the most votes; `weighted` is the winner if votes are
    weighted by the log odds of their voters' accuracies (one-coin model). `agreed` weighs items by
    the agreement of their votes. `answers` compares with every single vote.

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
    """The losses of predictions against single votes."""
    of_vote = proba[votes.item_index, votes.class_index]
    wrong = proba.argmax(axis=1)[votes.item_index] != votes.class_index
    log_loss = -np.log(np.maximum(of_vote, _LEAST))
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
    """The votes to train on, and those of the held-out voters, if there are enough voters."""
    if votes.n_voters < 2 * folds:
        return votes, None
    names = np.array(votes.voters, dtype=object)
    held_out = np.zeros(votes.n_voters, dtype=bool)
    held_out[order[number::folds]] = True
    return votes.select(list(names[~held_out])), votes.select(list(names[held_out]))


def out_of_sample_proba(
    model: EndToEndModel, X: Any, votes: VoteMatrix, folds: int = 5, seed: int = 0
) -> npt.NDArray[np.float64]:
    """Return P(class) of every item, by a copy of the model trained on the other folds.

    Tools that look for wrong labels need such predictions (`pred_probs` of cleanlab): a model
    trained on an item's votes would repeat them. The model itself is not fitted.

    >>> import torch
    >>> from wiesel import MajorityVote, TwoStage
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(60, 5, coverage=0.6)
    >>> model = TwoStage(MajorityVote(), torch.nn.Linear(4, 2), lr=0.01)
    >>> out_of_sample_proba(model, make_features(gold, n_features=4), votes, folds=3).shape
    (60, 2)
    """
    inputs = as_inputs(X, votes=votes)
    if len(inputs) != len(votes):
        raise ParameterError(f"X has {len(inputs)} items, the votes have {len(votes)}.")
    if not 2 <= folds <= len(votes):
        raise ParameterError(
            f"Out-of-sample predictions need at least two folds, and at most one for each item "
            f"({len(votes)}); got folds={folds!r}."
        )
    from sklearn.base import clone

    order = np.random.default_rng(seed).permutation(len(votes))
    proba = np.empty((len(votes), votes.n_classes))
    for number in range(folds):
        held_out = np.sort(order[number::folds])
        kept = np.setdiff1d(order, held_out)
        fitted = clone(model, safe=False).fit(inputs.take(kept), votes[kept])
        proba[held_out] = predicted_proba(fitted, inputs.take(held_out), len(held_out))
    return proba
