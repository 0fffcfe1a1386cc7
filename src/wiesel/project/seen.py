"""Remembers which projects this user has run, because running a new project executes new code."""

import hashlib
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from wiesel.project.settings import Project
from wiesel.saving import write_file
from wiesel.unfinished import locked

__all__ = ["code_files", "project_overview", "remember", "state_file", "was_run"]

_TASKS = {
    "one label": "one label for each item",
    "several labels": "several labels for each item",
    "spans": "spans of texts",
}


def code_files(project: Project) -> list[Path]:
    """Return the Python files that a run of the project would execute."""
    names = [name for name in project.votes.lfs if Path(name).suffix != ".toml"]
    names += [project.data.module] if project.data.module else []
    kind, _, place = project.end_model.name.partition(":")
    names += [place.rpartition(":")[0]] if kind == "module" else []
    return [project.path(name) for name in dict.fromkeys(names)]


def was_run(file: Path) -> bool:
    """Whether this user has run the project before, in the same folder."""
    known = _known().get(str(file.resolve()))
    if not isinstance(known, list) or len(known) != 2 or known[0] != _number(file):
        return False  # unknown, or written by another version
    # The number of a deleted folder is given to the next one; but nothing in that one has been
    # there since the run.
    changed = [entry.stat(follow_symlinks=False).st_ctime for entry in os.scandir(file.parent)]
    return isinstance(known[1], float) and min(changed) <= known[1]


def remember(file: Path) -> None:
    """Record that this user runs a project; do nothing if the record cannot be written."""
    place = state_file()
    if place is None:
        return
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.parent):  # two that start at once would forget each other's project
            projects = {**_known(), str(file.resolve()): [_number(file), time.time()]}
            write_file(place, json.dumps({"projects": projects}, indent=1).encode())


def state_file() -> Path | None:
    """Return the file that lists the projects, in the user's state folder."""
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home folder
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


def _number(file: Path) -> int:
    """Return the number of the folder: another folder at the same path has another one."""
    return file.resolve().parent.stat().st_ino


def project_overview(project: Project) -> dict[str, Any]:
    """Return the overview of a project as plain data.

    `code` lists the files that a run would execute; `reads` lists the files it reads as data.
    """
    code = code_files(project)
    return {
        "name": project.name,
        "file": str(project.file),
        "classes": list(project.classes),
        "task": _TASKS[project.task],
        "method": list(project.methods),
        "end_model": project.end_model.name,
        "code": [_described("Python", file) for file in code],
        "reads": [
            _described(role, project.path(name))
            for role, name in _sources(project)
            if project.path(name) not in code
        ],
        "output": str(project.output_folder),
    }


def _sources(project: Project) -> list[tuple[str, str]]:
    """Return the files and folders that the project names, each with its purpose."""
    data, votes = project.data, project.votes
    named = [
        ("train rows", data.train),
        ("dev rows", data.dev),
        ("test rows", data.test),
        ("data set", data.dataset),
        *(("rules", file) for file in votes.lfs),
        ("crowd answers", votes.answers),
        ("votes", votes.file),
        ("tokenizer", project.features.options.get("tokenizer")),
    ]
    kind, _, place = project.end_model.name.partition(":")
    named += [("transformer", place)] if kind == "transformer" else []
    return [(role, name) for role, name in named if isinstance(name, str)]


def _described(role: str, file: Path) -> dict[str, Any]:
    """Return a file with its size and digest; a missing file has neither."""
    found: dict[str, Any] = {"role": role, "path": str(file), "bytes": None}
    if file.is_file():
        found["bytes"] = file.stat().st_size
    if found["bytes"] is not None and role == "Python":
        found["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found
