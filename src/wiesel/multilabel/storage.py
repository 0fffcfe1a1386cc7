"""Saves multi-label models as folders of data, and loads them."""

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from wiesel.end_to_end.checks import MODULE_ERRORS
from wiesel.end_to_end.restoring import refuse_nan
from wiesel.end_to_end.storage import HISTORY, WEIGHTS, Saved, stored_weights
from wiesel.errors import SavedModelError, WieselError, suggest
from wiesel.label_models import LabelModel
from wiesel.label_models.storage import (
    fitted_label_model,
    label_model_arrays,
    label_model_values,
    unfitted_label_model,
)
from wiesel.multilabel.committee import MultiLabelCommittee
from wiesel.multilabel.label_models import PerLabel
from wiesel.multilabel.space import MultiLabelSpace
from wiesel.multilabel.training import MultiLabelModel
from wiesel.multilabel.two_stage import MultiLabelTwoStage
from wiesel.multilabel.weasel import EncoderSizes, MultiLabelWeaSEL, build_encoder
from wiesel.nn.names import module_spec
from wiesel.nn.shapes import shapes_only
from wiesel.parameters import Parameterized, check_number
from wiesel.saving import decoded, encoded, read_json, write_folder
from wiesel.training import History
from wiesel.version import __version__

__all__ = [
    "KIND",
    "METHODS",
    "multilabel_contents",
    "restore_multilabel",
    "save_multilabel",
    "save_per_label",
]

KIND = "multilabel"
"""The kind of model in the manifest of such a folder."""
METHODS: dict[str, type[MultiLabelModel]] = {
    "MultiLabelCommittee": MultiLabelCommittee,
    "MultiLabelTwoStage": MultiLabelTwoStage,
    "MultiLabelWeaSEL": MultiLabelWeaSEL,
}
_LARGEST = 2**20
"""The most voters or features that an encoder may have."""


def save_per_label(model: PerLabel, path: str | Path) -> None:
    """Write the fitted label models of all labels as one folder."""
    stored = label_model_values(model.label_model)
    manifest, files = _label_models(model.models_)
    write_folder(path, {**_about(model), "label_model": stored, "label_models": manifest}, files)


def save_multilabel(model: MultiLabelModel, path: str | Path) -> None:
    """Write a fitted model: manifest, weights, label models and history."""
    write_folder(path, *multilabel_contents(model))


def multilabel_contents(model: MultiLabelModel) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the contents of a saved model: the manifest, and the other files.

    A member has the files of a separate model, with a prefix (`member2.`).
    """
    options = model.get_params(deep=False)
    left_out = ("end_model", "checkpoint", *model.stored_options)
    manifest = {
        **_about(model),
        "parameters": encoded({k: v for k, v in options.items() if k not in left_out}),
        "thresholds": encoded(model.thresholds_),
        "calibration": encoded(model.calibration_),
        # JSON has no NaN: unknown values are null.
        "balance": [None if np.isnan(p) else float(p) for p in model.balance_],
        "selection": encoded(model.selection_),
    }
    files = {HISTORY: json.dumps(model.history_.to_dict()).encode()}
    if not model.members_:
        more, own_files = _networks(model)
        return {**manifest, **more}, {**files, **own_files}
    if isinstance(model, MultiLabelCommittee):
        manifest["member_weights"] = encoded(model.member_weights_)
        manifest["copies"] = model.copies_
    manifest["members"] = []
    for number, member in enumerate(model.members_):
        own, own_files = multilabel_contents(member)
        manifest["members"].append(own)
        files |= {f"member{number}.{name}": content for name, content in own_files.items()}
    return manifest, files


def _networks(model: MultiLabelModel) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The entries that only one of the methods with networks has, and the weights."""
    manifest: dict[str, Any] = {"modules": {"end_model": encoded(module_spec(model.end_model_))}}
    modules = {"end_model": model.end_model_}
    if isinstance(model, MultiLabelWeaSEL):
        modules["encoder"] = model.encoder_.network
        models, arrays = _label_models(model.one_sided_)
        manifest |= {
            "start": label_model_values(model.start),
            "sizes": asdict(model.sizes_),
            "voters_on": {label: list(own) for label, own in model.voters_on_.items()},
        }
    else:
        two_stage: MultiLabelTwoStage = model  # type: ignore[assignment]
        models, arrays = _label_models(two_stage.label_models_)
        manifest["label_model"] = label_model_values(two_stage.label_model)
    manifest["label_models"] = models
    return manifest, {**arrays, WEIGHTS: stored_weights(modules)}


