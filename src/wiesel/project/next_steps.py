"""What to do after a run: the few things that are likely to improve the next one most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiesel.errors import listed
from wiesel.evaluation import Report
from wiesel.project.judged_items import ErrorBucket
from wiesel.project.runs import KeptRun, RunView
from wiesel.project.workspace import Workspace

__all__ = ["NextStep", "next_steps"]

_MOST = 4
_WIDE = 0.05
"""An accuracy that is less certain than this, in each direction, asks for more labels."""
_COVERED = 0.6
_FEW = 3
_SUPPORT = 5


@dataclass(frozen=True, eq=False)
class NextStep:
    """Something to do, in words, and where."""

    kind: str
    """`train`, `label` (rows drawn at random), `rule`, or `rows` (to look at)."""
    text: str
    split: str = "train"
    rows: Any = ()
    """The rows to look at."""


def next_steps(
    space: Workspace,
    run: KeptRun,
    view: RunView,
    report: Report | None,
    buckets: Sequence[ErrorBucket],
) -> list[NextStep]:
    """Return what to do after a run, the most urgent first."""
    steps = [
        *_changed(space, run),
        *_unheard(space),
        *_wrong_rules(space),
        *_errors(view, buckets),
        *_uncertain(space, view.split, report),
        *_uncovered(space),
    ]
    return steps[:_MOST]


def _changed(space: Workspace, run: KeptRun) -> Iterator[NextStep]:
    request = run.about.get("request")
    before = request.get("n_labels") if isinstance(request, dict) else None
    n_labels = len(space.store.labels().drop_nulls("label"))
    what = []
    if isinstance(before, int) and n_labels > before:
        what.append(f"{n_labels - before:,} more rows are labeled")
    known = run.about.get("voters") or []
    if known and space.votes.n_votes and set(known) != set(space.votes.voters):
        what.append("the labeling functions are others")
    if what:
        yield NextStep("train", f"Train again: {' and '.join(what)} since this run.")


def _unheard(space: Workspace) -> Iterator[NextStep]:
    silent = space.silent_classes()
    if silent:
        yield NextStep("rule", f"Write a labeling function for {listed(silent, limit=3)}.")


def _wrong_rules(space: Workspace) -> Iterator[NextStep]:
    if not space.votes.n_votes:
        return
    for row in space.summary().to_dicts():
        if (row.get("support") or 0) >= _SUPPORT and (row.get("precision_high") or 1.0) < 0.5:
            yield NextStep(
                "rule",
                f"Switch off or narrow {row['voter']}: it is right on "
                f"{100 * row['precision']:.0f} % of {row['support']:,} labeled rows.",
            )


def _errors(view: RunView, buckets: Sequence[ErrorBucket]) -> Iterator[NextStep]:
    """The largest group of errors of one rule, else of any kind; test errors are not looked at."""
    large = [each for each in buckets if len(each.rows) >= _FEW]
    if view.split == "test" or not large:
        return
    found = next((each for each in large if each.by == "rule"), large[0])
    yield NextStep(
        "rows",
        f"Look at the {len(found.rows):,} errors with the same {found.by}: {found.name}.",
        view.split,
        found.rows,
    )


def _uncertain(space: Workspace, split: str, report: Report | None) -> Iterator[NextStep]:
    if report is None:
        yield NextStep("label", "Label rows drawn at random: they tell how good the model is.")
        return
    if split != "dev" or space.project.data.dev is not None:
        return  # these labels are in a file
    score = report.accuracy
    half = (score.high - score.low) / 2
    if half == half and half > _WIDE:
        share = float(np.clip(float(score), 0.1, 0.9))
        wanted = round(1.96**2 * share * (1 - share) / _WIDE**2 / 10) * 10
        more = max(10, wanted - report.n_items)
        yield NextStep(
            "label",
            f"Label {more:,} more rows drawn at random: the accuracy is known only to "
            f"{100 * half:.0f} points in each direction.",
        )


def _uncovered(space: Workspace) -> Iterator[NextStep]:
    votes = space.votes
    if votes.n_votes and votes.covered.mean() < _COVERED:
        rows = np.flatnonzero(~votes.covered)
        yield NextStep(
            "rows",
            f"Write labeling functions for the {len(rows):,} rows without a vote "
            f"({100 * len(rows) / len(votes):.0f} %).",
            "train",
            rows,
        )
