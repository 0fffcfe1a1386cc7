"""MACE: a voter either knows the answer or follows its own spamming habit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from wiesel.label_models.base import LabelModel
from wiesel.label_models.dawid_skene import PSEUDO_ITEMS
from wiesel.label_models.expectation_maximization import (
    Expectations,
    VoteSums,
    log_of,
    maximize,
    shares,
)
from wiesel.label_models.vote_products import LogJoint, posterior
from wiesel.labels import FloatArray
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["MACE"]

LOWEST_PRIOR = 1e-3


@dataclass(eq=False, kw_only=True)
class MACE(LabelModel):
    """Each voter knows the answer with some probability, and otherwise follows a habit.

    With the competence theta_j of voter j and its habit xi_j when it does not know the answer:

        P(voter j votes l | true class c) = theta_j [l = c] + (1 - theta_j) xi_j[l]

    so the habit explains the votes of a spammer. Learned by variational Bayes, as in the paper,
    with the priors theta_j ~ Beta(0.5, 0.5) and xi_j ~ Dirichlet(10, ..., 10). With t_j, s_j and
    h_j for exp E[log theta_j], exp E[log(1 - theta_j)] and exp E[log xi_j]:

        E: P(c | votes) ~ p_c * product over votes l of (t_j [l = c] + s_j h_j[l]), and the share of
           right votes that were known, t_j / (t_j + s_j h_j[c])
        M: add the known votes and the others of voter j to the parameters of its priors

    The class balance p is uniform, as in the paper, unless it is given or learned. The paper
    restarts at random and keeps the best result; here the start is the majority vote, so the result
    is deterministic.

    Hovy, Berg-Kirkpatrick, Vaswani and Hovy 2013, "Learning whom to trust with MACE", NAACL.

    >>> model = MACE().fit(votes)
    >>> model.predict(votes)[:3]
    array(['ham', 'ham', 'spam'], dtype=object)
    >>> model.competences_.shape, model.habits_.shape
    ((3,), (3, 2))
    """

    trusts_independence: ClassVar[bool] = True

    max_iter: int = 100
    """The maximum number of EM steps."""
    tol: float = 1e-5
    """Stop when the bound of the mean log evidence per item grows by less."""
    competence_prior: float = 0.5
    """Both parameters of the Beta prior of every competence."""
    habit_prior: float = 10.0
    """The parameter of the symmetric Dirichlet prior of every habit."""
    learn_class_balance: bool = False
    """If P(class) is not given, learn it; otherwise all classes count as equally frequent. Turn it
    on for strongly imbalanced classes, where votes for the common class look like habits."""

    competences_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """theta: how often each voter knows the answer; 0 is a spammer. The posterior mean."""
    habits_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """xi: the votes of each voter when it does not know, (n_voters, n_classes). Posterior means."""
    known_votes_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The Beta posteriors: known votes and others, each plus the prior, (n_voters, 2)."""
    habit_votes_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The Dirichlet posteriors: votes not known plus the prior, (n_voters, n_classes)."""
    accuracies_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(right | votes) of each voter, by knowing or by luck."""
    evidence_: list[float] = field(init=False, repr=False)
    """The lower bound of the log evidence after every step; it never decreases."""

    def confusions(self, voters: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
        """Return P(voted | true class) of some voters, or of all: (n, true, voted)."""
        self.check_fitted()
        chosen = slice(None)
        if voters is not None:
            position = {name: j for j, name in enumerate(self.voters_)}
            chosen = [position[name] for name in voters]  # type: ignore[assignment]
        competences = self.competences_[chosen]
        return _confusions(competences, 1 - competences, self.habits_[chosen])

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "competence_prior", self.competence_prior, low=LOWEST_PRIOR)
        check_number(self, "habit_prior", self.habit_prior, low=LOWEST_PRIOR)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        sums = VoteSums(votes)
        majority = sums.majority()
        learned = class_balance is None and self.learn_class_balance
        by_class = majority.votes.sum(axis=2)
        # The share of right votes that were known, for a voter with competence 1/2.
        known = 1 / (1 + shares(by_class + self.competence_prior))

        def m_step(expected: Expectations) -> tuple[LogJoint, float]:
            nonlocal known
            log_density = 0.0
            if learned:
                self.class_balance_ = shares(expected.covered + PSEUDO_ITEMS)
                log_density = PSEUDO_ITEMS * float(log_of(self.class_balance_).sum())
            self._update(expected.votes, known)
            t, s, h = self._geometric_means()
            known = t[:, None] / (t[:, None] + s[:, None] * h)
            return self._log_joint(), log_density - self._divergence()

        self.evidence_ = maximize(sums, majority, m_step, self.max_iter, self.tol)
        self.competences_ = shares(self.known_votes_)[:, 0]
        self.habits_ = shares(self.habit_votes_)
        luck = self.habits_ @ self.class_balance_
        self.accuracies_ = self.competences_ + (1 - self.competences_) * luck

    def _update(self, expected_votes: FloatArray, known_share: FloatArray) -> None:
        """The M-step, from the expected votes (n_voters, voted, true)."""
        known = np.einsum("jcc->jc", expected_votes) * known_share
        unknown = np.maximum(expected_votes.sum(axis=2) - known, 0)
        both = np.stack([known.sum(axis=1), unknown.sum(axis=1)], axis=1)
        self.known_votes_ = both + self.competence_prior
        self.habit_votes_ = unknown + self.habit_prior

    def _divergence(self) -> float:
        """The divergence of the posteriors of all competences and habits from their priors."""
        known, habits = self.known_votes_, self.habit_votes_
        return _dirichlet_divergence(known, self.competence_prior) + _dirichlet_divergence(
            habits, self.habit_prior
        )

    def _geometric_means(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """exp(E[log x]) of competences, of their complements, and of habits."""
        known = np.exp(_expected_logs(self.known_votes_))
        return known[:, 0], known[:, 1], np.exp(_expected_logs(self.habit_votes_))

    def _log_joint(self) -> LogJoint:
        by_vote = _confusions(*self._geometric_means())
        n_classes = by_vote.shape[1]
        weights = log_of(by_vote).transpose(0, 2, 1).reshape(-1, n_classes)
        return LogJoint(weights, log_of(self.class_balance_))

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        return posterior(votes, self._log_joint(), self.class_balance_)


def _confusions(
    known: FloatArray, unknown: FloatArray, habits: FloatArray
) -> npt.NDArray[np.float64]:
    """The vote probabilities of the class docstring, per voter: (n_voters, true c, voted l)."""
    by_habit = unknown[:, None, None] * habits[:, None, :]
    return by_habit + known[:, None, None] * np.eye(habits.shape[1])


def _expected_logs(parameters: FloatArray) -> npt.NDArray[np.float64]:
    """E[log p] for p ~ Dirichlet(parameters), along the last axis."""
    from scipy.special import digamma

    total = parameters.sum(axis=-1, keepdims=True)
    return np.asarray(digamma(parameters) - digamma(total), dtype=np.float64)


def _dirichlet_divergence(parameters: FloatArray, prior: float) -> float:
    """KL(Dirichlet(parameters) || Dirichlet(prior, ..., prior)), summed over the rows."""
    from scipy.special import gammaln

    size = parameters.shape[-1]
    log_beta = gammaln(parameters).sum(axis=-1) - gammaln(parameters.sum(axis=-1))
    log_beta_of_prior = size * gammaln(prior) - gammaln(size * prior)
    moved = ((parameters - prior) * _expected_logs(parameters)).sum(axis=-1)
    return float((log_beta_of_prior - log_beta + moved).sum())
