"""`wiesel workbench`: the web app to inspect data, write LFs, label, train and evaluate."""

from typing import Annotated

import typer

from wiesel.cli.project_options import HERE, ProjectFolder, announce
from wiesel.cli.verb import Answer, verb

__all__ = ["workbench"]


@verb
def workbench(
    project: ProjectFolder = HERE,
    port: Annotated[int, typer.Option(help="The port; 0 picks a free one.")] = 8330,
    host: Annotated[
        str, typer.Option(help="Another address than this machine's own; needs the token shown.")
    ] = "127.0.0.1",
    show: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> Answer | None:
    """Open the workbench of a project in the browser.

    As with `wiesel run`, this runs the Python code of the project.
    """
    from wiesel.project.settings import read_project
    from wiesel.workbench import serve

    settings = read_project(project)
    announce(settings)
    serve(settings, host=host, port=port, show=show, say=_say)
    return None


def _say(address: str) -> None:
    typer.echo(f"The workbench is at {address}")
    typer.echo("Ctrl-C ends it; labels and labeling functions are on disk already.", err=True)
