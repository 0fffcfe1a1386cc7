"""`wiesel ask-next`: about which items to ask a crowd again, whom, and when to stop."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.aggregate import (
    DEFAULT_METHOD,
    AnswerColumn,
    AnswerTable,
    FeaturesOf,
    KnownLabels,
    LabelModelName,
    TaskColumn,
    WorkerColumn,
    aggregated,
)
from wiesel.cli.annotation_files import Question
from wiesel.cli.project_options import LabelNames, Ordered
from wiesel.cli.verb import Answer, command_line, given_options, tell, verb

__all__ = ["ask_next"]


@verb
def ask_next(  # noqa: PLR0913 - a command has an argument for each option
    answers: AnswerTable,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the items to ask about here.")
    ] = None,
    target: Annotated[
        float, typer.Option(help="The chance of a wrong label that is small enough.")
    ] = 0.1,
    price: Annotated[float, typer.Option(help="The price of one answer.")] = 1.0,
    budget: Annotated[
        float | None, typer.Option(help="What may be spent, in the unit of --price.")
    ] = None,
    most: Annotated[int, typer.Option(help="The most further answers to one item.")] = 10,
    flagged: Annotated[
        bool, typer.Option("--flagged", help="Also ask spammers, adversaries and copies.")
    ] = False,
    method: LabelModelName = DEFAULT_METHOD,
    item: TaskColumn = None,
    worker: WorkerColumn = None,
    label: AnswerColumn = None,
    labels: LabelNames = None,
    ordered: Ordered = False,
    gold: KnownLabels = None,
    features: FeaturesOf = None,
    question: Question = None,
) -> Answer:
    """List the items to ask a crowd about again.

    It says whom to ask, for how much, and when to stop. Ask, add the answers to the table, and run
    it again. Few answers at a time are best.
    """
    from wiesel.aggregate import ask_next as plan
    from wiesel.io import read_rows, write_rows
    from wiesel.io.rows import refuse_overwriting

    refuse_overwriting([answers], output)
    _, found = aggregated(
        answers,
        (item, worker, label),
        labels,
        ordered,
        question,
        method=method,
        gold=None if gold is None else read_rows(gold),
        features=features,
    )
    planned = plan(found, target=target, price=price, budget=budget, most=most, flagged=flagged)
    if output is not None:
        import polars as pl

        write_rows(planned.table.frame.with_columns(pl.col("ask").list.join(", ")), output)
        tell(f"Wrote the items to {output}")
    given = given_options(
        target=None if target == 0.1 else target,
        price=None if price == 1.0 else price,
        budget=budget,
        most=None if most == 10 else most,
        flagged=flagged,
        method=None if method == DEFAULT_METHOD else method,
        item=item,
        worker=worker,
        label=label,
        labels=labels,
        ordered=ordered,
        gold=gold,
        features=features,
        question=question,
    )
    step = command_line("wiesel", "ask-next", answers, *given, "-o", "ask.csv")
    return Answer(planned.to_record(), _text(planned), "" if output is not None else step)


def _text(planned: object) -> str:
    from wiesel.analysis.table import telling_rest

    with telling_rest(", written with -o"):
        return str(planned)
