"""Votes during interactive work, without the labeling functions that cannot vote."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from wiesel.errors import WieselError
from wiesel.io import Split
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.lfs import FailureLog, VoteCache, apply_lfs
from wiesel.lfs.loading import LoadedLFs
from wiesel.project.lf_set import LFState
from wiesel.project.settings import Project
from wiesel.votes import VoteMatrix

__all__ = ["Cast", "cast_lfs"]


@dataclass(frozen=True, eq=False)
class Cast:
    """The votes of the enabled labeling functions, and their failures."""

    by_split: dict[str, VoteMatrix]
    failures: FailureLog = field(default_factory=FailureLog)
    state: LFState | None = None

    @property
    def train(self) -> VoteMatrix:
        """The votes on the training rows."""
        return self.by_split["train"]


def cast_lfs(
    project: Project,
    state: LFState,
    splits: Mapping[str, Split],
    labels: LabelSpace,
    cache: Path,
) -> Cast:
    """Return the votes of the labeling functions that are switched on and can vote on the rows.

    One that votes for an unknown class, or reads a column that is missing, is left out.
    """
    try:
        return _cast(project, state, splits, labels, cache)
    except WieselError:
        problems = _problems(state, splits, labels)
        if not problems:
            raise
        return _cast(project, state.without(problems), splits, labels, cache)


def _cast(
    project: Project,
    state: LFState,
    splits: Mapping[str, Split],
    labels: LabelSpace,
    cache: Path,
) -> Cast:
    if not state.voting:
        return Cast({name: _nobody(split, labels) for name, split in splits.items()}, state=state)
    log = FailureLog()
    votes = {
        name: apply_lfs(
            LoadedLFs(tuple(state.voting)),
            split.rows,
            labels=labels,
            cache=VoteCache(cache / "lf_votes.sqlite"),
            on_error=log,
            ids="id",
            timeout=project.votes.timeout,
        )
        for name, split in splits.items()
    }
    return Cast(votes, log, state)


def _problems(state: LFState, splits: Mapping[str, Split], labels: LabelSpace) -> dict[str, str]:
    """Return why labeling functions cannot vote on these rows, by name: each tries one row."""
    found = {}
    for lf in state.voting:
        try:
            for split in splits.values():
                apply_lfs(lf, split.rows.head(1), labels=labels, on_error=FailureLog())
        except WieselError as error:
            found[lf.name] = str(error)
    return found


def _nobody(split: Split, labels: LabelSpace) -> VoteMatrix:
    """Return a vote matrix in which the only voter never votes."""
    return VoteMatrix.from_dense(
        as_indices(np.full((len(split), 1), ABSTAIN)), labels, ["nobody"], ids=split.ids.to_numpy()
    )