def restore_multilabel(
    manifest: dict[str, Any], files: dict[str, bytes], end_model: nn.Module | None = None
) -> Any:
    """Return the fitted model that a folder describes; no stored code is run."""
    try:
        if manifest["class"] == "PerLabel":
            return _per_label(manifest, files)
        return _model(Saved(manifest, files, {"end_model": end_model}))
    except SavedModelError:
        raise
    # An edited manifest can be wrong in any way.
    except (WieselError, *MODULE_ERRORS) as error:
        raise SavedModelError(f"The saved model is inconsistent: {error!r}.") from error


def _about(model: Parameterized) -> dict[str, Any]:
    owner: Any = model
    return {
        "wiesel": __version__,
        "torch": torch.__version__,
        "kind": KIND,
        "class": type(model).__name__,
        "labels": list(owner.labels_.names),
        "voters": list(owner.voters_),
    }


def _label_models(
    models: Mapping[str, LabelModel],
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The values of fitted label models by label, and their arrays as files."""
    values = {label: label_model_values(model) for label, model in models.items()}
    files = {
        f"label{place}.safetensors": label_model_arrays(model)
        for place, model in enumerate(models.values())
    }
    return values, files


def _restored_models(manifest: dict[str, Any], files: dict[str, bytes]) -> dict[str, LabelModel]:
    labels, voters = MultiLabelSpace(*manifest["labels"]), set(manifest["voters"])
    found = {}
    for place, (label, values) in enumerate(manifest["label_models"].items()):
        model = fitted_label_model(values, files[f"label{place}.safetensors"])
        if model.labels_ != labels.binary(label) or not voters.issuperset(model.voters_):
            raise SavedModelError(
                f"The label model of {label!r} belongs to another label or other voters."
            )
        found[label] = model
    return found


def _per_label(manifest: dict[str, Any], files: dict[str, bytes]) -> PerLabel:
    model = PerLabel(unfitted_label_model(manifest["label_model"]))
    model.labels_ = MultiLabelSpace(*manifest["labels"])
    model.voters_ = tuple(manifest["voters"])
    model.models_ = _of_every_label(model.labels_, _restored_models(manifest, files))
    return model


def _of_every_label(
    labels: MultiLabelSpace, models: dict[str, LabelModel]
) -> dict[str, LabelModel]:
    if tuple(models) != labels.names:
        raise SavedModelError("The saved model lacks the label model of a label.")
    return models


def _model(saved: Saved) -> MultiLabelModel:
    manifest = saved.manifest
    name = manifest["class"]
    if name not in METHODS:
        raise SavedModelError(f"There is no multi-label method {name!r}. {suggest(name, METHODS)}")
    options = decoded(manifest["parameters"])
    options.pop("checkpoint", None)  # `fit` would write it: not where a stranger's model says
    cls = METHODS[name]
    if "members" in manifest:
        model = _of_members(cls, options, saved)
    else:
        model = _of_networks(cls, options, saved)
    model.history_ = History.from_dict(read_json(saved.files[HISTORY], HISTORY))
    model.selection_ = dict(decoded(manifest["selection"]))
    _restore_numbers(model, manifest)
    return model


def _of_networks(
    cls: type[MultiLabelModel], options: dict[str, Any], saved: Saved
) -> MultiLabelModel:
    manifest = saved.manifest
    own = "start" if cls is MultiLabelWeaSEL else "label_model"
    label_model = unfitted_label_model(manifest[own])
    blank = saved.blank("end_model", options["seed"])
    model = cls(**{**options, own: label_model, "end_model": blank})
    model.check_options()
    model.labels_ = MultiLabelSpace(*manifest["labels"])
    model.voters_, model.members_ = tuple(manifest["voters"]), ()
    model.end_model_ = saved.filled(blank, "end_model")
    models = _restored_models(manifest, saved.files)
    if isinstance(model, MultiLabelWeaSEL):
        _restore_encoder(model, saved)
        model.one_sided_ = models
    else:
        two_stage: MultiLabelTwoStage = model  # type: ignore[assignment]
        two_stage.label_models_ = _of_every_label(model.labels_, models)
    return model


def _of_members(
    cls: type[MultiLabelModel], options: dict[str, Any], saved: Saved
) -> MultiLabelModel:
    parts = saved.manifest["members"]
    if not isinstance(parts, list) or not parts:
        raise SavedModelError("The saved model should have members; it has none.")
    members = [
        _model(Saved(part, _below(saved.files, f"member{number}."), saved.modules))
        for number, part in enumerate(parts)
    ]
    labels, voters = tuple(saved.manifest["labels"]), tuple(saved.manifest["voters"])
    if any((own.labels_.names, own.voters_) != (labels, voters) for own in members):
        raise SavedModelError("The members of the saved model belong to other labels or voters.")
    if cls is MultiLabelCommittee:
        committee = MultiLabelCommittee(members[0].network, **options)
        committee.member_weights_ = _weights(saved.manifest, len(members))
        committee.copies_ = _copies(saved.manifest)
        model: MultiLabelModel = committee
        model.labels_, model.voters_ = members[0].labels_, members[0].voters_
    else:
        if any(type(own) is not cls for own in members):
            raise SavedModelError("The members of the saved ensemble belong to another method.")
        model = copy.copy(members[0]).set_params(members=options["members"])
    model.check_options()
    model.members_ = tuple(members)
    model.end_model_ = model.average()
    return model


def _weights(manifest: dict[str, Any], n_members: int) -> dict[str, Any]:
    """The weight of each member of a committee for each label."""
    weights = {
        name: np.asarray(own, dtype=np.float64)
        for name, own in decoded(manifest["member_weights"]).items()
    }
    shapes = {own.shape for own in weights.values()}
    if len(weights) != n_members or shapes != {(len(manifest["labels"]),)}:
        raise SavedModelError(
            "The weights of the saved committee belong to other members or labels."
        )
    table = np.stack(list(weights.values()))
    if not (np.isfinite(table).all() and (table >= 0).all() and table.any(axis=0).all()):
        raise SavedModelError("The weights of the saved committee are not shares.")
    return weights


def _copies(manifest: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Each label's copies, and the voters that they copy."""
    copies, voters = manifest["copies"], set(manifest["voters"])
    named = {name for own in copies.values() for pair in own.items() for name in pair}
    if not copies.keys() <= set(manifest["labels"]) or not named <= voters:
        raise SavedModelError("The copies of the saved committee are of other labels or voters.")
    return {label: dict(own) for label, own in copies.items()}


def _restore_numbers(model: MultiLabelModel, manifest: dict[str, Any]) -> None:
    """Restore thresholds, calibration and balance, each with one entry per label."""
    n_labels = len(model.labels_)
    given = [np.nan if p is None else p for p in manifest["balance"]]
    model.balance_ = np.array(given, dtype=np.float64)
    model.thresholds_ = np.asarray(decoded(manifest["thresholds"]), dtype=np.float64)
    model.calibration_ = np.asarray(decoded(manifest["calibration"]), dtype=np.float64)
    shapes = (model.balance_.shape, model.thresholds_.shape, model.calibration_.shape)
    if shapes != ((n_labels,), (n_labels,), (n_labels, 2)):
        raise SavedModelError("The saved thresholds do not fit the labels.")
    if not (np.isfinite(model.thresholds_).all() and np.isfinite(model.calibration_).all()):
        raise SavedModelError("The saved thresholds are not numbers.")
    if not (np.isnan(model.balance_) | ((model.balance_ > 0) & (model.balance_ < 1))).all():
        raise SavedModelError("The saved balance is not the share of items with each label.")


def _restore_encoder(model: MultiLabelWeaSEL, saved: Saved) -> None:
    """Rebuild the encoder and load its weights; memory is used only if its sizes fit them."""
    manifest = saved.manifest
    model.voters_on_ = {label: tuple(own) for label, own in manifest["voters_on"].items()}
    sizes = EncoderSizes(**manifest["sizes"])
    for name, size in asdict(sizes).items():
        check_number(sizes, name, size, low=0, high=_LARGEST, whole=True)
    fits = tuple(model.voters_on_) == model.labels_.names and sizes.n_labels == len(model.labels_)
    known = set(model.voters_)
    if not fits or not all(known.issuperset(own) for own in model.voters_on_.values()):
        raise SavedModelError("The saved encoder belongs to other labels or other voters.")
    if sizes.n_voters != max(map(len, model.voters_on_.values())):
        raise SavedModelError("The saved encoder has another number of voters.")
    with shapes_only():
        saved.check(build_encoder(model.encoder, sizes).network, "encoder")
    model.sizes_, model.encoder_ = sizes, build_encoder(model.encoder, sizes).eval()
    model.encoder_.network = saved.filled(model.encoder_.network, "encoder")
    refuse_nan(model.encoder_.network, model.encoder_.network.state_dict())


def _below(files: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {k.removeprefix(prefix): own for k, own in files.items() if k.startswith(prefix)}
