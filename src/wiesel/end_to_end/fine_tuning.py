"""Fine-tuning on a few gold items, for as long as it improves held-out gold items."""

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.checks import gold_validation
from wiesel.end_to_end.plan import inputs_digest
from wiesel.errors import FeatureError, ParameterError
from wiesel.training import History, Record, TrainingData, TrainOptions, Validation, seeded, train
from wiesel.training.objective import SoftLabelObjective
from wiesel.training.validation import stratified_folds

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel

__all__ = ["FineTuning", "fine_tune"]

_FOLDS = 5
_SHRINKAGE = 0.5
"""The strength of the penalty on the calibration parameters, for when items are few."""
_FEWEST = 4
"""With fewer gold items than this, not even the threshold is tuned."""
_TRAINABLE = 5
"""With at most this many gold items per class, cross-validation cannot tell gains from luck."""


@dataclass(frozen=True)
class FineTuning:
    """The cross-validation results of training on the gold items."""

    epochs: int
    """The number of epochs the end model was trained on them; 0 left it unchanged."""
    loss_before: float
    """The mean calibrated log loss on held-out gold items before fine-tuning."""
    loss_after: float
    """The same loss after that many epochs of fine-tuning on the other folds."""
    items: int


class _WatchedObjective(SoftLabelObjective):
    """Records the predictions for held-out items after every epoch."""

    def __init__(
        self, end_model: nn.Module, targets: npt.NDArray[np.float64], held_out: Validation
    ) -> None:
        super().__init__(end_model, targets)
        self.held_out = held_out

    def diagnose(self, data: TrainingData) -> Record:
        """Return the probabilities of the held-out items."""
        return {"proba": self.held_out.proba_by(self.end_model)}


def fine_tune(
    model: "EndToEndModel", X: Any, y: Any, epochs: int, lr: float, batch_size: int
) -> FineTuning:
    """Train the fitted end model on gold items, for a cross-validated number of epochs.

    Each gold item is predicted by a copy of the network trained on the other folds. The number of
    epochs with the smallest log loss on these predictions is used, if the gain over no training is
    significant and there are more than five items per class. The same predictions tune the
    threshold. So the same few labels serve both purposes, and no item is evaluated by a network
    trained on it. All predictions, also those without training, are calibrated before they are
    compared: better confidence or class shares alone are no reason to train.
    """
    gold: Validation = gold_validation((X, y), model.task_, model.end_model_)  # type: ignore[assignment]
    if len(gold.gold) < _FEWEST:
        raise FeatureError(f"fine_tune() needs {_FEWEST} gold items or more; got {len(gold.gold)}.")
    seen = model.selection_.get("trained_on_gold", {})
    if seen.get("digest") == inputs_digest(gold.inputs).hex():
        raise ParameterError(
            "Networks of this committee have already learned from these gold items. Fine-tune it "
            "on others, or fit it with train_on_gold=False."
        )
    options = TrainOptions(
        epochs=epochs, lr=lr, batch_size=min(batch_size, len(gold.gold)), progress=False
    )
    enough = len(gold.gold) > _TRAINABLE * gold.n_classes
    proba = _out_of_fold(model, gold, options) if enough else gold.proba_by(model.end_model_)[None]
    losses = np.stack([_calibrated_losses(epoch, gold.gold) for epoch in proba])
    best = _worth_training(losses)
    if best:
        shorter, everything = replace(options, epochs=best), np.arange(len(gold.gold))
        tuned, _ = _trained(model, gold, everything, shorter, held_out=gold)
        # Train in place: the members of an ensemble share its parameters.
        model.end_model_.load_state_dict(tuned.state_dict())
    if gold.metric == "auc":
        model.threshold_ = gold.best_threshold(proba[best])
    means = losses.mean(axis=1)
    return FineTuning(best, float(means[0]), float(means[best]), len(gold.gold))


def _out_of_fold(
    model: "EndToEndModel", gold: Validation, options: TrainOptions
) -> npt.NDArray[np.float64]:
    """(1 + epochs, items, classes): predictions by networks trained on the other folds."""
    n_items = len(gold.gold)
    proba = np.empty((options.epochs + 1, n_items, gold.n_classes))
    proba[0] = gold.proba_by(model.end_model_)
    for fold in stratified_folds(gold.gold, min(_FOLDS, n_items // 2), model.seed):
        others = np.setdiff1d(np.arange(n_items), fold)
        held_out = Validation(_Rows(gold.inputs, fold), gold.gold[fold], gold.n_classes)
        history = _trained(model, gold, others, options, held_out)[1]
        proba[1:, fold] = np.stack(history.column("proba"))
    return proba


def _calibrated_losses(
    proba: npt.NDArray[np.float64], gold: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The log loss of every item after calibration with one scale and a shift per class."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    logits = np.log(proba.clip(1e-7))
    n_classes = proba.shape[1]
    is_gold = np.eye(n_classes)[gold]

    def log_proba(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return log_softmax(np.exp(numbers[0]) * logits + numbers[1:], axis=1)

    def loss(numbers: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        found = log_proba(numbers)
        value = _SHRINKAGE * np.square(numbers).sum() - (found * is_gold).sum()
        # The gradient by the scaled and shifted logits: predicted minus observed.
        apart = np.exp(found) - is_gold
        by_scale = np.exp(numbers[0]) * (apart * logits).sum()
        return float(value), np.array([by_scale, *apart.sum(axis=0)]) + 2 * _SHRINKAGE * numbers

    best = minimize(loss, np.zeros(1 + n_classes), method="L-BFGS-B", jac=True).x
    return -log_proba(best)[np.arange(len(gold)), gold]


def _worth_training(losses: npt.NDArray[np.float64]) -> int:
    """The number of epochs with the smallest mean loss, or 0 if the gain is not significant.

    Significance is by a t-test at the 5 % level, so with very few items the gain must be large.
    """
    from scipy.special import stdtrit

    best = int(losses.mean(axis=1).argmin())
    gains = losses[0] - losses[best]
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return best if gains.mean() > stdtrit(len(gains) - 1, 0.95) * error else 0


def _trained(
    model: "EndToEndModel",
    gold: Validation,
    rows: npt.NDArray[np.int64],
    options: TrainOptions,
    held_out: Validation,
) -> tuple[nn.Module, History]:
    network = copy.deepcopy(model.end_model_)
    targets = np.eye(gold.n_classes)[gold.gold]
    objective = _WatchedObjective(network, targets, held_out)
    data = TrainingData(gold.inputs, used=rows)
    with seeded(model.seed):
        history = train(objective, data, options)
    return network, history


class _Rows:
    """A subset of the inputs."""

    def __init__(self, inputs: Any, rows: npt.NDArray[np.int64]) -> None:
        self._inputs, self._rows = inputs, rows
        self.item_bytes: int = inputs.item_bytes

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: npt.NDArray[np.int64]) -> Any:
        return self._inputs.take(self._rows[rows])
