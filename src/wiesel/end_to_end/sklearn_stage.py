"""A scikit-learn classifier as the end model of two stages: soft labels become weighted rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.errors import FeatureError, ParameterError
from wiesel.labels import FloatArray
from wiesel.training import TrainingData

__all__ = ["ClassifierModule", "fit_classifier", "is_classifier"]

_LEAST_WEIGHT = 1e-6


class ClassifierModule(nn.Module):
    """A fitted classifier as a module: its log-probabilities are the logits.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.0], [1.0]], [0, 2])
    >>> ClassifierModule(fitted, n_classes=3)(torch.zeros(1, 1)).exp().numpy().round(1)
    array([[0.6, 0. , 0.4]])
    """

    def __init__(self, classifier: Any, n_classes: int) -> None:
        super().__init__()
        self.classifier = classifier
        self.n_classes = n_classes

    def forward(self, features: Tensor) -> Tensor:
        """Return log P(class) of a batch; a class that was never seen is next to impossible."""
        proba = np.zeros((len(features), self.n_classes))
        known = np.asarray(self.classifier.classes_, dtype=np.int64)
        proba[:, known] = self.classifier.predict_proba(features.numpy(force=True))
        return torch.from_numpy(np.log(np.clip(proba, 1e-12, None)))


def is_classifier(end_model: object) -> bool:
    """Whether this is a scikit-learn classifier with probabilities, or a pipeline of one."""
    return hasattr(end_model, "fit") and hasattr(end_model, "get_params")


def fit_classifier(end_model: Any, data: TrainingData, n_classes: int) -> ClassifierModule:
    """Return a fitted copy of a classifier, trained on soft labels.

    Every item is one row for each class it may have, weighted with the probability.
    """
    from sklearn.base import clone

    if not hasattr(end_model, "predict_proba"):
        raise ParameterError(
            f"{type(end_model).__name__} has no predict_proba, which an end model needs. Wrap it "
            "in CalibratedClassifierCV, or choose another classifier."
        )
    batch = data.inputs.take(data.items)
    if isinstance(batch, dict) or batch.ndim != 2:
        raise FeatureError("A scikit-learn classifier needs a plain feature vector for each item.")
    targets: FloatArray = data.targets[data.items]  # type: ignore[index]
    rows, classes = np.nonzero(targets > _LEAST_WEIGHT)
    fitted = clone(end_model)
    weights = _weights(fitted, targets[rows, classes])
    fitted.fit(batch.numpy(force=True)[rows], classes, **weights)
    return ClassifierModule(fitted, n_classes)


def _weights(classifier: Any, weights: FloatArray) -> dict[str, npt.NDArray[Any]]:
    """The argument of `fit` that weighs rows; none where all weigh the same."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if np.all(weights == 1):
        return {}
    last = classifier.steps[-1] if isinstance(classifier, Pipeline) else ("", classifier)
    if not has_fit_parameter(last[1], "sample_weight"):
        raise ParameterError(
            f"{type(last[1]).__name__} takes no sample_weight, so it cannot learn soft labels: "
            "use TwoStage(..., hard=True), or another classifier."
        )
    return {f"{last[0]}__sample_weight" if last[0] else "sample_weight": np.asarray(weights)}
