"""Saves span models as folders of data, and loads them."""

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from wiesel.end_to_end.checks import MODULE_ERRORS
from wiesel.end_to_end.restoring import refuse_nan
from wiesel.errors import SavedModelError, WieselError, suggest
from wiesel.label_models import LabelModel
from wiesel.label_models.storage import try_label_model
from wiesel.nn.shapes import shapes_only
from wiesel.registry import registered_classes
from wiesel.saving import decoded, encoded, read_folder, read_json, write_folder
from wiesel.spans.documents import Documents
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.tagger import BiLSTMTagger
from wiesel.spans.tags import SpanLabels
from wiesel.spans.training import SpanTagger, SpanTwoStage
from wiesel.spans.votes import TokenVotes
from wiesel.spans.weasel import SpanWeaSEL, TokenEncoder
from wiesel.spans.word_features import WordFeatures
from wiesel.training import History
from wiesel.version import __version__
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.parameters import Parameterized

__all__ = ["load_span_model", "restore_span_model", "save_span_model", "span_model_contents"]

_WEIGHTS, _ENCODER = "weights.safetensors", "encoder.safetensors"
_FEATURES, _HISTORY = "features.json", "history.json"
_TAGGERS: dict[str, type[SpanTagger]] = {"SpanTwoStage": SpanTwoStage, "SpanWeaSEL": SpanWeaSEL}
_NOT_VALUES = ("end_model", "features", "label_model", "start")
"""Options that are objects, stored separately from the others."""
_TRIED = ("Ada met Bob in 1843.", "")
"""Texts on which a loaded tagger is tried before it is returned."""


def save_span_model(model: "SpanTagger | HiddenMarkov", path: str | Path) -> None:
    """Write a fitted tagger or `HiddenMarkov` as a folder."""
    if isinstance(model, HiddenMarkov):
        write_folder(path, {"wiesel": __version__, "kind": "spans", **_values(model)}, {})
        return
    write_folder(path, *span_model_contents(model))


def span_model_contents(model: SpanTagger) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the contents of a saved tagger: the manifest, and the other files."""
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
    if isinstance(model, SpanWeaSEL):
        files[_ENCODER] = save(model.encoder_.state_dict())
    return manifest, files


def load_span_model(path: str | Path, end_model: nn.Module | None = None) -> Any:
    """Return the model that `save` wrote; no stored code is run.

    If the end model is your own module, `end_model` is a module with the trained architecture. A
    loaded tagger is ready to predict, to read votes (`soft_labels`) and to explain.
    """
    manifest, files = read_folder(path)
    if manifest.get("kind") != "spans":
        raise SavedModelError(f"{path} is not a span model; load it with wiesel.load_model.")
    return restore_span_model(path, manifest, files, end_model)


def restore_span_model(
    path: str | Path,
    manifest: dict[str, Any],
    files: dict[str, bytes],
    end_model: nn.Module | None = None,
) -> Any:
    """Return the model from the contents of a checked folder."""
    try:
        if manifest["class"] == "HiddenMarkov":
            return _restored(manifest)
        return _tried(_tagger(manifest, files, end_model), end_model is None)
    except SavedModelError:
        raise
    # An edited manifest can be wrong in any way.
    except (WieselError, *MODULE_ERRORS) as error:
        raise SavedModelError(f"The model at {path} is inconsistent: {error!r}.") from error


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
    elif isinstance(model, SpanWeaSEL):
        # One additional voter: the one of `TokenVotes.with_silence`.
        sizes = {"n_voters": len(model.voters_) + 1, "n_tags": len(model.labels_)}
        model.encoder_ = _built_in_network(
            TokenEncoder, {**sizes, "hidden": model.hidden}, files[_ENCODER]
        )
    model.end_model_ = _module(manifest, files[_WEIGHTS], model.features_, end_model)
    return model


def _module(
    manifest: dict[str, Any], weights: bytes, features: WordFeatures, end_model: nn.Module | None
) -> nn.Module:
    arguments = manifest["end_model"]
    if end_model is None and arguments is None:
        raise SavedModelError(
            "This model's end_model is a module of your own, which is not stored as code: "
            "load_span_model(path, end_model=net) needs a module of the same architecture."
        )
    if end_model is None:
        tagger = _built_in_network(BiLSTMTagger, decoded(arguments), weights)
        _check_numbers(tagger, features)
        return tagger
    return _filled(copy.deepcopy(end_model), _stored(weights))


def _check_numbers(tagger: BiLSTMTagger, features: WordFeatures) -> None:
    """Refuse a vocabulary with words for which the tagger has no row."""
    for name, n_rows in tagger.arguments["sizes"].items():
        if features.sizes.get(name, 0) > n_rows:
            raise SavedModelError(
                f"The saved {name} have numbers up to {features.sizes[name] - 1}; the tagger knows "
                f"{n_rows} of them."
            )


def _built_in_network(kind: type[nn.Module], arguments: dict[str, Any], weights: bytes) -> Any:
    """One of Wiesel's networks with its stored weights."""
    stored = _stored(weights)
    # The sizes are only numbers in a file: memory is used only if they fit the weights.
    with shapes_only():
        blank = kind(**arguments)
    shapes = {name: value.shape for name, value in blank.state_dict().items()}
    if shapes != {name: value.shape for name, value in stored.items()}:
        raise SavedModelError(f"The stored weights do not fit the sizes of the {kind.__name__}.")
    return _filled(kind(**arguments), stored)


