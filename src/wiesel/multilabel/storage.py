"""Saves a `PerLabel`, the label models of all labels, as a folder of data, and loads it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiesel.errors import SavedModelError, WieselError
from wiesel.label_models import LabelModel
from wiesel.label_models.storage import (
    fitted_label_model,
    label_model_arrays,
    label_model_values,
    unfitted_label_model,
)
from wiesel.label_sets import MultiLabelSpace
from wiesel.saving import write_folder
from wiesel.version import __version__

if TYPE_CHECKING:
    from wiesel.multilabel.label_models import PerLabel

__all__ = ["label_models_contents", "restore_per_label", "restored_label_models", "save_per_label"]


def save_per_label(model: "PerLabel", path: str | Path) -> None:
    """Write the fitted label models of all labels as one folder."""
    values, files = label_models_contents(model)
    about = {
        "wiesel": __version__,
        "kind": "multilabel",
        "class": "PerLabel",
        "labels": list(model.labels_.names),
        "voters": list(model.voters_),
    }
    write_folder(path, {**about, **values}, files)


def label_models_contents(model: "PerLabel") -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the label model of every label as values, and their arrays as files."""
    values = {
        "label_model": label_model_values(model.label_model),
        "label_models": {name: label_model_values(own) for name, own in model.models_.items()},
    }
    files = {
        f"label{place}.safetensors": label_model_arrays(own)
        for place, own in enumerate(model.models_.values())
    }
    return values, files


def restore_per_label(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> "PerLabel":
    """Return the label models that a folder describes."""
    try:
        labels = MultiLabelSpace(*manifest["labels"])
        return restored_label_models(manifest, files, labels, tuple(manifest["voters"]))
    except SavedModelError:
        raise
    # An edited manifest can be wrong in any way.
    except (WieselError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SavedModelError(f"The saved model is inconsistent: {error!r}.") from error


def restored_label_models(
    values: Mapping[str, Any],
    files: Mapping[str, bytes],
    labels: MultiLabelSpace,
    voters: tuple[str, ...],
) -> "PerLabel":
    """Return the fitted label models of all labels, checked."""
    from wiesel.multilabel.label_models import PerLabel

    models: dict[str, LabelModel] = {}
    for place, (label, own) in enumerate(values["label_models"].items()):
        model = fitted_label_model(own, files[f"label{place}.safetensors"])
        if model.labels_ != labels.binary(label) or not {*model.voters_} <= {*voters}:
            raise SavedModelError(
                f"The label model of {label!r} belongs to another label or other voters."
            )
        models[label] = model
    if tuple(models) != labels.names:
        raise SavedModelError("The saved model lacks the label model of a label.")
    fitted = PerLabel(unfitted_label_model(values["label_model"]))
    fitted.labels_, fitted.voters_, fitted.models_ = labels, voters, models
    return fitted
