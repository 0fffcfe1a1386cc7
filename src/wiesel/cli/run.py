"""`wiesel run`: the main job, from rows to a model and a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.completion import method_list
from wiesel.cli.verb import Answer, command_line, split_names, tell, verb
from wiesel.errors import listed

if TYPE_CHECKING:
    from wiesel.project.pipeline import Outcome
    from wiesel.project.settings import Project

__all__ = ["announce", "run", "say_stage"]

_EXPLAINED = 3


@verb
def run(
    project: Annotated[Path, typer.Argument(help="A folder with wiesel.toml, or such a file.")],
    method: Annotated[
        str | None,
        typer.Option(
            "--method", help="Instead of the file's: weasel,snorkel.", autocompletion=method_list
        ),
    ] = None,
) -> Answer:
    """Run a project: votes, training, figures, report.

    A project is code: its labeling functions in Python, its module: and its load() are run with
    all your rights. Look at a project of somebody else's with `wiesel inspect` first, which runs
    nothing of it.
    """
    from wiesel.project.pipeline import metrics_of, run_project
    from wiesel.project.settings import read_project

    settings = read_project(project)
    announce(settings)
    outcome = run_project(settings, split_names(method), say_stage)
    folder = settings.output_folder
    item = outcome.first_voted
    is_here = settings.file.resolve().is_relative_to(Path.cwd().resolve())
    named = () if is_here else ("--project", project)
    step = command_line("wiesel", "explain", folder / "model", "--item", item, *named)
    data = {"output": folder, "report": folder / "report.html", **metrics_of(outcome)}
    page = command_line("open", folder / "report.html")
    return Answer(data, _text(outcome), f"{page}, or: {step}")


def announce(settings: "Project") -> None:
    """Say plainly, before the first run of a folder, that its code is run."""
    from wiesel.project.seen import code_files, remember, was_run

    files = code_files(settings)
    if not files or was_run(settings.file):
        return
    names = listed([str(file) for file in files], limit=3)
    tell(
        f"First run of {settings.folder}: the Python code in {names} is run with all your rights. "
        f"{command_line('wiesel', 'inspect', settings.folder)} shows a project without running it."
    )
    remember(settings.file)


def _text(outcome: "Outcome") -> str:
    """What the voters do, how good the methods are, and why three items got their label."""
    from wiesel.analysis import summarize

    votes, splits = outcome.prepared.votes.by_split, outcome.prepared.data.splits
    judged = next((name for name in ("dev", "test") if name in votes), None)
    gold = None if judged is None else splits[judged].gold
    table = outcome.table
    parts = [summarize(votes[judged or "train"], gold).to_text()]
    parts += ["There are no gold labels to judge by." if table is None else table.to_text()]
    return "\n\n".join([*parts, *map(str, outcome.explanations(_EXPLAINED))])


def say_stage(stage: str, text: str) -> None:
    """Show one line about a stage of a run."""
    tell(f"{stage:<9} {text}")
