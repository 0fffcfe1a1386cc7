"""Runs labeling functions on one batch, identically in every engine and every process."""

from collections.abc import Collection, Hashable, Sequence
from contextlib import nullcontext
from typing import Any

from wiesel.errors import WieselError
from wiesel.labels import LabelSpace
from wiesel.lfs.ballots import ColumnVotes, assemble
from wiesel.lfs.batch import Batch
from wiesel.lfs.failures import Failure, timed
from wiesel.lfs.function import LabelingFunction
from wiesel.lfs.python_function import PythonFunction
from wiesel.lfs.rules import LabelRule
from wiesel.votes import VoteMatrix

__all__ = ["passes", "run_in_order", "run_pass", "vote_on_batch"]


def passes(lfs: Sequence[LabelingFunction]) -> list[list[int]]:
    """Return the positions of the labeling functions that run together, pass by pass.

    Rules come first, so that a mistake in a rule shows before slow functions run.
    """
    groups: dict[Hashable, list[int]] = {}
    for position, lf in enumerate(lfs):
        groups.setdefault(lf.pass_key, []).append(position)
    return sorted(groups.values(), key=lambda own: not isinstance(lfs[own[0]], LabelRule))


def run_pass(
    lfs: Sequence[LabelingFunction], batch: Batch, labels: LabelSpace
) -> list[ColumnVotes]:
    """Return the votes of labeling functions of one class on a batch."""
    kind: Any = type(lfs[0])
    try:
        # Each Python function records its own time.
        with nullcontext() if kind is PythonFunction else timed(_name(lfs)):
            votes: list[ColumnVotes] = kind.run_together(lfs, batch, labels)
    except WieselError:
        raise
    except Exception as error:  # noqa: BLE001 - an expression may raise whatever Polars raises
        if len(lfs) == 1:
            return [ColumnVotes.none([_failure(lfs[0], batch, error)])]
        # Run them one by one to find out which one failed.
        return [run_pass([lf], batch, labels)[0] for lf in lfs]
    return votes


def _name(lfs: Sequence[LabelingFunction]) -> str:
    return lfs[0].name if len(lfs) == 1 else f"{len(lfs)} of {type(lfs[0]).__name__}"


def run_in_order(
    lfs: Sequence[LabelingFunction],
    batch: Batch,
    labels: LabelSpace,
    skipped: Collection[int] = (),
) -> list[ColumnVotes]:
    """Return the votes of labeling functions on a batch, pass by pass; those skipped abstain."""
    columns = {position: ColumnVotes.none() for position in skipped}
    for group in passes(lfs):
        positions = [position for position in group if position not in skipped]
        if positions:
            votes = run_pass([lfs[position] for position in positions], batch, labels)
            columns.update(zip(positions, votes, strict=True))
    return [columns[position] for position in range(len(lfs))]


def vote_on_batch(
    lfs: Sequence[LabelingFunction],
    batch: Batch,
    labels: LabelSpace,
    skipped: Collection[int] = (),
) -> tuple[VoteMatrix, list[Failure]]:
    """Return the votes on one batch as part of the vote matrix, and the failures.

    Failures are in the order of the passes, so that every engine stops at the same one.
    """
    columns = run_in_order(lfs, batch, labels, skipped)
    in_turn = [columns[position] for group in passes(lfs) for position in group]
    failures = [failure for column in in_turn for failure in column.failures]
    return assemble(columns, labels, [lf.name for lf in lfs], batch.ids), failures


def _failure(lf: LabelingFunction, batch: Batch, error: Exception) -> Failure:
    lines = str(error).strip().splitlines()
    where = f"rows {batch.start} to {batch.start + len(batch) - 1}"
    return Failure(
        lf.name, where, f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")
    )
