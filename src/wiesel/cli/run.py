"""`wiesel run`: the main command, from rows to a model and a report."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiesel.cli.project_options import HERE, OPEN, ProjectFolder, a_file_of, announce, method_list
from wiesel.cli.verb import Answer, command_line, split_names, tell, verb

if TYPE_CHECKING:
    from wiesel.project.settings import Project

__all__ = ["run", "say_stage"]

_PATIENCE = 5.0
"""Seconds after which a slow step gets a line in the log."""


@verb
def run(
    project: ProjectFolder = HERE,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="Replaces the method of wiesel.toml: weasel,snorkel.",
            autocompletion=method_list,
        ),
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option(
            help="What you know of the class shares: 'about 5 % spam', '3-8 % spam', unknown. "
            "Replaces class_balance of wiesel.toml."
        ),
    ] = None,
) -> Answer:
    """Run a project: votes, training, figures, report.

    A project is code: its Python labeling functions, its module: and its load() run with all your
    rights. Check a stranger's project with `wiesel inspect` first, which runs nothing.
    """
    from wiesel.project.settings import read_project
    from wiesel.project.unchanged import keep_answer, known_answer, run_inputs
    from wiesel.saving import plain_data

    settings, methods = read_project(project), split_names(method)
    if balance is not None:
        settings = replace(settings, training={**settings.training, "class_balance": balance})
    inputs = run_inputs(settings, methods)
    known = known_answer(settings, inputs)
    if known is not None:
        say_stage("reused", f"everything: nothing has changed since the last run of {project}")
        return Answer(**known)
    announce(settings)
    answer, reused = _ran(settings, methods, project)
    again = {"data": plain_data({**answer.data, "reused": reused}), "text": answer.text}
    keep_answer(settings, methods, inputs, {**again, "next_step": answer.next_step})
    return answer


def _ran(
    settings: "Project", methods: list[str] | None, given: Path
) -> tuple[Answer, dict[str, Any]]:
    """Return the answer of a run, and the data that an unchanged run reuses."""
    from wiesel.progress import listening
    from wiesel.project.pipeline import run_project

    # Without a terminal for progress bars, slow steps report from time to time.
    shown = nullcontext() if sys.stderr.isatty() else listening(_say_progress, after=_PATIENCE)
    with shown:
        outcome = run_project(settings, methods, say_stage)
    folder = settings.output_folder
    step = command_line("wiesel", "predict", folder / "model", a_file_of(settings))
    if settings.task == "one label":
        is_here = settings.file.resolve().is_relative_to(Path.cwd().resolve())
        named = () if is_here else ("--project", given)
        item = outcome.first_voted
        step = command_line("wiesel", "explain", folder / "model", "--item", item, *named)
    page = command_line(OPEN, folder / "report.html")
    data = {"output": folder, "report": folder / "report.html", **outcome.to_dict()}
    votes = outcome.prepared.votes
    reused = {"votes": votes.total, "features": True, "models": len(outcome.trained)}
    return Answer(data, str(outcome), f"{page}, or: {step}"), reused


def _say_progress(text: str) -> None:
    say_stage("...", text)


def say_stage(stage: str, text: str) -> None:
    """Show one line about a stage of a run."""
    tell(f"{stage:<9} {text}")
