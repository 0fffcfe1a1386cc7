"""Saving end-to-end models as folders of data files, and restoring them after checks."""

import copy
import json
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.nn.parameter import is_lazy

from wiesel.end_to_end.checks import MODULE_ERRORS
from wiesel.end_to_end.feature_reader import FeatureReader, restored_reader
from wiesel.end_to_end.fine_tuning import LearnedGold
from wiesel.end_to_end.sklearn_stage import (
    CLASSIFIER,
    classifier_from_spec,
    classifier_spec,
    unfitted,
)
from wiesel.errors import FeatureError, SavedModelError, WieselError, listed, suggest
from wiesel.io.files import code_block, code_span
from wiesel.labels import LabelSpace
from wiesel.nn.encoders import EncoderLayers
from wiesel.nn.end_models import shapes_only
from wiesel.nn.graph_encoder import GraphLayers
from wiesel.nn.names import module_from_spec, module_spec
from wiesel.parameters import Parameterized
from wiesel.registry import registered_classes
from wiesel.saving import decoded, encoded, read_json, write_folder
from wiesel.tasks import OneLabelTask, stored_task
from wiesel.training import History, as_inputs, seeded
from wiesel.version import __version__

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel
    from wiesel.end_to_end.feature_reader import FeatureReader

__all__ = [
    "Saved",
    "end_to_end_contents",
    "limited_parts",
    "model_card",
    "refuse_nan",
    "restore_end_to_end",
    "save_end_to_end",
    "stored_weights",
    "tensor_count",
    "try_out",
]

WEIGHTS = "weights.safetensors"
HISTORY = "history.json"
LOCAL_OPTION = "checkpoint"
"""An option that is a place on the machine that trains; it is not stored."""
_FORMER_OPTIONS = ("fold",)
"""Options that models of earlier versions have stored; they changed training alone."""
_NAMED = 5
"""The number of voters that a card names."""
_PARTS_PER_TENSOR = 8
"""Allowance for tied and replaced parameters, created more than once, and empty modules."""
_FREE_PARTS = 200


@dataclass(frozen=True)
class Saved:
    """A checked folder, and the user's modules to fill with its weights."""

    manifest: dict[str, Any]
    files: dict[str, bytes]
    modules: Mapping[str, nn.Module | None]

    @property
    def values(self) -> dict[str, Any]:
        """The method-specific learned values."""
        values: dict[str, Any] = decoded(self.manifest["learned"])
        return values

    @property
    def options(self) -> dict[str, Any]:
        """The options of the constructor, without those of the machine that trained the model.

        A checkpoint is a file that `fit` writes: a stranger's model must not choose its place.
        """
        found: dict[str, Any] = decoded(self.manifest["parameters"])
        left_out = (LOCAL_OPTION, *_FORMER_OPTIONS)
        return {name: value for name, value in found.items() if name not in left_out}

    def member(self, number: int) -> "Saved":
        """Return the part of an ensemble or a committee that is one member."""
        options = self.manifest["parameters"]
        of_ensemble = {"parameters": {**options, "members": 1, "seed": options["seed"] + number}}
        manifest = {**self.manifest, **of_ensemble, **self.manifest["members"][number]}
        prefix = f"member{number}."
        files = {
            name.removeprefix(prefix): content
            for name, content in self.files.items()
            if name.startswith(prefix)
        }
        return Saved(manifest, files, self.modules)

    def blank(self, name: str, seed: int) -> nn.Module:
        """Return an untrained module: the user's, or one built from the stored specification."""
        given, spec = self.modules.get(name), self.manifest["modules"].get(name)
        if given is not None:
            return given
        if spec is None:
            raise SavedModelError(
                f"This model's {name} is a module of your own, which is not stored as code: "
                f"load_model(path, {name}=net) needs a module of the same architecture."
            )
        # Sizes from a file are not trusted: memory is allocated only if they match the weights.
        with shapes_only(), limited_parts(tensor_count(self.files.get(WEIGHTS, b""))):
            self.check(_rebuilt(decoded(spec)), name)
        with seeded(seed):
            return _rebuilt(decoded(spec))

    def check(self, module: nn.Module, name: str) -> dict[str, Tensor]:
        """Return the weights stored under `name`; raise an error if they do not fit the module."""
        try:
            stored = load(self.files[WEIGHTS])
        except (KeyError, SafetensorError) as error:
            raise SavedModelError(f"The stored weights cannot be read: {error}") from error
        prefix = f"{name}/"
        weights = {k.removeprefix(prefix): v for k, v in stored.items() if k.startswith(prefix)}
        expected = module.state_dict()
        wrong = [
            f"{key}: stored {_shape(weights.get(key))}, the module has {_shape(expected.get(key))}"
            for key in sorted(weights.keys() | expected.keys())
            if _shape(weights.get(key)) != _shape(expected.get(key))
        ]
        if wrong:
            raise SavedModelError(
                f"The stored weights do not fit the {name}: {listed(wrong, limit=3)}. "
                "Give load_model a module of the architecture that was trained."
            )
        refuse_nan(module, weights)
        return weights

    def restored(self, build: Callable[[], nn.Module], name: str, seed: int) -> Any:
        """Return a trained module that a method builds itself.

        Sizes from a file are not trusted: memory is allocated only if they match the weights.
        """
        with shapes_only():
            self.check(build(), name)
        with seeded(seed):
            return self.filled(build(), name)

    def filled(self, module: nn.Module, name: str) -> nn.Module:
        """Return a copy of a module with the weights stored under `name`."""
        weights = self.check(module, name)
        network = copy.deepcopy(module)
        network.load_state_dict(weights)
        return network.eval()


