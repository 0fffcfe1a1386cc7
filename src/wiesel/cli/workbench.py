"""`wiesel workbench`: the web app to inspect data, write LFs, label, train and evaluate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.project_options import HERE, announce
from wiesel.cli.verb import Answer, verb

if TYPE_CHECKING:
    from wiesel.project.settings import Project

__all__ = ["workbench"]


@verb
def workbench(
    project: Annotated[
        Path,
        typer.Argument(
            help="A folder with wiesel.toml, or such a file; or a table of texts, or any folder: "
            "the page makes the project. By default this folder."
        ),
    ] = HERE,
    port: Annotated[int, typer.Option(help="The port; 0 picks a free one.")] = 8330,
    host: Annotated[
        str, typer.Option(help="Another address than this machine's own; needs the token shown.")
    ] = "127.0.0.1",
    show: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> Answer | None:
    """Open the workbench of a project or a table.

    A table becomes a project beside it. As with `wiesel run`, this runs the Python code of the
    project.
    """
    from wiesel.project.settings import read_project
    from wiesel.project.starter import project_of
    from wiesel.workbench import serve
    from wiesel.workbench.server import has_no_project

    opened: Project | Path = project
    made = project_of(project) if has_no_project(project) and project.is_file() else None
    if made is not None or not has_no_project(project):
        opened = read_project(made or project)
        announce(opened)
    serve(opened, host=host, port=port, show=show, say=_say)
    return None


def _say(address: str) -> None:
    typer.echo(f"The workbench is at {address}")
    typer.echo("Ctrl-C ends it; labels and labeling functions are on disk already.", err=True)
