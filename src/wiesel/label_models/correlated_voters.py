"""CorrelatedVoters: votes weighted by what they say, and by how much they repeat each other."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import ParameterError
from wiesel.label_models.base import LabelModel
from wiesel.parameters import check_number
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = ["CorrelatedVoters"]

Array = npt.NDArray[np.float64]

_MOST_VOTERS = 1_000
_KNOWN = 0.6
"""The correlation with the class of a voter about which nothing is known."""
_LOWEST, _HIGHEST = 0.02, 0.98
_LEAST_NOISE = 0.05
"""The smallest variance of the errors in any direction, as a share of a voter's variance."""
_ROUNDS, _STEPS = 10, 100
_NUMBERS_AT_ONCE = 2**22
"""Numbers for pairs of voters that are computed together, of so many classes."""
_GRADES = 20
"""Grades are read in steps of 1 / 20."""
_PSEUDO_VOTES = 5.0
"""Votes with the mean of all grades that are added to those with each grade."""


@dataclass(eq=False, kw_only=True)
class CorrelatedVoters(LabelModel):
    """A linear discriminant of votes whose errors are correlated, learned without labels.

    For each class c, let x_j be the probability that voter j gives c (0 or 1 for plain votes),
    minus its mean, over its standard deviation. The model is::

        x_j = a_j z + e_j,   z = whether the class is c, standardized,   Cov(e) = E

    Correlations of votes are then `R = a a' + E`. The vector `a` is fitted to the correlations of
    pairs that fit it (pairs that correlate more than that share errors, and count less), and the
    rest is E. Voters are weighted by `E^-1 a`: nine judges that make the same errors count about as
    much as one. An item's logit is that of a linear discriminant on the voters that voted on it.
    Grades (probabilistic votes) are read by what they are worth, which differs between judges: in
    place of a grade stands the mean x of the other voters on the items that the judge graded so.
    Voters are assumed to be better than chance. Errors that all voters share equally, or that most
    voters share, look like the class; a few gold labels show them (`wiesel.end_to_end.Stacked`).
    Made for panels of judges that vote on most items, such as language models, and for grades.

    >>> from wiesel.datasets import make_panel
    >>> votes, gold = make_panel(2000)  # judges with shared errors
    >>> model = CorrelatedVoters().fit(votes)
    >>> bool((model.predict_proba(votes).argmax(axis=1) == gold).mean() > 0.76)
    True
    """

    shrinkage: float = 400.0
    """The number of items by which the correlation of a pair's errors is shrunk toward zero."""
    power: float = 0.5
    """How sure a panel is: logits are divided by this power of its information, relative to that of
    its best voter. 0 trusts that no error is common to all; 1 is as sure as the best voter alone.
    It does not change which class is the most probable."""

    discriminant_: Array = field(init=False, repr=False)
    """(n_voters, n_classes): the weight of the standardized vote of a voter on a class."""
    reliabilities_: Array = field(init=False, repr=False)
    """(n_voters, n_classes): a, the correlation of a vote with the class."""
    error_covariance_: Array = field(init=False, repr=False)
    """(n_classes, n_voters, n_voters): E, in units of a voter's variance."""
    means_: Array = field(init=False, repr=False)
    """(n_voters, n_classes): the mean probability of a class."""
    scales_: Array = field(init=False, repr=False)
    """(n_voters, n_classes): its standard deviation; 0 if it never varies."""
    grades_: Array = field(init=False, repr=False)
    """(n_voters, n_classes, n_grades): what stands for a probability of 0, 0.05, ..., 1; empty if
    no vote is a grade."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "shrinkage", self.shrinkage, low=0)
        check_number(self, "power", self.power, low=0, high=1)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        n_voters, n_classes = len(votes.voters), len(votes.labels)
        if n_voters > _MOST_VOTERS:
            raise ParameterError(
                f"CorrelatedVoters compares all pairs of voters, so it takes at most "
                f"{_MOST_VOTERS:,}; there are {n_voters:,}. Use DawidSkene or MajorityVote."
            )
        self.grades_ = np.zeros((n_voters, n_classes, 0))
        sums = _Moments(*votes.sum(_MomentSums(self.grades_)))
        own = np.diag(sums.both)
        self.means_, self.scales_ = _spread(sums)
        if class_balance is None:
            shares = (self.means_ * own[:, None]).sum(axis=0) + 1
            self.class_balance_ = shares / shares.sum()
        counts, totals = votes.sum(_GradeSums(self.means_, self.scales_))
        if counts[:, :, 1:-1].any():  # a grade between no and yes
            self.grades_ = _worth(counts, totals)
            sums = _Moments(*votes.sum(_MomentSums(self.grades_)))
            self.means_, self.scales_ = _spread(sums)
        known = sums.both / (sums.both + self.shrinkage) * (1 - np.eye(n_voters))
        self.reliabilities_ = np.zeros((n_voters, n_classes))
        self.error_covariance_ = np.zeros((n_classes, n_voters, n_voters))
        n_at_once = max(1, _NUMBERS_AT_ONCE // n_voters**2)
        for start in range(0, n_classes, n_at_once):
            some = slice(start, start + n_at_once)
            scales = self.scales_.T[some]
            pairs, varies = _correlations(sums, some, scales), scales > 0
            a = _reliabilities(pairs, known * _products(varies.astype(np.float64))) * varies
            self.reliabilities_[:, some] = a.T
            self.error_covariance_[some] = _error_covariance(pairs, a, known)
        solved: Any = np.linalg.solve(self.error_covariance_, self.reliabilities_.T[:, :, None])
        self.discriminant_ = solved[:, :, 0].T

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        proba = np.empty((votes.n_items, votes.n_classes))
        for start in range(0, votes.n_items, 4096):
            rows = slice(start, start + 4096)
            proba[rows] = self._proba_of_chunk(votes[np.arange(votes.n_items)[rows]])
        proba[~votes.covered] = self.class_balance_
        return proba

    def _proba_of_chunk(self, votes: VoteMatrix) -> Array:
        shares, mask = _dense_shares(votes, self.grades_)
        balance = np.clip(self.class_balance_, 1e-6, 1 - 1e-6)
        spread = np.sqrt(balance * (1 - balance))
        logits = np.empty((votes.n_items, votes.n_classes))
        for c in range(votes.n_classes):
            varies = self.scales_[:, c] > 0
            scale = np.where(varies, self.scales_[:, c], 1)
            x = np.where(mask & varies, (shares[:, :, c] - self.means_[:, c]) / scale, 0)
            weights = np.where(mask & varies, self.discriminant_[:, c], 0)
            signal = weights @ self.reliabilities_[:, c]
            noise = ((weights @ self.error_covariance_[c]) * weights).sum(axis=1)
            score = (x * weights).sum(axis=1)
            # The means of the two groups are signal * z; the logit is that of two normals.
            present, absent = (1 - balance[c]) / spread[c], -balance[c] / spread[c]
            middle = signal * (present + absent) / 2
            gain = np.where(noise > 0, signal / np.maximum(noise, 1e-12), 0)
            prior = np.log(balance[c]) - np.log1p(-balance[c])
            logits[:, c] = prior + gain * (present - absent) * (score - middle)
            alone = np.where(mask, self._alone(c), 0).max(axis=1)
            together = np.maximum(gain * signal, alone)
            more = np.where(alone > 0, together / np.where(alone > 0, alone, 1), 1)
            logits[:, c] /= more**self.power
        log_proba = -np.logaddexp(0, -logits)
        log_proba -= log_proba.max(axis=1, keepdims=True)
        proba = np.exp(log_proba)
        normalized: Array = proba / proba.sum(axis=1, keepdims=True)
        return normalized

    def standardized(self, votes: VoteMatrix) -> Array:
        """Return x of every vote, 0 where there is none: (n_items, n_voters, n_classes)."""
        shares, mask = _dense_shares(votes, self.grades_)
        varies = self.scales_ > 0
        x = (shares - self.means_) / np.where(varies, self.scales_, 1)
        return np.where(mask[:, :, None] & varies, x, 0)

    def _alone(self, c: int) -> Array:
        """The information of every voter by itself on a class: its signal over its noise."""
        noise = np.diag(self.error_covariance_[c])
        return np.where(self.scales_[:, c] > 0, self.reliabilities_[:, c] ** 2 / noise, 0)


class _Moments(NamedTuple):
    """Sums over the items on which both voters of a pair vote."""

    both: Array
    """(voters, voters): the number of these items."""
    first: Array
    """(classes, voters, voters): the probabilities that the first voter gives the class."""
    products: Array
    """(classes, voters, voters): the products of both voters' probabilities."""


