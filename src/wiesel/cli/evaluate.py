"""`wiesel evaluate`: the quality of a saved model on rows with gold labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.project_options import (
    EndModelName,
    ModelFolder,
    frame_and_inputs,
    is_span_model,
    load_named,
)
from wiesel.cli.verb import Answer, command_line, verb
from wiesel.errors import DataError, ParameterError, listed

if TYPE_CHECKING:
    from wiesel.evaluation import Comparison
    from wiesel.project.bundle import Bundle

__all__ = ["evaluate"]


@verb
def evaluate(
    model: ModelFolder,
    data: Annotated[Path, typer.Argument(help="A table with gold labels, or X.npy with --gold.")],
    label_column: Annotated[str, typer.Option(help="The column of gold labels.")] = "label",
    gold: Annotated[Path | None, typer.Option(help="Gold labels in the order of X.npy.")] = None,
    votes: Annotated[
        Path | None, typer.Option(help="Votes on the same items: reports covered items separately.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another model, to compare with on the same items.")
    ] = None,
    end_model: EndModelName = None,
) -> Answer:
    """Evaluate a saved model on gold labels."""
    step = command_line("wiesel", "inspect", model)
    if is_span_model(model):
        from wiesel.project.spans import evaluate_documents

        found = evaluate_documents(model, data)
        return Answer({"report": found.to_dict()}, str(found), step)
    from wiesel.evaluation import evaluate as evaluate_model
    from wiesel.evaluation import evaluate_proba
    from wiesel.io import explained, read_gold
    from wiesel.project.multilabel import gold_labels
    from wiesel.project.rows import with_ids
    from wiesel.tasks import SeveralLabelsTask

    bundle = load_named(model, end_model, data)
    rows, inputs = frame_and_inputs(bundle, data)
    if rows is not None and "id" in rows.columns:
        with explained(data):
            with_ids(rows, None)
    if bundle.model.task_.kind == SeveralLabelsTask.kind:
        if rows is None:
            raise ParameterError("A multi-label model is evaluated on a table with gold labels.")
        present = gold_labels(rows, label_column, bundle.labels)
        judged: Any = evaluate_model(bundle.model, inputs, present)
        return Answer({"report": judged.to_dict()}, str(judged), step)
    truth = read_gold(gold or data, bundle.labels, label_column=label_column)
    proba, threshold = bundle.model.predict_proba(inputs), bundle.model.threshold_
    covered = None if votes is None else _covered(votes, rows, len(proba), bundle.labels)
    report = evaluate_proba(proba, truth, bundle.labels, threshold=threshold, covered=covered)
    if against is None:
        return Answer({"report": report.to_dict()}, str(report), step)
    other = load_named(against, end_model, data)
    paired = _paired((bundle, proba), other, data, truth)
    text = f"{report}\n\nThe first is {model}, the second {against}.\n{paired}"
    return Answer({"report": report.to_dict(), "paired": paired.to_dict()}, text, step)


def _paired(first: tuple["Bundle", Any], other: "Bundle", data: Path, truth: Any) -> "Comparison":
    """Compare two models on the same items, with McNemar's test and intervals."""
    from wiesel.evaluation import compare_paired_proba

    bundle, proba = first
    if other.labels != bundle.labels:
        raise DataError(
            f"The models have different classes, {listed(bundle.labels)} and "
            f"{listed(other.labels)}: they cannot be compared."
        )
    _, inputs = frame_and_inputs(other, data)
    thresholds = (bundle.model.threshold_, other.model.threshold_)
    second = other.model.predict_proba(inputs)
    return compare_paired_proba(proba, second, truth, bundle.labels, thresholds=thresholds)


def _covered(path: Path, rows: Any, n_items: int, labels: Any) -> Any:
    """Return which items have a vote, matched by id if the rows have ids, else in order."""
    from wiesel.io import read_votes
    from wiesel.project.rows import places_of

    votes = read_votes(path, labels=labels)
    if rows is None or "id" not in rows.columns:
        if votes.n_items != n_items:
            raise DataError(
                f"{path} has votes on {votes.n_items} items and there are {n_items} rows without "
                "a column 'id' to match them by."
            )
        return votes.covered
    return votes.covered[places_of(rows["id"], votes.ids, path, "votes", "items")]