def _stored(weights: bytes) -> dict[str, torch.Tensor]:
    try:
        return load(weights)
    except SafetensorError as error:
        raise SavedModelError(f"The stored weights cannot be read: {error}") from error


def _filled(module: nn.Module, stored: dict[str, torch.Tensor]) -> nn.Module:
    refuse_nan(module, stored)
    module.load_state_dict(stored)
    return module.eval()


def _tried(model: SpanTagger, ours: bool) -> SpanTagger:
    """Refuse a tagger that cannot predict; a user-defined network is not tried."""
    model.labels_ = SpanLabels.of_tags(model.labels_).tags
    documents = Documents.from_texts(_TRIED)
    n_voters, n_tags = len(model.voters_), len(model.labels_)
    cast = np.arange(documents.n_tokens * n_voters).reshape(-1, n_voters) % n_tags
    votes = TokenVotes(documents, VoteMatrix.from_dense(cast, model.labels_, model.voters_))
    if not np.isfinite(model.soft_labels(votes)).all():
        raise SavedModelError("The saved tagger gives NaN or infinity as soft labels.")
    if ours and not np.isfinite(model.predict_proba(documents)).all():
        raise SavedModelError("The saved tagger predicts NaN or infinity.")
    return model


def _values(model: "Parameterized") -> dict[str, Any]:
    """A label model as plain values."""
    learned = {name: getattr(model, name) for name in model.learned_names() if hasattr(model, name)}
    return {
        "class": type(model).__name__,
        "parameters": encoded(model.get_params(deep=False)),
        "learned": encoded(learned),
    }


def _restored(values: dict[str, Any]) -> Any:
    classes = {**registered_classes(LabelModel), "HiddenMarkov": HiddenMarkov}
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
    SpanLabels.of_tags(model.labels_)
    if isinstance(model, HiddenMarkov):
        _check_probabilities(model)
    else:
        try_label_model(model)
    return model


def _check_probabilities(model: HiddenMarkov) -> None:
    """Refuse voters without names, and arrays of the wrong shape or without probabilities."""
    if not all(isinstance(name, str) for name in (*model.voters_, *model.link_voters_)):
        raise SavedModelError("The stored voters are not names.")
    n_tags, n_voters, n_links = len(model.labels_), len(model.voters_), len(model.link_voters_)
    expected = {
        "start_": (n_tags,),
        "transitions_": (n_tags, n_tags),
        "confusions_": (n_voters, n_tags, n_tags + bool(model.silence_counts_)),
        "link_confusions_": (n_links, 2, 3),
    }
    for name, shape in expected.items():
        value = getattr(model, name)
        if name == "link_confusions_" and n_links == 0 and np.size(value) == 0:
            continue  # a file does not store the shape of an empty array
        if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype.kind != "f":
            raise SavedModelError(f"The stored {name} is not an array of the shape {shape}.")
        if not (value >= 0).all() or not np.allclose(value.sum(axis=-1), 1):
            raise SavedModelError(f"The rows of the stored {name} are not probabilities.")
