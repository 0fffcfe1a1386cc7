"""`wiesel methods`: every registered method, one line each."""

from typing import Annotated

import typer

from wiesel.cli.verb import Answer, verb

__all__ = ["methods"]


@verb
def methods(
    paper: Annotated[bool, typer.Option("--papers", help="Show where each comes from.")] = False,
) -> Answer:
    """List every method, one line each."""
    import polars as pl

    from wiesel.analysis.table import Table, text
    from wiesel.catalog import METHODS

    data = [
        {
            "name": method.name,
            "needs": method.needs,
            "summary": method.summary,
            "paper": method.paper,
            "options": list(method.cls.option_names()),  # type: ignore[attr-defined]
        }
        for method in METHODS.values()
    ]
    last = text("paper") if paper else text("summary", "what it does")
    frame = pl.DataFrame(data).drop("options")
    table = Table(frame, (text("name", "method"), text("needs", "learns from"), last))
    return Answer({"methods": data}, table.to_text(), "wiesel run PROJECT --method weasel,snorkel")
