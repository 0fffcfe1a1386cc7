"""`wiesel soft-labels`: the soft labels of a label model, as probabilities."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.annotation_files import (
    OutputFormat,
    Question,
    VotePlace,
    annotated_labels,
    describe_annotations,
    labels_of_rows,
    votes_in,
    write_labels,
)
from wiesel.cli.multilabel import write_soft_labels
from wiesel.cli.project_options import IdColumn
from wiesel.cli.verb import Answer, tell, verb
from wiesel.errors import ParameterError

if TYPE_CHECKING:
    from wiesel.io import Annotations, VoteParts
    from wiesel.label_models import LabelModel
    from wiesel.votes import VoteMatrix

__all__ = ["soft_labels"]


@verb
def soft_labels(
    model: Annotated[Path, typer.Argument(help="A label model that `wiesel fit` wrote.")],
    votes: VotePlace,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="A table to write; a folder for many files of votes."),
    ],
    output_format: OutputFormat = None,
    rows: Annotated[
        Path | None, typer.Option(help="The rows of the votes, by 'id', for --format.")
    ] = None,
    question: Question = None,
    id_column: IdColumn = None,
) -> Answer:
    """Write the soft labels of a label model.

    Soft labels are the probability of every class for every item. For votes in many files, one file
    of labels is written for each. An interrupted call resumes where it stopped.
    `--format` writes files for annotation tools and the Hugging Face Hub.
    """
    from wiesel.catalog import load_model
    from wiesel.io import VoteParts, write_rows, write_soft_label_parts
    from wiesel.io.annotation import is_annotation_file
    from wiesel.io.rows import refuse_overwriting
    from wiesel.io.vote_parts import soft_label_frame
    from wiesel.label_models import LabelModel
    from wiesel.multilabel import PerLabel

    refuse_overwriting([votes, rows], output)
    loaded = load_model(model)
    if isinstance(loaded, PerLabel):
        return write_soft_labels(loaded, votes, output, output_format)
    if not isinstance(loaded, LabelModel):
        raise ParameterError(
            f"{model} is a {type(loaded).__name__}, which reads features: use wiesel predict."
        )
    annotations = None
    if is_annotation_file(votes):
        annotations = describe_annotations(votes, loaded.labels_.names, question)
    source = (
        votes_in(votes, loaded.labels_.names, id_column)
        if annotations is None
        else annotations.votes
    )
    if output_format is not None:
        _write_for_tool(loaded, source, annotations, rows, (output, output_format))
    elif isinstance(source, VoteParts):
        _refuse_table(output)
        write_soft_label_parts(loaded, source, output, done=_show_progress)
    else:
        write_rows(soft_label_frame(loaded, source), output)
    tell(f"Wrote {output}.")
    text = f"{source.n_items:,} items, classes {', '.join(loaded.labels_)}."
    result = {"output": output, "n_items": source.n_items, "classes": list(loaded.labels_)}
    return Answer(result, text)


def _write_for_tool(
    model: "LabelModel",
    votes: "VoteMatrix | VoteParts",
    annotations: "Annotations | None",
    rows: Path | None,
    place: tuple[Path, str],
) -> None:
    from wiesel.io import read_rows
    from wiesel.votes import VoteMatrix

    whole = votes if isinstance(votes, VoteMatrix) else votes.read()
    proba = model.predict_proba(whole)
    if rows is not None:
        source = labels_of_rows(read_rows(rows), whole, proba)
    elif annotations is not None:
        source = annotated_labels(annotations, whole, proba)
    else:
        raise ParameterError("--format needs the items: name their table with --rows.")
    write_labels(*place, source)


def _refuse_table(output: Path) -> None:
    """Refuse the name of a table for a folder: other programs would try to open it as a file."""
    from wiesel.io.files import FORMATS

    if output.suffix.lower() in FORMATS and not output.is_dir():
        raise ParameterError(
            f"Votes in many files give one file of soft labels each: name a folder, such as "
            f"{output.with_suffix('')}, instead of {output}."
        )


def _show_progress(part: int, parts: int) -> None:
    if part == parts or part % 10 == 0:
        tell(f"{part:,} of {parts:,} files")
