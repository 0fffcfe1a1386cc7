"""Votes on the command line: one file, a folder of files, a pattern, or annotations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from wiesel.io import VoteParts
    from wiesel.labels import LabelSpace
    from wiesel.votes import VoteMatrix

__all__ = ["VotePlace", "is_many", "votes_in"]

VotePlace = Annotated[
    Path,
    typer.Argument(
        help="Votes: a file, a folder, a 'pattern*.parquet', or a file of an annotation tool."
    ),
]


_MANY_ITEMS = 1_000_000
"""From this many items on, partial sums are stored, so that a killed command can resume."""


def is_many(path: Path) -> bool:
    """Whether a path is a folder of votes or a pattern, not a file or a model.

    >>> is_many(Path("votes-*.parquet")), is_many(Path("votes.parquet"))
    (True, False)
    """
    from wiesel.io.rows import is_pattern

    if path.is_dir():
        return not (path / "manifest.json").exists() and any(path.glob("*.parquet"))
    return is_pattern(path)


def votes_in(
    path: Path, labels: "LabelSpace | Sequence[str] | None" = None, id_column: str | None = None
) -> "VoteMatrix | VoteParts":
    """Return the votes of one file, or of many files, which are read part by part."""
    from wiesel.errors import VoteError
    from wiesel.io import VoteParts, read_annotations, read_votes
    from wiesel.io.annotation import is_annotation_file
    from wiesel.labels import LabelSpace

    if is_annotation_file(path):
        return read_annotations(path, labels=labels).votes
    if not is_many(path):
        return read_votes(path, labels=labels, id_column=id_column)
    parts = VoteParts(path)
    if parts.n_items >= _MANY_ITEMS:
        parts = VoteParts(path, keep=_place_for_sums(path))
    if labels is not None and LabelSpace.of(labels) != parts.labels:
        raise VoteError(f"These votes have {parts.labels!r}; expected {labels!r}.")
    return parts


def _place_for_sums(path: Path) -> Path | None:
    """Return a folder next to the vote files; None if it cannot be written to."""
    import os

    folder = path if path.is_dir() else path.parent
    return folder / ".sums" if os.access(folder, os.W_OK) else None
