"""Files of votes and of annotation tools on the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from wiesel.cli.verb import tell
from wiesel.errors import DataError, ParameterError, suggest

if TYPE_CHECKING:
    import polars as pl

    from wiesel.io import Annotations, VoteParts
    from wiesel.labels import LabelSpace
    from wiesel.votes import VoteMatrix

__all__ = [
    "LabelSource",
    "OutputFormat",
    "Question",
    "VotePlace",
    "annotated_labels",
    "describe_annotations",
    "is_many",
    "labels_of_rows",
    "votes_in",
    "write_labels",
]

Question = Annotated[
    str | None, typer.Option(help="The question to read, if the file has several.")
]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        "--format", help="label_studio, doccano, prodigy, argilla or hugging_face; else a table."
    ),
]
VotePlace = Annotated[
    Path,
    typer.Argument(
        help="Votes: a file, a folder, a 'pattern*.parquet', or a file of an annotation tool."
    ),
]


_MANY_ITEMS = 1_000_000
"""From this many items on, partial sums are stored, so that a killed command can resume."""


class LabelSource(NamedTuple):
    """Soft labels and the rows they belong to."""

    rows: "pl.DataFrame"
    proba: Any
    labels: Sequence[str]
    question: str = "label"
    field: str = "text"
    rating: bool = False


def describe_annotations(
    path: Path, labels: Sequence[str] | None, question: str | None
) -> "Annotations":
    """Return the answers in a file, after reporting what was recognized."""
    from wiesel.io import read_annotations

    found = read_annotations(path, question=question, labels=labels)
    tell(
        f"Answers of {found.tool.replace('_', ' ').title()}: {found.votes.n_voters:,} annotators "
        f"and models answered {found.question!r}."
    )
    if found.n_ours:
        tell(f"Left out: {found.n_ours:,} predictions that Wiesel wrote, which are no answers.")
    return found


def annotated_labels(found: "Annotations", votes: "VoteMatrix", proba: Any) -> LabelSource:
    """Return the labels of the items in an annotation-tool file, for the same question."""
    source = labels_of_rows(found.rows, votes, proba)
    return source._replace(question=found.question, field=found.field, rating=found.rating)


def labels_of_rows(rows: "pl.DataFrame", votes: "VoteMatrix", proba: Any) -> LabelSource:
    """Return the labels of items with votes, joined with their rows by `id`."""
    import polars as pl

    if "id" not in rows.columns:
        raise DataError("The rows need a column 'id', as the votes have.")
    covered = votes.covered
    wanted = pl.DataFrame({"id": pl.Series(votes.ids.tolist()).cast(pl.String)})
    place = pl.DataFrame({"id": rows["id"].cast(pl.String)}).with_row_index("place")
    found = wanted.join(place, on="id", how="left", maintain_order="left")["place"]
    if found.null_count():
        missing = wanted["id"].filter(found.is_null())[0]
        raise DataError(f"The rows lack the item {missing!r}, which has votes.")
    left_out = int((~covered).sum())
    if left_out:
        tell(f"Left out because they have no votes: {left_out:,} items.")
    kept = rows[found.filter(pl.Series(covered)).to_list()]
    return LabelSource(kept, proba[covered], votes.labels.names)


def write_labels(output: Path, output_format: str, source: LabelSource) -> None:
    """Write soft labels for an annotation tool, or as a data set for the Hugging Face Hub."""
    from wiesel.io import TOOLS, soft_labeled_rows, write_hugging_face, write_predictions

    name = output_format.lower().replace("-", "_")
    if name == "hugging_face":
        rows = soft_labeled_rows(source.rows, source.proba, source.labels)
        write_hugging_face(output, rows, source.labels, title=output.name)
    elif name in TOOLS:
        write_predictions(
            output,
            source.rows,
            source.proba,
            source.labels,
            tool=name,
            question=source.question,
            field=source.field,
            rating=source.rating,
        )
    else:
        known = (*TOOLS, "hugging_face")
        raise ParameterError(f"There is no format {output_format!r}. {suggest(name, known)}")


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
