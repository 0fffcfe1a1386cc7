"""Models saved before all kinds of tasks had one storage: their manifests in today's form."""

import math
from collections.abc import Mapping
from typing import Any

from wiesel.errors import SavedModelError, suggest
from wiesel.saving import decoded, encoded
from wiesel.tasks import SeveralLabelsTask

__all__ = ["upgraded"]

_CLASSES = {
    "MultiLabelCommittee": "Committee",
    "MultiLabelTwoStage": "TwoStage",
    "MultiLabelWeaSEL": "WeaSEL",
}
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
    """Return the contents of a folder of a multi-label model of version 0.1 as those of today."""
    try:
        return _upgraded(manifest, files)
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