@dataclass(frozen=True, eq=False)
class _MomentSums:
    """The statistic of `_Moments`; an object, so that it can be sent to other machines."""

    grades: Array

    def __call__(self, votes: VoteMatrix) -> Statistics:
        rows = _rows(votes, self.grades)
        shape = (votes.n_items, votes.n_voters)

        def matrix(values: Array) -> sp.csr_array:
            return sp.csr_array((values, votes.voter_index, votes.indptr), shape=shape)

        cast = matrix(np.ones(votes.n_votes))
        by_class = [matrix(rows[:, c]) for c in range(votes.n_classes)]
        return (
            (cast.T @ cast).toarray(),
            np.stack([(own.T @ cast).toarray() for own in by_class]),
            np.stack([(own.T @ own).toarray() for own in by_class]),
        )


@dataclass(frozen=True, eq=False)
class _GradeSums:
    """Sums over the votes of each voter with each grade: their number, and what others say."""

    means: Array
    scales: Array

    def __call__(self, votes: VoteMatrix) -> Statistics:
        n_classes = votes.n_classes
        shape = (votes.n_voters, n_classes, _GRADES + 1)
        counts, totals = np.zeros(shape), np.zeros(shape)
        rows, voter, item = _rows(votes), votes.voter_index, votes.item_index
        grade = np.rint(rows * _GRADES).astype(np.int64)
        for c in range(n_classes):
            scale = self.scales[voter, c]
            varies = scale > 0
            x = np.where(
                varies, (rows[:, c] - self.means[voter, c]) / np.where(varies, scale, 1), 0
            )
            others = np.bincount(item, x, minlength=votes.n_items)[item] - x
            n_others = np.bincount(item, varies, minlength=votes.n_items)[item] - varies
            known = n_others > 0
            place = voter[known], c, grade[known, c]
            np.add.at(counts, place, 1.0)
            np.add.at(totals, place, others[known] / n_others[known])
        return counts, totals


