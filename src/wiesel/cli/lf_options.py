"""Shared options of the verbs that run labeling functions, and the classes to vote for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.verb import split_names
from wiesel.errors import ParameterError

if TYPE_CHECKING:
    from wiesel.labels import LabelSpace
    from wiesel.lfs.loading import LoadedLFs

__all__ = [
    "AllowedHosts",
    "AllowedKeys",
    "IdColumn",
    "LFFiles",
    "LabelNames",
    "Ordered",
    "classes_of",
    "label_space",
]

LFFiles = Annotated[list[Path], typer.Option("--lfs", help="A .py or .toml file; repeatable.")]
LabelNames = Annotated[
    str | None, typer.Option("--labels", help="The classes, in order: ham,spam.")
]
Ordered = Annotated[
    bool, typer.Option("--ordered", help="The classes are ranks, from the lowest to the highest.")
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


def label_space(labels: str | None, ordered: bool = False) -> "LabelSpace | None":
    """Return the classes that --labels names; None if it is not given.

    >>> label_space("bad, good", ordered=True)
    LabelSpace('bad', 'good', ordered=True)
    """
    from wiesel.labels import LabelSpace

    names = split_names(labels)
    if names is not None:
        return LabelSpace(*names, ordered=ordered)
    if ordered:
        raise ParameterError(
            "--ordered needs the classes from the lowest to the highest: add --labels 1,2,3 with "
            "your own."
        )
    return None


def classes_of(loaded: "LoadedLFs", named: "LabelSpace | None") -> "LabelSpace":
    """Return the given classes, or else those named in the files."""
    if named is not None:
        return named
    if loaded.labels is not None:
        return loaded.labels
    seen = sorted({name for lf in loaded for name in lf.classes or ()})
    shown = ",".join(seen) if len(seen) > 1 else "ham,spam"
    raise ParameterError(
        "The classes and their order are not known: add --labels "
        f"{shown}, or a LabelSpace to the file of labeling functions."
    )
