"""Lists all methods, and loads saved models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from wiesel import end_to_end, label_models, spans
from wiesel.end_to_end import EndToEndModel, evidence_models
from wiesel.end_to_end.old_models import upgraded
from wiesel.end_to_end.storage import Saved, restore_end_to_end
from wiesel.errors import ParameterError, SavedModelError, suggest
from wiesel.label_models import LabelModel
from wiesel.label_models.base import ARRAYS, fitted_label_model
from wiesel.multilabel.label_models import restore_per_label
from wiesel.registry import JoinedRegistries, Method, find_method, registered_classes
from wiesel.saving import read_folder

__all__ = ["METHODS", "load_model", "method", "restored"]

METHODS: Mapping[str, Method] = JoinedRegistries(
    label_models.REGISTRY, evidence_models.REGISTRY, spans.REGISTRY, end_to_end.REGISTRY
)
"""All methods by name: label models and end-to-end methods, including yours."""


def method(name: str) -> Method:
    """Return the method with this name.

    >>> method("majority_vote").cls.__name__
    'MajorityVote'
    """
    return find_method(METHODS, name)


def load_model(
    path: str | Path, end_model: nn.Module | None = None, encoder: nn.Module | None = None
) -> Any:
    """Return the fitted model saved at `path`; no stored code is run.

    Pass `end_model` (and `encoder`) if they are your own modules, with the trained architecture.
    Wiesel's modules need neither.

    >>> from tempfile import TemporaryDirectory
    >>> from wiesel import MajorityVote
    >>> with TemporaryDirectory() as folder:
    ...     MajorityVote(hard=True).fit(votes).save(f"{folder}/model")
    ...     load_model(f"{folder}/model")
    MajorityVote(hard=True, ties='split', seed=0)
    """
    return restored(path, *read_folder(path), end_model, encoder)


def restored(
    path: str | Path,
    manifest: dict[str, Any],
    files: dict[str, bytes],
    end_model: nn.Module | None = None,
    encoder: nn.Module | None = None,
) -> Any:
    """Return the fitted model of a folder that was read already, as `load_model` does."""
    for role, module in (("end_model", end_model), ("encoder", encoder)):
        if module is not None and not isinstance(module, nn.Module):
            raise ParameterError(f"{role} must be a torch.nn.Module; got {module!r:.60}.")
    if manifest.get("kind") == "multilabel" and manifest.get("class") == "PerLabel":
        return restore_per_label(manifest, files)
    if manifest.get("kind") in ("multilabel", "spans"):
        manifest, files = upgraded(manifest, files)
    cls = _class_of(path, manifest.get("class"))
    if issubclass(cls, LabelModel):
        return _label_model(manifest, files)
    if not issubclass(cls, EndToEndModel):
        raise SavedModelError(f"{path} holds a {cls.__name__}, which cannot be loaded.")
    modules = {"end_model": end_model, "encoder": encoder}
    return restore_end_to_end(cls, Saved(manifest, files, modules))


def _class_of(path: str | Path, name: Any) -> type:
    classes = registered_classes(object)
    if str(name) not in classes:
        raise SavedModelError(
            f"{path} holds an unknown kind of model, {name!r}. {suggest(name, classes)} A method "
            "that is not Wiesel's own must be installed, or registered with wiesel.register."
        )
    return classes[str(name)]


def _label_model(manifest: dict[str, Any], files: dict[str, bytes]) -> LabelModel:
    if ARRAYS not in files:
        raise SavedModelError(f"The saved label model is incomplete: it has no {ARRAYS}.")
    return fitted_label_model(manifest, files[ARRAYS])
