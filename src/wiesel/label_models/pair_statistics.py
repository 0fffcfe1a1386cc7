"""Known relations of two voters: one fixes, has priority over, or reinforces the other.

A statistic is a kind and two voters, as plain data: `Fixes("a", "b")` is ("fixes", "a", "b"), which
files can store. `WeaSEL` and `DataProgramming` read the same statistics.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError, suggest
from wiesel.label_models.vote_products import one_hot_chunks
from wiesel.threads import one_thread
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = [
    "STATISTICS",
    "Fixes",
    "PairStatistic",
    "Prioritizes",
    "Reinforces",
    "counts_with",
    "pair_counts",
    "place_statistics",
    "voter_positions",
]

STATISTICS = ("fixes", "prioritizes", "reinforces")
BLOCK_CELLS = 2**25
"""The most cells of the count matrix in memory: 256 MB, enough for 2,880 binary voters."""

SPARSE_CHUNK_VOTES = 2**19
STATE_CHUNK_ITEMS = 2**15
DENSE_CHUNK_CELLS = 2**20

PAIR_COST, VOTE_COST, CELL_COST, STATE_COST = 4.5e-9, 3e-8, 1.1e-11, 3.5e-9
"""Measured seconds for a pair of votes and a vote of the sparse product, for a cell of the dense
one, and for the states of two groups. They decide between the three ways."""

Columns = npt.NDArray[np.int64]
"""The columns of the one-hot votes that are counted with all others; if all, in order."""

MOST_STATES = 128
"""The most states of a group of voters, so that the table of two groups stays in the cache."""


class PairStatistic(NamedTuple):
    """A kind and two voters."""

    kind: str
    first: str
    second: str


class _Named(PairStatistic):
    """A statistic of a fixed kind, constructed from the two voters."""

    def __new__(cls, first: str, second: str) -> Self:
        return super().__new__(cls, cls.__name__.lower(), first, second)

    def __getnewargs__(self) -> tuple[str, str]:
        return self.first, self.second

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.first!r}, {self.second!r})"


class Fixes(_Named):
    """If both vote and differ, the first corrects the second.

    In `WeaSEL` it adds a column with +1 for the first one's class and -1 for the second one's; in
    `DataProgramming` it is the factor `fixing` of Ratner et al. 2016: 1 if the first is right and
    the second wrong, -1 if only the first votes.

    >>> Fixes("careful", "hasty")
    Fixes('careful', 'hasty')
    """


class Prioritizes(_Named):
    """If both vote, the first has priority over the second.

    In `WeaSEL` it adds a column that is the first one's vote where the second votes too; in
    `DataProgramming` a factor that is, where both vote, 1 if only the first is right and -1 if only
    the second is.

    >>> tuple(Prioritizes("careful", "hasty"))
    ('prioritizes', 'careful', 'hasty')
    """


class Reinforces(_Named):
    """If both vote for the same class, they count more than two voters.

    In `WeaSEL` it adds a column with 1 for that class; in `DataProgramming` it is the factor
    `reinforcing` of Ratner et al. 2016: 1 if both are right, -1 if only the first votes.

    >>> Reinforces("a", "b") == ("reinforces", "a", "b")
    True
    """


def place_statistics(
    statistics: Sequence[Any], voters: Sequence[str]
) -> tuple[tuple[str, int, int], ...]:
    """Return the statistics with voter positions instead of names; raise an error if invalid.

    >>> place_statistics([Fixes("b", "a")], ("a", "b"))
    (('fixes', 1, 0),)
    """
    if isinstance(statistics, PairStatistic) or not isinstance(statistics, (tuple, list)):
        raise ParameterError(
            f"statistics is a list, such as [Fixes('a', 'b')]; got {statistics!r:.60} by itself.",
            option="statistics",
        )
    placed = []
    for given in statistics:
        if not isinstance(given, (tuple, list)) or len(given) != 3 or given[0] not in STATISTICS:
            raise ParameterError(
                "A statistic is Fixes('a', 'b'), Prioritizes('a', 'b') or Reinforces('a', 'b'), or "
                f"the same as ('fixes', 'a', 'b'); got {given!r:.60}.",
                option="statistics",
            )
        placed.append((given[0], *voter_positions("statistic", given, voters)))
    return tuple(placed)


def voter_positions(what: str, given: Sequence[Any], voters: Sequence[str]) -> tuple[int, int]:
    """Return the positions of two voters, the last two entries of `given`.

    >>> voter_positions("dependency", ("similar", "b", "a"), ("a", "b"))
    (1, 0)
    """
    first, second = given[-2:]
    option = {"statistic": "statistics", "dependency": "dependencies"}[what]
    for name in (first, second):
        if name not in voters:
            raise ParameterError(
                f"The {what} {given!r} names {name!r}, which is not a voter. "
                f"{suggest(name, voters)}",
                option=option,
            )
    if first == second:
        raise ParameterError(f"The {what} {given!r} names one voter twice.", option=option)
    return voters.index(first), voters.index(second)


def pair_counts(votes: VoteSource) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """Yield blocks of the pair counts: a slice of voters, and their rows.

    Row `voter * n_classes + class` and column likewise hold the number of items on which both
    votes were cast. There is a single block unless it would be too large. Each block takes one
    pass over the votes.

    >>> [(block.start, block.stop, counts.shape) for block, counts in pair_counts(votes)]
    [(0, 3, (6, 6))]
    """
    n_voters, n_classes = len(votes.voters), len(votes.labels)
    step = max(1, BLOCK_CELLS // (n_voters * n_classes**2))
    for start in range(0, n_voters, step):
        block = slice(start, min(start + step, n_voters))
        (counts,) = votes.sum(_PairCounts(np.arange(block.start, block.stop)))
        yield block, counts


def counts_with(votes: VoteSource, voters: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the rows of the pair counts of some voters, by position.

    >>> counts_with(votes, np.array([2, 0])).shape
    (4, 6)
    """
    (counts,) = votes.sum(_PairCounts(voters))
    return counts


