"""apply_multilabel_lfs: turns rows into votes on every label."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import LabelingFunctionError, VoteError
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import LabelSpace
from wiesel.lfs.apply import OnError, apply_lfs
from wiesel.lfs.cache import VoteCache
from wiesel.lfs.engines import Engine
from wiesel.lfs.failures import Failure, FailureLog
from wiesel.lfs.preprocessing import Preprocessor
from wiesel.lfs.python_function import PythonFunction
from wiesel.multilabel.functions import (
    MultiLabelFunction,
    as_multilabel_lfs,
    check_labels,
    read_ballot,
)
from wiesel.multilabel.votes import MultiLabelVotes, votes_of_cells
from wiesel.votes import VoteMatrix

__all__ = ["apply_multilabel_lfs"]

_PRESENCE = LabelSpace("absent", "present")
Cells = npt.NDArray[np.int64]
"""Votes as rows of (item, voter, label, present)."""


def apply_multilabel_lfs(  # noqa: PLR0913 - the options of `apply_lfs`
    lfs: Any,
    rows: Any,
    *,
    labels: Sequence[str],
    engine: str | Engine = "local",
    cache: VoteCache | str | os.PathLike[str] | None = None,
    on_error: OnError = "raise",
    ids: str | None = None,
    timeout: float | None = None,
) -> MultiLabelVotes:
    """Return the votes of labeling functions on rows, for every label.

    Python functions return sets of labels (see `multilabel_function`). Builders such as `keywords`
    vote for the one label that they name. The other options are those of `apply_lfs`.

    >>> from wiesel import keywords
    >>> from wiesel.multilabel import multilabel_function
    >>> @multilabel_function(exhaustive=True)
    ... def section(row):
    ...     return {"sports"} if "goal" in row["text"] else None
    >>> lfs = [section, keywords("money", ["bank"], column="text")]
    >>> votes = apply_multilabel_lfs(lfs, [{"text": "a goal at the bank"}, {"text": "a bank"}],
    ...     labels=["sports", "money"])
    >>> votes["money"].dense().tolist()
    [[0, 1], [-1, 1]]
    """
    space = MultiLabelSpace.of(labels)
    functions = as_multilabel_lfs(lfs)
    check_labels(functions, space)
    log = FailureLog()
    stops = on_error == "raise"
    given: Any = log if isinstance(on_error, FailureLog) or on_error == "abstain" else on_error
    options: dict[str, Any] = {"engine": engine, "cache": cache, "ids": ids, "on_error": given}
    options["timeout"] = timeout
    parts, found = [], None
    for make in (_set_votes, _rule_votes):
        own = [k for k, each in enumerate(functions) if each.returns_sets == (make is _set_votes)]
        if own:
            cells, votes = make([functions[k] for k in own], rows, space, options)
            cells[:, 1] = np.asarray(own)[cells[:, 1]]
            parts.append(cells)
            found = votes
    if not stops:
        _report_failures(log, on_error, functions)
    every = found.ids if found is not None else np.empty(0)
    return votes_of_cells(np.concatenate(parts), space, [each.name for each in functions], every)


def _rule_votes(
    functions: Sequence[MultiLabelFunction],
    rows: Any,
    labels: MultiLabelSpace,
    options: dict[str, Any],
) -> tuple[Cells, VoteMatrix]:
    """The votes of functions that vote for one label: rules, models, lookups."""
    votes = apply_lfs([each.lf for each in functions], rows, labels=labels.classes, **options)
    if votes.distribution is not None:
        unsure = functions[int(votes.voter_index[0])].name
        raise VoteError(
            f"A labeling function such as {unsure!r} gives a distribution over the labels; where "
            "an item may have several labels it must name the one it votes for."
        )
    item, voter, named = votes.item_index, votes.voter_index, votes.class_index.astype(np.int64)
    against = np.array([each.against for each in functions])
    parts = [np.stack([item, voter, named, ~against[voter]], axis=1).astype(np.int64)]
    for place, each in enumerate(functions):
        own = np.flatnonzero(voter == place)
        for label in map(labels.index, each.closed_labels(labels)):
            silent = own[named[own] != label]
            cells = np.zeros((len(silent), 4), dtype=np.int64)
            cells[:, 0], cells[:, 1], cells[:, 2] = item[silent], place, label
            parts.append(cells)
    return np.concatenate(parts), votes


def _set_votes(
    functions: Sequence[MultiLabelFunction],
    rows: Any,
    labels: MultiLabelSpace,
    options: dict[str, Any],
) -> tuple[Cells, VoteMatrix]:
    """The votes of functions that return sets: one labeling function per label, called once."""
    single = [lf for each in functions for lf in _one_by_one(each, labels)]
    try:
        votes = apply_lfs(single, rows, labels=_PRESENCE, **options)
    except LabelingFunctionError as error:
        if not isinstance(error.failure, Failure):
            raise
        raise _error_of(_own_failure(error.failure, functions)) from error.__cause__
    voter, label = np.divmod(votes.voter_index.astype(np.int64), len(labels))
    present = votes.class_index.astype(np.int64)
    return np.stack([votes.item_index, voter, label, present], axis=1), votes


def _one_by_one(function: MultiLabelFunction, labels: MultiLabelSpace) -> list[PythonFunction]:
    """One labeling function for each label; all share a single call of the user's function."""
    lf: Any = function.lf
    called = Preprocessor(lf.bound, function.name, lf.uses, is_function=True)
    closed = list(function.closed_labels(labels))
    return [
        PythonFunction(
            _vote_on_label,
            f"{function.name} on {label}",
            False,
            (called,),
            {"ballot": function.name, "label": label, "labels": list(labels), "closed": closed},
        )
        for label in labels
    ]


def _vote_on_label(
    row: Any,
    ballot: str = "",
    label: str = "",
    labels: Sequence[str] = (),
    closed: Sequence[str] = (),
) -> str | None:
    """Return a function's vote on one label; the row contains its answer, under its name."""
    answer = row[ballot]
    # The function of the first label has checked the whole answer.
    if label != labels[0] and isinstance(answer, (set, frozenset)):
        return "present" if label in answer else "absent" if label in closed else None
    votes = read_ballot(answer, labels, closed)
    if votes is None or label not in votes:
        return None
    return _PRESENCE.names[votes[label]]


def _own_failure(failure: Failure, functions: Sequence[MultiLabelFunction]) -> Failure:
    """Return the failure of a function from `_one_by_one` as one of the user's function."""
    for each in functions:
        if each.returns_sets and failure.lf.startswith(f"{each.name} on "):
            return replace(failure, lf=each.name)
    return failure


def _error_of(failure: Failure) -> Exception:
    kind, _, reason = failure.reason.partition(": ")
    if kind in ("VoteError", "DataError"):  # abstaining on errors does not help
        return VoteError(failure.sentence("on", reason))
    return failure.error()


def _report_failures(
    log: FailureLog, on_error: OnError, functions: Sequence[MultiLabelFunction]
) -> None:
    """Report every failure once, under the function's name; a wrong vote is still an error."""
    noted: dict[tuple[str, str], Failure] = {}
    for failure in (_own_failure(each, functions) for each in log.failures):
        error = _error_of(failure)
        if isinstance(error, VoteError):
            raise error
        noted.setdefault((failure.lf, failure.item), failure)
    if isinstance(on_error, FailureLog):
        on_error.add(noted.values())
    elif noted:
        warnings.warn(FailureLog(list(noted.values())).warning(), stacklevel=3)
