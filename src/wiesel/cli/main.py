"""`wiesel`: the program. Every verb has a file of its own beside this one."""

import sys
from typing import Annotated

import typer

from wiesel.cli.apply import apply
from wiesel.cli.doctor import doctor
from wiesel.cli.inspect import inspect
from wiesel.cli.methods import methods
from wiesel.cli.trial import trial
from wiesel.version import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="wiesel",
    help="From labeling functions and crowd answers to your own trained classifier.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("apply")(apply)
app.command("inspect")(inspect)
app.command("try")(trial)
app.command("methods")(methods)
app.command("doctor")(doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wiesel {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """From labeling functions and crowd answers to your own trained classifier."""


def main() -> None:
    """Run the command line; the console script `wiesel` calls this."""
    # Text in any language goes to any terminal or file, whatever the locale says.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    app()
