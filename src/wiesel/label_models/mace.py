"""MACE: a voter knows the answer, or it is spamming in its own way."""

from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass(eq=False, kw_only=True)
class MACE(LabelModel):
    """Each voter knows the answer with some probability, and otherwise follows a habit.

    With competence theta_j and the habit xi_j of voter j when it does not look:

        P(voter j votes l | true class c) = theta_j [l = c] + (1 - theta_j) xi_j[l]

    so the habit explains the votes of a spammer. EM from the majority vote:

        E: P(c | votes) ~ p_c * product over votes of P(vote | c), and the share of right votes
           that were known, theta_j / (theta_j + (1 - theta_j) xi_j[c])
        M: theta_j = known votes / votes, xi_j[l] ~ votes for l that were not known

    The class balance is given, or learned with the rest. If it were uniform, as in the paper, votes
    for a common class would look like habits, and good voters like spammers. The paper restarts EM
    at random and keeps the best result, or smooths by variational Bayes. Here EM starts from the
    majority vote and is smoothed by pseudo-votes, so the result is deterministic.

    Hovy, Berg-Kirkpatrick, Vaswani and Hovy 2013, "Learning whom to trust with MACE", NAACL.

    >>> model = MACE().fit(votes)
    >>> model.predict(votes)[:3]
    array(['ham', 'ham', 'spam'], dtype=object)
    >>> model.competences_.shape, model.habits_.shape
    ((3,), (3, 2))
    """

    max_iter: int = 100
    """The maximum number of EM steps."""
    tol: float = 1e-5
    """Stop when the mean log evidence per item grows by less."""
    smoothing: float = 0.5
    """Pseudo-votes of each voter: known ones, unknown ones, and of its habit for each class."""

    competences_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """theta: how often each voter looks and knows; 0 is a spammer."""
    habits_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """xi: what each voter votes when it does not look, (n_voters, n_classes)."""
    accuracies_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(right | votes) of each voter, by knowing or by luck."""
    evidence_: list[float] = field(init=False, repr=False)
    """The log probability of votes and parameters after every step; it never decreases."""

    def confusions(self, voters: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
        """Return P(voted | true class) of some voters, or of all: (n, true, voted)."""
        self.check_fitted()
        chosen = slice(None)
        if voters is not None:
            position = {name: j for j, name in enumerate(self.voters_)}
            chosen = [position[name] for name in voters]  # type: ignore[assignment]
        return _confusions(self.competences_[chosen], self.habits_[chosen])

    def _check_options(self) -> None:
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "smoothing", self.smoothing, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        sums = VoteSums(votes)
        majority = sums.majority()
        by_class = majority.votes.sum(axis=2)
        self.competences_ = np.full(len(by_class), 0.5)
        self.habits_ = shares(by_class + self.smoothing)

        def m_step(expected: Expectations) -> tuple[LogJoint, float]:
            log_density = 0.0
            if class_balance is None:
                self.class_balance_ = shares(expected.covered + PSEUDO_ITEMS)
                log_density = PSEUDO_ITEMS * float(log_of(self.class_balance_).sum())
            self._update(expected.votes)
            return self._log_joint(), log_density + self._log_density()

        self.evidence_ = maximize(sums, majority, m_step, self.max_iter, self.tol)
        luck = self.habits_ @ self.class_balance_
        self.accuracies_ = self.competences_ + (1 - self.competences_) * luck

    def _update(self, expected_votes: FloatArray) -> None:
        """The M-step, from the expected votes (n_voters, voted, true)."""
        right = np.einsum("jcc->jc", expected_votes)
        by_habit = (1 - self.competences_[:, None]) * self.habits_
        total = self.competences_[:, None] + by_habit
        known = right * np.divide(
            self.competences_[:, None], total, out=np.zeros(total.shape), where=total > 0
        )
        unknown = np.maximum(expected_votes.sum(axis=2) - known, 0)
        n_known, n_unknown = known.sum(axis=1), unknown.sum(axis=1)
        both = np.stack([n_known, n_unknown], axis=1) + self.smoothing
        self.competences_ = shares(both)[:, 0]
        self.habits_ = shares(unknown + self.smoothing)

    def _log_density(self) -> float:
        """What the pseudo-votes say of the parameters, up to a constant."""
        theta = self.competences_
        parts = log_of(theta).sum() + log_of(1 - theta).sum() + log_of(self.habits_).sum()
        return self.smoothing * float(parts)

    def _log_joint(self) -> LogJoint:
        confusions = _confusions(self.competences_, self.habits_)
        n_classes = confusions.shape[1]
        weights = log_of(confusions).transpose(0, 2, 1).reshape(-1, n_classes)
        return LogJoint(weights, log_of(self.class_balance_))

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        return posterior(votes, self._log_joint(), self.class_balance_)


def _confusions(competences: FloatArray, habits: FloatArray) -> npt.NDArray[np.float64]:
    by_habit = (1 - competences[:, None, None]) * habits[:, None, :]
    return by_habit + competences[:, None, None] * np.eye(habits.shape[1])
