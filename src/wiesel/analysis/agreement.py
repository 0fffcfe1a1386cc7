"""Agreement: how often two voters vote on the same item, and how often they agree."""

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.analysis.summary import class_counts
from wiesel.analysis.table import Table, count, number, percent, text
from wiesel.errors import VoteError
from wiesel.labels import FloatArray
from wiesel.threads import check_polars_threads, memory_size
from wiesel.votes import Statistics, VoteMatrix, VoteSource, require_votes

__all__ = ["PairCounts", "agreement", "pair_counts"]

SHARED_ITEMS = 3
"""The minimum number of shared items for duplicates: two rare voters can agree by chance."""

_DENSE_CELLS = 2**23
_DENSE_VOTERS = 4096
_DENSE_SHARE = 0.02
_SUMMED_CELLS = 2**25
"""The maximum size (voters x voters x classes) of sums over parts: 256 MB."""
_PAIR_BYTES = 300
"""Memory for each pair of voters, in the tables and while they are computed."""


class PairCounts(NamedTuple):
    """Pairs of voters that vote on at least one common item, `first` before `second`."""

    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    both: npt.NDArray[np.float64]
    """Items on which both vote."""
    agree: npt.NDArray[np.float64]
    """Items on which both vote for the same class."""
    chance: npt.NDArray[np.float64]
    """The share on which they would agree if they voted independently."""
    either: npt.NDArray[np.float64]
    """Items on which at least one of them votes."""


_PART = 2**18


def agreement(votes: VoteSource, near: float = 0.95) -> Table:
    """Return a row per pair of voters with common items, the most similar pairs first.

    `both` is the number of items on which both vote; `agreement` is the share of these on which
    they vote for the same class. `kappa` is Cohen's kappa, the agreement beyond chance: 1 if they
    always agree, 0 if they are independent, unknown if both always vote for the same class. `same`
    is the share of the items with at least one of their votes on which both cast the same vote.

    Pairs with `same` = 1 are duplicates; pairs with at least `near` are near-duplicates. They add
    little and count twice in a majority vote. Pairs with fewer than three common items come last
    and are neither.

    For ordered classes, `distance` is the mean number of ranks between both votes, and `kappa` is
    weighted by it (linear weights, Cohen 1968): mistakes of neighbors count for less.

    >>> print(agreement(votes).to_text(width=100))
    3 pairs of voters vote together; 0 duplicates, 0 near-duplicates
     first     second   both   agreement   kappa     same   relation
    ─────────────────────────────────────────────────────────────────
     keyword   link        3      66.7 %    0.40   50.0 %   –
     link      length      2      50.0 %    0.00   25.0 %   –
     keyword   length      1     100.0 %       –   25.0 %   –
    """
    require_votes(votes)
    check_polars_threads("agreement")
    frame = _pair_frame(votes, near).sort(
        pl.col("both") >= SHARED_ITEMS, "same", "both", descending=True, maintain_order=True
    )
    relations = frame["relation"]
    caption = (
        f"{len(frame):,} pairs of voters vote together; "
        f"{(relations == 'duplicate').sum():,} duplicates, "
        f"{(relations == 'near-duplicate').sum():,} near-duplicates"
    )
    apart = (number("distance"),) if "distance" in frame.columns else ()
    columns = (
        *(text("first"), text("second"), count("both"), percent("agreement")),
        *(*apart, number("kappa"), percent("same"), text("relation")),
    )
    return Table(frame, columns, caption, limit=20)


def pair_counts(votes: VoteSource) -> PairCounts:
    """Return the counts for every pair of voters with common items.

    The counts are sums of products of (items x voters) indicators, one class at a time, so memory
    grows with the number of pairs, never with items x pairs. Votes that are read part by part are
    summed in a table of voters x voters for each class.
    """
    if isinstance(votes, VoteMatrix):
        _refuse_too_many_pairs(votes)
        return _pairs_of_matrix(votes)
    n_voters, n_classes = len(votes.voters), len(votes.labels)
    if n_classes * n_voters**2 > _SUMMED_CELLS:
        raise VoteError(
            f"The pairs of {n_voters:,} voters and {n_classes} classes are too many to be summed "
            "part by part: read the votes into one VoteMatrix."
        )
    agree, one_sided = votes.sum(_sum_of_pairs)
    both = one_sided.sum(axis=0)
    first, second = np.nonzero(np.triu(both, k=1))
    n_votes = both.diagonal()
    chance = (one_sided * one_sided.transpose(0, 2, 1)).sum(axis=0)[first, second]
    met = both[first, second]
    either = n_votes[first] + n_votes[second] - met
    return PairCounts(first, second, met, agree[first, second], chance / met**2, either)


