"""`wiesel methods`: lists all methods, one per line, or shows one method with its options."""

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.project_options import method_name
from wiesel.cli.verb import Answer, command_line, verb

if TYPE_CHECKING:
    from wiesel.registry import Method

__all__ = ["methods"]

_WIDTH = 80


@verb
def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="Show this method and its options.", autocompletion=method_name),
    ] = None,
    paper: Annotated[bool, typer.Option("--papers", help="Show the paper of each method.")] = False,
) -> Answer:
    """List every method, or one with all its options."""
    from wiesel.catalog import METHODS, method

    if name is not None:
        return _one(method(name))
    data = [
        {**_facts(found), "options": list(found.cls.option_names())}  # type: ignore[attr-defined]
        for found in METHODS.values()
    ]
    return Answer(
        {"methods": data}, _listed(data, paper), command_line("wiesel", "methods", "NAME")
    )


def _facts(method: "Method") -> dict[str, Any]:
    return {
        "name": method.name,
        "needs": method.needs,
        "summary": method.summary,
        "paper": method.paper,
        "package": method.package,
    }


def _listed(data: list[dict[str, Any]], paper: bool) -> str:
    import polars as pl

    from wiesel.analysis.table import Table, text

    columns = [text("name", "method"), text("needs", "learns from")]
    if any(row["package"] != "wiesel" for row in data):
        columns.append(text("package"))
    columns.append(text("paper") if paper else text("summary", "what it does"))
    return Table(pl.DataFrame(data).drop("options"), tuple(columns)).to_text()


def _one(method: "Method") -> Answer:
    from wiesel.label_models import LabelModel
    from wiesel.parameters import options_of

    options = options_of(method.cls)
    facts = {**_facts(method), "class": f"{method.cls.__module__}.{method.cls.__qualname__}"}
    data = {**facts, "options": [vars(option) for option in options]}
    lines = [
        f"{method.name}: {method.summary}",
        "",
        f"in Python    {method.cls.__name__} of {method.package}",
        f"learns from  {method.needs}",
        f"paper        {method.paper}",
        "",
        "Options" if options else "It has no options.",
    ]
    for option in options:
        given = " (required)" if option.default is None else f" = {option.default}"
        lines += ["", f"  {option.name}: {option.type}{given}", *_wrapped(option.meaning)]
    if issubclass(method.cls, LabelModel):
        note = "With features it is the first of two stages and takes the options of both:"
        lines += ["", f"{note} wiesel methods two_stage"]
    step = command_line("wiesel", "run", "PROJECT", "--method", method.name)
    return Answer({"method": data}, "\n".join(lines), step)


def _wrapped(words: str) -> list[str]:
    return textwrap.wrap(words, _WIDTH, initial_indent="      ", subsequent_indent="      ")
