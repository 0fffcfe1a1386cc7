"""An overview of a project from its project file alone; no project code is run."""

import hashlib
from pathlib import Path
from typing import Any

from wiesel.project.seen import code_files
from wiesel.project.settings import Project

__all__ = ["project_overview"]

_TASKS = {
    "one label": "one label for each item",
    "several labels": "several labels for each item",
    "spans": "spans of texts",
}


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
