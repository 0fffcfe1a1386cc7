"""Explains why one item of a project got its label: the model, its row, and its votes."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wiesel.errors import DataError, ParameterError, SavedModelError
from wiesel.explain import Explanation
from wiesel.io import FilePath, Split
from wiesel.labels import LabelSpace
from wiesel.project.bundle import Bundle, load_bundle
from wiesel.project.rows import find_item, part_of, read_splits
from wiesel.project.seen import was_run
from wiesel.project.settings import Project, read_project
from wiesel.project.training import taken
from wiesel.project.vectors import raw_inputs
from wiesel.project.voting import Votes, cast_votes, project_lfs
from wiesel.votes import VoteMatrix

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
    return explained_by(load_bundle(model, end_model), item, project)


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
    if source.multi:
        return _explained_labels(bundle, source, item)
    lfs = project_lfs(source)
    labels, splits = read_splits(source, None if lfs is None else lfs.labels)
    name, row = find_item(splits, item)
    votes = _votes(source, lfs, splits, labels, (name, row))
    raw = _raw(bundle, part_of(splits[name], [row]))
    inputs = taken(bundle.features.transform(raw), 0)
    model: Any = bundle.model
    explanation: Explanation = model.explain(inputs, votes)
    return explanation, splits[name].rows.row(row, named=True)


def _explained_labels(bundle: Bundle, project: Project, item: str) -> tuple[Any, dict[str, Any]]:
    """Return the explanation of an item that may have several labels."""
    from wiesel.project.multilabel import labeled_splits, votes_on

    splits, _, labels, lfs = labeled_splits(project)
    name, row = find_item(splits, item)
    one = part_of(splits[name], [row])
    chosen = {name: one} if lfs is not None else splits
    votes = votes_on(project, lfs, chosen, labels, project.output_folder / ".cache")
    if name not in votes:
        raise DataError(f"There are no votes on the {name} items; explain a training item.")
    own = votes[name] if lfs is not None else votes[name][row]
    inputs = taken(bundle.features.transform(_raw(bundle, one)), 0)
    model: Any = bundle.model
    return model.explain(inputs, own), splits[name].rows.row(row, named=True)


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


def _votes(
    project: Project, lfs: Any, splits: dict[str, Split], labels: LabelSpace, place: Sequence[Any]
) -> VoteMatrix:
    """Return the votes on one item; labeling functions run on its row only."""
    name, row = place
    cache = project.output_folder / ".cache"
    if lfs is not None:
        only: Votes = cast_votes(project, lfs, {name: part_of(splits[name], [row])}, labels, cache)
        return only.by_split[name]
    everything = cast_votes(project, None, splits, labels, cache).by_split
    if name not in everything:
        raise DataError(f"There are no votes on the {name} items; explain a training item.")
    return everything[name][row]


def _raw(bundle: Bundle, split: Split) -> Any:
    note = bundle.manifest["inputs"]
    return raw_inputs(note["kind"], note["column"], split)
