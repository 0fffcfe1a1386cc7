"""A fitted model as plain data, or as a network of torch alone: what an export writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.feature_reader import FeatureReader
from wiesel.end_to_end.sklearn_stage import ClassifierModule
from wiesel.errors import ParameterError
from wiesel.features import Standardizer, TabularFeatures, TextFeatures
from wiesel.nn import MLP, Linear
from wiesel.nn.end_models import Ensemble, logits_of
from wiesel.runtime import FORMAT
from wiesel.tasks import SeveralLabelsTask
from wiesel.tasks.presence import LabelEnsemble
from wiesel.training.inputs import Batchable, as_inputs
from wiesel.version import __version__

__all__ = ["Compiled", "compiled", "write_torch_program"]

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Compiled:
    """A model as data: a header for JSON, and arrays by name."""

    header: dict[str, Any]
    arrays: Arrays = field(repr=False)


def compiled(model: Any, reader: FeatureReader | None) -> Compiled:
    """Return a model as data; only linear models, perceptrons and averages of them can be."""
    arrays: Arrays = {}
    several = model.task_.kind == SeveralLabelsTask.kind
    inputs = _inputs(reader, arrays)
    networks: list[dict[str, Any]] = []
    _add_networks(model.end_model_, np.ones(len(model.labels_) if several else 1), networks, arrays)
    offsets = getattr(model.end_model_, "offsets", None)
    if isinstance(model.end_model_, Ensemble) and offsets is not None:
        arrays["offsets"] = np.asarray(offsets)
    if model.calibration_ is not None:
        arrays["calibration"] = np.asarray(model.calibration_)
    threshold = None if model.threshold_ is None else np.asarray(model.threshold_).tolist()
    header = {
        "format": FORMAT,
        "wiesel": __version__,
        "labels": list(model.labels_.names),
        "several": several,
        "threshold": threshold,
        "inputs": inputs,
        "networks": networks,
    }
    return Compiled(header, arrays)


def _inputs(reader: FeatureReader | None, arrays: Arrays) -> dict[str, Any]:
    """What the model reads; fitted values go into `arrays`."""
    features = None if reader is None else reader.features
    if reader and isinstance(features, TextFeatures) and features.weights_ is not None:
        weights = features.weights_
        arrays |= {"idf": weights.idf, "components": weights.components}
        _keep_scale(features.standardizer_, arrays)
        return {
            "kind": "text",
            "column": reader.column,
            "terms": list(weights.terms),
            "longest_phrase": features.longest_phrase,
        }
    if isinstance(features, TabularFeatures):
        _keep_scale(features.standardizer_, arrays)
        return {
            "kind": "tabular",
            "numeric": list(features.numeric),
            "incomplete": list(features.incomplete_),
            "categories": {name: list(known) for name, known in features.categories_.items()},
        }
    if isinstance(features, Standardizer):
        _keep_scale(features, arrays)
    return {"kind": "vectors"}


def _keep_scale(standardizer: Standardizer | None, arrays: Arrays) -> None:
    if standardizer is not None:
        arrays |= {"mean": standardizer.mean_, "scale": standardizer.scale_}


def _add_networks(
    module: nn.Module, weight: npt.NDArray[Any], networks: list[dict[str, Any]], arrays: Arrays
) -> None:
    """Add a network with its weight in the mean; of an average, its members."""
    if isinstance(module, (Ensemble, LabelEnsemble)):
        n_members = len(module.members)
        shares = np.full((n_members, 1), 1 / n_members)
        if isinstance(module.weights, Tensor):
            shares = module.weights.numpy(force=True)
        elif module.weights is not None:
            shares = np.array(module.weights)[:, None]
        for member, share in zip(module.members, shares, strict=True):
            if np.any(share > 0):
                _add_networks(member, weight * share, networks, arrays)
        return
    layers: list[dict[str, Any]] = []
    _add_layers(module, f"network{len(networks)}", layers, arrays)
    networks.append({"weight": weight.tolist(), "layers": layers})


def _add_layers(module: nn.Module, name: str, layers: list[dict[str, Any]], arrays: Arrays) -> None:
    module = getattr(module, {MLP: "layers", Linear: "layer"}.get(type(module), ""), module)
    if isinstance(module, nn.Sequential):
        for part in module:
            _add_layers(part, name, layers, arrays)
    elif isinstance(module, nn.Linear):
        _add_weights("linear", module.weight, module.bias, (name, layers, arrays))
    elif isinstance(module, nn.BatchNorm1d) and module.running_var is not None:
        _add_weights("scale", *_scale_of(module), (name, layers, arrays))
    elif isinstance(module, ClassifierModule) and hasattr(module, "0__coef_"):
        _add_classifier(module, (name, layers, arrays))
    elif type(module) in _ELEMENTWISE:
        layers.append({"kind": _ELEMENTWISE[type(module)]})
    elif not isinstance(module, (nn.Dropout, nn.Identity)):
        raise ParameterError(
            f"A network with a {type(module).__name__} cannot be written as .onnx or .npz: those "
            "hold Linear, MLP, logistic regression of scikit-learn, and Sequential of linear "
            "layers, BatchNorm1d, ReLU, Tanh and Sigmoid. Export it as .pt2 (torch.export)."
        )


_ELEMENTWISE: dict[type, str] = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
    nn.Flatten: "flatten",
}


def _scale_of(module: nn.BatchNorm1d) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The factor and the offset of each column, with the statistics of training."""
    factor = 1 / np.sqrt(module.running_var.numpy(force=True) + module.eps)  # type: ignore[union-attr]
    offset = -module.running_mean.numpy(force=True) * factor  # type: ignore[union-attr]
    if module.affine:
        own = module.weight.numpy(force=True)
        factor, offset = factor * own, offset * own + module.bias.numpy(force=True)
    return factor, offset


