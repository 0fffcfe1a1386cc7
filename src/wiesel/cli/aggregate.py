"""`wiesel aggregate`: labels and worker quality from crowd answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.annotation_files import (
    LabelSource,
    OutputFormat,
    Question,
    annotated_labels,
    describe_annotations,
    write_labels,
)
from wiesel.cli.project_options import LabelNames, Ordered, label_model_name
from wiesel.cli.verb import Answer, command_line, given_options, split_names, tell, verb
from wiesel.errors import DataError, ParameterError, listed

if TYPE_CHECKING:
    from wiesel.aggregate import Aggregation
    from wiesel.io import Annotations

__all__ = [
    "DEFAULT_METHOD",
    "AnswerColumn",
    "AnswerTable",
    "FeaturesOf",
    "KnownLabels",
    "LabelModelName",
    "TaskColumn",
    "WorkerColumn",
    "aggregate",
    "aggregated",
]

FeaturesOf = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="What is known of the items: a column of the answers, such as text, or a file with a "
        "row for each item, or X.npy if items are row numbers.",
    ),
]

AnswerTable = Annotated[
    Path, typer.Argument(help="A table with one row for each answer, or a file of a tool.")
]
LabelModelName = Annotated[
    str, typer.Option(help="A label model.", autocompletion=label_model_name)
]
TaskColumn = Annotated[str | None, typer.Option(help="The column of tasks.")]
WorkerColumn = Annotated[str | None, typer.Option(help="The column of workers.")]
AnswerColumn = Annotated[str | None, typer.Option(help="The column of answers.")]
KnownLabels = Annotated[
    Path | None, typer.Option(help="Known labels, from which confidences are calibrated.")
]

DEFAULT_METHOD = "dawid_skene"

_MISTAKES = 10
_CLASSES = ("true", "answered")


@verb
def aggregate(  # noqa: PLR0913 - a command has an argument for each option
    answers: AnswerTable,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the labels here.")
    ] = None,
    method: LabelModelName = DEFAULT_METHOD,
    item: TaskColumn = None,
    worker: WorkerColumn = None,
    label: AnswerColumn = None,
    labels: LabelNames = None,
    ordered: Ordered = False,
    repeated: Annotated[
        str,
        typer.Option(
            help="Which of a worker's answers to a task count: all, last, first or refuse."
        ),
    ] = "all",
    gold: KnownLabels = None,
    features: FeaturesOf = None,
    seconds: Annotated[
        str | None, typer.Option(help="The column of how long an answer took.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="The column of when an answer was given.")
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Numbers instead of the workers' names.")
    ] = False,
    workers: Annotated[Path | None, typer.Option(help="Write the table of workers here.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write an HTML report here.")] = None,
    question: Question = None,
    output_format: OutputFormat = None,
) -> Answer:
    """Turn crowd answers into labels, and rank the workers.

    Answers are a table, or a JSON or JSONL file of Label Studio, doccano, Prodigy or Argilla, whose
    annotators and model versions are workers. Labels go back there with --format.
    """
    from wiesel.io import read_rows, write_rows
    from wiesel.io.rows import refuse_overwriting

    refuse_overwriting([answers], output, workers, html)
    given = given_options(
        method=None if method == DEFAULT_METHOD else method,
        item=item,
        worker=worker,
        label=label,
        labels=labels,
        ordered=ordered,
        repeated=None if repeated == "all" else repeated,
        gold=gold,
        features=features,
        seconds=seconds,
        time=time,
        anonymous=anonymous,
        question=question,
        format=output_format,
    )
    annotations, found = aggregated(
        answers,
        (item, worker, label),
        labels,
        ordered,
        question,
        method=method,
        repeated=repeated,
        gold=None if gold is None else read_rows(gold),
        features=features,
        seconds=seconds,
        time=time,
    )
    found = found.anonymous() if anonymous else found
    written: dict[str, Path] = {}
    if output is not None:
        if annotations is not None and (output_format or output.suffix == ".json"):
            source = _without_ties(annotations, found)
            write_labels(output, output_format or annotations.tool, source)
        elif output_format is not None:
            raise ParameterError("--format needs answers in a file of an annotation tool.")
        else:
            write_rows(found.label_frame, output)
        written["labels"] = output
    if workers is not None:
        write_rows(_flat(found), workers)
        written["workers"] = workers
    if html is not None:
        from wiesel.report.crowd import write_crowd_report

        write_crowd_report(found, html, f"Answers in {answers.name}")
        written["report"] = html
    for what, path in written.items():
        tell(f"Wrote the {what} to {path}")
    return Answer(_data(found, output is None), _text(found), _next(answers, given, written))


def aggregated(
    answers: Path,
    columns: tuple[str | None, str | None, str | None],
    labels: str | None,
    ordered: bool,
    question: str | None,
    features: str | None = None,
    **options: Any,
) -> "tuple[Annotations | None, Aggregation]":
    """Return the aggregated answers of a table or of a file of a tool, and what the tool wrote."""
    from wiesel.aggregate import aggregate as aggregate_answers
    from wiesel.io import explained, read_rows
    from wiesel.io.annotation import is_annotation_file
    from wiesel.labels import LabelSpace

    annotations, names = None, split_names(labels)
    if is_annotation_file(answers):
        annotations = describe_annotations(answers, names, question)
        names = list(annotations.votes.labels)
        ordered = ordered or annotations.rating
        rows = annotations.votes.to_long().rename({"item": "id"})
        columns = ("id", "voter", "label")
    else:
        rows = read_rows(answers)
    item, worker, label = columns
    space = None if names is None else LabelSpace(*names, ordered=ordered)
    options |= {"item": item, "worker": worker, "label": label, "ordered": ordered}
    if features is not None:
        options["features"] = _features(features, rows.columns)
    with explained(answers):
        return annotations, aggregate_answers(rows, labels=space, **options)


def _features(given: str, columns: list[str]) -> Any:
    """A column of the answers, or what a file holds."""
    from wiesel.io import read_rows
    from wiesel.io.files import read_array

    if given in columns:
        return given
    if not Path(given).exists():
        raise DataError(
            f"--features {given}: there is neither such a file nor such a column of the answers, "
            f"which have {listed(columns)}."
        )
    return read_array(Path(given)) if given.endswith(".npy") else read_rows(Path(given))


def _without_ties(annotations: "Annotations", found: "Aggregation") -> LabelSource:
    """Return the labels for the tool; its format has no room for a tie."""
    is_tie = found.votes.covered & ~found.labeled
    if is_tie.any():
        tell(f"Left out because their votes are tied: {int(is_tie.sum()):,} items.")
    return annotated_labels(annotations, found.votes[~is_tie], found.decided_proba[~is_tie])


def _flat(found: "Aggregation") -> Any:
    import polars as pl

    return found.worker_table.frame.with_columns(pl.col("copy_of").list.join(", "))


def _data(found: "Aggregation", with_labels: bool) -> dict[str, Any]:
    votes = found.votes
    data: dict[str, Any] = {
        "method": type(found.model).__name__,
        "columns": found.columns._asdict(),
        "n_items": votes.n_items,
        "n_workers": votes.n_voters,
        "n_answers": found.n_answers,
        "n_repeated": found.n_repeated,
        "n_incomplete": found.n_incomplete,
        "n_rejected": found.n_rejected,
        "calibration": None if found.calibration is None else found.calibration._asdict(),
        "notes": found.notes(),
        "agreement": found.agreement.to_record(),
        "class_shares": found.class_shares(),
        "workers": found.worker_table.to_records(),
        "mistakes": found.mistake_frame.to_dicts(),
        "groups": _groups(found),
    }
    return {**data, "labels": found.label_frame.to_dicts()} if with_labels else data


def _groups(found: "Aggregation") -> list[dict[str, Any]]:
    names = found.votes.labels.names
    return [
        {**row, **{key: None if row[key] is None else names[row[key]] for key in _CLASSES}}
        for row in found.groups.to_dicts()
    ]


def _text(found: "Aggregation") -> str:
    mistakes = found.mistake_frame.head(_MISTAKES)
    lines = [
        f"  {row['worker']} answered {row['answered']} for {row['true']}: about "
        f"{row['times']:.0f} times, {100 * row['share']:.0f} % of that class"
        for row in mistakes.iter_rows(named=True)
    ]
    from wiesel.analysis.table import telling_rest

    head = "Commonest mistakes:" if lines else "No mistakes stand out."
    with telling_rest(", shown with --html"):
        return "\n".join([str(found), "", head, *lines])


def _next(answers: Path, given: list[str], written: dict[str, Path]) -> str:
    """Return the same command with the next output."""
    output = written.get("labels", Path("labels.csv"))
    step = command_line("wiesel", "aggregate", answers, *given, "-o", output)
    if "labels" not in written:
        return step
    return "" if "report" in written else f"{step} --html crowd.html"