def _refuse_too_many_pairs(votes: VoteMatrix) -> None:
    """Reject votes whose pairs would fill the memory, which ends the process without a message."""
    per_item = votes.votes_per_item.astype(np.float64)
    met = float((per_item * (per_item - 1)).sum()) / 2
    n_pairs = int(min(met, votes.n_voters * (votes.n_voters - 1) / 2))
    if n_pairs * _PAIR_BYTES > memory_size() / 2:
        raise VoteError(
            f"Up to {n_pairs:,} pairs of the {votes.n_voters:,} voters vote together: too many to "
            "compare in memory. Choose fewer voters."
        )


def _sum_of_pairs(part: VoteMatrix) -> Statistics:
    """Items on which two voters agree, and items on which both vote, by the class of one."""
    voting = _indicator(part, np.ones(part.n_votes, dtype=np.bool_))
    agree = np.zeros((part.n_voters, part.n_voters))
    one_sided = np.zeros((part.n_classes, part.n_voters, part.n_voters))
    for label in range(part.n_classes):
        voting_label = _indicator(part, part.class_index == label)
        agree += _products(voting_label, voting_label).toarray()
        one_sided[label] = _products(voting_label, voting).toarray()
    return agree, one_sided


def _pairs_of_matrix(votes: VoteMatrix) -> PairCounts:
    voting = _indicator(votes, np.ones(votes.n_votes, dtype=np.bool_))
    n_votes = np.bincount(votes.voter_index, minlength=votes.n_voters)
    both = sp.triu(_products(voting, voting), k=1, format="coo")
    first, second = both.coords[0].astype(np.int64), both.coords[1].astype(np.int64)
    agree, chance = np.zeros(both.nnz), np.zeros(both.nnz)
    for label in range(votes.n_classes):
        voting_label = _indicator(votes, votes.class_index == label)
        agree += _values_at(_products(voting_label, voting_label), first, second)
        one_sided = _products(voting_label, voting)
        chance += _values_at(one_sided, first, second) * _values_at(one_sided, second, first)
    either = n_votes[first] + n_votes[second] - both.data
    return PairCounts(first, second, both.data, agree, chance / both.data**2, either)


def _pair_frame(votes: VoteSource, near: float) -> pl.DataFrame:
    pairs = pair_counts(votes)
    names = pl.Series(votes.voters, dtype=pl.String)
    rate, same = pairs.agree / pairs.both, pairs.agree / pairs.either
    beyond = 1 - pairs.chance
    kappa = np.divide(
        rate - pairs.chance, beyond, out=np.full(len(rate), np.nan), where=beyond > 1e-12
    )
    ordered: dict[str, npt.NDArray[np.float64]] = {}
    if votes.labels.ordered and isinstance(votes, VoteMatrix):
        distance, expected = _distances(votes, pairs)
        ordered["distance"] = distance
        # Without any distance expected, kappa is unknown.
        kappa = np.divide(
            expected - distance,
            expected,
            out=np.full(len(rate), np.nan),
            where=expected > 1e-12,
        )
    enough = pl.col("both") >= SHARED_ITEMS
    return pl.DataFrame(
        {
            "first": names.gather(pairs.first),
            "second": names.gather(pairs.second),
            "both": pairs.both.astype(np.int64),
            "agree": pairs.agree.astype(np.int64),
            "agreement": rate,
            **ordered,
            "kappa": pl.Series(kappa).fill_nan(None),
            "same": same,
        }
    ).with_columns(
        relation=pl.when(enough & (pl.col("same") == 1))
        .then(pl.lit("duplicate"))
        .when(enough & (pl.col("same") >= near))
        .then(pl.lit("near-duplicate"))
    )


