"""A scikit-learn classifier as the end model of `TwoStage`: soft labels become weighted rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.plan import FitPlan, GoldItems
from wiesel.errors import FeatureError, ParameterError, SavedModelError, listed
from wiesel.labels import FloatArray, checked_proba
from wiesel.nn.names import STORED_ESTIMATORS, stored_class
from wiesel.threads import one_thread

__all__ = [
    "CLASSIFIER",
    "ClassifierModule",
    "classifier_from_spec",
    "classifier_spec",
    "fit_classifier",
    "unfitted",
]

_LEAST_WEIGHT = 1e-6
_GOLD_ITEMS = 200
"""So many gold items weigh as much as all items with votes."""
CLASSIFIER = "classifier"
"""The name of this kind of end model in a saved model."""
_WIDTH = "n_features_in_"


class ClassifierModule(nn.Module):
    """A fitted classifier as a module: its log-probabilities are the logits.

    If the classifier can be stored, its learned attributes are also buffers. So they are saved and
    loaded like the weights of any other module.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.0], [1.0]], [0, 2])
    >>> ClassifierModule(fitted, n_classes=3)(torch.zeros(1, 1)).exp().numpy().round(1)
    array([[0.6, 0. , 0.4]])
    """

    def __init__(self, classifier: Any, n_classes: int) -> None:
        super().__init__()
        self.classifier = classifier
        self.n_classes = n_classes
        for name, array in _learned(classifier).items():
            self.register_buffer(name, torch.from_numpy(array))

    def forward(self, features: Tensor) -> Tensor:
        """Return log P(class) of a batch; a class absent from training gets almost zero."""
        proba = np.zeros((len(features), self.n_classes))
        known = np.asarray(self.classifier.classes_, dtype=np.int64)
        found = self.classifier.predict_proba(features.numpy(force=True))
        source = f"The probabilities by {type(self.classifier).__name__}"
        proba[:, known] = checked_proba(found, [str(k) for k in known], source, len(features))
        return torch.from_numpy(np.log(np.clip(proba, 1e-12, None)))

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Fill the buffers, and the classifier from them."""
        result = super().load_state_dict(*arguments, **options)
        steps = _steps(self.classifier)
        for name, buffer in self.named_buffers():
            place, _, attribute = name.partition("__")
            array = buffer.numpy(force=True)
            value = int(array) if attribute == _WIDTH else array.copy()
            setattr(steps[int(place)], attribute, value)
        classes = np.asarray(self.classifier.classes_)
        if not np.isin(classes, np.arange(self.n_classes)).all():
            raise SavedModelError(f"The stored classifier knows other classes: {classes!r:.60}.")
        return result


def fit_classifier(
    end_model: Any,
    plan: FitPlan,
    gold: GoldItems | None = None,
    left_out: npt.NDArray[np.int64] | None = None,
) -> ClassifierModule:
    """Return a fitted copy of a classifier, trained on soft labels and on gold labels.

    Every item becomes one row per possible class, weighted by the probability of the class. A gold
    item, unless it is among those `left_out`, weighs as much as one in 200 of all other items.
    """
    from sklearn.base import clone

    if not hasattr(end_model, "predict_proba"):
        raise ParameterError(
            f"{type(end_model).__name__} has no predict_proba, which an end model needs. Wrap it "
            "in CalibratedClassifierCV, or choose another classifier."
        )
    data = plan.data
    batch = data.inputs.take(data.items)
    if isinstance(batch, dict) or batch.ndim != 2:
        raise FeatureError("A scikit-learn classifier needs a plain feature vector for each item.")
    targets: FloatArray = plan.targets[data.items]  # type: ignore[index]
    rows, classes = np.nonzero(targets > _LEAST_WEIGHT)
    vectors, shares = batch.numpy(force=True)[rows], targets[rows, classes]
    if gold is not None:
        known: Any = gold.known
        kept = np.setdiff1d(np.arange(len(gold)), [] if left_out is None else left_out)
        vectors = np.concatenate([vectors, known.inputs.take(kept).numpy(force=True)])
        classes = np.concatenate([classes, np.asarray(known.gold)[kept]])
        worth = max(1.0, float(shares.sum()) / _GOLD_ITEMS)
        shares = np.concatenate([shares, np.full(len(kept), worth)])
    fitted = clone(end_model)
    weights = _weights(fitted, shares)
    with one_thread():
        fitted.fit(vectors, classes, **weights)
    return ClassifierModule(fitted, len(plan.labels))


