"""What all commands on a project share: its folder, the notice of its code, opening it."""

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiesel.cli.verb import command_line, tell
from wiesel.errors import listed

if TYPE_CHECKING:
    from wiesel.project.settings import Project
    from wiesel.project.workspace import Workspace

__all__ = [
    "HERE",
    "OPEN",
    "ProjectFolder",
    "a_file_of",
    "announce",
    "free_folder",
    "open_workspace",
]

ProjectFolder = Annotated[
    Path, typer.Argument(help="A folder with wiesel.toml, or such a file; by default this folder.")
]
HERE = Path()

OPEN = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
"""The command that shows a file in the program for its type."""


def a_file_of(settings: "Project") -> Path:
    """Return a file of rows that the project names, or else a word for the user to fill in."""
    data = settings.data
    found = (settings.path(name) for name in (data.test, data.dev, data.train) if name)
    return next((file for file in found if file.is_file()), Path("FILE"))


def free_folder(name: str = "my-project") -> Path:
    """Return a name for a new folder here; with a number if there is one of this name."""
    names = (name if k < 2 else f"{name}-{k}" for k in itertools.count(1))
    return next(Path(each) for each in names if not Path(each).exists())


def announce(settings: "Project") -> None:
    """Tell, before any verb runs the code of a folder for the first time, that it does so."""
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


def open_workspace(project: Path) -> "Workspace":
    """Open a project for a verb that works on its votes, and tell which functions are broken."""
    from wiesel.project.settings import read_project
    from wiesel.project.workspace import Workspace

    settings = read_project(project)
    announce(settings)
    workspace = Workspace(settings)
    for problem in workspace.problems:
        tell(f"Warning: left out, because it is broken: {problem}")
    return workspace
