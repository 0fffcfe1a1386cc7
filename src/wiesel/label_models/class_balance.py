"""Estimates P(class) without gold labels, from the joint votes of three groups of voters."""

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import WieselWarning
from wiesel.label_models.vote_products import (
    CHUNK_VOTES,
    one_hot_chunks,
    vote_totals,
)
from wiesel.labels import FloatArray, IntArray
from wiesel.threads import one_thread
from wiesel.votes import Statistics, VoteMatrix, VoteSource, require_votes

__all__ = ["estimate_class_balance"]

N_GROUPS = 5
"""The number of groups for many voters: ten triples, each with most of the votes."""

ENOUGH_ITEMS = 2**18

ENOUGH_CELLS = 2**18
"""The most items times classes in the sample, which bounds the cost of a step."""

SAMPLED_VOTES = 2**14
"""About how many votes lie together in a sample of the items."""

MOST_CLASSES = 64
"""With more classes, each has so few items that the vote shares are no worse."""

LOOK_UP_COST = 8
"""The measured cost of a cell that is looked up, relative to a cell of a whole table."""

NO_GAIN = 0.3
"""The gain in log-likelihood (twice, for an average triple) that is attributed to chance, for each
class but one. Random votes gain about half as much."""

SMALLEST = 1e-3
"""The smallest estimate: a prior of zero would rule out a class for good."""


