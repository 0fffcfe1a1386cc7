"""`wiesel init`: a small working project for users to adapt."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.project_options import HERE
from wiesel.cli.verb import Answer, command_line, verb
from wiesel.errors import ParameterError

__all__ = ["init"]


@verb
def init(
    folder: Annotated[
        Path, typer.Argument(help="A new folder; by default this one, if it is empty.")
    ] = HERE,
    multi: Annotated[
        bool, typer.Option("--multi", help="An item may have several labels.")
    ] = False,
    spans: Annotated[
        bool, typer.Option("--spans", help="Labels are of parts of the texts.")
    ] = False,
    balance: Annotated[
        str | None,
        typer.Option(
            help="What you know of the class shares: 'about 5 % billing', '3-8 % billing', unknown."
        ),
    ] = None,
) -> Answer:
    """Write a starter project."""
    from wiesel.labels import LabelSpace, rough_balance
    from wiesel.project.seen import remember
    from wiesel.project.settings import FILE_NAME
    from wiesel.project.starter import Kind, write_starter

    if multi and spans:
        raise ParameterError("--multi and --spans exclude each other: use one of them.")
    if balance is not None and (multi or spans):
        raise ParameterError("--balance is for one label per item: leave out --multi and --spans.")
    if balance is not None:
        rough_balance(LabelSpace("billing", "technical"), balance)  # says what is wrong with it
    kind: Kind = "multi" if multi else "spans" if spans else ""
    written = write_starter(folder, kind=kind, balance=balance or "")
    remember(folder / FILE_NAME)  # we wrote its code, so no warning is needed
    text = "\n".join(f"Wrote {file}" for file in written)
    named = () if folder == HERE else (folder,)
    return Answer({"files": written}, text, command_line("wiesel", "run", *named))
