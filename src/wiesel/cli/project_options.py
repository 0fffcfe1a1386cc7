"""What all commands on a project share: its folder, and the command that opens its report."""

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["HERE", "OPEN", "ProjectFolder"]

ProjectFolder = Annotated[
    Path, typer.Argument(help="A folder with wiesel.toml, or such a file; by default this folder.")
]
HERE = Path()

OPEN = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
"""The command that shows a file in the program for its type."""
