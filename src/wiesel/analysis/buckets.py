"""Rows grouped by gold label, prediction and votes, and rows on which voters differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.summary import conflicted, gold_indices
from wiesel.analysis.table import Table, count, percent, text
from wiesel.errors import DataError, ParameterError, suggest
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.tables import as_frame, in_order_of
from wiesel.threads import check_polars_threads
from wiesel.vote_entries import id_series, voter_list
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["Buckets", "class_names", "disagreements", "label_buckets"]

GOLD, PREDICTED = "gold", "predicted"
_AGREEING = (
    "duplicate",
    "few_votes",
    "constant",
    "one_sided",
    "skewed",
    "single_voter_class",
    "never_alone",
)
_AGAINST_OTHERS = ("spammer", "contrary")


def disagreements(
    votes: VoteMatrix,
    rows: Any,
    voters: Sequence[str] | None = None,
    *,
    finding: Mapping[str, Any] | None = None,
    gold: Any = None,
    limit: int | None = None,
) -> pl.DataFrame:
    """Return the rows on which voters disagree, together with their votes.

    `rows` is the table that was voted on. Without `voters`, the result has the rows on which any
    two disagree, the most disputed first; with one voter, those on which it disagrees with any
    other; with several, those on which they disagree with each other. With `gold`, it has the rows
    on which they are wrong. With `finding` (a record of `findings`), it has the rows behind it.

    >>> rows = {"text": ["hi", "see www", "win www", "www ok"]}
    >>> disagreements(votes, rows, ["keyword", "link"]).to_dicts()
    [{'item': 1, 'text': 'see www', 'vote: keyword': 'ham', 'vote: link': 'spam'}]
    """
    require_votes(votes)
    check_polars_threads("disagreements")
    frame = as_frame(in_order_of(votes, rows, "rows"))
    if len(frame) != votes.n_items:
        raise DataError(f"There are {len(frame):,} rows but votes on {votes.n_items:,} items.")
    if finding is not None:
        voters = list(finding.get("voters") or ()) if voters is None else voters
    voters = None if voters is None else voter_list(voters)
    chosen = None if not voters else votes.select(voters)
    truth = None if gold is None else gold_indices(votes, gold)
    mask = _mask(votes, chosen, truth, finding)
    order = np.flatnonzero(mask)
    if chosen is None:
        order = order[np.argsort(_margins(votes[order]), kind="stable")]
    order = order[:limit]
    return _beside(frame, votes, chosen, truth, order)


def _mask(
    votes: VoteMatrix,
    chosen: VoteMatrix | None,
    truth: npt.NDArray[Any] | None,
    finding: Mapping[str, Any] | None,
) -> npt.NDArray[np.bool_]:
    """Which items to show."""
    kind = "" if finding is None else str(finding.get("kind", ""))
    shown = votes if chosen is None else chosen
    if kind in ("low_coverage", "uncovered_cluster"):
        return ~votes.covered
    if kind in _AGREEING:
        return shown.covered
    if kind == "worse_than_chance" and truth is None:
        raise ParameterError("This finding is based on gold labels: give gold=..., as in findings.")
    if truth is not None:
        return _wrong(shown, truth)
    if chosen is not None and (chosen.n_voters == 1 or kind in _AGAINST_OTHERS):
        return chosen.covered & conflicted(votes)
    return _apart(shown) if kind == "near_duplicate" else conflicted(shown)


def _wrong(votes: VoteMatrix, truth: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    item = votes.item_index
    wrong = (truth[item] != ABSTAIN) & (truth[item] != votes.class_index)
    return np.bincount(item[wrong], minlength=votes.n_items) > 0


def _apart(votes: VoteMatrix) -> npt.NDArray[np.bool_]:
    """Items on which near-duplicates differ: in the class, or in whether they vote at all."""
    some = votes.covered & (votes.votes_per_item < votes.n_voters)
    return some | conflicted(votes)


def _margins(votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """The lead of the top class over the second for each item, as a share of the votes."""
    ranked = np.sort(votes.counts(), axis=1)
    margins: npt.NDArray[np.float64] = (ranked[:, -1] - ranked[:, -2]) / np.maximum(
        votes.votes_per_item, 1
    )
    return margins


def _beside(
    frame: pl.DataFrame,
    votes: VoteMatrix,
    chosen: VoteMatrix | None,
    truth: npt.NDArray[Any] | None,
    order: npt.NDArray[np.int64],
) -> pl.DataFrame:
    """The chosen rows with the votes and, for one voter or all, the votes per class."""
    labels = votes.labels
    columns = [] if "item" in frame.columns else [id_series(votes.ids[order])]
    own = frame if truth is None else frame.drop("gold", strict=False)
    columns += own[order].get_columns()
    if chosen is None or chosen.n_voters == 1:
        counts = votes[order].counts()
        columns += [pl.Series(f"votes: {c}", counts[:, k]) for k, c in enumerate(votes.labels)]
    if chosen is not None:
        dense = chosen[order].dense()
        columns += [
            class_names(f"vote: {voter}", labels, dense[:, j])
            for j, voter in enumerate(chosen.voters)
        ]
    if truth is not None:
        columns.append(class_names("gold", labels, truth[order]))
    return pl.DataFrame(columns)


def class_names(title: str, labels: LabelSpace, classes: npt.NDArray[Any]) -> pl.Series:
    """Return the names of class indices as a column; null if there is no class."""
    names = pl.Series(labels.names, dtype=pl.String)
    known = pl.Series(classes.astype(np.int64)).replace(ABSTAIN, None)
    return names.gather(known).alias(title)


@dataclass(frozen=True, eq=False, repr=False)
class Buckets:
    """Rows grouped by their labels; returned by `label_buckets`.

    It prints as a table of all combinations that occur. `rows(gold=..., predicted=...)` returns the
    rows of some of them.
    """

    frame: pl.DataFrame
    """The rows, preceded by the columns that they are grouped by."""
    by: Mapping[str, str]
    """The groupings (`gold`, `predicted`, voters), each with its column in `frame`."""

    @property
    def table(self) -> Table:
        """The number of rows for each combination that occurs, the most frequent first."""
        keys = list(self.by.values())
        number, share = (name if name not in keys else f"{name}_" for name in ("items", "share"))
        found = self.frame.select(keys).group_by(keys, maintain_order=True).len(number)
        found = found.sort(number, descending=True, maintain_order=True)
        found = found.with_columns((pl.col(number) / len(self.frame)).alias(share))
        columns = [text(column, name) for name, column in self.by.items()]
        shown = (count(number, "items"), percent(share, "share"))
        return Table(found, (*columns, *shown), f"{len(self.frame):,} rows")

    def rows(self, **wanted: Any) -> pl.DataFrame:
        """Return the rows with these labels: `rows(gold="spam", predicted="ham")`.

        Select a voter's votes by its name (`rows(**{"my voter": "spam"})`). None stands for an
        unknown label or an abstention.
        """
        mask = pl.lit(True)
        for name, value in wanted.items():
            if name not in self.by:
                raise ParameterError(
                    f"These rows are not grouped by {name!r}. {suggest(name, self.by)}"
                )
            column = pl.col(self.by[name])
            mask &= column.is_null() if value is None else column.eq_missing(pl.lit(str(value)))
        return self.frame.filter(mask)

    def __len__(self) -> int:
        return len(self.table)

    def __str__(self) -> str:
        return self.table.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table.to_html()


def label_buckets(
    rows: Any,
    *,
    gold: Any = None,
    predicted: Any = None,
    votes: VoteMatrix | None = None,
    labels: Any = None,
) -> Buckets:
    """Return rows grouped by gold label, prediction, and votes.

    `gold` and `predicted` have one label per row: a name or an index, None if unknown. The classes
    are those of `votes`, or `labels`. If there are many voters, select a few:
    `votes.select([...])`.

    >>> rows = {"text": ["hi", "see www", "win www", "www ok"]}
    >>> gold, found = ["ham", "ham", "spam", "spam"], ["ham", "spam", "spam", "spam"]
    >>> buckets = label_buckets(rows, gold=gold, predicted=found, votes=votes.select(["link"]))
    >>> print(buckets)
    4 rows
     gold   predicted   link   items    share
    ──────────────────────────────────────────
     spam   spam        spam       2   50.0 %
     ham    ham         ham        1   25.0 %
     ham    spam        spam       1   25.0 %
    >>> buckets.rows(gold="ham", predicted="spam")["text"].to_list()
    ['see www']
    """
    check_polars_threads("label_buckets")
    if votes is not None:
        require_votes(votes)
    rows = in_order_of(votes, rows, "rows")
    frame = as_frame(rows)
    space = LabelSpace.of(labels) if labels is not None else getattr(votes, "labels", None)
    if space is None:
        raise ParameterError("The classes are unknown: give votes=... or labels=[...].")
    given: dict[str, pl.Series] = {}
    for name, values in ((GOLD, gold), (PREDICTED, predicted)):
        if values is not None:
            values = in_order_of(rows if votes is None else votes, values, name)
            indices = space.indices(values, allow_unknown=True)
            _check_length(frame, len(indices), name)
            given[name] = class_names(name, space, indices)
    if votes is not None:
        _check_length(frame, votes.n_items, "votes")
        dense = votes.dense()
        given |= {v: class_names(v, space, dense[:, j]) for j, v in enumerate(votes.voters)}
    if not given:
        raise ParameterError("There is nothing to group by: give gold, predicted or votes.")
    # A column of the rows may have the same name as one of these.
    by = {name: f"label: {name}" if name in frame.columns else name for name in given}
    columns = [series.alias(by[name]) for name, series in given.items()]
    return Buckets(pl.DataFrame([*columns, *frame.get_columns()]), by)


def _check_length(frame: pl.DataFrame, found: int, what: str) -> None:
    if found != len(frame):
        raise DataError(f"There are {len(frame):,} rows, but {what} for {found:,}.")
