"""What all commands on a project share: its folder, and the command that opens its report."""

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from wiesel.project.settings import Project

__all__ = ["HERE", "OPEN", "ProjectFolder", "a_file_of", "free_folder"]

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
