"""`wiesel init`: a small project that runs, to be changed into one's own."""

from pathlib import Path
from typing import Annotated

import typer

from wiesel.cli.verb import Answer, command_line, verb

__all__ = ["init"]


@verb
def init(folder: Annotated[Path, typer.Argument(help="A new folder.")]) -> Answer:
    """Write a starter project."""
    from wiesel.project.seen import remember
    from wiesel.project.settings import FILE_NAME
    from wiesel.project.starter import write_starter

    written = write_starter(folder)
    remember(folder / FILE_NAME)  # its code is ours: nobody needs to be warned of it
    text = "\n".join(f"Wrote {file}" for file in written)
    return Answer({"files": written}, text, command_line("wiesel", "run", folder))