def _add_weights(kind: str, weight: Any, bias: Any, into: tuple[str, Any, Arrays]) -> None:
    name, layers, arrays = into
    layer = {"kind": kind}
    for part, values in (("weight", weight), ("bias", bias)):
        if values is not None:
            layer[part] = f"{name}.{len(layers)}.{part}"
            array = values.numpy(force=True) if isinstance(values, Tensor) else values
            arrays[layer[part]] = np.asarray(array, dtype=np.float32)
    layers.append(layer)


def _add_classifier(module: ClassifierModule, into: tuple[str, Any, Arrays]) -> None:
    """A linear classifier of scikit-learn as one layer; a class it has not seen gets almost 0."""
    classifier = module.classifier
    coefficients, intercept = classifier.coef_, classifier.intercept_
    if len(coefficients) == 1:  # the log-odds of the second of two classes
        coefficients = np.vstack([0 * coefficients, coefficients])
        intercept = np.array([0.0, intercept[0]])
    known = np.asarray(classifier.classes_, dtype=np.int64)
    if type(classifier).__name__ not in ("LogisticRegression", "LogisticRegressionCV") or (
        len(known) != module.n_classes
    ):
        raise ParameterError(
            f"This {type(classifier).__name__} cannot be exported: only logistic regression that "
            "has seen all classes can."
        )
    _add_weights("linear", coefficients, intercept, into)


def write_torch_program(
    model: Any, inputs: Any, path: Path
) -> tuple[npt.NDArray[Any], dict[str, str]]:
    """Write the network of a model with `torch.export`.

    Return the probabilities of the inputs by what was written, and the types of its inputs.
    """
    network = _Probabilities(model).eval()
    items = as_inputs(inputs)
    batch = items.take(np.arange(len(items)))
    # A size of 1 would be taken for a constant.
    example = items.take(np.zeros(2, dtype=np.int64))
    many = {0: torch.export.Dim("items", min=1)}
    is_dict = isinstance(example, dict)
    shapes = (dict.fromkeys(example, many),) if is_dict else (many,)
    with torch.no_grad():
        program = torch.export.export(network, (example,), dynamic_shapes=shapes)
        with path.open("wb") as file:
            torch.export.save(program, file)
        with path.open("rb") as file:
            found = torch.export.load(file).module()(batch).numpy()
    parts: Mapping[str, Tensor] = example if is_dict else {"inputs": example}  # type: ignore[assignment,dict-item]
    kinds = {name: f"{part.dtype} {['items', *part.shape[1:]]}" for name, part in parts.items()}
    return found, kinds


class _Probabilities(nn.Module):
    """The network of a model, with probabilities as its output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.network = model.end_model_
        self.several = model.task_.kind == SeveralLabelsTask.kind
        given = model.calibration_
        self.calibration = None if given is None else np.asarray(given).T.tolist()

    def forward(self, inputs: Batchable) -> Tensor:
        """Return P(class) of a batch."""
        logits = logits_of(self.network, inputs).double()
        if not self.several:
            return logits.softmax(dim=1)
        if self.calibration is not None:
            scale, offset = (logits.new_tensor(values) for values in self.calibration)
            logits = logits * scale + offset
        return logits.sigmoid()