def estimate_class_balance(votes: VoteSource) -> npt.NDArray[np.float64]:
    """Estimate P(class) from votes alone, in the order of `votes.labels`.

    Pairs of voters cannot distinguish a rare class from a class with few votes; triples can.
    With voters a, b and c independent given the class y,

        P(a, b, c) = sum over y of p_y P(a | y) P(b | y) P(c | y)

    where abstaining is an outcome too. Voters are first assigned to groups, and the vote of a group
    is its majority: groups are as independent as voters and cover far more items. The likelihood of
    all triples of groups is then maximized over p and P(. | y). More than half a million items are
    sampled, with an error of a tenth of a percent; the more classes, the smaller the sample. With
    more than 64 classes the shares of the votes are
    returned, with a warning.

    Ratner et al. 2019, "Training complex models with multi-task weak supervision", AAAI, and its
    MeTaL library, which fits triples of single voters.

    >>> estimate_class_balance(votes).shape
    (2,)
    """
    require_votes(votes)
    if len(votes.voters) < 3:
        warnings.warn(
            f"The class balance is learned from at least three voters; there are "
            f"{len(votes.voters)}. Taking the shares of the votes.",
            WieselWarning,
            stacklevel=2,
        )
        return _floored(vote_totals(votes).sum(axis=0))
    if len(votes.labels) > MOST_CLASSES:
        warnings.warn(
            f"The class balance of at most {MOST_CLASSES} classes is learned from triples of "
            f"voters; there are {len(votes.labels)}. Taking the shares of the votes.",
            WieselWarning,
            stacklevel=2,
        )
        return _floored(vote_totals(votes).sum(axis=0))
    # Sort classes by name, so that the result does not depend on their order.
    by_name = np.argsort(votes.labels.names)
    groups = _deal(vote_totals(votes)[:, by_name], votes.voters)
    enough = min(ENOUGH_ITEMS, ENOUGH_CELLS // len(by_name))
    (tables,) = votes.sum(_TripleCounts(groups, max(1, votes.n_items // enough)))
    outcomes = [*by_name, len(by_name)]
    prior = np.empty(len(by_name))
    prior[by_name] = _fit(tables[np.ix_(range(len(tables)), outcomes, outcomes, outcomes)])
    return prior


@one_thread()
def _fit(tables: FloatArray) -> npt.NDArray[np.float64]:
    """P(class) from the counts of triples (triples, outcomes, outcomes, outcomes)."""
    model = _TripleModel(tables)
    loss, logits = model.minimize(model.start())
    # Either start may lead to a local minimum, which would exaggerate the gain.
    equal_starts = (model.start(), model.with_equal_classes(logits))
    equal_loss = min(model.minimize(start, fixed_prior=True)[0] for start in equal_starts)
    prior, outcomes = model.unpack(logits)
    # The trust in the estimate: none if equal classes explain the votes as well.
    gain = 2 * (tables.sum() / len(tables)) * (equal_loss - loss)
    trust = max(0.0, 1 - NO_GAIN * (len(prior) - 1) / max(gain, 1e-12))
    equal = 1 / len(prior)
    return _floored(equal + trust * (prior[_class_order(outcomes)] - equal))


class _TripleCounts:
    """How often three groups had three outcomes: (triples, outcome, outcome, outcome)."""

    def __init__(self, groups: npt.NDArray[np.int64], step: int) -> None:
        self.groups, self.step = groups, step

    def __call__(self, part: VoteMatrix) -> Statistics:
        n_groups, n_outcomes = int(self.groups.max()) + 1, part.n_classes + 1
        triples = list(itertools.combinations(range(n_groups), 3))
        tables = np.zeros((len(triples), n_outcomes**3))
        row = (self.groups[:, None] * part.n_classes + np.arange(part.n_classes)).ravel()
        # Large chunks would make the sample of a few items several times as large as asked for.
        chunk_votes = CHUNK_VOTES if self.step == 1 else SAMPLED_VOTES
        for rows, one_hot in one_hot_chunks(part, chunk_votes, every=self.step):
            n_rows = rows.stop - rows.start
            item = np.repeat(np.arange(n_rows), np.diff(one_hot.indptr))
            cell = row[one_hot.indices] * n_rows + item
            size = n_groups * part.n_classes * n_rows
            mass = np.bincount(cell, one_hot.data, minlength=size).astype(np.float32)
            outcome = _group_votes(mass.reshape(n_groups, part.n_classes, n_rows))
            for table, (a, b, c) in zip(tables, triples, strict=True):
                code = (outcome[a] * n_outcomes + outcome[b]) * n_outcomes + outcome[c]
                table += np.bincount(code, minlength=n_outcomes**3)
        return (tables.reshape(-1, n_outcomes, n_outcomes, n_outcomes),)


def _deal(totals: FloatArray, voters: Sequence[str]) -> npt.NDArray[np.int64]:
    """The group of each voter, so that groups have similar numbers of votes for every class.

    Sorting by name makes the groups independent of the order of the voters.
    """
    favorite, total = totals.argmax(axis=1), totals.sum(axis=1)
    order = sorted(range(len(voters)), key=lambda j: (favorite[j], -total[j], voters[j]))
    n_groups = min(N_GROUPS, len(voters))
    turn, seat = np.divmod(np.arange(len(voters)), n_groups)
    groups = np.empty(len(voters), dtype=np.int64)
    # Alternate the direction: the last group of one turn is the first of the next.
    groups[order] = np.where(turn % 2 == 0, seat, n_groups - 1 - seat)
    return groups


def _group_votes(mass: FloatArray) -> npt.NDArray[np.int64]:
    """The outcome of each group on each item: a class, or `n_classes` for no votes or a tie.

    Maps votes of the shape (groups, classes, items) to outcomes of the shape (groups, items).
    """
    n_groups, n_classes, n_items = mass.shape
    top = np.zeros((n_groups, n_items), dtype=mass.dtype)
    choice = np.full((n_groups, n_items), n_classes)
    for c in range(n_classes):
        np.copyto(choice, n_classes, where=mass[:, c] == top)
        np.copyto(choice, c, where=mass[:, c] > top)
        np.maximum(top, mass[:, c], out=top)
    return choice


class _TripleModel:
    """The likelihood of the triple counts, over logits of p and of P(outcome | class)."""

    def __init__(self, tables: FloatArray) -> None:
        n_groups = next(g for g in range(3, N_GROUPS + 1) if math.comb(g, 3) == len(tables))
        n_outcomes = tables.shape[1]
        self.tables, self.shape = tables, (n_groups, n_outcomes - 1, n_outcomes)
        self.triples = np.array(list(itertools.combinations(range(n_groups), 3))).T
        # (groups, places of all triples): which group is in which place.
        self._place_of = (self.triples.ravel() == np.arange(n_groups)[:, None]).astype(np.float64)
        self.n_counted = max(float(tables.sum()), 1.0)
        self.cells: tuple[IntArray, IntArray, IntArray, FloatArray] | None = None
        n_seen = np.count_nonzero(tables)
        # Whole tables go through BLAS, so a cell costs far less than one that is looked up.
        if n_seen * LOOK_UP_COST < tables.size:
            self._keep_seen(n_outcomes)

    def _keep_seen(self, n_outcomes: int) -> None:
        triple, *outcome = np.nonzero(self.tables)
        times = self.tables[(triple, *outcome)]
        rows = [of[triple] * n_outcomes + o for of, o in zip(self.triples, outcome, strict=True)]
        self.cells = rows[0], rows[1], rows[2], times
        shape = (self.shape[0] * n_outcomes, len(times))
        ones, columns = np.ones(len(times)), np.arange(len(times))
        self._seen_by = [sp.csr_array((ones, (row, columns)), shape=shape) for row in rows]

    def unpack(self, logits: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return p (n_classes,) and P(outcome | class) (n_groups, n_classes, n_outcomes)."""
        n_classes = self.shape[1]
        return _softmax(logits[:n_classes]), _softmax(logits[n_classes:].reshape(self.shape))

    def start(self) -> npt.NDArray[np.float64]:
        """Return the logits of equally frequent classes and of groups that are mostly right."""
        n_groups, n_classes, _ = self.shape
        right = np.log(0.7) * np.eye(n_classes) + np.log(0.3) * (1 - np.eye(n_classes))
        outcomes = np.concatenate([right, np.full((n_classes, 1), np.log(0.5))], axis=1)
        return np.concatenate([np.zeros(n_classes), np.tile(outcomes, (n_groups, 1, 1)).ravel()])

    def with_equal_classes(self, logits: FloatArray) -> npt.NDArray[np.float64]:
        """Return the logits with equally frequent classes."""
        return np.concatenate([np.zeros(self.shape[1]), logits[self.shape[1] :]])

    def minimize(self, logits: FloatArray, fixed_prior: bool = False) -> tuple[float, FloatArray]:
        """Return the smallest loss and its logits, starting from given logits."""
        from scipy.optimize import minimize

        n_classes = self.shape[1]

        def loss(x: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
            value, gradient = self(x)
            gradient[: n_classes * fixed_prior] = 0
            return value, gradient

        found = minimize(
            loss,
            np.asarray(logits, dtype=np.float64),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 200, "ftol": 1e-10, "gtol": 1e-7},
        )
        return float(found.fun), found.x

    def __call__(self, logits: FloatArray) -> tuple[float, npt.NDArray[np.float64]]:
        """Return minus the mean log-likelihood and its gradient."""
        prior, outcomes = self.unpack(logits)
        count = self._count_cells if self.cells is None else self._count_seen
        log_likelihood, classes, counts = count(prior, outcomes)
        # The gradient of a softmax likelihood: expected counts minus observed counts.
        from_prior = classes.sum() * prior - classes
        from_outcomes = counts.sum(axis=2, keepdims=True) * outcomes - counts
        gradient = np.concatenate([from_prior, from_outcomes.ravel()])
        return -log_likelihood / self.n_counted, gradient / self.n_counted

    def _count_cells(self, prior: FloatArray, outcomes: FloatArray) -> "_Counted":
        """The expected counts from whole tables, by matrix products."""
        n_classes, n_outcomes = outcomes.shape[1:]
        a, b, c = self.triples
        # P(y, a, b) of all triples at once: (triples, outcomes of a x outcomes of b, classes).
        first, second = outcomes[a].transpose(0, 2, 1), outcomes[b].transpose(0, 2, 1)
        pair = (prior * first[:, :, None] * second[:, None]).reshape(len(a), -1, n_classes)
        probability = pair @ outcomes[c] + 1e-300
        table = self.tables.reshape(probability.shape)
        log_likelihood = float((table * np.log(probability)).sum())
        # The expected counts: of y, a and b together, and of y and c.
        ratio = table / probability
        of_third = (pair.transpose(0, 2, 1) @ ratio) * outcomes[c]
        pair *= ratio @ outcomes[c].transpose(0, 2, 1)
        of_pair = pair.reshape(len(a), n_outcomes, n_outcomes, n_classes)
        of_first = of_pair.sum(axis=2)
        places = (of_first.transpose(0, 2, 1), of_pair.sum(axis=1).transpose(0, 2, 1), of_third)
        counts = self._place_of @ np.concatenate(places).reshape(3 * len(a), -1)
        return _Counted(log_likelihood, of_first.sum(axis=(0, 1)), counts.reshape(outcomes.shape))

    def _count_seen(self, prior: FloatArray, outcomes: FloatArray) -> "_Counted":
        """The same from the cells that occur, which are at most as many as the items."""
        n_groups, n_classes, n_outcomes = self.shape
        # One row for each outcome of each group: P(outcome | class).
        rows = outcomes.transpose(0, 2, 1).reshape(-1, n_classes)
        first, second, third, times = self.cells  # type: ignore[misc]
        expected = rows[first]
        expected *= rows[second]
        expected *= rows[third]
        expected *= prior
        probability = expected.sum(axis=1) + 1e-300
        expected *= (times / probability)[:, None]
        counts = np.zeros(rows.shape)
        for where in self._seen_by:
            counts += where @ expected
        by_group = counts.reshape(n_groups, n_outcomes, n_classes).transpose(0, 2, 1)
        log_likelihood = float(times @ np.log(probability))
        return _Counted(log_likelihood, expected.sum(axis=0), by_group)


def _softmax(logits: FloatArray) -> FloatArray:
    """The probabilities of logits along the last axis, in a fraction of the time of SciPy's."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


class _Counted(NamedTuple):
    """The loss and expected counts under given probabilities."""

    log_likelihood: float
    classes: FloatArray
    """Expected items of each class, over all triples: (n_classes,)."""
    outcomes: FloatArray
    """Expected outcomes of each group, by class: (n_groups, n_classes, n_outcomes)."""


def _class_order(outcomes: FloatArray) -> npt.NDArray[np.int64]:
    """The class of each column of the model: the one that groups vote for most there."""
    from scipy.optimize import linear_sum_assignment

    votes_for = outcomes[:, :, :-1].sum(axis=0)
    columns, classes = linear_sum_assignment(votes_for, maximize=True)
    return columns[np.argsort(classes)]


def _floored(weights: FloatArray) -> npt.NDArray[np.float64]:
    """Weights as probabilities, none of them below the smallest allowed."""
    total = weights.sum()
    proba = weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
    proba = np.maximum(proba, SMALLEST)
    return proba / proba.sum()
