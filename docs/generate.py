"""Write the pages that are made from the program itself: `python docs/generate.py`.

A test compares them with what this would write, so that they cannot rot.
"""

from pathlib import Path

import typer.main
from typer.testing import CliRunner

from wiesel.cli.main import app
from wiesel.nn.names import END_MODELS

DOCS = Path(__file__).resolve().parent

INTRODUCTION = """\
# The command line

`wiesel VERB ...`. Results go to stdout, progress and messages to stderr. Every verb has `--json`,
which prints one object with `ok`, the result, and `next`, the command to run next; an error is
`{"ok": false, "error": "..."}`. Exit codes: 0 done, 1 the data, a labeling function or an option is
wrong (one line says what to do; `--debug` shows the traceback), 2 the command line itself is wrong,
130 interrupted (run it again: what was finished is kept).

`wiesel --install-completion` sets up completion for your shell.

## End models by name

| name | what it is |
|---|---|
"""


def cli_page() -> str:
    """Return the reference of all verbs, from their own help."""
    names = "".join(f"| `{name}` | {what} |\n" for name, what in END_MODELS.items())
    blocks = [INTRODUCTION + names, block("wiesel", ["--help"])]
    blocks += [block(f"wiesel {verb}", [verb, "--help"]) for verb in verbs()]
    return "\n".join(blocks)


def verbs() -> list[str]:
    """Return every verb, in the order of the help."""
    command = typer.main.get_command(app)
    return list(command.commands)  # type: ignore[attr-defined]


def block(title: str, words: list[str]) -> str:
    """Return one section: a heading and what `--help` prints."""
    # The width is fixed, or the page would depend on the terminal it was made in.
    shown = CliRunner().invoke(
        app, words, prog_name="wiesel", env={"COLUMNS": "80"}, terminal_width=80
    )
    text = "\n".join(line.rstrip() for line in shown.stdout.strip().splitlines())
    return f"## `{title}`\n\n```text\n{text}\n```\n"


PAGES = {"cli.md": cli_page}
"""Every generated page, and what writes it."""


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
