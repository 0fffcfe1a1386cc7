"""Checks of a stored model before it is used: limits on its size, and a trial prediction."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from wiesel.errors import FeatureError, SavedModelError, WieselError
from wiesel.training import as_inputs

if TYPE_CHECKING:
    from wiesel.end_to_end.base import EndToEndModel

__all__ = ["limited_parts", "refuse_nan", "tensor_count", "try_out"]

_PARTS_PER_TENSOR = 8
"""Allowance for tied and replaced parameters, created more than once, and empty modules."""
_FREE_PARTS = 200


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