def _distances(
    votes: VoteMatrix, pairs: PairCounts
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The mean ranks between two voters' votes, and if they voted independently.

    |a - b| is the number of ranks that one vote reaches and the other does not.
    """
    voting = _indicator(votes, np.ones(votes.n_votes, dtype=np.bool_))
    distance, expected = np.zeros(len(pairs.both)), np.zeros(len(pairs.both))
    for rank in range(1, votes.n_classes):
        reaching = _indicator(votes, votes.class_index >= rank)
        alone = _products(reaching, voting)
        first = _values_at(alone, pairs.first, pairs.second) / pairs.both
        second = _values_at(alone, pairs.second, pairs.first) / pairs.both
        both = _values_at(_products(reaching, reaching), pairs.first, pairs.second) / pairs.both
        distance += first + second - 2 * both
        expected += first + second - 2 * first * second
    return distance, expected


def _indicator(
    votes: VoteMatrix, chosen: npt.NDArray[np.bool_]
) -> sp.csr_array[np.float32, tuple[int, int]]:
    """Items x voters; 1 for each chosen vote."""
    starts = np.concatenate([[0], np.cumsum(chosen)])[votes.indptr]
    columns = votes.voter_index[chosen]
    data = np.ones(len(columns), dtype=np.float32)
    return sp.csr_array((data, columns, starts), shape=(votes.n_items, votes.n_voters))


def _products(
    left: sp.csr_array[np.float32, tuple[int, int]],
    right: sp.csr_array[np.float32, tuple[int, int]],
) -> sp.csr_array[np.float64, tuple[int, int]]:
    """left.T @ right, in dense blocks of items if the votes are dense enough for a speedup."""
    n_items, n_voters = right.shape
    dense = n_voters <= _DENSE_VOTERS and right.nnz > _DENSE_SHARE * n_items * n_voters
    if not dense:
        return sp.csr_array((left.T.tocsr() @ right).astype(np.float64))
    total = np.zeros((n_voters, n_voters))
    # A block has fewer than 2**24 items, so that float32 counts are exact.
    step = max(1, _DENSE_CELLS // n_voters)
    for start in range(0, n_items, step):
        block = slice(start, start + step)
        total += left[block].toarray().T @ right[block].toarray()
    return sp.csr_array(total)


def _values_at(
    matrix: sp.csr_array[np.float64, tuple[int, int]],
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    if not len(rows):
        return np.zeros(0)
    return np.asarray(matrix[rows, columns]).ravel()


def majority_agreement(
    votes: VoteSource,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return per voter: agreements with the majority of the others, items, chance agreement.

    If k classes are tied for the majority, an agreement counts 1/k. Votes for a class that no other
    voter ever votes for are left out.
    """
    by_class = class_counts(votes)
    confirmable = (by_class > 0).sum(axis=0) > 1
    agree, shared, leading = votes.sum(partial(_sum_of_agreements, confirmable=confirmable))
    by_class = by_class * confirmable
    shares = by_class / np.maximum(by_class.sum(axis=1, keepdims=True), 1)
    leading = leading / np.maximum(leading.sum(axis=1, keepdims=True), 1e-12)
    return agree, shared, (shares * leading).sum(axis=1)


def _sum_of_agreements(votes: VoteMatrix, confirmable: npt.NDArray[np.bool_]) -> Statistics:
    """Agreements and items per voter, and how often each class leads among the other voters."""
    agree, shared = np.zeros(votes.n_voters), np.zeros(votes.n_voters)
    leading = np.zeros((votes.n_voters, votes.n_classes))
    for start in range(0, votes.n_items, _PART):
        part = votes[start : start + _PART]
        counts = _hard_counts(part)
        others, met = _others(part, counts)
        leading += _leading(part, counts, others)
        met &= confirmable[part.class_index]
        won = others[np.arange(part.n_votes), part.class_index] * met
        agree += np.bincount(part.voter_index, won, minlength=votes.n_voters)
        shared += np.bincount(part.voter_index, met, minlength=votes.n_voters)
    return agree, shared, leading


def _others(
    part: VoteMatrix, counts: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """For each vote: the leading classes among the item's other votes, and if there are any."""
    others = counts[part.item_index]
    others[np.arange(part.n_votes), part.class_index] -= 1
    met = others.sum(axis=1) > 0
    return _leaders(others) * met[:, None], met


def _leading(
    part: VoteMatrix,
    counts: npt.NDArray[np.float64],
    others: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """The leading classes among the others, summed over all items they vote on.

    The shape is (n_voters, n_classes). A voter's votes are subtracted on the items it votes on; on
    all other items, every vote is from others.
    """
    leaders = _leaders(counts) * (counts.sum(axis=1, keepdims=True) > 0)
    changed = others - leaders[part.item_index]
    own = np.stack(
        [
            np.bincount(part.voter_index, changed[:, k], minlength=part.n_voters)
            for k in range(part.n_classes)
        ],
        axis=1,
    )
    total: npt.NDArray[np.float64] = leaders.sum(axis=0) + own
    return total


def _hard_counts(part: VoteMatrix) -> npt.NDArray[np.float64]:
    """Votes per class; a probabilistic vote counts for its most probable class."""
    cells = part.item_index * part.n_classes + part.class_index
    size = part.n_items * part.n_classes
    return np.bincount(cells, minlength=size).reshape(-1, part.n_classes).astype(np.float64)


def _leaders(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """1 for the class with the most votes in each row, shared equally between ties."""
    leads = (counts == counts.max(axis=1, keepdims=True)).astype(np.float64)
    return leads / leads.sum(axis=1, keepdims=True)
