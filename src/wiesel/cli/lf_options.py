"""Shared options of the verbs that run labeling functions, and the classes to vote for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.errors import ParameterError

if TYPE_CHECKING:
    from wiesel.labels import LabelSpace
    from wiesel.lfs.loading import LoadedLFs

__all__ = ["AllowedHosts", "AllowedKeys", "IdColumn", "LFFiles", "LabelNames", "classes_of"]

LFFiles = Annotated[list[Path], typer.Option("--lfs", help="A .py or .toml file; repeatable.")]
LabelNames = Annotated[
    str | None, typer.Option("--labels", help="The classes, in order: ham,spam.")
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A host that prompts in .toml files may send rows to."),
]
AllowedKeys = Annotated[
    list[str] | None,
    typer.Option("--allow-key", help="A variable, beside WIESEL_API_KEY, that holds their key."),
]
IdColumn = Annotated[str | None, typer.Option("--id", help="The column of item ids.")]


def classes_of(loaded: "LoadedLFs", names: list[str] | None) -> "LabelSpace":
    """Return the given classes, or else those named in the files."""
    from wiesel.labels import LabelSpace

    if names is not None:
        return LabelSpace(*names)
    if loaded.labels is not None:
        return loaded.labels
    seen = sorted({name for lf in loaded for name in lf.classes or ()})
    shown = ",".join(seen) if len(seen) > 1 else "ham,spam"
    raise ParameterError(
        "The classes and their order are not known: add --labels "
        f"{shown}, or a LabelSpace to the file of labeling functions."
    )
