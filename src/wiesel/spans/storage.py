"""Models of spans as folders of data: what goes in, and how it comes back."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from wiesel.errors import SavedModelError, WieselError, suggest
from wiesel.label_models import REGISTRY, LabelModel
from wiesel.saving import decoded, encoded, read_folder, read_json, write_folder
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.tagger import BiLSTMTagger
from wiesel.spans.training import SpanTagger, SpanTwoStage, SpanWeaSEL
from wiesel.spans.word_features import WordFeatures
from wiesel.training import History
from wiesel.version import __version__

if TYPE_CHECKING:
    from wiesel.parameters import Parameterized

__all__ = ["load_span_model", "save_span_model"]

_WEIGHTS, _FEATURES, _HISTORY = "weights.safetensors", "features.json", "history.json"
_TAGGERS: dict[str, type[SpanTagger]] = {"SpanTwoStage": SpanTwoStage, "SpanWeaSEL": SpanWeaSEL}
_NOT_VALUES = ("end_model", "features", "label_model")
"""Options that are objects, stored beside the others."""


def save_span_model(model: "SpanTagger | HiddenMarkov", path: str | Path) -> None:
    """Write a fitted tagger or `HiddenMarkov` as a folder."""
    if isinstance(model, HiddenMarkov):
        write_folder(path, {"wiesel": __version__, "kind": "spans", **_values(model)}, {})
        return
    if not isinstance(model.features_, WordFeatures):
        raise SavedModelError("Only taggers on WordFeatures are stored; save the module yourself.")
    shipped = isinstance(model.end_model_, BiLSTMTagger)
    options = model.get_params(deep=False)
    manifest = {
        "wiesel": __version__,
        "kind": "spans",
        "class": type(model).__name__,
        "parameters": encoded({k: v for k, v in options.items() if k not in _NOT_VALUES}),
        "labels": encoded(model.labels_),
        "voters": list(model.voters_),
        "end_model": encoded(model.end_model_.arguments) if shipped else None,
    }
    if isinstance(model, SpanTwoStage):
        manifest["label_model"] = _values(model.label_model_)
    files = {
        _WEIGHTS: save(model.end_model_.state_dict()),
        _FEATURES: json.dumps(model.features_.to_dict(), ensure_ascii=False).encode(),
        _HISTORY: json.dumps(model.history_.to_dict()).encode(),
    }
    write_folder(path, manifest, files)


def load_span_model(path: str | Path, end_model: nn.Module | None = None) -> Any:
    """Return the model that `save` wrote; no stored code is run.

    `end_model` is a module of the architecture that was trained, where it was one of your own. A
    tagger comes back ready to predict; the encoder of `SpanWeaSEL` is not stored.
    """
    manifest, files = read_folder(path)
    if manifest.get("kind") != "spans":
        raise SavedModelError(f"{path} is no model of spans; load it with wiesel.load_model.")
    try:
        if manifest["class"] == "HiddenMarkov":
            return _restored(manifest)
        return _tagger(manifest, files, end_model)
    except SavedModelError:
        raise
    # What somebody wrote into a manifest can be wrong in every way.
    except (WieselError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise SavedModelError(f"The model at {path} does not fit together: {error!r}.") from error


def _tagger(
    manifest: dict[str, Any], files: dict[str, bytes], end_model: nn.Module | None
) -> SpanTagger:
    name = manifest["class"]
    if name not in _TAGGERS:
        raise SavedModelError(f"There is no tagger {name!r}. {suggest(name, _TAGGERS)}")
    model = _TAGGERS[name](**decoded(manifest["parameters"]))
    model.check_options()
    model.features_ = WordFeatures.from_dict(read_json(files[_FEATURES], _FEATURES))
    model.labels_, model.voters_ = decoded(manifest["labels"]), tuple(manifest["voters"])
    model.history_ = History.from_dict(read_json(files[_HISTORY], _HISTORY))
    if isinstance(model, SpanTwoStage):
        model.label_model_ = _restored(manifest["label_model"])
    model.end_model_ = _module(manifest, files[_WEIGHTS], end_model)
    return model


def _module(manifest: dict[str, Any], weights: bytes, end_model: nn.Module | None) -> nn.Module:
    arguments = manifest["end_model"]
    if end_model is None and arguments is None:
        raise SavedModelError(
            "This model's end_model is a module of your own, which is not stored as code: "
            "load_span_model(path, end_model=net) needs a module of the same architecture."
        )
    try:
        stored = load(weights)
    except SafetensorError as error:
        raise SavedModelError(f"The stored weights cannot be read: {error}") from error
    if end_model is not None:
        import copy

        module = copy.deepcopy(end_model)
    else:
        # The sizes are only numbers in a file: they take memory once they fit the weights.
        with torch.device("meta"):
            blank = BiLSTMTagger(**decoded(arguments))
        shapes = {name: value.shape for name, value in blank.state_dict().items()}
        if shapes != {name: value.shape for name, value in stored.items()}:
            raise SavedModelError("The stored weights do not fit the stored sizes of the tagger.")
        module = BiLSTMTagger(**decoded(arguments))
    module.load_state_dict(stored)
    return module.eval()


def _values(model: "Parameterized") -> dict[str, Any]:
    """A label model as plain values."""
    learned = {name: getattr(model, name) for name in model.learned_names() if hasattr(model, name)}
    return {
        "class": type(model).__name__,
        "parameters": encoded(model.get_params(deep=False)),
        "learned": encoded(learned),
    }


def _restored(values: dict[str, Any]) -> Any:
    classes: dict[str, type[LabelModel] | type[HiddenMarkov]] = {
        method.cls.__name__: method.cls for method in REGISTRY.values()
    }
    classes["HiddenMarkov"] = HiddenMarkov
    name = values["class"]
    if name not in classes:
        raise SavedModelError(f"There is no label model {name!r}. {suggest(name, classes)}")
    model: Any = classes[name](**decoded(values["parameters"]))
    model.check_options()
    learned = decoded(values["learned"])
    unknown = learned.keys() - set(model.learned_names())
    if unknown or "labels_" not in learned:
        raise SavedModelError(f"The stored values do not fit {name}: {sorted(unknown)}")
    for key, value in learned.items():
        setattr(model, key, value)
    return model
