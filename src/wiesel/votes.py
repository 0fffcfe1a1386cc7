"""VoteMatrix: who voted for what on which item. All of Wiesel shares this type."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import VoteError, as_list, listed, suggest
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.tables import index_ids
from wiesel.vote_entries import (
    Entries,
    Rows,
    answer_table,
    check_array_request,
    check_entries,
    check_voters,
    dense_array,
    dense_entries,
    id_series,
    item_ids,
    long_entries,
    proba_entries,
    row_indices,
    voter_list,
    voter_names,
)

if TYPE_CHECKING:
    import scipy.sparse as sp

__all__ = ["Add", "Statistics", "VoteMatrix", "VoteSource", "add_statistics", "require_votes"]

Statistics = tuple[npt.NDArray[Any], ...]
"""Arrays that are summed over parts of a vote matrix: counts, moments, sums of an E-step."""
Add = Callable[[Statistics, Statistics], Statistics]


def add_statistics(left: Statistics, right: Statistics) -> Statistics:
    """Return the sum of two statistics, array by array.

    >>> add_statistics((np.array([1, 2]),), (np.array([3, 4]),))
    (array([4, 6]),)
    """
    return tuple(np.add(one, other) for one, other in zip(left, right, strict=True))


class VoteSource(Protocol):
    """Votes that are summed part by part: a `VoteMatrix`, or many parts of one."""

    @property
    def labels(self) -> LabelSpace:
        """The classes."""

    @property
    def voters(self) -> tuple[str, ...]:
        """The names of the voters."""

    @property
    def n_items(self) -> int:
        """The number of items in all parts."""

    def sum(self, statistic: Callable[["VoteMatrix"], Statistics], add: Add = ...) -> Statistics:
        """Return the sum of `statistic(part)` over all parts; `add` adds two of them."""

    def parts(self) -> Iterator["VoteMatrix"]:
        """Yield the parts, in the order of the items."""


@dataclass(frozen=True, eq=False, repr=False)
class VoteMatrix:
    """Items x voters, stored sparsely: memory grows with the votes cast.

    A voter is a labeling function or a crowd worker. Votes of item `i` are the entries
    `indptr[i]:indptr[i + 1]`, ordered by voter. A vote is a class, and for probabilistic voters
    also a distribution over classes (`class_index` is then its largest entry). If a voter
    answered an item several times, the distribution is the sum of its answers.

    A matrix is validated on creation and immutable afterward.

    >>> votes = VoteMatrix.from_dense([[0, -1], [1, 1], [-1, -1]], ["ham", "spam"], ["a", "b"])
    >>> votes
    VoteMatrix(3 items x 2 voters, 2 classes, 3 votes, 66.7 % of the items covered)
    >>> votes.counts()
    array([[1., 0.],
           [0., 2.],
           [0., 0.]])
    >>> votes[1].to_long().rows()
    [(1, 'a', 'spam'), (1, 'b', 'spam')]
    """

    indptr: npt.NDArray[np.int64]
    voter_index: npt.NDArray[np.int32]
    class_index: npt.NDArray[np.int16]
    labels: LabelSpace
    voters: tuple[str, ...]
    ids: npt.NDArray[Any]
    distribution: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        entries = Entries(self.indptr, self.voter_index, self.class_index, self.distribution)
        check_entries(entries, self.labels, self.voters, self.ids)
        for array in (self.indptr, self.voter_index, self.class_index, self.ids, self.distribution):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def from_dense(
        cls,
        array: Any,
        labels: LabelSpace | Sequence[str],
        voters: Sequence[str] | None = None,
        ids: Any = None,
    ) -> "VoteMatrix":
        """Make votes from an (n_items, n_voters) array of class indices (-1 abstains) or names.

        The columns of a table are the voters, and the index of a pandas table are the ids. Numbers
        are read as by `LabelSpace.indices`.
        """
        labels = LabelSpace.of(labels)
        dense = dense_array(array)
        if voters is None and hasattr(array, "columns"):
            voters = [str(name) for name in array.columns]
        names = voter_names(voters, dense.shape[1])
        ids = item_ids(index_ids(array) if ids is None else ids, len(dense))
        return cls._of(dense_entries(dense, labels, names), labels, names, ids)

    @classmethod
    def from_proba(
        cls,
        array: Any,
        labels: LabelSpace | Sequence[str],
        voters: Sequence[str] | None = None,
        ids: Any = None,
    ) -> "VoteMatrix":
        """Make probabilistic votes from (items, voters, classes); a zero or NaN row abstains."""
        labels = LabelSpace.of(labels)
        try:
            proba = np.asarray(array, dtype=np.float32)
        except (TypeError, ValueError):
            raise VoteError(
                f"Probabilistic votes are an array of numbers; got {array!r:.60}."
            ) from None
        if proba.ndim != 3 or proba.shape[2] != len(labels):
            raise VoteError(
                f"Probabilistic votes are items x voters x {len(labels)} classes; "
                f"got the shape {proba.shape}."
            )
        names = voter_names(voters, proba.shape[1])
        return cls._of(proba_entries(proba, names), labels, names, item_ids(ids, len(proba)))

    @classmethod
    def from_long(  # noqa: PLR0913 - every keyword names a column or fixes an order
        cls,
        table: Any,
        *,
        item: str,
        voter: str,
        label: str,
        labels: LabelSpace | Sequence[str] | None = None,
        items: Any = None,
        voters: Sequence[str] | None = None,
        duplicates: Literal["refuse", "first", "last", "all"] = "refuse",
    ) -> "VoteMatrix":
        """Make votes from a table with one row per answer: (item, voter, label).

        Items keep the order in which they first appear, voters and classes are sorted. `items`
        and `voters` set the order of both, and keep those without a vote. A missing or blank label
        abstains. A list of probabilities as label is a probabilistic vote. `duplicates` says what
        to do if a voter answered an item twice: `all` adds up the answers in one vote.
        """
        answers = answer_table(table, item, voter, label)
        if items is None:
            items = answers["item"].drop_nulls().unique(maintain_order=True)
        entries, space, names = long_entries(answers, labels, pl.Series(items), voters, duplicates)
        return cls._of(entries, space, names, item_ids(items, len(items)))

    @classmethod
    def _of(
        cls, entries: Entries, labels: LabelSpace, voters: tuple[str, ...], ids: npt.NDArray[Any]
    ) -> "VoteMatrix":
        indptr, voter_index, class_index, distribution = entries
        return cls(indptr, voter_index, class_index, labels, voters, ids, distribution)

    @classmethod
    def concatenate(cls, parts: Sequence["VoteMatrix"]) -> "VoteMatrix":
        """Return the items of all parts, one after the other; voters and classes must agree."""
        parts = as_list(parts, "Parts", "[votes, more_votes]", VoteError)
        if not parts:
            raise VoteError("There is nothing to concatenate: give at least one part.")
        for part in parts:
            require_votes(part)
        first = parts[0]
        for part in parts[1:]:
            part.check_same_voters(first.voters, first.labels)
        ends = np.cumsum([0, *(part.n_votes for part in parts)])
        starts = [part.indptr[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
        known = [part.distribution for part in parts if part.distribution is not None]
        if known and len(known) < len(parts):
            known = [part.vote_rows() for part in parts]
        return cls(
            np.concatenate([*starts, ends[-1:]]),
            np.concatenate([part.voter_index for part in parts]),
            np.concatenate([part.class_index for part in parts]),
            first.labels,
            first.voters,
            np.concatenate([part.ids for part in parts]),
            np.concatenate(known) if known else None,
        )

    @property
    def n_items(self) -> int:
        """The number of items, covered or not."""
        return len(self.indptr) - 1

    @property
    def n_voters(self) -> int:
        """The number of voters."""
        return len(self.voters)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.labels)

    @property
    def n_votes(self) -> int:
        """The number of votes cast."""
        return len(self.voter_index)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of items and voters: the shape of `dense()`."""
        return self.n_items, self.n_voters

    def __len__(self) -> int:
        return self.n_items

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        # For NumPy and scikit-learn. Without it NumPy would treat items as sequences.
        check_array_request(copy)
        return self.dense().astype(dtype or np.int16, copy=False)

    def __repr__(self) -> str:
        covered = 100 * self.covered.mean() if self.n_items else 0.0
        return (
            f"VoteMatrix({self.n_items:,} items x {self.n_voters:,} voters, {self.n_classes} "
            f"classes, {self.n_votes:,} votes, {covered:.1f} % of the items covered)"
        )

    @cached_property
    def covered(self) -> npt.NDArray[np.bool_]:
        """Whether at least one voter voted, for every item."""
        return self.votes_per_item > 0

    @property
    def votes_per_item(self) -> npt.NDArray[np.int64]:
        """How many voters voted, for every item."""
        return np.diff(self.indptr)

    @property
    def item_index(self) -> npt.NDArray[np.int64]:
        """The row of every vote, in the order of `voter_index`."""
        return np.repeat(np.arange(self.n_items), self.votes_per_item)

    def dense(self) -> npt.NDArray[np.int16]:
        """Return an (n_items, n_voters) array of class indices, -1 if a voter abstains."""
        array = np.full((self.n_items, self.n_voters), ABSTAIN, dtype=np.int16)
        array[self.item_index, self.voter_index] = self.class_index
        return self.labels.from_indices(array)

    def one_hot(self) -> "sp.csr_array[np.float32, tuple[int, int]]":
        """Return (n_items, n_voters * n_classes), column `voter * n_classes + class`, float32.

        A probabilistic vote puts its distribution into its voter's columns.
        """
        from scipy.sparse import csr_array  # workers vote without it, and start sooner

        n_classes, width = self.n_classes, self.n_voters * self.n_classes
        dtype = np.dtype(np.int32 if width < 2**31 else np.int64)
        first: npt.NDArray[np.signedinteger[Any]] = self.voter_index.astype(dtype) * n_classes
        if self.distribution is None:
            parts = np.ones(self.n_votes, np.float32), first + self.class_index, self.indptr
        else:
            columns = first[:, None] + np.arange(n_classes, dtype=dtype)
            parts = self.distribution.ravel(), columns.ravel(), self.indptr * n_classes
        return csr_array(parts, shape=(self.n_items, width))

    def counts(self) -> npt.NDArray[np.float64]:
        """Return how many votes (or how much probability) each class got: (n_items, n_classes)."""
        mass: npt.NDArray[np.float64]
        cell = self.item_index * self.n_classes
        size = self.n_items * self.n_classes
        if self.distribution is None:
            mass = np.bincount(cell + self.class_index, minlength=size).astype(np.float64)
        else:
            cells = cell[:, None] + np.arange(self.n_classes)
            weights = self.distribution.ravel()
            mass = np.bincount(cells.ravel(), weights, minlength=size).astype(np.float64)
        return mass.reshape(self.n_items, self.n_classes)

    def vote_rows(self) -> npt.NDArray[np.float32]:
        """Return every vote as a distribution over classes: (n_votes, n_classes)."""
        if self.distribution is not None:
            return self.distribution
        return np.eye(self.n_classes, dtype=np.float32)[self.class_index]

    def to_long(self) -> pl.DataFrame:
        """Return one row per vote: item, voter, label (a distribution for probabilistic votes)."""
        names = pl.Series("voter", list(self.voters), dtype=pl.Enum(self.voters))
        return pl.DataFrame(
            {
                "item": id_series(self.ids).gather(self.item_index),
                "voter": names.gather(self.voter_index),
                "label": self._label_column(),
            }
        )

    def _label_column(self) -> pl.Series:
        if self.distribution is not None:
            return pl.Series("label", self.distribution, pl.Array(pl.Float32, self.n_classes))
        names = pl.Series("label", list(self.labels), dtype=pl.Enum(self.labels.names))
        return names.gather(self.class_index)

    def equals(self, other: "VoteMatrix") -> bool:
        """Whether both contain the same votes of the same voters on the same items."""
        arrays = ("ids", "indptr", "voter_index", "class_index", "distribution")
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
        return self.labels == other.labels and self.voters == other.voters and all(same)

    def sum(
        self, statistic: Callable[["VoteMatrix"], Statistics], add: Add = add_statistics
    ) -> Statistics:
        """Return `statistic(self)`: one matrix is one part (see `VoteSource`)."""
        return statistic(self)

    def parts(self) -> Iterator["VoteMatrix"]:
        """Yield the matrix itself."""
        yield self

    def __getitem__(self, rows: Rows) -> "VoteMatrix":
        """Return the votes on some items: an index, a slice, indices, or a boolean mask."""
        if isinstance(rows, tuple) and rows[1:] == (...,):
            rows = rows[0]  # scikit-learn splits by votes[rows, ...]
        chosen = row_indices(rows, self.n_items)
        lengths = self.votes_per_item[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        # Entry k of the result is entry k of its row, whose votes start at indptr[chosen].
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[chosen] - indptr[:-1], lengths)
        return self._with_entries(entries, indptr, self.voters, self.ids[chosen])

    def select(self, voters: Sequence[str] | Sequence[int]) -> "VoteMatrix":
        """Return the votes of some voters, by name or position, in the order given."""
        chosen = [self._voter_position(voter) for voter in voter_list(voters)]
        position_of = np.full(self.n_voters, -1, dtype=np.int32)
        position_of[chosen] = np.arange(len(chosen), dtype=np.int32)
        if len(set(chosen)) < len(chosen):
            raise VoteError(f"Each voter is selected once; got {listed(voters)}.")
        entries = np.flatnonzero(position_of[self.voter_index] >= 0)
        item, voter = self.item_index[entries], position_of[self.voter_index[entries]]
        if np.any(np.diff(chosen) < 0):
            order = np.lexsort((voter, item))
            entries, item = entries[order], item[order]
        indptr = np.searchsorted(item, np.arange(self.n_items + 1))
        names = tuple(self.voters[position] for position in chosen)
        return self._with_entries(entries, indptr, names, self.ids, position_of)

    def check_same_voters(self, voters: tuple[str, ...], labels: LabelSpace) -> None:
        """Raise an error if these votes have other voters or classes."""
        check_voters((self.voters, self.labels), (voters, labels))

    def _voter_position(self, voter: str | int) -> int:
        if isinstance(voter, str):
            if voter not in self._positions:
                raise VoteError(f"There is no voter {voter!r}. {suggest(voter, self.voters)}")
            return self._positions[voter]
        if not isinstance(voter, (int, np.integer)) or isinstance(voter, bool):
            raise VoteError(f"Voters are selected by name or position; got {voter!r:.60}.")
        if not -self.n_voters <= voter < self.n_voters:
            raise VoteError(f"There is no voter number {voter}; there are {self.n_voters}.")
        return int(voter) % self.n_voters

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.voters)}

    def _with_entries(
        self,
        entries: npt.NDArray[np.int64],
        indptr: npt.NDArray[np.int64],
        voters: tuple[str, ...],
        ids: npt.NDArray[Any],
        position_of: npt.NDArray[np.int32] | None = None,
    ) -> "VoteMatrix":
        voter_index = self.voter_index[entries]
        return VoteMatrix(
            indptr,
            voter_index if position_of is None else position_of[voter_index],
            self.class_index[entries],
            self.labels,
            voters,
            ids,
            None if self.distribution is None else self.distribution[entries],
        )


def require_votes(votes: Any) -> None:
    """Refuse anything but votes: an array names neither the classes nor the voters."""
    if not all(hasattr(votes, name) for name in ("voters", "labels", "parts")):
        making = "Make one with VoteMatrix.from_dense(array, labels), where -1 abstains"
        advice = f"{making}, or with apply_lfs(...)."
        is_list = isinstance(votes, list) and not any(isinstance(x, (list, tuple)) for x in votes)
        if is_list or getattr(votes, "ndim", None) == 1:
            advice = "If these are gold labels, train on them with Supervised(net).fit(X, y)."
        advice = getattr(votes, "made_for", advice)
        raise VoteError(f"votes must be a VoteMatrix; got {type(votes).__name__}. {advice}")
