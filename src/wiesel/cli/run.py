"""`wiesel run`: the main job, from rows to a model and a report."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.verb import Answer, command_line, split_names, tell, verb

__all__ = ["run", "say_stage"]


@verb
def run(
    project: Annotated[Path, typer.Argument(help="A folder with wiesel.toml, or such a file.")],
    method: Annotated[
        str | None, typer.Option("--method", help="Instead of the file's: weasel,snorkel.")
    ] = None,
) -> Answer:
    """Run a project: votes, training, figures, report."""
    from wiesel.project.pipeline import metrics_of, run_project
    from wiesel.project.settings import read_project

    settings = read_project(project)
    outcome = run_project(settings, split_names(method), say_stage)
    folder = settings.output_folder
    table = outcome.table
    text = "There are no gold labels to judge by." if table is None else table.to_text()
    item = outcome.prepared.data.splits["train"].ids[0]
    step = command_line("wiesel", "explain", folder / "model", "--item", item)
    data = {"output": folder, "report": folder / "report.html", **metrics_of(outcome)}
    return Answer(data, text, f"open {folder / 'report.html'}, or: {step}")


def say_stage(stage: str, text: str) -> None:
    """Show one line about a stage of a run."""
    tell(f"{stage:<9} {text}")
