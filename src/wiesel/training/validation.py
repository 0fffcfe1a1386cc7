"""A few items with gold labels that decide which epoch was best, and by which metric."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.nn.end_models import evaluating, fused_logits, logits_of
from wiesel.threads import fitting_threads, one_thread
from wiesel.training.inputs import Inputs, as_inputs, move

__all__ = ["ENOUGH_GOLD", "Validation", "predict_logits", "proba_of", "stratified_folds"]

ENOUGH_GOLD = 30
"""Fewer gold items give many epochs the same score, and would choose one that is hardly trained.
They harm as often as they help."""

_PREDICTED_ITEMS = 2048
_FEW_ITEMS = 16
"""So many items are predicted by all networks of a committee at once."""
_LEAST = 1e-6
"""The smallest probability in a log loss."""


@dataclass(frozen=True)
class Validation:
    """Held-out items with gold labels."""

    inputs: Inputs
    gold: npt.NDArray[np.int64]
    n_classes: int

    @cached_property
    def metric(self) -> str:
        """The metric of `score`: ROC-AUC for two classes, else accuracy."""
        two_classes = self.n_classes == 2 and len(np.unique(self.gold)) == 2
        return "auc" if two_classes else "accuracy"

    @property
    def labels_given(self) -> npt.NDArray[np.int64]:
        """The gold labels as one array, of any shape."""
        return self.gold

    def of_rows(self, rows: npt.NDArray[np.int64]) -> Self:
        """Return some of the items."""
        return replace(self, inputs=as_inputs(self.inputs.take(rows)), gold=self.gold[rows])

    @property
    def can_choose(self) -> bool:
        """Whether the items can tell epochs apart: enough of them, and of several classes."""
        return len(self.gold) >= ENOUGH_GOLD and len(np.unique(self.gold)) > 1

    def proba_by(self, module: nn.Module) -> npt.NDArray[np.float64]:
        """Return P(class) of the items by a network."""
        return proba_of(predict_logits(module, self.inputs))

    def score(self, proba: npt.NDArray[np.float64]) -> float:
        """Return the score of these probabilities."""
        from wiesel.evaluation.metrics import roc_auc

        if self.metric == "auc":
            return roc_auc(self.gold, proba)
        return float((proba.argmax(axis=1) == self.gold).mean())

    def log_loss(self, proba: npt.NDArray[np.float64]) -> float:
        """Return the mean negative log-probability of the gold labels."""
        own = proba[np.arange(len(self.gold)), self.gold]
        return float(-np.log(np.maximum(own, _LEAST)).mean())

    def best_threshold(self, proba: npt.NDArray[np.float64]) -> Any:
        """Return the decision threshold that gold supports, for two classes; None for 1/2."""
        from wiesel.evaluation import supported_threshold

        threshold = supported_threshold(proba[:, 1], self.gold) if self.metric == "auc" else 0.5
        return None if threshold == 0.5 else threshold


@torch.no_grad()
def predict_logits(
    module: nn.Module, inputs: Inputs, rows: npt.NDArray[np.int64] | None = None
) -> Tensor:
    """Return the module's logits for items, in evaluation mode, on the CPU."""
    rows = np.arange(len(inputs)) if rows is None else rows
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    chunks = max(1, min(_PREDICTED_ITEMS, 2**28 // max(1, inputs.item_bytes)))
    with fitting_threads(module):
        if 0 < len(rows) <= min(_FEW_ITEMS, chunks):
            logits = fused_logits(module, move(inputs.take(rows), device))
            if logits is not None:
                return logits.cpu().float()
    with fitting_threads(module), evaluating(module):
        parts = [
            logits_of(module, move(inputs.take(rows[start : start + chunks]), device)).cpu()
            for start in range(0, len(rows), chunks)
        ]
        return torch.cat(parts).float() if parts else torch.empty(0, 0)


@one_thread()
def proba_of(logits: Tensor) -> npt.NDArray[np.float64]:
    """Return the probabilities of logits, in double precision.

    >>> proba_of(torch.zeros(1, 2))
    array([[0.5, 0.5]])
    """
    return torch.softmax(logits.double(), dim=1).numpy()


def stratified_folds(
    gold: npt.NDArray[np.int64], n_folds: int, seed: int = 0
) -> list[npt.NDArray[np.int64]]:
    """Return the items of each fold; all folds have about the same class shares.

    >>> [np.bincount(np.array([0, 0, 0, 0, 1, 1])[fold]).tolist() for fold in
    ...  stratified_folds(np.array([0, 0, 0, 0, 1, 1]), n_folds=2)]
    [[2, 1], [2, 1]]
    """
    shuffled = np.random.default_rng(seed).permutation(len(gold))
    by_class = shuffled[np.argsort(gold[shuffled], kind="stable")]
    return [np.sort(by_class[start::n_folds]) for start in range(n_folds)]