def save_end_to_end(
    model: "EndToEndModel", path: str | Path, reader: FeatureReader | None = None
) -> None:
    """Write a fitted model: manifest, weights, history, a model card, and its features."""
    write_folder(path, *end_to_end_contents(model, reader))


def end_to_end_contents(
    model: "EndToEndModel", reader: FeatureReader | None = None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the other files of a saved model."""
    versions = {
        "wiesel": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    manifest, files = _described(model)
    note, more = ({}, {}) if reader is None else reader.contents(model)
    card = model_card(model, reader).encode()
    return {**versions, **manifest, **note}, {**files, **more, "CARD.md": card}


def _described(model: "EndToEndModel") -> tuple[dict[str, Any], dict[str, bytes]]:
    """A model and its members as a manifest and files."""
    manifest = {
        "class": type(model).__name__,
        "parameters": _parameters(model),
        "task": model.task_.kind,
        "labels": list(model.labels_.names),
        **({"ordered": True} if getattr(model.labels_, "ordered", False) else {}),
        "voters": list(model.voters_),
        "threshold": encoded(model.threshold_),
        "calibration": encoded(model.calibration_),
        "selection": encoded(model.selection_),
        "learned_gold": None if model.learned_gold_ is None else model.learned_gold_.to_dict(),
        "trained_on": encoded(model.trained_on_),
        "learned": encoded(model.saved_values()),
    }
    files = {HISTORY: json.dumps(model.history_.to_dict()).encode()}
    if not model.members_:
        modules = model.saved_modules()
        # Networks are rebuilt from these specifications; None for user modules.
        manifest["modules"] = {
            name: encoded(classifier_spec(module) or module_spec(module))
            for name, module in modules.items()
        }
        return manifest, {**files, WEIGHTS: stored_weights(modules), **model.saved_files()}
    manifest["members"] = []
    for number, member in enumerate(model.members_):
        own, own_files = _described(member)
        manifest["members"].append(own)
        files |= {f"member{number}.{name}": content for name, content in own_files.items()}
    return manifest, files


def restore_end_to_end(cls: "type[EndToEndModel]", saved: Saved) -> "EndToEndModel":
    """Return the fitted model that a folder describes."""
    try:
        model = _restored(cls, saved)
        model.reader_ = restored_reader(model, saved.manifest, saved.files)
        return model
    except SavedModelError:
        raise
    # A manifest that was edited by hand can be wrong in any way.
    except (WieselError, *MODULE_ERRORS) as error:
        raise SavedModelError(f"The saved model is inconsistent: {error!r}.") from error


def _restored(cls: "type[EndToEndModel]", saved: Saved) -> "EndToEndModel":
    if "members" in saved.manifest:
        return _restored_members(cls, saved)
    options = saved.options
    end_model = saved.blank("end_model", options["seed"])
    model = cls(**{**options, "end_model": unfitted(end_model), **cls.restored_options(saved)})
    model.check_options()
    model.labels_ = _labels(saved.manifest)
    model.voters_ = _names(saved.manifest["voters"])
    model.members_ = ()
    _restore_outcome(model, saved)
    model.end_model_ = saved.filled(end_model, "end_model")
    model.restore_learned(saved)
    if saved.modules.get("end_model") is None:
        try_out(model, decoded(saved.manifest["modules"]["end_model"]))
    return model


def _restored_members(cls: "type[EndToEndModel]", saved: Saved) -> "EndToEndModel":
    """A model made of several fitted models: an ensemble of one class, or a committee."""
    parts = saved.manifest["members"]
    if not isinstance(parts, list) or not parts:
        raise SavedModelError("The saved model should have members; it has none.")
    members = []
    for number, part in enumerate(parts):
        own = saved.member(number)
        if "members" not in part:
            own.manifest.pop("members", None)
        members.append(_restored(_class_named(own.manifest["class"]), own))
    model = cls.from_members(members, saved.options, saved)
    _restore_outcome(model, saved)
    return model


def _class_named(name: Any) -> "type[EndToEndModel]":
    from wiesel.end_to_end.base import EndToEndModel

    classes = registered_classes(EndToEndModel)
    if name not in classes:
        raise SavedModelError(f"There is no end-to-end method {name!r}. {suggest(name, classes)}")
    cls: type[EndToEndModel] = classes[name]
    return cls


def _restore_outcome(model: "EndToEndModel", saved: Saved) -> None:
    """Set the learned attributes that all methods have, except the networks."""
    manifest = saved.manifest
    model.threshold_ = model.task_.check_threshold(decoded(manifest["threshold"]))
    model.calibration_ = model.task_.check_calibration(decoded(manifest.get("calibration")))
    model.selection_ = _dict(decoded(manifest["selection"]))
    model.learned_gold_ = LearnedGold.from_dict(manifest.get("learned_gold"), model.task_)
    model.trained_on_ = _dict(decoded(manifest["trained_on"]))
    model.history_ = History.from_dict(read_json(saved.files[HISTORY], HISTORY))


def _labels(manifest: Mapping[str, Any]) -> LabelSpace:
    # Models saved before there were kinds of tasks have one label for each item.
    kind, ordered = manifest.get("task", OneLabelTask.kind), manifest.get("ordered", False)
    return stored_task(kind, manifest["labels"], ordered=ordered).labels


def _rebuilt(spec: dict[str, Any]) -> nn.Module:
    if spec.get("name") == CLASSIFIER:
        return classifier_from_spec(spec["arguments"])
    return module_from_spec(spec)


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise TypeError(f"expected a list of names, found {values!r:.60}")
    return tuple(values)


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {value!r:.60}")
    return value


def _shape(tensor: Tensor | None) -> str:
    if tensor is not None and is_lazy(tensor):
        return "a lazy layer (call the module once before load_model)"
    return "nothing" if tensor is None else str(tuple(tensor.shape))


def stored_weights(modules: Mapping[str, nn.Module]) -> bytes:
    """Return the weights of modules, by name, as the content of a safetensors file."""
    # The file format refuses shared memory, so tied weights are stored as separate copies.
    tensors = {
        f"{name}/{key}": value.detach().cpu().clone().contiguous()
        for name, module in modules.items()
        for key, value in module.state_dict().items()
    }
    return save(tensors)


def _parameters(model: "EndToEndModel") -> dict[str, Any]:
    """The options as data; end models and nested models are stored elsewhere."""
    options = model.get_params(deep=False)
    return {
        name: encoded(value)
        for name, value in options.items()
        if name not in ("end_model", LOCAL_OPTION) and not _stored_elsewhere(value)
    }


def _stored_elsewhere(value: Any) -> bool:
    """Whether an option is stored by the method itself: it holds networks or other models."""
    if isinstance(value, (list, tuple)):
        return any(_stored_elsewhere(part) for part in value)
    return isinstance(value, (nn.Module, Parameterized, EncoderLayers, GraphLayers))


def model_card(model: "EndToEndModel", reader: "FeatureReader | None" = None) -> str:
    """Return a short description of a fitted model in Markdown."""
    names = ", ".join(map(code_span, model.labels_))
    portable = copy.copy(model)
    portable.checkpoint = None  # a place on the machine that trained it
    lines = [
        f"# {type(model).__name__} model",
        "",
        f"Predicts {model.task_.kind} of {names}. Trained by Wiesel {__version__} on "
        f"{_n_items(model)} items{_source(model)}.",
        "",
        f"- Kept weights: epoch {_epochs(model)} of {len(model.history_)} ({_selection(model)}).",
        f"- Decision threshold: {_threshold(model)}.",
        *_gold(model),
        "",
        "## Options",
        "",
        code_block(repr(portable)),
        "",
        "## Use it",
        "",
        "```python",
        "from wiesel import load_model",
        "",
        'model = load_model("this-folder")  # end_model=net, if the network is your own',
        f"model.predict({_items(reader)})",
        "```",
        "",
    ]
    return "\n".join(lines)


def _n_items(model: "EndToEndModel") -> str:
    # Some models of earlier versions did not record it.
    known = model.trained_on_.get("items")
    return "an unknown number of" if known is None else f"{known:,}"


def _items(reader: "FeatureReader | None") -> str:
    """The inputs of the model, as an expression in the example code of the card."""
    if reader is None:
        return "X"
    return {"tabular": "table", "images": "pictures", "given": "X"}.get(reader.kind, "texts")


def _source(model: "EndToEndModel") -> str:
    if not model.voters_:
        return " with gold labels"
    named = ", ".join(map(code_span, model.voters_[:_NAMED]))
    more = f" and {len(model.voters_) - _NAMED:,} more" if len(model.voters_) > _NAMED else ""
    voters = f"{len(model.voters_):,} voters ({named}{more})"
    return f" and the votes of {voters}, without looking at their labels"


def _epochs(model: "EndToEndModel") -> str:
    kept = model.selection_["epoch"]
    # Every member of an ensemble has its own best epoch.
    return ", ".join(map(str, kept)) if isinstance(kept, list) else str(kept)


def _selection(model: "EndToEndModel") -> str:
    if "score" not in model.selection_:
        return "the last: there was no validation set"
    return f"best validation {model.selection_['by']}: {model.selection_['score']:.4f}"


def _gold(model: "EndToEndModel") -> list[str]:
    seen = model.selection_.get("trained_on_gold")
    if seen is None:
        return []
    sentence = f"The networks also learned from {seen['items']:,} gold labels"
    return [f"- {sentence}: evaluate the model on others."]


def _threshold(model: "EndToEndModel") -> str:
    if model.threshold_ is None:
        return "none, the most probable class is predicted"
    if np.ndim(model.threshold_):
        named = zip(model.labels_, model.threshold_, strict=True)
        return ", ".join(code_span(f"{name} {own:.4f}") for name, own in named)
    return f"{code_span(model.labels_.names[1])} from a probability of {model.threshold_:.4f}"


def tensor_count(content: bytes) -> int:
    """Return the number of tensors in the header of a safetensors file, without reading them."""
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
    except (ValueError, RecursionError) as error:
        raise SavedModelError(f"The stored weights cannot be read: {error}") from error
    return len(header) if isinstance(header, dict) else 0


@contextmanager
def limited_parts(n_tensors: int) -> Iterator[None]:
    """Refuse to build a network with far more parts than there are stored tensors.

    A few bytes in a manifest can request millions of layers.
    """
    limit, maker, made = _FREE_PARTS + _PARTS_PER_TENSOR * n_tensors, threading.get_ident(), 0

    def count(module: nn.Module, name: str, part: Any) -> None:
        nonlocal made
        if threading.get_ident() != maker:  # hooks hold for all threads
            return
        made += 1
        if made > limit:
            raise SavedModelError(
                f"The manifest describes a network of more than {limit:,} parts; the stored "
                f"weights are {n_tensors:,} tensors."
            )

    hooks = [
        register_module_parameter_registration_hook(count),
        register_module_module_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def refuse_nan(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not numbers; only a buffer may hold infinities, such as a mask."""
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    for name, value in weights.items():
        if not value.is_floating_point():
            continue
        if value.isnan().any() or (name in parameters and value.isinf().any()):
            raise SavedModelError(
                f"The stored weights {name!r} hold NaN or infinities: the model cannot predict."
            )


def try_out(model: "EndToEndModel", spec: Any) -> None:
    """Refuse a model that cannot predict, or predicts NaN; `spec` describes its end model.

    A user's own network is not tried, because its input format is unknown.
    """
    inputs = _inputs(spec, model) if isinstance(spec, dict) else None
    if inputs is None:
        return
    with np.errstate(all="ignore"):
        try:
            proba = model.predict_proba(inputs)
        except FeatureError as error:
            raise SavedModelError(f"The saved model cannot predict: {error}") from error
        answers = {"prediction": proba, "soft label": _soft_labels(model, inputs)}
    n_items = model.task_.n_rows(as_inputs(inputs))
    for what, found in answers.items():
        if found is None:
            continue
        try:
            model.task_.checked_proba(found, f"The saved model's {what}s", n_items)
        except FeatureError as error:
            raise SavedModelError(str(error)) from error


def _inputs(spec: Mapping[str, Any], model: "EndToEndModel") -> Any:
    """Items that an end model can read; None if its input format is unknown."""
    sizes, of_task = spec["arguments"], model.task_.sample_items()
    if of_task is not None:
        return of_task
    if spec["name"] in ("Linear", "MLP"):
        return _rows(int(sizes["n_features"]))
    if spec["name"] == "CNN":
        return np.zeros((2, int(sizes["channels"]), 8, 8), dtype=np.float32)
    if spec["name"] == "LSTM":
        return np.full((2, 3), min(1, int(sizes["vocabulary"]) - 1), dtype=np.int64)
    return None


def _rows(n_features: int) -> Any:
    """Vectors like standardized features: zeros, ones, and one with extreme values."""
    wild = np.where(np.arange(n_features) % 2, 3.0, -3.0)
    return np.stack([np.zeros(n_features), np.ones(n_features), wild]).astype(np.float32)


def _soft_labels(model: "EndToEndModel", inputs: Any) -> Any:
    """The soft labels for votes on these items; None if the method needs further inputs."""
    if not hasattr(model, "soft_labels") or not model.voters_:
        return None
    votes = model.task_.sample_votes(len(inputs), model.voters_)
    try:
        return model.soft_labels(inputs, votes)
    except WieselError:  # an encoder with features of its own
        return None
