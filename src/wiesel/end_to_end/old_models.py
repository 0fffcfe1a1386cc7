"""Models saved before all kinds of tasks had one storage: their manifests in today's form."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from wiesel.errors import SavedModelError, suggest
from wiesel.label_models.base import ARRAYS, label_model_values
from wiesel.saving import decoded, encoded
from wiesel.spans import HiddenMarkov, SpanLabels
from wiesel.tasks import SeveralLabelsTask, SpansTask

__all__ = ["upgraded"]

_CLASSES = {
    "MultiLabelCommittee": "Committee",
    "MultiLabelTwoStage": "TwoStage",
    "MultiLabelWeaSEL": "WeaSEL",
}
_TAGGERS = {"SpanTwoStage": "TwoStage", "SpanWeaSEL": "WeaSEL"}
_REPLACED = (
    "kind",
    "thresholds",
    "balance",
    "sizes",
    "start",
    "voters_on",
    "label_model",
    "label_models",
)
"""Entries that have another name or place today."""


def upgraded(
    manifest: Mapping[str, Any], files: Mapping[str, bytes]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the contents of a folder of version 0.1, for several labels or spans, as of today."""
    try:
        if manifest.get("kind") == "spans":
            return _of_spans(manifest, files)
        return _upgraded(manifest, files)
    except SafetensorError as error:
        raise SavedModelError(f"The stored weights cannot be read: {error}") from error
    # An edited manifest can be wrong in any way.
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise SavedModelError(f"The saved model is inconsistent: {error!r}.") from error


