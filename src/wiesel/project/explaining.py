"""Explains why one item of a project got its label: the model, its row, and its votes."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wiesel.errors import DataError, ParameterError, SavedModelError
from wiesel.io import FilePath
from wiesel.project.bundle import Bundle, load_bundle
from wiesel.project.kinds import kind_of
from wiesel.project.seen import was_run
from wiesel.project.settings import read_project
from wiesel.project.voting import cast_votes, load_project_lfs

__all__ = ["explain_item", "explained_by", "project_of"]


Confirm = Callable[[Path], bool]
"""Asks the user whether a project may run."""


def explain_item(
    model: FilePath, item: str, end_model: Any = None, project: FilePath | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return the explanation of one item of a project's data, and its row.

    Running a project executes its code, so name the project yourself. By default, the project
    recorded in the model is used if it is in the current folder and you have run it before.
    """
    return explained_by(load_bundle(model, end_model, taggers=True), item, project)


def explained_by(
    bundle: Bundle, item: str, project: FilePath | None = None, confirm: Confirm | None = None
) -> tuple[Any, dict[str, Any]]:
    """Do the same as `explain_item` for a model that is already loaded."""
    if not hasattr(bundle.model, "explain"):
        name = type(bundle.model).__name__
        raise ParameterError(f"{name} does not weigh voters for single items: nothing to explain.")
    source = read_project(
        Path(project) if project is not None else project_of(bundle.manifest, confirm)
    )
    kind = kind_of(source)
    kind.check(source)
    lfs = load_project_lfs(source)
    rows = kind.read(source, lfs)
    one = kind.find(rows.splits, item)
    cache = source.output_folder / ".cache"
    if lfs is not None:  # they run on this row only
        votes = cast_votes(source, replace(rows, splits={one.split: one.alone}), cache)
    else:
        votes = cast_votes(source, rows, cache)
    if one.split not in votes.by_split:
        raise DataError(f"There are no votes on the {one.split} items; explain a training item.")
    own = votes.by_split[one.split]
    own = own if lfs is not None else own[one.place]
    return bundle.model.explain(kind.one_input(bundle, one), own), one.row


def project_of(manifest: Mapping[str, Any], confirm: Confirm | None) -> Path:
    """Return the project named in a manifest if it may run; a manifest can name any file."""
    file = manifest.get("project")
    if not isinstance(file, str) or not Path(file).is_file():
        raise SavedModelError(
            "The project that trained this model was not found"
            f"{f' at {file}' if file else ''}: name it with --project."
        )
    place = Path(file).resolve()
    is_here = place.is_relative_to(Path.cwd().resolve())
    if not is_here or not (was_run(place) or (confirm is not None and confirm(place))):
        why = "which you have not run before" if is_here else "which is not in the current folder"
        raise SavedModelError(
            f"According to the model, it was trained by {file}, {why}. Explaining runs the code of "
            f"a project: if you trust it, add {shlex.join(['--project', str(place.parent)])}"
        )
    return place
