"""What the verbs that use a saved model share: loading it, and reading what it predicts from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.errors import DataError

if TYPE_CHECKING:
    from wiesel.project.bundle import Bundle

__all__ = ["EndModelName", "ModelFolder", "frame_and_inputs", "load_named", "read_array"]

ModelFolder = Annotated[Path, typer.Argument(help="The folder of a saved model.")]
EndModelName = Annotated[
    str | None,
    typer.Option("--end-model", help="For a network of your own: module:FILE.py:CLASS."),
]


def load_named(model: Path, end_model: str | None, data: str | Path = "") -> "Bundle":
    """Return a saved model with its features; a network of the user's own is made by name."""
    from wiesel.project.bundle import load_bundle
    from wiesel.saving import read_manifest

    if end_model is None:
        return load_bundle(model)
    import numpy as np

    from wiesel.nn.names import end_model_by_name

    manifest = read_manifest(model)
    shape = manifest.get("inputs", {}).get("shape", [])
    like: Any = np.zeros((1, *shape)) if shape else None
    if like is None and Path(data).suffix == ".npy":
        like = read_array(Path(data))
    return load_bundle(model, end_model_by_name(end_model, like, len(manifest["labels"])))


def frame_and_inputs(bundle: "Bundle", data: Path) -> tuple[Any, Any]:
    """Return the rows of a file (None for an array) and what the model reads."""
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

    try:
        return np.load(existing_file(path), mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array of numbers: {error}.") from error