def _worth(counts: Array, totals: Array) -> Array:
    """What stands for each grade of each voter: the others' mean, shrunk to that of all grades."""
    n_all = np.maximum(counts.sum(axis=2, keepdims=True), 1)
    mean = totals.sum(axis=2, keepdims=True) / n_all
    found = (totals + _PSEUDO_VOTES * mean) / (counts + _PSEUDO_VOTES)
    grid = np.arange(_GRADES + 1)
    for place in np.ndindex(*counts.shape[:2]):
        given = np.flatnonzero(counts[place])
        if len(given):  # grades that were never given lie between those that were
            found[place] = np.interp(grid, given, found[place][given])
    return found


def _spread(sums: _Moments) -> tuple[Array, Array]:
    """The means and the standard deviations of the votes of all voters; 0 if they never vary."""
    place = np.arange(len(sums.both))
    cast = np.maximum(np.diag(sums.both), 1)[:, None]
    means = sums.first[:, place, place].T / cast
    variances = sums.products[:, place, place].T / cast - means**2
    return means, np.sqrt(np.where(variances > 1e-9, variances, 0))


def _rows(votes: VoteMatrix, grades: Array | None = None) -> Array:
    """(votes, classes): the probabilities in every vote, or what stands for them."""
    rows = votes.vote_rows().astype(np.float64)
    rows /= np.maximum(rows.sum(axis=1, keepdims=True), 1e-12)
    if grades is None or not grades.shape[2]:
        return rows
    place = rows * _GRADES
    low = np.minimum(place.astype(np.int64), _GRADES - 1)
    voter, c = votes.voter_index[:, None], np.arange(votes.n_classes)
    below, above = grades[voter, c, low], grades[voter, c, low + 1]
    worth: Array = below + (place - low) * (above - below)
    return worth


