"""`wiesel run`: the main job, from rows to a model and a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.completion import method_list
from wiesel.cli.verb import Answer, command_line, split_names, tell, verb

if TYPE_CHECKING:
    from wiesel.project.pipeline import Outcome

__all__ = ["run", "say_stage"]

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
    """Run a project: votes, training, figures, report."""
    from wiesel.project.pipeline import metrics_of, run_project
    from wiesel.project.settings import read_project

    settings = read_project(project)
    outcome = run_project(settings, split_names(method), say_stage)
    folder = settings.output_folder
    item = outcome.first_voted
    step = command_line("wiesel", "explain", folder / "model", "--item", item)
    data = {"output": folder, "report": folder / "report.html", **metrics_of(outcome)}
    return Answer(data, _text(outcome), f"open {folder / 'report.html'}, or: {step}")


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
