"""The state of training, in one file that contains data and never code."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from wiesel.errors import SavedModelError
from wiesel.saving import read_json, write_file
from wiesel.training.history import History

__all__ = [
    "Checkpoint",
    "MemberProgress",
    "described",
    "progress_of",
    "read_checkpoint",
    "write_checkpoint",
]

_FORMAT = 3


@dataclass
class MemberProgress:
    """How far a network has come."""

    history: History = field(default_factory=History)
    best_score: float = -math.inf
    best_weights: dict[str, Tensor] | None = None
    stopped: bool = False
    """Whether patience ran out."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that training needs to continue."""

    weights: dict[str, Tensor]
    optimizer: dict[int, dict[str, Tensor]]
    """The optimizer's state for every parameter, by the parameter's index."""
    random_states: list[Tensor]
    """The state of each network's random number generator."""
    progress: list[MemberProgress]
    """How far each network has come: a single one, or the members of a stack."""
    averages: list[Tensor] = field(default_factory=list)
    """Running averages of the parameters; empty if there are none."""


def write_checkpoint(path: str | Path, checkpoint: Checkpoint, fingerprint: str) -> None:
    """Write the checkpoint; a crash leaves either the old file or the new one."""
    tensors = {f"weights/{name}": value for name, value in checkpoint.weights.items()}
    for number, progress in enumerate(checkpoint.progress):
        best = progress.best_weights or {}
        tensors |= {f"best/{number}/{name}": value for name, value in best.items()}
    for number, values in checkpoint.optimizer.items():
        tensors |= {f"optimizer/{number}/{name}": value for name, value in values.items()}
    tensors |= {f"average/{k}": value for k, value in enumerate(checkpoint.averages)}
    tensors["random_states"] = torch.stack(checkpoint.random_states)
    # Tied weights share memory, which the file format refuses: every tensor is written separately.
    tensors = {name: value.detach().clone().contiguous() for name, value in tensors.items()}
    about = json.dumps(
        {
            "format": _FORMAT,
            "fingerprint": fingerprint,
            "standings": [described(progress) for progress in checkpoint.progress],
        }
    )
    metadata = {"wiesel": about, "sha256": _digest(about, tensors)}
    write_file(path, save(tensors, metadata=metadata))


def read_checkpoint(path: str | Path, fingerprint: str) -> Checkpoint | None:
    """Return the checkpoint at `path`, or None if there is none yet."""
    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise SavedModelError(
            f"{path} is not a readable checkpoint ({error}). Delete it to start over."
        ) from error
    about = metadata.get("wiesel", "")
    if not about:
        raise SavedModelError(f"{path} is not a checkpoint; give the run a file of its own.")
    if metadata.get("sha256") != _digest(about, tensors):
        raise SavedModelError(
            f"The checkpoint {path} is damaged or was edited. Delete it to start over."
        )
    try:
        return _checkpoint(path, read_json(about.encode(), path), tensors, fingerprint)
    except (LookupError, TypeError, ValueError) as error:
        raise SavedModelError(
            f"The checkpoint {path} is inconsistent ({error!r}). Delete it to start over."
        ) from error


def _checkpoint(
    path: str | Path, about: dict[str, Any], tensors: dict[str, Tensor], fingerprint: str
) -> Checkpoint:
    if about["format"] != _FORMAT:
        raise SavedModelError(
            f"The checkpoint {path} has the format {about['format']!r}; this version reads format "
            f"{_FORMAT}. Delete it to start over."
        )
    if about["fingerprint"] != fingerprint:
        raise SavedModelError(
            f"The checkpoint {path} was made with other options or other data. Delete it to "
            "start over, "
            "or give the run a checkpoint of its own."
        )
    return Checkpoint(
        weights=_below(tensors, "weights/"),
        averages=[value for _, value in sorted(_below(tensors, "average/").items())],
        optimizer=_by_number(_below(tensors, "optimizer/")),
        # A generator does not accept views as its state.
        random_states=[state.clone() for state in tensors["random_states"]],
        progress=progress_of(about["standings"], _by_number(_below(tensors, "best/"))),
    )


def described(progress: MemberProgress) -> dict[str, Any]:
    """Return how far a network has come as JSON-compatible data, without its best weights."""
    return {
        "history": progress.history.to_dict(),
        "best_score": progress.best_score,
        "stopped": progress.stopped,
    }


def progress_of(
    about: list[Any], best: Mapping[int, dict[str, Tensor]] = MappingProxyType({})
) -> list[MemberProgress]:
    """Return the progress from the data of `described`, with each network's best weights."""
    return [
        MemberProgress(
            History.from_dict(one["history"]), one["best_score"], best.get(k), one["stopped"]
        )
        for k, one in enumerate(about)
    ]


def _digest(about: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy(force=True).tobytes())
    return digest.hexdigest()


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): value for k, value in tensors.items() if k.startswith(prefix)}


def _by_number(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = value
    return state