def _dense_shares(votes: VoteMatrix, grades: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """(items, voters, classes) probabilities or what stands for them, and where there is a vote."""
    shares = np.zeros((votes.n_items, votes.n_voters, votes.n_classes))
    mask = np.zeros((votes.n_items, votes.n_voters), dtype=bool)
    shares[votes.item_index, votes.voter_index] = _rows(votes, grades)
    mask[votes.item_index, votes.voter_index] = True
    return shares, mask


def _products(values: Array) -> Array:
    """(classes, voters, voters): the products of all pairs of values of (classes, voters)."""
    return np.asarray(values[:, :, None] * values[:, None, :])


def _correlations(sums: _Moments, classes: slice, scales: Array) -> Array:
    """(classes, voters, voters): the correlations of all pairs; 0 where one does not vary."""
    both, first = np.maximum(sums.both, 1), sums.first[classes]
    covariance = sums.products[classes] / both - first * first.transpose(0, 2, 1) / both**2
    units = _products(scales)
    found = np.where(units > 0, covariance / np.where(units > 0, units, 1), 0)
    return np.clip(found, -1, 1)


def _reliabilities(pairs: Array, known: Array) -> Array:
    """The vectors `a` of (classes, voters) with `a_j a_k` close to the correlations of most pairs.

    Medians come first, because a few pairs that share many errors must not decide. Least squares
    are more exact, and pairs that correlate more than expected count less there.
    """
    a = _by_medians(pairs, known)
    for _ in range(_ROUNDS):
        away = pairs - _products(a)
        usual = _medians(np.abs(away), known > 0)[:, None, None] + 1e-3
        weights = known / (1 + (np.maximum(away, 0) / usual) ** 2)
        weighted, left = weights * pairs, np.arange(len(a))
        for _ in range(_STEPS):
            own = a[left]
            top = np.einsum("cjk,ck->cj", weighted[left], own)
            bottom = np.einsum("cjk,ck->cj", weights[left], own**2)
            wanted = np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1), own)
            step = np.clip(wanted, _LOWEST, _HIGHEST) - own
            a[left] = own + 0.5 * step
            left = left[np.abs(step).max(axis=1) >= 1e-12]
            if not len(left):
                break
    return a


def _medians(values: Array, counted: npt.NDArray[np.bool_]) -> Array:
    """The median of the counted values of every class; 0 if there are none."""
    flat = np.where(counted, values, np.inf).reshape(len(values), -1)
    return _median_of_sorted(np.sort(flat, axis=1), counted.sum(axis=(1, 2)))


def _median_of_sorted(values: Array, n: npt.NDArray[np.int64]) -> Array:
    """The medians of the first n values in the last axis; 0 if there are none."""
    low, high = np.maximum(n - 1, 0) // 2, n // 2
    low, high = low[..., None], np.minimum(high, values.shape[-1] - 1)[..., None]
    both = [np.take_along_axis(values, place, axis=-1)[..., 0] for place in (low, high)]
    return np.where(n > 0, (both[0] + both[1]) / 2, 0.0)


def _by_medians(pairs: Array, known: Array) -> Array:
    a, n = np.full(pairs.shape[:2], _KNOWN), (known > 0).sum(axis=2)
    left = np.flatnonzero(n.any(axis=1))
    for _ in range(_STEPS):
        own = a[left]
        ratios = np.where(known[left] > 0, pairs[left] / own[:, None, :], np.inf)
        medians = _median_of_sorted(np.sort(ratios, axis=2), n[left])
        step = np.where(n[left] > 0, np.clip(medians, _LOWEST, _HIGHEST) - own, 0.0)
        a[left] = own + 0.5 * step
        left = left[np.abs(step).max(axis=1) >= 1e-9]
        if not len(left):
            break
    return a


def _error_covariance(pairs: Array, a: Array, known: Array) -> Array:
    """E: what the correlations are beyond `a a'`, shrunk, with positive eigenvalues."""
    errors = (pairs - _products(a)) * known
    place = np.arange(a.shape[1])
    errors[:, place, place] = np.maximum(1 - a**2, _LEAST_NOISE)
    values, vectors = np.linalg.eigh(errors)
    scaled = vectors * np.maximum(values, _LEAST_NOISE)[:, None, :]
    return np.asarray(scaled @ vectors.transpose(0, 2, 1))
