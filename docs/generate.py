"""Write the pages that are made from the program itself: `python docs/generate.py`.

A test compares them with what this would write, so that they cannot rot.
"""

import sys
from pathlib import Path

import typer.main
from typer.testing import CliRunner

from wiesel.cli.main import app
from wiesel.nn.names import END_MODELS, classifier_names

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

from builder.default_figures import (  # noqa: E402  (after the path is set)
    defaults_page,
    experiments_readme,
)
from builder.tutorial_files import (  # noqa: E402
    tutorial_notebook,
    tutorial_script,
)

INTRODUCTION = """\
# The command line

`wiesel VERB ...`. Results go to stdout, progress and messages to stderr. Every verb has `--json`,
which prints one object with `ok`, the result, and `next`, the command to run next (words in
capitals are for you to fill in); an error is
`{"ok": false, "error": "..."}`. Exit codes: 0 done, 1 the data, a labeling function or an option is
wrong (one line says what to do; `--debug` shows the traceback), 2 the command line itself is wrong,
130 interrupted (run it again: what was finished is kept).

`wiesel --install-completion` sets up completion for bash, zsh, fish or PowerShell: verbs, options,
methods (`--method weasel,sn<tab>`) and end models.

## A second run

`wiesel run` caches every stage in `out/.cache` under a fingerprint of its inputs, and reports what
it reused. After you edit one labeling function, only that one votes again. Features are reused, and
so are models that do not learn from votes. Models that do are trained again.
On `examples/movies`, in CPU seconds (`python examples/time_second_run.py`,
16 November 2026, one thread): first run 62, one labeling function edited 38, nothing changed 7.

If nothing changed (rules, rows, settings, other files of the folder, outputs), the last result is
shown at once, without loading torch. Projects whose rows come from `module = "..."` are checked
each time.

## CSV dialects

The separator of CSV files (comma, semicolon, tab or bar) and their encoding (UTF-8 with or without
a byte order mark, UTF-16, or Windows Excel's) are detected. To set them, use `separator = ";"` or
`encoding = "latin-1"` in `[data]`. Excel workbooks are not supported: save the sheet as 'CSV
UTF-8'. Nor are compressed files (gzip): unpack them, or use Parquet. Ids must be unique within each
of `train`, `dev` and `test`; `wiesel explain model --item dev:17` picks one of several items with
the same id.

## When a run is stopped

The next run resumes an interrupted or killed one from its last finished epoch, and removes
incomplete files. `rm -r out/.cache` is always safe.

## End models by name

| name | what it is |
|---|---|
"""


END_MODEL_NOTES = f"""
Further keys of `[end_model]` in wiesel.toml are options of the network or classifier. A saved model
is complete: `wiesel predict` needs neither the folder of the transformer nor the project. Only your
own module must be passed again (`--end-model`), because code is never stored.
A transformer reads tokens: `[features]` has `kind = "tokens"` and `tokenizer = "PATH"`, the folder
with its `tokenizer.json`.

These scikit-learn classifiers have a name, because they can be stored as plain arrays:
{", ".join(f"`{name}`" for name in classifier_names())}.
They learn from weighted rows, so the method must have a label model.
"""


def cli_page() -> str:
    """Return the reference of all verbs, from their own help."""
    names = "".join(f"| `{name}` | {what} |\n" for name, what in END_MODELS.items())
    blocks = [INTRODUCTION + names + END_MODEL_NOTES, block("wiesel", ["--help"])]
    blocks += [block(f"wiesel {verb}", [*verb.split(), "--help"]) for verb in verbs()]
    return "\n".join(blocks)


def verbs() -> list[str]:
    """Return every verb, in the order of the help; those of a group after its name."""
    found = []
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        found += [name, *(f"{name} {own}" for own in getattr(command, "commands", ()))]
    return found


def block(title: str, words: list[str]) -> str:
    """Return one section: a heading and what `--help` prints."""
    # The width is fixed, or the page would depend on the terminal it was made in.
    shown = CliRunner().invoke(
        app, words, prog_name="wiesel", env={"COLUMNS": "80"}, terminal_width=80
    )
    text = "\n".join(line.rstrip() for line in shown.stdout.strip().splitlines())
    return f"## `{title}`\n\n```text\n{text}\n```\n"


PAGES = {
    "../experiments/README.md": experiments_readme,
    "cli.md": cli_page,
    "understand/defaults.md": defaults_page,
    "tutorial/tutorial.ipynb": tutorial_notebook,
    "tutorial/tutorial.py": tutorial_script,
}
"""Every generated page, and what writes it."""


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
