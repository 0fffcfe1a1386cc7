"""Shared by the verbs that use a saved model: loading it and reading its inputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.verb import command_line
from wiesel.errors import DataError, SavedModelError

if TYPE_CHECKING:
    from wiesel.project.bundle import Bundle

__all__ = [
    "EndModelName",
    "ModelFolder",
    "frame_and_inputs",
    "is_span_model",
    "load_named",
    "read_array",
]

ModelFolder = Annotated[Path, typer.Argument(help="The folder of a saved model.")]
EndModelName = Annotated[
    str | None,
    typer.Option("--end-model", help="For a network of your own: module:FILE.py:CLASS."),
]


def is_span_model(path: Path) -> bool:
    """Whether a folder contains a span model."""
    from wiesel.saving import read_manifest

    return path.is_dir() and "spans" in map(read_manifest(path).get, ("task", "kind"))


def load_named(
    model: Path, end_model: str | None, data: str | Path = "", *, taggers: bool = False
) -> "Bundle":
    """Return a saved model with its features; a custom network is built by name."""
    from wiesel.project.bundle import load_bundle
    from wiesel.saving import read_manifest

    manifest = read_manifest(model)
    if end_model is None:
        _refuse_unnamed(model, manifest)
        return load_bundle(model, taggers=taggers)
    network = named_network(manifest, end_model, data)
    return load_bundle(model, network, taggers=taggers)


def named_network(manifest: Mapping[str, Any], end_model: str, data: str | Path = "") -> Any:
    """Return an untrained network by name, with the sizes and options used in training."""
    import numpy as np

    from wiesel.nn.names import end_model_by_name

    shape = manifest.get("inputs", {}).get("shape", [])
    like: Any = np.zeros((1, *shape)) if shape else None
    if like is None and Path(data).suffix == ".npy":
        like = read_array(Path(data))
    options = manifest.get("end_model", {}).get("options", {})
    return end_model_by_name(end_model, like, len(manifest["labels"]), options=options)


def _refuse_unnamed(model: Path, manifest: Mapping[str, Any]) -> None:
    """Raise an error for a custom network that is not named: its code is not stored."""
    # A committee's networks belong to its members.
    while manifest.get("members"):
        manifest = {**manifest, "members": None, **manifest["members"][0]}
    modules = manifest.get("modules", {})
    if "end_model" not in modules or modules["end_model"] is not None:
        return
    name = manifest.get("end_model", {}).get("name", "module:FILE.py:CLASS")
    raise SavedModelError(
        f"The end model of {model} is a custom module, whose code is not stored. "
        f"If you trust that code, add {command_line('--end-model', name)}"
    )


def frame_and_inputs(bundle: "Bundle", data: Path) -> tuple[Any, Any]:
    """Return the rows of a file (None for an array) and the model inputs."""
    from wiesel.io import explained, read_rows

    if data.suffix == ".npy":
        return None, bundle.array_inputs(read_array(data))
    rows = read_rows(data)
    with explained(data):
        return rows, bundle.inputs(rows)


def read_array(path: Path) -> Any:
    """Return an array from a .npy file, memory-mapped."""
    import numpy as np

    from wiesel.io import existing_file

    file = existing_file(path)
    if file.suffix != ".npy":
        raise DataError(f"{path} is not a .npy file: write the array with numpy.save('X.npy', X).")
    try:
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError):
        # NumPy's own message recommends pickles, which can execute arbitrary code.
        raise DataError(
            f"{path} cannot be read as an array of numbers: it is truncated, not a .npy file, "
            "or holds Python objects. Write it with numpy.save('X.npy', X)."
        ) from None
