"""`wiesel`: the program. Each verb has its own file in this folder."""

import signal
import sys
from typing import Annotated, NoReturn

import typer

from wiesel.cli.aggregate import aggregate
from wiesel.cli.apply import apply
from wiesel.cli.ask_next import ask_next
from wiesel.cli.blame import blame
from wiesel.cli.compare import compare
from wiesel.cli.doctor import doctor
from wiesel.cli.evaluate import evaluate
from wiesel.cli.explain import explain
from wiesel.cli.export import export
from wiesel.cli.fit import fit_votes
from wiesel.cli.init import init
from wiesel.cli.inspect import inspect
from wiesel.cli.methods import methods
from wiesel.cli.monitor import monitor
from wiesel.cli.predict import predict
from wiesel.cli.promote import promote
from wiesel.cli.prompts import prompts
from wiesel.cli.reproduce import reproduce
from wiesel.cli.rows_to_label import rows_to_label
from wiesel.cli.run import run
from wiesel.cli.serve import serve
from wiesel.cli.soft_labels import soft_labels
from wiesel.cli.spans import spans
from wiesel.cli.suggest import suggest
from wiesel.cli.trial import trial
from wiesel.cli.workbench import workbench
from wiesel.threads import collect_seldom
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
for _name, _function in {
    "init": init,
    "run": run,
    "compare": compare,
    "explain": explain,
    "predict": predict,
    "evaluate": evaluate,
    "export": export,
    "serve": serve,
    "monitor": monitor,
    "promote": promote,
    "try": trial,
    "apply": apply,
    "inspect": inspect,
    "aggregate": aggregate,
    "ask-next": ask_next,
    "fit": fit_votes,
    "soft-labels": soft_labels,
    "workbench": workbench,
    "suggest": suggest,
    "rows-to-label": rows_to_label,
    "blame": blame,
    "methods": methods,
    "prompts": prompts,
    "reproduce": reproduce,
    "doctor": doctor,
}.items():
    app.command(_name)(_function)
app.add_typer(spans, name="spans")


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
    # Output is UTF-8 for any terminal, file or locale.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    # By default this signal kills Python at once, which leaves temporary files behind.
    signal.signal(signal.SIGTERM, _end)
    collect_seldom()
    app()


def _end(number: int, frame: object) -> NoReturn:
    """Exit as after any error: close open files and remove half-written ones."""
    sys.exit(128 + number)