def _weights(classifier: Any, weights: FloatArray) -> dict[str, npt.NDArray[Any]]:
    """The keyword arguments of `fit` with the row weights; none if all weights are equal."""
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


def classifier_spec(module: nn.Module) -> dict[str, Any] | None:
    """Return how to rebuild a classifier around its arrays; None for any other module."""
    if not isinstance(module, ClassifierModule):
        return None
    steps = _steps(module.classifier)
    names = [_name(step) for step in steps]
    if None in names:
        refused = type(steps[names.index(None)]).__name__
        raise SavedModelError(
            f"A {refused} cannot be saved as data; {listed(STORED_ESTIMATORS)} can, and pipelines "
            "of them. Or save end_model_.classifier with skops, and label_model_ with its own "
            "save()."
        )
    arguments = {
        "steps": [
            {"name": name, "options": step.get_params(deep=False)}
            for name, step in zip(names, steps, strict=True)
        ],
        "shapes": {name: list(buffer.shape) for name, buffer in module.named_buffers()},
        "whole": [name for name, buffer in module.named_buffers() if buffer.dtype == torch.int64],
        "n_classes": module.n_classes,
    }
    return {"name": CLASSIFIER, "arguments": arguments}


def classifier_from_spec(arguments: dict[str, Any]) -> ClassifierModule:
    """Return a module for the stored arrays; it can predict after `load_state_dict`."""
    steps = [stored_class(step["name"])(**step["options"]) for step in arguments["steps"]]
    module = ClassifierModule(_joined(steps), int(arguments["n_classes"]))
    for name, shape in arguments["shapes"].items():
        place, _, attribute = name.partition("__")
        if attribute not in (*STORED_ESTIMATORS[arguments["steps"][int(place)]["name"]], _WIDTH):
            raise SavedModelError(f"A stored classifier cannot have learned {name!r}.")
        kind = torch.int64 if name in arguments["whole"] else torch.float64
        module.register_buffer(name, torch.zeros(shape, dtype=kind))
    return module


def _joined(steps: list[Any]) -> Any:
    """The only step, or a pipeline of several."""
    from sklearn.pipeline import make_pipeline

    return steps[0] if len(steps) == 1 else make_pipeline(*steps)


def _steps(classifier: Any) -> list[Any]:
    from sklearn.pipeline import Pipeline

    if isinstance(classifier, Pipeline):
        return [step for _, step in classifier.steps]
    return [classifier]


def unfitted(end_model: nn.Module) -> Any:
    """Return the end model as the user gave it: the classifier, if the module wraps one."""
    if not isinstance(end_model, ClassifierModule):
        return end_model
    from sklearn.base import clone

    return clone(end_model.classifier)


def _name(estimator: Any) -> str | None:
    """The name of an estimator that can be stored; subclasses of one cannot."""
    cls = type(estimator)
    parts = cls.__module__.split(".")
    name = f"{parts[1]}.{cls.__name__}" if parts[0] == "sklearn" and len(parts) > 1 else ""
    return name if name in STORED_ESTIMATORS and stored_class(name) is cls else None


def _learned(classifier: Any) -> dict[str, npt.NDArray[Any]]:
    """The learned arrays of the steps, as integers and floats; empty for unfitted steps."""
    arrays = {}
    for place, step in enumerate(_steps(classifier)):
        for attribute in (*STORED_ESTIMATORS.get(_name(step) or "", ()), _WIDTH):
            value = getattr(step, attribute, None)
            if value is not None and _name(step) is not None:
                array = np.asarray(value)
                kind = np.int64 if array.dtype.kind in "iu" else np.float64
                arrays[f"{place}__{attribute}"] = np.array(array, dtype=kind)
    return arrays
