"""Whether a run would do just what the last one did: then its answer is shown again at once.

This is found without torch and without reading rows into tables: by the contents of all files that
go into a run, by what lies in the project's folder, and by whether the outputs are still there.
"""

import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from wiesel.errors import WieselError
from wiesel.io import matching_files
from wiesel.project.settings import Project
from wiesel.replacing import write_file
from wiesel.version import __version__

__all__ = ["keep_answer", "known_answer"]

_MOST_FILES = 5000
"""A folder with more files is not looked through: its project is run."""


def known_answer(project: Project, methods: Sequence[str] | None) -> dict[str, Any] | None:
    """Return what the last run answered, if nothing it rests on has changed; else None."""
    try:
        kept = json.loads(_file(project).read_bytes())
        same = (
            kept["inputs"] == _inputs(project, methods)
            and _digests(Path(name) for name in kept["modules"]) == kept["modules"]
            and _stats(_outputs(project)) == kept["outputs"]
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError, WieselError):
        return None
    answer: dict[str, Any] = kept["answer"]
    return answer if same and isinstance(answer, dict) else None


def keep_answer(project: Project, methods: Sequence[str] | None, answer: Mapping[str, Any]) -> None:
    """Keep what a run answered, with everything it rests on."""
    inputs = _inputs(project, methods)
    if inputs is None:
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


def _inputs(project: Project, methods: Sequence[str] | None) -> dict[str, Any] | None:
    """All that goes into a run, as plain data; None if that is unknown.

    `load()` of a Python module may read anything.
    """
    if project.data.module:
        return None
    around = _stats(_files_below(project.folder, project.output_folder))
    if len(around) > _MOST_FILES:
        return None
    return {
        "wiesel": [__version__, sys.version, _package_state()],
        "asked": [os.getcwd(), str(project.file), None if methods is None else list(methods)],
        "settings": project.file.read_text(encoding="utf-8"),
        "environment": os.environ.get("WIESEL_DATA"),
        "files": _digests(_named_files(project)),
        "folder": around,
    }


def _named_files(project: Project) -> Iterator[Path]:
    """The files that the project file names, wherever they are."""
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
    """All files of a folder but hidden ones, compiled ones and those of one folder in it."""
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name != "__pycache__" and here / name != without
        )
        yield from (here / name for name in sorted(names) if not name.startswith("."))


def _outputs(project: Project) -> Iterator[Path]:
    """What a run has written, without runs that were kept."""
    folder = project.output_folder
    yield from (file for file in _files_below(folder, folder / "runs"))


def _own_modules() -> list[Path]:
    """The Python files that were imported in this process and belong to no installed package."""
    found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    # There are thousands of modules, and finding out where a file really is takes its time.
    own = (Path(file).resolve() for file in found if isinstance(file, str) and _is_own(file))
    return sorted(file for file in own if _is_own(str(file)) and file.is_file())


def _is_own(file: str) -> bool:
    """Whether a path is that of a Python file outside of Python, Wiesel and what is installed."""
    if not file.endswith(".py") or file.startswith(_package_places()):
        return False
    return not any(f"{os.sep}{name}{os.sep}" in file for name in ("site-packages", "dist-packages"))


@cache
def _package_places() -> tuple[str, ...]:
    installed = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
    return tuple(f"{place}{os.sep}" for place in (*installed, Path(__file__).parents[1]))


def _package_state() -> list[int]:
    """Changes when the code of Wiesel itself does, which only its authors see."""
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
