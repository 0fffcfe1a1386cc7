"""`wiesel rows-to-label`: the rows of a project to label next."""

from typing import Annotated

import typer

from wiesel.cli.project_options import HERE, ProjectFolder, open_workspace
from wiesel.cli.verb import Answer, command_line, verb

__all__ = ["rows_to_label"]


@verb
def rows_to_label(
    project: ProjectFolder = HERE,
    n: Annotated[int, typer.Option("-n", help="How many rows.")] = 20,
    way: Annotated[
        str, typer.Option(help="recommended, random, conflict, uncertain, or the name of a voter.")
    ] = "recommended",
    seed: Annotated[int, typer.Option(help="The seed of the random rows.")] = 0,
) -> Answer:
    """List the rows to label next.

    They are one of each kind that the votes leave unsure, and some at random. The list says how
    each row was chosen: only random ones count for figures and thresholds, all of them for
    learning. conflict, uncertain and a voter's rows are for looking at the data.

    As with `wiesel run`, this runs the Python code of the project.
    """
    workspace = open_workspace(project)
    table = workspace.to_label(n, way, seed=seed)
    step = command_line("wiesel", "workbench", project)
    return Answer({"rows": table.to_records()}, table.to_text(), step)
