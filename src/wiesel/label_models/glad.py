"""GLAD: P(right) depends on the ability of the voter and the easiness of the item."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.label_models.base import LabelModel
from wiesel.label_models.expectation_maximization import log_of, shares, warn_of_one_class
from wiesel.label_models.patterns import Patterns, fold, fold_parts
from wiesel.label_models.vote_products import normalize_rows, one_hot_chunks, vote_totals
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

    trusts_independence: ClassVar[bool] = True

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
        for rows, states in _state_chunks(votes, _log_terms(self.abilities_, self.class_balance_)):
            found[rows] = states.sum(axis=1) @ np.log(_NODES.easiness)
        return found

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        n_voters, n_classes = len(votes.voters), len(votes.labels)
        expect = _Expectation(votes)
        abilities = np.full(n_voters, MEAN_ABILITY)
        even = np.full(n_classes, 1 / n_classes)
        # Equal voters and an even balance: the shares of the classes by the votes alone.
        *_, by_votes = expect(_log_terms(abilities, even))
        self.evidence_ = []
        for _ in range(self.max_iter):
            right, cast, evidence, covered = expect(_log_terms(abilities, self.class_balance_))
            log_density = -float(np.square(abilities - MEAN_ABILITY).sum()) / 2
            self.evidence_.append(evidence + log_density)
            self.abilities_ = abilities
            if len(self.evidence_) > 1 and self._gain() < self.tol * max(1.0, covered.sum()):
                break
            abilities = _best_abilities(right, cast, abilities)
        warn_of_one_class(shares(by_votes), shares(covered), votes.labels)
        silent = vote_totals(votes).sum(axis=1) == 0
        chance = _sigmoid(self.abilities_[:, None] * _NODES.easiness) @ _NODES.weights
        self.accuracies_ = np.where(silent, np.nan, chance)

    def _gain(self) -> float:
        return self.evidence_[-1] - self.evidence_[-2]

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        proba = np.empty((votes.n_items, votes.n_classes))
        for rows, states in _state_chunks(votes, _log_terms(self.abilities_, self.class_balance_)):
            part = states.sum(axis=2)
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


class _LogTerms(NamedTuple):
    """What adds up to log P(class, node, votes) of an item; a state is a class and a node."""

    right: FloatArray
    """(n_voters, NODES): log P(a vote) if the voted class is the true one."""
    wrong: FloatArray
    """(n_voters, NODES): log P(a vote) if it is another one."""
    prior: FloatArray
    """(n_classes, NODES)"""


def _log_terms(abilities: FloatArray, class_balance: FloatArray) -> _LogTerms:
    score = abilities[:, None] * _NODES.easiness
    wrong = -np.logaddexp(0, score) - np.log(len(class_balance) - 1)
    prior = log_of(class_balance)[:, None] + np.log(_NODES.weights)
    return _LogTerms(-np.logaddexp(0, -score), wrong, prior)


class _Expectation:
    """The E-step: expected right votes and votes by node, the evidence, and items by class."""

    def __init__(self, votes: VoteSource) -> None:
        self._sum: Callable[[_LogTerms], Statistics]
        if isinstance(votes, VoteMatrix):
            folded: Patterns | None = fold(votes, np.full(votes.n_items, ABSTAIN))
        else:
            folded = fold_parts(votes, {})
        if folded is not None:
            self._sum = partial(_sum_states, folded)
        else:
            self._sum = lambda terms: votes.sum(partial(_sum_part, terms=terms))

    def __call__(self, terms: _LogTerms) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        right, cast, evidence, covered = self._sum(terms)
        return right, cast, float(evidence[0]), covered.reshape(-1, NODES).sum(axis=1)


def _sum_part(part: VoteMatrix, terms: _LogTerms) -> Statistics:
    unknown = np.full(part.n_items, ABSTAIN)
    return _sum_states(Patterns(part, np.ones(part.n_items), unknown), terms)


def _sum_states(patterns: Patterns, terms: _LogTerms) -> Statistics:
    votes, weights, _ = patterns
    right, cast = np.zeros(terms.right.shape), np.zeros(terms.right.shape)
    evidence, covered = 0.0, np.zeros(terms.prior.size)
    # Products, because NumPy is slow at reducing short axes.
    over_classes = np.tile(np.eye(NODES), (len(terms.prior), 1))
    for rows, one_hot in one_hot_chunks(votes):
        chosen = _ChosenClasses.of(one_hot, len(terms.prior))
        states, log_votes = chosen.states(terms)
        evidence += float(log_votes @ weights[rows])
        states *= weights[rows, None, None]
        by_state = states.reshape(len(states), terms.prior.size)
        covered += votes.covered[rows].astype(np.float64) @ by_state
        right += np.asarray(chosen.by_class.T @ states.reshape(-1, NODES))
        cast += np.asarray(chosen.by_item.T @ (by_state @ over_classes))
    return right, cast, np.array([evidence]), covered


def _state_chunks(
    votes: VoteMatrix, terms: _LogTerms
) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """P(class, node | votes) of some items at a time: (items, n_classes, NODES)."""
    for rows, one_hot in one_hot_chunks(votes):
        yield rows, _ChosenClasses.of(one_hot, len(terms.prior)).states(terms)[0]


class _ChosenClasses(NamedTuple):
    """Votes by the class they choose.

    Whether a vote is right depends only on whether its class is the true one, so no table of all
    votes for all true classes is needed: with 300 classes it would be the whole cost.
    """

    by_class: sp.coo_array
    """(items * n_classes, n_voters): row `item * n_classes + class` has the votes for it."""
    by_item: sp.csr_array
    """(items, n_voters)"""

    @classmethod
    def of(cls, one_hot: sp.csr_array, n_classes: int) -> Self:
        """Return the votes of a chunk."""
        n_items, n_columns = one_hot.shape
        n_voters, mass = n_columns // n_classes, one_hot.data
        voters, classes = np.divmod(one_hot.indices, n_classes)
        items = np.repeat(np.arange(n_items, dtype=voters.dtype), np.diff(one_hot.indptr))
        # Not sorted by row, which would cost more than the products.
        by_class = (mass, (items * n_classes + classes, voters))
        return cls(
            sp.coo_array(by_class, shape=(n_items * n_classes, n_voters)),
            sp.csr_array((mass, voters, one_hot.indptr), shape=(n_items, n_voters)),
        )

    def states(self, terms: _LogTerms) -> tuple[npt.NDArray[np.float64], FloatArray]:
        """Return P(class, node | votes) (items, n_classes, NODES), and log P(votes) of items."""
        joint = np.asarray(self.by_class @ (terms.right - terms.wrong))
        joint = joint.reshape(-1, *terms.prior.shape)
        joint += np.asarray(self.by_item @ terms.wrong)[:, None]
        joint += terms.prior
        log_votes = normalize_rows(joint.reshape(len(joint), terms.prior.size))
        return joint, log_votes


def _best_abilities(
    right: FloatArray, cast: FloatArray, abilities: FloatArray
) -> npt.NDArray[np.float64]:
    """The abilities that maximize the likelihood of expected right votes out of those cast.

    Both are (n_voters, NODES). Found by Newton's method, with shortened steps where the sigmoid is
    flat.
    """
    beta, found = _NODES.easiness, np.array(abilities, dtype=np.float64)
    for _ in range(NEWTON_STEPS):
        chance = _sigmoid(found[:, None] * beta)
        slope = (right - cast * chance) @ beta - (found - MEAN_ABILITY)
        curvature = (cast * chance * (1 - chance)) @ np.square(beta) + 1.0
        step = np.clip(slope / curvature, -0.5, 0.5)
        found += step
        if np.abs(step).max(initial=0) < 1e-10:
            break
    return found


def _sigmoid(score: FloatArray) -> npt.NDArray[np.float64]:
    return np.exp(-np.logaddexp(0, -score))