def _upgraded(
    manifest: Mapping[str, Any], files: Mapping[str, bytes]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    name = manifest["class"]
    if name not in _CLASSES:
        raise SavedModelError(f"There is no multi-label method {name!r}. {suggest(name, _CLASSES)}")
    found = {
        **{key: value for key, value in manifest.items() if key not in _REPLACED},
        "class": _CLASSES[name],
        "task": SeveralLabelsTask.kind,
        "threshold": manifest["thresholds"],
        "calibration": manifest["calibration"],
        "trained_on": encoded({"fingerprint": ""}),
    }
    if "members" in manifest:
        return _with_members(manifest, found, files)
    found["modules"] = {"end_model": manifest["modules"]["end_model"]}
    if name == "MultiLabelWeaSEL":
        found["parameters"] = _without(manifest["parameters"], "calibrated")
        balance = [0.5 if p is None or math.isnan(p) else p for p in manifest["balance"]]
        found["modules"]["encoder"] = None
        learned = {
            "tau_1": 1.0,
            "class_balance": balance,
            "encoder_width": manifest["sizes"]["n_features"],
            "encoder_layers": None,
            "start": manifest["start"],
            "voters_on": manifest["voters_on"],
            "one_sided": manifest["label_models"],
        }
        arrays = {
            f"one_sided.safetensors.{place}": files[f"label{place}.safetensors"]
            for place in range(len(manifest["label_models"]))
        }
        files = {**files, **arrays}
    else:
        learned = {"label_model": {k: manifest[k] for k in ("label_model", "label_models")}}
    return {**found, "learned": encoded(learned)}, dict(files)


def _of_spans(
    manifest: Mapping[str, Any], files: Mapping[str, bytes]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The contents of a tagger, or of a label model of tokens."""
    name = manifest["class"]
    if name not in _TAGGERS:
        return _label_model(manifest)
    if manifest["end_model"] is None:
        raise SavedModelError(
            "This tagger has a network of your own, which reads the word numbers of version 0.1. "
            "Fit it again: today's networks read other numbers (wiesel.training.TokenInputs)."
        )
    labels = SpanLabels.of_tags(decoded(manifest["labels"]))
    vocabularies = json.loads(files["features.json"])["vocabularies"]
    arguments = {**decoded(manifest["end_model"]), "vocabularies": vocabularies}
    _check_numbers(arguments["sizes"], vocabularies)
    options = decoded(manifest["parameters"])
    history = json.loads(files["history.json"])
    found = {
        **{key: manifest[key] for key in ("wiesel", "voters")},
        "class": _TAGGERS[name],
        "task": SpansTask.kind,
        "labels": list(labels.names),
        "threshold": None,
        "calibration": None,
        "selection": encoded({"by": "last epoch", "epoch": len(history["records"])}),
        "trained_on": encoded({"fingerprint": ""}),
        "modules": {"end_model": encoded({"name": "BiLSTMTagger", "arguments": arguments})},
    }
    tagger = load(files["weights.safetensors"])
    tagger = load(files["weights.safetensors"])
    weights = {f"end_model/{key}": value for key, value in tagger.items()}
    kept = {"history.json": files["history.json"]}
    del options["length"]
    if name == "SpanTwoStage":
        values, arrays = _label_model(manifest["label_model"])
        learned: dict[str, Any] = {"label_model": values}
        kept["label_model.safetensors"] = arrays[ARRAYS]
    else:
        encoder = load(files["encoder.safetensors"])
        weights |= {k.replace("weigh.network.", "encoder/"): v for k, v in encoder.items()}
        options["encoder"] = options.pop("hidden")
        found["modules"]["encoder"] = None
        learned = {
            "tau_1": 1.0,
            "class_balance": None,
            "encoder_width": 0,
            "encoder_layers": None,
            "start": label_model_values(HiddenMarkov()),
            "voters_on": None,
        }
    found |= {"parameters": encoded(options), "learned": encoded(learned)}
    return found, {**kept, "weights.safetensors": save(weights)}


def _check_numbers(sizes: Mapping[str, int], vocabularies: Mapping[str, Any]) -> None:
    """Refuse a vocabulary with words for which the tagger has no row."""
    for view, words in vocabularies.items():
        if not all(isinstance(word, str) for word in words):
            raise SavedModelError("The saved vocabulary holds something that is not a word.")
        if len(words) + 2 > sizes[view]:
            raise SavedModelError(
                f"The saved {view} have numbers up to {len(words) + 1}; the tagger knows "
                f"{sizes[view]} of them."
            )


def _label_model(manifest: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The contents of a label model whose arrays were in its manifest."""
    learned = decoded(manifest["learned"])
    arrays = {
        name: np.ascontiguousarray(value)
        for name, value in learned.items()
        if isinstance(value, np.ndarray)
    }
    values = {name: encoded(value) for name, value in learned.items() if name not in arrays}
    found = {"class": manifest["class"], "parameters": manifest["parameters"], "learned": values}
    return found, {ARRAYS: save(arrays)}


def _with_members(
    manifest: Mapping[str, Any], found: dict[str, Any], files: Mapping[str, bytes]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The contents of an ensemble or a committee."""
    if not isinstance(manifest["members"], list):
        raise SavedModelError("The saved model should have members; it has none.")
    kept, parts = dict(files), []
    for number, part in enumerate(manifest["members"]):
        prefix = f"member{number}."
        below = {k.removeprefix(prefix): own for k, own in files.items() if k.startswith(prefix)}
        own, own_files = _upgraded(part, below)
        parts.append(own)
        kept |= {f"{prefix}{name}": content for name, content in own_files.items()}
    learned = {}
    if "member_weights" in manifest:
        # Members were its networks then; today they are methods.
        found["parameters"] = _without(manifest["parameters"], "members")
        learned = {
            "member_weights": decoded(manifest["member_weights"]),
            "copies": manifest["copies"],
            "own_members": False,
        }
    return {**found, "members": parts, "learned": encoded(learned)}, kept


def _without(parameters: Mapping[str, Any], option: str) -> Any:
    """Stored options without one that the method no longer has."""
    return encoded({k: v for k, v in decoded(parameters).items() if k != option})
