"""`wiesel evaluate`: the quality of a saved model on rows with gold labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.project_options import (
    EndModelName,
    ModelFolder,
    load_named,
)
from wiesel.cli.verb import Answer, command_line, verb
from wiesel.errors import DataError, ParameterError, listed

if TYPE_CHECKING:
    from wiesel.evaluation import Comparison
    from wiesel.project.bundle import Bundle
    from wiesel.project.kinds import GoldFile

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
    from wiesel.project.kinds import kind_of_task

    bundle = load_named(model, end_model, data, taggers=True)
    kind = kind_of_task(bundle.model.task_.kind)
    if not kind.compares_models:
        for option, value in (("--gold", gold), ("--votes", votes), ("--against", against)):
            if value is not None:
                raise ParameterError(
                    f"{option} is for models of one label for each item; {model} is one of "
                    f"{kind.task}: leave {option} out."
                )
    found = kind.read_gold(bundle, data, label_column, gold)
    covered = None
    if votes is not None:
        covered = _covered(votes, found.rows, len(found.inputs), bundle.labels)
    report = kind.evaluated(bundle.model, found, covered)
    result, text = {"report": report.to_dict()}, str(report)
    if against is not None:
        paired = _paired(bundle, load_named(against, end_model, data), data, found)
        result["paired"] = paired.to_dict()
        text = f"{report}\n\nThe first is {model}, the second {against}.\n{paired}"
    return Answer(result, text, command_line("wiesel", "inspect", model))


def _paired(bundle: "Bundle", other: "Bundle", data: Path, found: "GoldFile") -> "Comparison":
    """Compare two models on the same items, with McNemar's test and intervals."""
    from wiesel.evaluation import compare_paired_proba

    if other.labels != bundle.labels:
        raise DataError(
            f"The models have different classes, {listed(bundle.labels)} and "
            f"{listed(other.labels)}: they cannot be compared."
        )
    first = bundle.model.predict_proba(found.inputs)
    second = other.model.predict_proba(other.file_inputs(data)[1])
    thresholds = (bundle.model.threshold_, other.model.threshold_)
    return compare_paired_proba(first, second, found.gold, bundle.labels, thresholds=thresholds)


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
