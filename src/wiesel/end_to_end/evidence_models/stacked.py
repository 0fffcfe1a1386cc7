"""Stacked: a panel's votes and grades, combined as a few gold labels teach."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.evidence_models.base import Array, EvidenceLabelModel, SideInformation
from wiesel.errors import ParameterError
from wiesel.label_models.correlated_voters import CorrelatedVoters
from wiesel.parameters import check_number
from wiesel.training import Inputs
from wiesel.votes import VoteMatrix

__all__ = ["Stacked"]

_PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Strengths of the penalty that are tried, weakest first."""
_FOLDS = 5
_LEAST = 1e-6


@dataclass(eq=False, kw_only=True)
class Stacked(EvidenceLabelModel):
    """A regularized stacking of votes, on top of what `CorrelatedVoters` learns from all votes.

    With s(c) the logarithm of its soft label and x_j(c) the standardized vote of voter j, on items
    with gold labels a logistic regression learns::

        P(c | votes) = softmax(b_c + level * s(c) + sum_j d_j x_j(c))

    The d_j are shrunk toward 0 by a ridge penalty, whose strength is chosen by cross-validation on
    the gold labels. So a few labels teach how sure to be and which classes are more frequent, more
    labels which voters to trust, and all votes without labels say which voters repeat each other.

    >>> from wiesel.datasets import make_panel
    >>> votes, gold = make_panel(2000)
    >>> model = Stacked().fit(votes, gold=(votes[:200], gold[:200]))
    >>> bool((model.predict_proba(votes[200:]).argmax(axis=1) == gold[200:]).mean() > 0.76)
    True
    """

    prior_labels: float = 4.0
    """How many gold labels it takes to change the level and the offsets by much."""

    level_: float = field(init=False, repr=False)
    """How much the logits of `CorrelatedVoters` are worth."""
    penalty_: float = field(init=False, repr=False)
    """The chosen strength of the penalty."""
    discriminant_: Array = field(init=False, repr=False)
    reliabilities_: Array = field(init=False, repr=False)
    error_covariance_: Array = field(init=False, repr=False)
    means_: Array = field(init=False, repr=False)
    scales_: Array = field(init=False, repr=False)
    grades_: Array = field(init=False, repr=False)

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "prior_labels", self.prior_labels, low=1e-6)

    def _fit_evidence(
        self, votes: VoteMatrix, class_balance: Array | None, side: SideInformation
    ) -> Array:
        if side.gold is None or not len(side.gold[1]):
            raise ParameterError(
                "Stacked needs votes on items with gold labels: fit(votes, gold=(votes, y)); "
                "in TwoStage and Committee give fit(..., validation=(X, y, votes))."
            )
        labeled, truth = side.gold
        labeled.check_same_voters(votes.voters, votes.labels)
        panel = CorrelatedVoters(power=self.power).fit(votes, class_balance)
        for name in _PANEL:
            setattr(self, name, getattr(panel, name))
        self.class_balance_ = panel.class_balance_
        logs, standardized = self._read(labeled)
        problem = _Problem(logs, standardized, np.eye(votes.n_classes)[truth], self.prior_labels)
        self.penalty_ = problem.best_penalty()
        learned = problem.solve(np.arange(len(truth)), self.penalty_)
        self.offsets_, self.level_, weights = problem.split(learned)
        self.evidence_ = weights[:, None, None] * np.eye(votes.n_classes)
        return self._soft_labels(votes, self._scores(votes, None) + self.offsets_)

    def _scores(self, votes: VoteMatrix, inputs: Inputs | None) -> Array:
        logs, standardized = self._read(votes)
        weights = self.evidence_[:, 0, 0]
        scores: Array = self.level_ * logs + np.tensordot(standardized, weights, (1, 0))
        return scores

    def _read(self, votes: VoteMatrix) -> tuple[Array, Array]:
        """The panel's log soft labels, and the standardized votes: (items, voters, classes)."""
        panel = CorrelatedVoters(power=self.power)
        for name in _PANEL:
            setattr(panel, name, getattr(self, name))
        panel.class_balance_ = self.class_balance_
        panel.labels_, panel.voters_ = votes.labels, votes.voters
        proba = np.clip(panel.predict_proba(votes), _LEAST, 1)
        return np.log(proba), panel.standardized(votes)


_PANEL = (
    *("discriminant_", "reliabilities_", "error_covariance_", "means_", "scales_", "grades_"),
)


@dataclass(frozen=True)
class _Problem:
    """A multinomial logistic regression with shared weights of voters."""

    logs: Array
    standardized: Array
    truth: Array
    prior_labels: float

    def split(self, learned: Array) -> tuple[Array, float, Array]:
        """Return the offsets, the level and the weights of the voters."""
        n_classes = self.truth.shape[1]
        return learned[:n_classes], float(learned[n_classes]), learned[n_classes + 1 :]

    def solve(self, rows: npt.NDArray[np.int64], penalty: float) -> Array:
        """Return what is learned from some of the items."""
        from scipy.optimize import minimize

        n_classes, n_voters = self.truth.shape[1], self.standardized.shape[1]
        start = np.zeros(n_classes + 1 + n_voters)
        start[n_classes] = 1.0
        ridge = np.full(len(start), penalty)
        ridge[: n_classes + 1] = self.prior_labels
        ridge[:n_classes] /= 4  # an offset is less of a surprise than another level
        logs, own, truth = self.logs[rows], self.standardized[rows], self.truth[rows]

        def loss(learned: Array) -> tuple[float, Array]:
            log_proba = self._log_proba(learned, logs, own)
            errors = np.exp(log_proba) - truth
            level = [float((errors * logs).sum())]
            of_voters = np.einsum("ic,ijc->j", errors, own)
            away = learned - start
            gradient = np.concatenate([errors.sum(axis=0), level, of_voters]) + ridge * away
            return -float((truth * log_proba).sum()) + float(ridge @ away**2) / 2, gradient

        bounds = [(None, None)] * n_classes + [(0.0, None)] + [(None, None)] * n_voters
        return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)

    def best_penalty(self) -> float:
        """Return the strongest penalty that predicts held-out items about best."""
        n_items = len(self.truth)
        if n_items < 4 * _FOLDS:
            return _PENALTIES[-1]
        # Folds with the same classes, and the same ones in whichever order the items come.
        order = np.lexsort((self.logs[:, 0], self.truth.argmax(axis=1)))
        fold = np.empty(n_items, dtype=np.int64)
        fold[order] = np.arange(n_items) % _FOLDS
        losses = []
        for penalty in _PENALTIES:
            found = np.zeros(n_items)
            for held_out in range(_FOLDS):
                rows, other = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
                learned = self.solve(rows, penalty)
                log_proba = self._log_proba(learned, self.logs[other], self.standardized[other])
                found[other] = -(self.truth[other] * log_proba).sum(axis=1)
            losses.append(found)
        means = np.array([found.mean() for found in losses])
        best = int(means.argmin())
        # The rule of one standard error, of the difference to the best: few labels decide little.
        for place in range(len(_PENALTIES) - 1, best, -1):
            away = losses[place] - losses[best]
            if away.mean() <= away.std() / np.sqrt(n_items):
                return _PENALTIES[place]
        return _PENALTIES[best]

    def _log_proba(self, learned: Array, logs: Array, own: Array) -> Array:
        offsets, level, weights = self.split(learned)
        logits = offsets + level * logs + np.tensordot(own, weights, (1, 0))
        logits -= logits.max(axis=1, keepdims=True)
        log_proba: Array = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return log_proba
