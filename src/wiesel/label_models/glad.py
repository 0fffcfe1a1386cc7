"""GLAD: P(right) depends on the ability of the voter and the easiness of the item."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.label_models.base import LabelModel
from wiesel.label_models.expectation_maximization import log_of, shares, warn_of_one_class
from wiesel.label_models.patterns import Patterns, fold
from wiesel.label_models.vote_products import LogJoint, normalize_rows, one_hot_chunks, vote_totals
from wiesel.labels import ABSTAIN, FloatArray
from wiesel.parameters import check_number
from wiesel.votes import Statistics, VoteMatrix, VoteSource

__all__ = ["GLAD"]

NODES = 7
"""The number of quadrature nodes for the integral over easiness."""

MEAN_ABILITY, MEAN_EASINESS = 1.0, 1.0
"""The centers of the normal priors, both of variance 1 (Whitehill et al., section 3)."""

NEWTON_STEPS = 25


@dataclass(eq=False, kw_only=True)
class GLAD(LabelModel):
    """Each voter has an ability and each item an easiness; both determine P(right).

    With the ability alpha_j of voter j (negative: against the truth) and the easiness
    beta_i = exp(b_i) of item i,

        P(vote_ij = class_i) = sigmoid(alpha_j beta_i), wrong votes spread evenly

    and the priors alpha_j ~ N(1, 1), b_i ~ N(1, 1). EM over the class and the easiness of every
    item: the integral over b_i is a sum over seven Gauss-Hermite nodes, and the M-step for each
    alpha_j is a concave problem in one unknown. The paper estimates a number for every item
    instead; with the integral, new items are labeled like training items, and memory grows with the
    votes cast. The class balance is given or uniform.

    Whitehill, Ruvolo, Wu, Bergsma and Movellan 2009, "Whose vote should count more: optimal
    integration of labels from labelers of unknown expertise", NeurIPS.

    >>> model = GLAD().fit(votes)
    >>> model.predict(votes)[:3]
    array(['ham', 'ham', 'spam'], dtype=object)
    >>> model.easiness(votes).shape
    (4,)
    """

    max_iter: int = 100
    """The maximum number of EM steps."""
    tol: float = 1e-4
    """Stop when the mean log evidence per item grows by less."""

    abilities_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """alpha: 1 is the prior mean, 0 is random guessing, negative is worse than guessing."""
    accuracies_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(right) of each voter on an item of random easiness; NaN for one that never votes."""
    evidence_: list[float] = field(init=False, repr=False)
    """The log probability of votes and abilities after every step; it never decreases."""

    def easiness(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return the expected log easiness b of every item; 1 for items without votes."""
        self.check_votes(votes)
        found = np.empty(votes.n_items)
        for rows, states in _state_chunks(
            votes, self._log_joint(self.abilities_, self.class_balance_)
        ):
            by_node = states.reshape(len(states), votes.n_classes, NODES).sum(axis=1)
            found[rows] = by_node @ np.log(_NODES.easiness)
        return found

    def _check_options(self) -> None:
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        n_voters, n_classes = len(votes.voters), len(votes.labels)
        expect = _Expectation(votes)
        abilities = np.full(n_voters, MEAN_ABILITY)
        even = np.full(n_classes, 1 / n_classes)
        # Equal voters and an even balance: the shares of the classes by the votes alone.
        _, _, by_votes = expect(self._log_joint(abilities, even))
        self.evidence_ = []
        for _ in range(self.max_iter):
            counts, evidence, covered = expect(self._log_joint(abilities, self.class_balance_))
            log_density = -float(np.square(abilities - MEAN_ABILITY).sum()) / 2
            self.evidence_.append(evidence + log_density)
            self.abilities_ = abilities
            if len(self.evidence_) > 1 and self._gain() < self.tol * max(1.0, covered.sum()):
                break
            by_state = counts.reshape(n_voters, n_classes, n_classes, NODES)
            abilities = _best_abilities(by_state, abilities)
        warn_of_one_class(shares(by_votes), shares(covered), votes.labels)
        silent = vote_totals(votes).sum(axis=1) == 0
        right = _sigmoid(self.abilities_[:, None] * _NODES.easiness) @ _NODES.weights
        self.accuracies_ = np.where(silent, np.nan, right)

    def _gain(self) -> float:
        return self.evidence_[-1] - self.evidence_[-2]

    def _log_joint(self, abilities: FloatArray, class_balance: FloatArray) -> LogJoint:
        """The weights of every vote for every state: a class and a node of easiness."""
        n_classes = len(class_balance)
        score = abilities[:, None] * _NODES.easiness
        right = -np.logaddexp(0, -score)[:, None, None, :]
        wrong = (-np.logaddexp(0, score) - np.log(n_classes - 1))[:, None, None, :]
        same = np.eye(n_classes, dtype=bool)[None, :, :, None]
        weights = np.where(same, right, wrong)
        prior = log_of(class_balance)[:, None] + np.log(_NODES.weights)
        return LogJoint(weights.reshape(-1, n_classes * NODES), prior.ravel())

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        proba = np.empty((votes.n_items, votes.n_classes))
        for rows, states in _state_chunks(
            votes, self._log_joint(self.abilities_, self.class_balance_)
        ):
            part = states.reshape(len(states), votes.n_classes, NODES).sum(axis=2)
            part /= part.sum(axis=1, keepdims=True)
            part[~votes.covered[rows]] = self.class_balance_
            proba[rows] = part
        return proba


class _Quadrature(NamedTuple):
    easiness: npt.NDArray[np.float64]
    """beta at every node."""
    weights: npt.NDArray[np.float64]
    """P(node)."""


def _quadrature() -> _Quadrature:
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return _Quadrature(np.exp(MEAN_EASINESS + nodes), weights / weights.sum())


_NODES = _quadrature()


class _Expectation:
    """The E-step: expected votes by state, the evidence, and items with votes by class."""

    def __init__(self, votes: VoteSource) -> None:
        self._sum: Callable[[LogJoint], Statistics]
        if isinstance(votes, VoteMatrix):
            folded = fold(votes, np.full(votes.n_items, ABSTAIN))
            self._sum = lambda joint: _sum_states(folded, joint)
        else:
            self._sum = lambda joint: votes.sum(partial(_sum_part, joint=joint))

    def __call__(self, joint: LogJoint) -> tuple[FloatArray, float, FloatArray]:
        counts, evidence, covered = self._sum(joint)
        return counts, float(evidence[0]), covered.reshape(-1, NODES).sum(axis=1)


def _sum_part(part: VoteMatrix, joint: LogJoint) -> Statistics:
    unknown = np.full(part.n_items, ABSTAIN)
    return _sum_states(Patterns(part, np.ones(part.n_items), unknown), joint)


def _sum_states(patterns: Patterns, joint: LogJoint) -> Statistics:
    votes, weights, _ = patterns
    counts, evidence, covered = np.zeros(joint.weights.shape), 0.0, np.zeros(len(joint.offset))
    for rows, one_hot in one_hot_chunks(votes):
        states = one_hot @ joint.weights
        states += joint.offset
        evidence += float(normalize_rows(states) @ weights[rows])
        states *= weights[rows, None]
        covered += votes.covered[rows].astype(np.float64) @ states
        counts += np.asarray(one_hot.T @ states)
    return counts, np.array([evidence]), covered


def _state_chunks(
    votes: VoteMatrix, joint: LogJoint
) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """P(class, node | votes) of some items at a time: (items, n_classes * NODES)."""
    for rows, one_hot in one_hot_chunks(votes):
        states = one_hot @ joint.weights
        states += joint.offset
        normalize_rows(states)
        yield rows, states


def _best_abilities(counts: FloatArray, abilities: FloatArray) -> npt.NDArray[np.float64]:
    """The abilities that maximize the likelihood of expected votes (n_voters, voted, true, node).

    Found by Newton's method, with shortened steps where the sigmoid is flat.
    """
    right = np.einsum("jccq->jq", counts)
    total = counts.sum(axis=(1, 2))
    beta, found = _NODES.easiness, np.array(abilities, dtype=np.float64)
    for _ in range(NEWTON_STEPS):
        chance = _sigmoid(found[:, None] * beta)
        slope = (right - total * chance) @ beta - (found - MEAN_ABILITY)
        curvature = (total * chance * (1 - chance)) @ np.square(beta) + 1.0
        step = np.clip(slope / curvature, -0.5, 0.5)
        found += step
        if np.abs(step).max(initial=0) < 1e-10:
            break
    return found


def _sigmoid(score: FloatArray) -> npt.NDArray[np.float64]:
    return np.exp(-np.logaddexp(0, -score))