class _PairCounts:
    """The statistic behind `pair_counts`; an object, so that it can be sent to other machines."""

    def __init__(self, voters: npt.NDArray[np.int64]) -> None:
        self.voters = voters

    def __call__(self, part: VoteMatrix) -> Statistics:
        n_classes = part.n_classes
        columns = (self.voters[:, None] * n_classes + np.arange(n_classes)).ravel()
        shape = (len(columns), part.n_voters * n_classes)
        ways = {
            _sparse_product: _sparse_cost(part, shape),
            _dense_product: _dense_cost(part, shape),
        }
        if shape[0] == shape[1] and _states_are_few(part):
            ways[_state_product] = _state_cost(part)
        fastest = min(ways, key=lambda way: ways[way])
        return (fastest(part, columns, shape),)


def _sparse_cost(part: VoteMatrix, shape: tuple[int, int]) -> float:
    per_vote = 1 if part.distribution is None else part.n_classes
    pairs = float(np.square(part.votes_per_item * per_vote).sum())
    return PAIR_COST * pairs * shape[0] / shape[1] + VOTE_COST * part.n_votes * per_vote


def _dense_cost(part: VoteMatrix, shape: tuple[int, int]) -> float:
    return CELL_COST * part.n_items * shape[0] * shape[1]


def _state_cost(part: VoteMatrix) -> float:
    n_groups = -(-part.n_voters // _group_size(part.n_classes))
    return STATE_COST * part.n_items * n_groups * (n_groups + 1) / 2


def _states_are_few(part: VoteMatrix) -> bool:
    """Whether all votes are hard, and the tables of all pairs of groups fit into a block."""
    size = _group_size(part.n_classes)
    n_states, n_groups = (part.n_classes + 1) ** size, -(-part.n_voters // size)
    return part.distribution is None and (n_groups * n_states) ** 2 <= 2 * BLOCK_CELLS


def _group_size(n_classes: int) -> int:
    """The largest number of voters with few enough joint states."""
    return max(1, int(math.log(MOST_STATES) / math.log(n_classes + 1)))


def _sparse_product(
    part: VoteMatrix, columns: Columns, shape: tuple[int, int]
) -> npt.NDArray[np.float64]:
    counts = np.zeros(shape)
    for _, one_hot in one_hot_chunks(part, SPARSE_CHUNK_VOTES):
        left = one_hot if shape[0] == shape[1] else one_hot[:, columns]
        counts += (left.T @ one_hot).toarray()
    return counts


def _dense_product(
    part: VoteMatrix, columns: Columns, shape: tuple[int, int]
) -> npt.NDArray[np.float64]:
    counts = np.zeros(shape)
    mean_votes = part.n_votes / part.n_items
    chunks = one_hot_chunks(part, int(mean_votes * DENSE_CHUNK_CELLS / shape[1]))
    # float32 counts exactly up to 2**24, far more than the items of a chunk.
    blocks = (chunk.one_hot.astype(np.float32).toarray() for chunk in chunks)
    every = shape[0] == shape[1]
    # One thread: more save wall time, but cost CPU time (`python -m benchmarks threads`).
    with one_thread():
        for block in blocks:
            counts += (block if every else block[:, columns]).T @ block
    return counts


def _state_product(
    part: VoteMatrix, columns: Columns, shape: tuple[int, int]
) -> npt.NDArray[np.float64]:
    """Count the states of pairs of groups of voters, then look up the votes in each state."""
    size, n_classes = _group_size(part.n_classes), part.n_classes
    n_states = (n_classes + 1) ** size
    n_groups = -(-part.n_voters // size)
    pairs = [(g, h) for g in range(n_groups) for h in range(g, n_groups)]
    tables = np.zeros((len(pairs), n_states**2), dtype=np.int64)
    for states in _group_states(part, size):
        for table, (g, h) in zip(tables, pairs, strict=True):
            table += np.bincount(states[g] * n_states + states[h], minlength=n_states**2)
    votes_in_state = _votes_in_state(size, n_classes)
    width = size * n_classes
    counts = np.zeros((n_groups * width, n_groups * width))
    for table, (g, h) in zip(tables, pairs, strict=True):
        cell = votes_in_state.T @ table.reshape(n_states, n_states) @ votes_in_state
        counts[g * width : (g + 1) * width, h * width : (h + 1) * width] = cell
        counts[h * width : (h + 1) * width, g * width : (g + 1) * width] = cell.T
    return counts[: shape[0], : shape[1]]


def _group_states(part: VoteMatrix, size: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the state of every group on some items: (n_groups, items).

    A state has one digit for each voter: 0 if it abstains, else its class plus 1.
    """
    n_classes, voter = part.n_classes, np.arange(part.n_voters)
    group = np.repeat(voter // size, n_classes)
    digit = np.tile(np.arange(1, n_classes + 1), part.n_voters)
    value = (digit * np.repeat((n_classes + 1) ** (voter % size), n_classes)).astype(np.float64)
    mean_votes = part.n_votes / part.n_items
    for rows, one_hot in one_hot_chunks(part, int(mean_votes * STATE_CHUNK_ITEMS)):
        n_rows = rows.stop - rows.start
        item = np.repeat(np.arange(n_rows), np.diff(one_hot.indptr))
        cell = group[one_hot.indices] * n_rows + item
        size_of_all = (int(group[-1]) + 1) * n_rows
        states = np.bincount(cell, value[one_hot.indices], minlength=size_of_all)
        yield states.astype(np.int64).reshape(-1, n_rows)


def _votes_in_state(size: int, n_classes: int) -> npt.NDArray[np.float64]:
    """Which votes of a group are cast in each of its states: (n_states, size * n_classes)."""
    state = np.arange((n_classes + 1) ** size)
    place = np.repeat(np.arange(size), n_classes)
    digit = np.tile(np.arange(1, n_classes + 1), size)
    return (state[:, None] // (n_classes + 1) ** place % (n_classes + 1) == digit).astype(float)
