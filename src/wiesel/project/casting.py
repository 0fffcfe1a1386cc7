"""Votes during interactive work, without the labeling functions that cannot vote."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.errors import WieselError
from wiesel.io import Split
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.lfs import FailureLog, VoteCache, apply_lfs
from wiesel.lfs.loading import LoadedLFs
from wiesel.project.lf_set import LFState
from wiesel.project.settings import Project
from wiesel.votes import VoteMatrix

__all__ = ["Apply", "Cast", "cast_lfs", "nobody", "votes_of_one_label"]


@dataclass(frozen=True, eq=False)
class Cast:
    """The votes of the enabled labeling functions, and their failures."""

    by_split: dict[str, Any]
    """`VoteMatrix`, `MultiLabelVotes` or `TokenVotes`, as the kind of task needs."""
    failures: FailureLog = field(default_factory=FailureLog)
    state: LFState | None = None

    @property
    def train(self) -> Any:
        """The votes on the training rows."""
        return self.by_split["train"]


Apply = Callable[[list[Any], Split, FailureLog], Any]
"""Returns the votes of labeling functions on the rows of a split, or on the first of them."""


def cast_lfs(state: LFState, splits: Mapping[str, Split], apply: Apply) -> Cast:
    """Return the votes of the labeling functions that are switched on and can vote on the rows.

    One that votes for an unknown class, or reads a column that is missing, is left out.
    """
    try:
        return _cast(state, splits, apply)
    except WieselError:
        problems = _problems(state, splits, apply)
        if not problems:
            raise
        return _cast(state.without(problems), splits, apply)


def _cast(state: LFState, splits: Mapping[str, Split], apply: Apply) -> Cast:
    log = FailureLog()
    return Cast(
        {name: apply(state.voting, split, log) for name, split in splits.items()}, log, state
    )


def _problems(state: LFState, splits: Mapping[str, Split], apply: Apply) -> dict[str, str]:
    """Return why labeling functions cannot vote on these rows, by name: each tries one row."""
    found = {}
    for lf in state.voting:
        try:
            for split in splits.values():
                apply([lf], Split(split.rows.head(1), split.gold[:1]), FailureLog())
        except WieselError as error:
            found[lf.name] = str(error)
    return found


def votes_of_one_label(project: Project, labels: LabelSpace, cache: Path) -> Apply:
    """Return what applies the labeling functions of a task with one label."""
    kept = VoteCache(cache / "lf_votes.sqlite")

    def apply(functions: list[Any], split: Split, log: FailureLog) -> VoteMatrix:
        if not functions:
            return nobody(split, labels)
        lfs, timeout = LoadedLFs(tuple(functions)), project.votes.timeout
        how: dict[str, Any] = {"cache": kept, "on_error": log, "ids": "id", "timeout": timeout}
        return apply_lfs(lfs, split.rows, labels=labels, **how)

    return apply


def nobody(split: Split, labels: LabelSpace) -> VoteMatrix:
    """Return a vote matrix in which the only voter never votes."""
    return VoteMatrix.from_dense(
        as_indices(np.full((len(split), 1), ABSTAIN)), labels, ["nobody"], ids=split.ids.to_numpy()
    )
