"""Annotation-tool files on the command line: answers in, soft labels out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from wiesel.cli.verb import tell
from wiesel.errors import DataError, ParameterError, suggest

if TYPE_CHECKING:
    import polars as pl

    from wiesel.io import Annotations
    from wiesel.votes import VoteMatrix

__all__ = [
    "LabelSource",
    "OutputFormat",
    "Question",
    "annotated_labels",
    "describe_annotations",
    "labels_of_rows",
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
