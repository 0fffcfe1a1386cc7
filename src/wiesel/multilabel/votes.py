"""Votes on several labels: one `VoteMatrix` for each label, with the same items and voters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis import summarize
from wiesel.analysis.table import Table, count, interval, percent, text
from wiesel.errors import DataError, VoteError, listed
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import LabelSpace, as_indices
from wiesel.tables import as_frame, in_order_of, require_columns
from wiesel.vote_entries import Rows, item_ids, voter_names
from wiesel.votes import VoteMatrix

__all__ = [
    "Direction",
    "MultiLabelVotes",
    "answering_voters",
    "check_answers",
    "long_answers",
    "votes_of_cells",
    "votes_on_label",
]

Direction = Literal["both", "present", "absent", "none"]
"""Which way the votes on a label go."""
_TRUE = ("true", "1", "yes", "present")
_FALSE = ("false", "0", "no", "absent")


@dataclass(frozen=True, eq=False, repr=False)
class MultiLabelVotes:
    """The votes of all voters for and against every label of each item.

    `votes["sports"]` is an ordinary `VoteMatrix` with the classes `not sports` and `sports`, so
    every label model and every table works with it. `votes[rows]` are the votes on some items.

    >>> votes = MultiLabelVotes.from_long(
    ...     [{"item": 1, "voter": "ann", "label": "sports", "present": True},
    ...      {"item": 1, "voter": "bob", "label": "money", "present": False},
    ...      {"item": 2, "voter": "bob", "label": "sports", "present": True}],
    ...     labels=["sports", "money"])
    >>> votes
    MultiLabelVotes(2 items x 2 voters, labels 'sports', 'money', 3 votes)
    >>> votes["sports"].dense().tolist()
    [[1, -1], [-1, 1]]
    >>> votes[0].to_long().rows()
    [(1, 'ann', 'sports', True), (1, 'bob', 'money', False)]
    """

    made_for: ClassVar[str] = (
        "Several labels for one item are for PerLabel(label_model), MultiLabelCommittee(net) and "
        "votes.summary(); votes['a label'] is a VoteMatrix."
    )
    labels: MultiLabelSpace
    matrices: tuple[VoteMatrix, ...]
    """The votes on every label, in the order of the labels."""

    def __post_init__(self) -> None:
        if len(self.matrices) != len(self.labels):
            raise VoteError(
                f"There are votes on {len(self.matrices)} labels; the labels are "
                f"{listed(self.labels)}."
            )
        first = self.matrices[0]
        for label, matrix in zip(self.labels, self.matrices, strict=True):
            if matrix.labels != self.labels.binary(label):
                raise VoteError(
                    f"The votes on {label!r} have {matrix.labels!r}; expected "
                    f"{self.labels.binary(label)!r}."
                )
            if matrix.voters != first.voters or not np.array_equal(matrix.ids, first.ids):
                raise VoteError(f"The votes on {label!r} are of other items or other voters.")

    @classmethod
    def from_matrices(cls, matrices: Mapping[str, VoteMatrix]) -> "MultiLabelVotes":
        """Make votes from the votes on each label; the second class of each is the label.

        >>> own = VoteMatrix.from_dense([[1]], ["no", "yes"])
        >>> MultiLabelVotes.from_matrices({"sports": own, "money": own}).labels
        MultiLabelSpace('sports', 'money')
        """
        labels = MultiLabelSpace(*matrices)
        for label, matrix in matrices.items():
            if matrix.n_classes != 2:
                raise VoteError(f"The votes on {label!r} have {matrix.n_classes} classes, not 2.")
        named = (_relabeled(matrix, labels.binary(label)) for label, matrix in matrices.items())
        return cls(labels, tuple(named))

    @classmethod
    def from_dense(
        cls,
        array: Any,
        labels: Sequence[str],
        voters: Sequence[str] | None = None,
        ids: Any = None,
    ) -> "MultiLabelVotes":
        """Make votes from (items, voters, labels): 1 present, 0 absent, -1 abstains.

        >>> MultiLabelVotes.from_dense([[[1, 0], [-1, -1]]], ["sports", "money"])
        MultiLabelVotes(1 items x 2 voters, labels 'sports', 'money', 2 votes)
        """
        space = MultiLabelSpace.of(labels)
        dense = np.asarray(array)
        if dense.ndim != 3 or dense.shape[2] != len(space):
            raise VoteError(
                f"Dense votes are items x voters x {len(space)} labels; got the shape "
                f"{dense.shape}."
            )
        names, items = voter_names(voters, dense.shape[1]), item_ids(ids, len(dense))
        return cls(
            space,
            tuple(
                VoteMatrix.from_dense(
                    as_indices(dense[:, :, place]), space.binary(label), names, items
                )
                for place, label in enumerate(space)
            ),
        )

    @classmethod
    def from_long(  # noqa: PLR0913 - every keyword names a column or fixes an order
        cls,
        table: Any,
        *,
        item: str = "item",
        voter: str = "voter",
        label: str = "label",
        present: str = "present",
        labels: Sequence[str] | None = None,
        items: Any = None,
        voters: Sequence[str] | None = None,
    ) -> "MultiLabelVotes":
        """Make votes from a table with a row for each (item, voter, label, present).

        Items keep the order in which they first appear; voters and labels are sorted. `labels`,
        `items` and `voters` set another order. A missing `present` is an abstention; true, 1 and
        `present` mean yes; false, 0 and `absent` mean no. Without the column `present` every row
        means yes.
        """
        frame = as_frame(table)
        require_columns(frame, (item, voter, label), "named in from_long")
        answers = long_answers(frame, item, voter, label, present)
        if labels is None:
            labels = sorted(answers["label"].drop_nulls().unique().to_list())
        space = MultiLabelSpace.of(labels)
        check_answers(answers, space)
        every = answers["item"].drop_nulls().unique(maintain_order=True) if items is None else items
        names = answering_voters(answers) if voters is None else voters
        return cls(
            space, tuple(votes_on_label(answers, space.binary(one), every, names) for one in space)
        )

    @property
    def voters(self) -> tuple[str, ...]:
        """The names of the voters."""
        return self.matrices[0].voters

    @property
    def ids(self) -> npt.NDArray[Any]:
        """The ids of the items."""
        return self.matrices[0].ids

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self.matrices[0].n_items

    @property
    def n_voters(self) -> int:
        """The number of voters."""
        return len(self.voters)

    @property
    def n_votes(self) -> int:
        """The number of votes on all labels."""
        return sum(matrix.n_votes for matrix in self.matrices)

    @cached_property
    def covered(self) -> npt.NDArray[np.bool_]:
        """(n_items, n_labels): whether at least one voter voted."""
        return np.stack([matrix.covered for matrix in self.matrices], axis=1)

    @cached_property
    def directions(self) -> dict[str, Direction]:
        """Which way the votes on every label go: both, present, absent or none."""
        return {
            label: _direction(matrix)
            for label, matrix in zip(self.labels, self.matrices, strict=True)
        }

    def voters_on(self, label: str) -> tuple[str, ...]:
        """Return the voters that vote on a label at all."""
        matrix = self[label]
        return tuple(self.voters[k] for k in np.unique(matrix.voter_index))

    def __len__(self) -> int:
        return self.n_items

    def __getitem__(self, key: Any) -> Any:
        """Return the `VoteMatrix` of a label, or the votes on some items."""
        if isinstance(key, str):
            return self.matrices[self.labels.index(key)]
        rows: Rows = key
        return MultiLabelVotes(self.labels, tuple(matrix[rows] for matrix in self.matrices))

    def select(self, voters: Sequence[str] | Sequence[int]) -> "MultiLabelVotes":
        """Return the votes of some voters, by name or position."""
        return MultiLabelVotes(self.labels, tuple(own.select(voters) for own in self.matrices))

    def split(self, share: float, seed: int = 0) -> tuple["MultiLabelVotes", "MultiLabelVotes"]:
        """Return the votes on a random share of the items, and those on the others.

        >>> votes = MultiLabelVotes.from_dense(np.ones((10, 1, 2)), ["sports", "money"])
        >>> [len(part) for part in votes.split(0.3)]
        [3, 7]
        """
        if not 0 < share < 1:
            raise VoteError(f"A share is between 0 and 1; got {share!r}.")
        order = np.random.default_rng(seed).permutation(self.n_items)
        cut = round(share * self.n_items)
        return self[np.sort(order[:cut])], self[np.sort(order[cut:])]

    def to_long(self) -> pl.DataFrame:
        """Return one row for each vote: item, voter, label, present; ordered by item."""
        parts = []
        for place, matrix in enumerate(self.matrices):
            frame = matrix.to_long().with_columns(
                pl.Series("present", matrix.class_index == 1),
                label=pl.lit(self.labels.names[place]),
                _item=pl.Series(matrix.item_index),
                _voter=pl.Series(matrix.voter_index),
                _label=pl.lit(place),
            )
            parts.append(frame)
        every = pl.concat(parts).sort("_item", "_voter", "_label")
        return every.select("item", pl.col("voter").cast(pl.String), "label", "present")

    def summary(self, gold: Any = None) -> Table:
        """Return a row for each label and voter that votes on it, like those of `summarize`.

        >>> votes = MultiLabelVotes.from_dense([[[1, 0]], [[1, -1]]], ["sports", "money"], ["ann"])
        >>> print(votes.summary())
        2 items, 2 labels, 1 voters
         label    voter   votes for   coverage   overlap   conflict
        ────────────────────────────────────────────────────────────
         sports   ann     sports       100.0 %     0.0 %      0.0 %
         money    ann     not money     50.0 %     0.0 %      0.0 %
        """
        truth = self._truth(gold)
        parts = []
        for place, label in enumerate(self.labels):
            own = (
                self.matrices[place].select(self.voters_on(label)) if self[label].n_votes else None
            )
            if own is not None:
                known = None if truth is None else as_indices(truth[:, place])
                frame = summarize(own, known).frame
                # Recall columns are named after the class, which differs between labels.
                kept = frame.select(pl.exclude("^recall_.*$"))
                parts.append(kept.insert_column(0, pl.lit(label).alias("label")))
        columns = [text("label"), text("voter"), text("polarity", "votes for")]
        columns += [percent(name) for name in ("coverage", "overlap", "conflict")]
        if gold is not None:
            columns += [count("support")]
            columns += [interval("precision", "precision_low", "precision_high")]
        caption = f"{self.n_items:,} items, {len(self.labels)} labels, {self.n_voters:,} voters"
        if not parts:
            return Table(pl.DataFrame(), (), f"{caption}, no votes")
        return Table(pl.concat(parts), tuple(columns), caption)

    def overview(self, gold: Any = None) -> Table:
        """Return a row for each label: who votes on it, how often, and which way."""
        truth = self._truth(gold)
        rows = [self._label_row(place, truth) for place in range(len(self.labels))]
        columns = [text("label"), count("voters"), percent("coverage"), text("direction", "votes")]
        columns += [percent("said_present", "say present"), percent("conflict")]
        if truth is not None:
            columns += [percent("gold_present", "truly present")]
        return Table(pl.DataFrame(rows), tuple(columns), f"{self.n_items:,} items")

    def _truth(self, gold: Any) -> npt.NDArray[np.int64] | None:
        truth = None if gold is None else self.labels.presence(in_order_of(self, gold, "gold"))
        if truth is not None and len(truth) != self.n_items:
            raise DataError(
                f"There are gold labels of {len(truth)} items, and votes on {self.n_items}."
            )
        return truth

    def _label_row(self, place: int, truth: npt.NDArray[np.int64] | None) -> dict[str, Any]:
        label, matrix = self.labels.names[place], self.matrices[place]
        counts = matrix.counts()
        disputed = (counts > 0).all(axis=1)
        direction = self.directions[label]
        row: dict[str, Any] = {
            "label": label,
            "voters": len(self.voters_on(label)),
            "coverage": float(matrix.covered.mean()) if matrix.n_items else None,
            "direction": direction if direction in ("both", "none") else f"{direction} only",
            "said_present": float((matrix.class_index == 1).mean()) if matrix.n_votes else None,
            "conflict": float(disputed.mean()) if matrix.n_items else None,
        }
        if truth is not None:
            known = truth[:, place][truth[:, place] >= 0]
            row["gold_present"] = float(known.mean()) if len(known) else None
        return row

    def check_same_voters(self, voters: tuple[str, ...], labels: LabelSpace) -> None:
        """Raise an error if these votes have other voters or labels."""
        if self.labels != labels:
            raise VoteError(f"These votes have {self.labels!r}; expected {labels!r}.")
        first = self.matrices[0]
        first.check_same_voters(voters, first.labels)

    def equals(self, other: "MultiLabelVotes") -> bool:
        """Whether both contain the same votes of the same voters on the same items."""
        same = self.labels == other.labels
        pairs = zip(self.matrices, other.matrices, strict=True) if same else ()
        return same and all(own.equals(their) for own, their in pairs)

    def __repr__(self) -> str:
        return (
            f"MultiLabelVotes({self.n_items:,} items x {self.n_voters:,} voters, labels "
            f"{listed(self.labels)}, {self.n_votes:,} votes)"
        )


def votes_of_cells(
    cells: npt.NDArray[np.int64], labels: MultiLabelSpace, voters: Sequence[str], ids: Any
) -> MultiLabelVotes:
    """Return the votes from rows of positions (item, voter, label, present), in any order.

    >>> cells = np.array([[0, 0, 1, 1], [0, 0, 0, 0]])
    >>> votes_of_cells(cells, MultiLabelSpace("a", "b"), ["ann"], [7])["a"].dense().tolist()
    [[0]]
    """
    matrices = []
    for place, label in enumerate(labels):
        item, voter, _, presence = cells[cells[:, 2] == place].T
        order = np.lexsort((voter, item))
        counts = np.bincount(item, minlength=len(ids))
        matrices.append(
            VoteMatrix(
                np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
                voter[order].astype(np.int32),
                presence[order].astype(np.int16),
                labels.binary(label),
                tuple(voters),
                item_ids(ids, len(ids)),
            )
        )
    return MultiLabelVotes(labels, tuple(matrices))


def _direction(matrix: VoteMatrix) -> Direction:
    there = np.bincount(matrix.class_index, minlength=2) > 0
    if there.all():
        return "both"
    return "present" if there[1] else "absent" if there[0] else "none"


def _relabeled(matrix: VoteMatrix, labels: LabelSpace) -> VoteMatrix:
    return VoteMatrix(
        matrix.indptr,
        matrix.voter_index,
        matrix.class_index,
        labels,
        matrix.voters,
        matrix.ids,
        matrix.distribution,
    )


def long_answers(
    frame: pl.DataFrame, item: str, voter: str, label: str, present: str
) -> pl.DataFrame:
    """Return the four columns under their standard names; without `present` every row is a yes."""
    values = pl.col(present) if present in frame.columns else pl.lit(True)
    return frame.select(
        item=item,
        voter=pl.col(voter).cast(pl.String),
        label=pl.col(label).cast(pl.String),
        present=values.cast(pl.String).str.to_lowercase(),
    )


def answering_voters(answers: pl.DataFrame) -> list[str]:
    """Return the voters of a table, sorted."""
    return sorted(answers["voter"].drop_nulls().unique().to_list())


def check_answers(answers: pl.DataFrame, labels: MultiLabelSpace) -> None:
    """Refuse unknown labels, values that are neither yes nor no, and duplicate answers."""
    unknown = sorted(set(answers["label"].drop_nulls().to_list()) - set(labels))
    if unknown:
        raise VoteError(f"The table has the label {unknown[0]!r}; the labels are {listed(labels)}.")
    values = answers["present"].drop_nulls()
    wrong = values.filter(~values.is_in([*_TRUE, *_FALSE]))
    if len(wrong):
        raise VoteError(
            f"The column of answers holds {wrong[0]!r}; it must be true or false, 1 or 0, or "
            "missing for an abstention."
        )
    repeated = answers.filter(answers.select("item", "voter", "label").is_duplicated())
    if len(repeated):
        item, voter, label, _ = repeated.row(0)
        raise VoteError(
            f"{voter!r} answers {item!r} twice for {label!r}; each item, voter and label must come "
            "once."
        )


def votes_on_label(
    answers: pl.DataFrame, classes: LabelSpace, items: Any, voters: Sequence[str]
) -> VoteMatrix:
    """Return the votes on one label, whose two classes are `not X` and `X`."""
    absent, present = classes.names
    vote = pl.when(pl.col("present").is_in(_TRUE)).then(pl.lit(present)).otherwise(pl.lit(absent))
    own = answers.filter(pl.col("label") == present).with_columns(
        vote=pl.when(pl.col("present").is_not_null()).then(vote)
    )
    return VoteMatrix.from_long(
        own, item="item", voter="voter", label="vote", labels=classes, items=items, voters=voters
    )
