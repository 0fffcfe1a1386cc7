"""What prompts cost: the options of `wiesel apply` for prices, a budget and batch files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.verb import Answer, command_line, tell
from wiesel.progress import listening

if TYPE_CHECKING:
    from wiesel.lfs.spending import Spending

__all__ = ["BatchAnswers", "BatchRequests", "BudgetLimit", "DryRun", "Prices", "counted", "planned"]

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Send nothing: show the requests of prompts and their price."),
]
BudgetLimit = Annotated[
    str | None,
    typer.Option(
        "--budget",
        help="Stop prompts here: 2.50, '500 requests' or '200000 tokens'. The same command with "
        "more continues.",
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option(help="A price table; else WIESEL_PRICES or prices.toml.", show_default=False),
]
BatchRequests = Annotated[
    Path | None,
    typer.Option(help="Send nothing: write open questions as batch file, here (.jsonl)."),
]
BatchAnswers = Annotated[
    list[Path] | None, typer.Option(help="A batch file with answers to use; repeatable.")
]

_FIRST_REPORT = 5.0
"""Seconds after which progress is shown for the first time, where there is no terminal."""


@contextmanager
def counted(budget: str | None, prices: Path | None) -> "Iterator[Spending]":
    """Count what prompts use, show their progress, and say at the end what was spent."""
    from wiesel.lfs import PriceTable, spending

    with spending(budget, PriceTable.read(prices)) as spent:
        try:
            if sys.stderr.isatty():
                yield spent
            else:
                with listening(tell, after=_FIRST_REPORT):
                    yield spent
        finally:
            if spent.requests or spent.cached:
                tell(f"Prompts: {spent}.")


def planned(lfs: Any, data: Path, prices: Path | None, requests: Path | None, step: str) -> Answer:
    """Return what prompts would cost, and write their questions as batch files if asked to."""
    from wiesel.lfs import PriceTable, estimate_cost, write_batch_requests

    estimate = estimate_cost(lfs, data, prices=PriceTable.read(prices))
    if requests is None:
        return Answer(estimate.to_dict(), str(estimate), step)
    written = write_batch_requests(lfs, data, requests)
    lines = [f"Wrote {count:,} requests into {path}." for path, count in written.items()]
    lines += [] if written else ["There is no open question: nothing was written."]
    files = [{"file": path, "requests": count} for path, count in written.items()]
    words = [word for path in written for word in ("--batch-answers", f"answers-of-{path.name}")]
    result = {**estimate.to_dict(), "files": files}
    next_step = f"{step} {command_line(*words)}" if words else step
    return Answer(result, "\n".join([str(estimate), *lines]), next_step)
