"""`wiesel suggest`: suggested labeling functions for a project."""

from typing import Annotated

import typer

from wiesel.cli.project_options import HERE, ProjectFolder, open_workspace
from wiesel.cli.verb import Answer, command_line, verb

__all__ = ["suggest"]


@verb
def suggest(
    project: ProjectFolder = HERE,
    n: Annotated[int, typer.Option("-n", help="How many suggestions.")] = 20,
    accept: Annotated[
        int, typer.Option(help="Add this many of the best to the project's rules file.")
    ] = 0,
) -> Answer:
    """Suggest labeling functions for a project.

    As with `wiesel run`, this runs the Python code of the project.
    """
    from wiesel.guidance import Suggestions

    workspace = open_workspace(project)
    found = Suggestions(tuple(workspace.suggestions(max(n, accept))))
    names = [workspace.accept(each.lf) for each in list(found)[:accept]]
    data = {"suggestions": [each.to_dict() for each in found], "accepted": names}
    text = found.table.to_text()
    if names:
        text += f"\nWritten to {workspace.lf_set.rules_file}: {', '.join(names)}"
        return Answer(data, text, command_line("wiesel", "run", project))
    return Answer(data, text, command_line("wiesel", "suggest", project, "--accept", 10))
