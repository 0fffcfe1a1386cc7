"""Which projects this user has run: a project is code, and whose code is new is said once."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from wiesel.project.settings import Project
from wiesel.saving import write_file

__all__ = ["code_files", "remember", "state_file", "was_run"]


def code_files(project: Project) -> list[Path]:
    """Return the Python files that a run of the project would execute."""
    names = [name for name in project.votes.lfs if Path(name).suffix != ".toml"]
    names += [project.data.module] if project.data.module else []
    kind, _, place = project.end_model.name.partition(":")
    names += [place.rpartition(":")[0]] if kind == "module" else []
    return [project.path(name) for name in dict.fromkeys(names)]


def was_run(file: Path) -> bool:
    """Whether this user has run the project of a project file before, in that very folder."""
    known = _known().get(str(file.resolve()))
    return known is not None and known == _identity(file)


def remember(file: Path) -> None:
    """Note that this user runs a project; where nothing can be noted, nothing is."""
    place = state_file()
    if place is None:
        return
    with suppress(OSError):
        projects = {**_known(), str(file.resolve()): _identity(file)}
        write_file(place, json.dumps({"projects": projects}, indent=1).encode())


def state_file() -> Path | None:
    """Return where the projects are noted: in the folder for the state of programs."""
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        return None
    usual = {
        "win32": os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local",
        "darwin": home / "Library" / "Application Support",
    }.get(sys.platform, home / ".local" / "state")
    return Path(os.environ.get("XDG_STATE_HOME") or usual) / "wiesel" / "projects.json"


def _known() -> dict[str, Any]:
    place = state_file()
    try:
        found = json.loads(place.read_bytes()) if place is not None else {}
    except (OSError, ValueError, RecursionError):
        return {}
    projects = found.get("projects") if isinstance(found, dict) else None
    return projects if isinstance(projects, dict) else {}


def _identity(file: Path) -> int:
    """Another folder that was put in the same place is another project."""
    return file.resolve().parent.stat().st_ino
