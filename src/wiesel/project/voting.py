"""The votes on the rows of a project: the one place where they are cast.

A run needs all labeling functions. Interactive work leaves out those that cannot vote.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.errors import DataError, WieselError
from wiesel.io import Split, read_answers, read_votes
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import ABSTAIN, as_indices
from wiesel.lfs import FailureLog, VoteCache, apply_lfs, load_lfs
from wiesel.lfs.failures import timing
from wiesel.multilabel import (
    MultiLabelVotes,
    apply_multilabel_lfs,
    load_multilabel_lfs,
    read_multilabel_votes,
)
from wiesel.project.lf_set import LFState
from wiesel.project.rows import ProjectRows, places_of
from wiesel.project.settings import ONE_LABEL, SEVERAL_LABELS, SPANS, Project
from wiesel.spans import Documents, TokenVotes, apply_span_lfs, load_span_lfs
from wiesel.votes import VoteMatrix

__all__ = ["VotesBySplit", "cast_enabled", "cast_votes", "load_project_lfs", "votes_of_nobody"]


@dataclass(frozen=True, eq=False)
class VotesBySplit:
    """The votes on every split that has any, and how many of them came from the cache."""

    by_split: Mapping[str, Any]
    known: int = 0
    """The number of labeling functions whose votes on a split were in the cache."""
    total: int = 0
    slowest: str = ""
    """The slowest labeling functions, if voting was slow."""
    failures: FailureLog = field(default_factory=FailureLog)
    """What failed during interactive work."""
    state: LFState | None = None
    """The labeling functions of interactive work, voting or not."""

    @property
    def train(self) -> Any:
        """The votes to learn from."""
        return self.by_split["train"]


def load_project_lfs(project: Project) -> Any:
    """Return the labeling functions of a project; None if votes come from another source."""
    paths = [*map(project.path, project.votes.lfs)]
    if not paths:
        return None
    if project.task == SPANS:
        return load_span_lfs(*paths)
    return load_lfs(*paths) if project.task == ONE_LABEL else load_multilabel_lfs(*paths)


def _apply(project: Project, lfs: Any, split: Any, labels: Any, **how: Any) -> Any:
    """Return the votes of labeling functions on a split; `how` are options of `apply_lfs`."""
    if project.task == SPANS:  # there is no cache and no timeout
        return apply_span_lfs(lfs, split, labels=labels, on_error=how["on_error"])
    if project.task == SEVERAL_LABELS:
        return apply_multilabel_lfs(lfs, split.rows, labels=labels.names, ids="id", **how)
    return apply_lfs(lfs, split.rows, labels=labels, ids="id", **how)


def _read(project: Project, path: Path, labels: Any) -> Any:
    if project.task == SEVERAL_LABELS:
        return read_multilabel_votes(path, labels=labels.names)
    return read_votes(path, labels=labels)


def cast_votes(project: Project, rows: ProjectRows, cache: Path) -> VotesBySplit:
    """Return the votes of labeling functions on all splits, of crowd workers, or of a file."""
    settings, train = project.votes, rows.splits.get("train")
    if rows.lfs is not None:
        kept = VoteCache(cache / "lf_votes.sqlite")
        how = {"cache": kept, "on_error": settings.on_error, "timeout": settings.timeout}
        with timing() as clock:
            votes = {
                name: _apply(project, rows.lfs, split, rows.labels, **how)
                for name, split in rows.splits.items()
            }
        return VotesBySplit(votes, kept.hits, kept.hits + kept.misses, clock.slowest())
    if settings.answers:
        answers = read_answers(
            project.path(settings.answers),
            item=settings.item,
            voter=settings.voter,
            label=settings.label,
            labels=rows.labels,
            items=train.ids,  # type: ignore[union-attr]
        )
        return VotesBySplit({"train": answers})
    if settings.file:
        path = project.path(settings.file)
        found = _read(project, path, rows.labels)
        places = places_of(train.ids, found.ids, path, "votes", "training items")  # type: ignore[union-attr]
        return VotesBySplit({"train": found[places]})
    own = {name: split.votes for name, split in rows.splits.items() if split.votes is not None}
    if "train" not in own:
        raise DataError(f"{project.file}: the data have no votes; name lfs = [...] in [votes].")
    return VotesBySplit(own)


def cast_enabled(
    project: Project, state: LFState, splits: Mapping[str, Any], labels: Any, cache: Path
) -> VotesBySplit:
    """Return the votes of the labeling functions that are switched on and can vote on the rows.

    One that votes for an unknown class, or reads a column that is missing, is left out.
    """
    try:
        return _cast(project, state, splits, labels, cache)
    except WieselError:
        problems = _problems(project, state, splits, labels)
        if not problems:
            raise
        return _cast(project, state.without(problems), splits, labels, cache)


def _cast(
    project: Project, state: LFState, splits: Mapping[str, Any], labels: Any, cache: Path
) -> VotesBySplit:
    if not state.voting:
        nobody = {name: votes_of_nobody(split, labels) for name, split in splits.items()}
        return VotesBySplit(nobody, state=state)
    log = FailureLog()
    kept = VoteCache(cache / "lf_votes.sqlite")
    how = {"cache": kept, "on_error": log, "timeout": project.votes.timeout}
    votes = {
        name: _apply(project, state.voting, split, labels, **how) for name, split in splits.items()
    }
    return VotesBySplit(votes, failures=log, state=state)


def _problems(
    project: Project, state: LFState, splits: Mapping[str, Any], labels: Any
) -> dict[str, str]:
    """Return why labeling functions cannot vote on these rows, by name: each tries one row."""
    found = {}
    for lf in state.voting:
        try:
            for split in splits.values():
                _apply(project, [lf], _first(split), labels, on_error=FailureLog())
        except WieselError as error:
            found[lf.name] = str(error)
    return found


def _first(split: Split | Documents) -> Split | Documents:
    """Return the first row of a split."""
    if isinstance(split, Documents):
        return split.select(slice(0, 1))
    return Split(split.rows.head(1), split.gold[:1])


def votes_of_nobody(split: Any, labels: Any) -> Any:
    """Return votes in which the only voter never votes."""
    names = ["nobody"]
    if isinstance(split, Documents):
        nothing = as_indices(np.full((split.n_tokens, 1), ABSTAIN))
        return TokenVotes(split, VoteMatrix.from_dense(nothing, labels.tags, names))
    ids = split.ids.to_numpy()
    if isinstance(labels, MultiLabelSpace):
        nothing = np.full((len(split), 1, len(labels)), ABSTAIN)
        return MultiLabelVotes.from_dense(nothing, labels.names, names, ids)
    return VoteMatrix.from_dense(as_indices(np.full((len(split), 1), ABSTAIN)), labels, names, ids)
