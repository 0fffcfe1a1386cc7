"""OneCoin: each voter has one accuracy, the same for all classes."""

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from wiesel.errors import CollapseWarning
from wiesel.label_models.base import LabelModel
from wiesel.label_models.class_balance import estimate_class_balance
from wiesel.label_models.expectation_maximization import (
    Expectations,
    VoteSums,
    balance_certainty,
    log_of,
    maximize,
    shares,
)
from wiesel.label_models.vote_products import LogJoint, posterior
from wiesel.labels import FloatArray, LabelSpace
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["OneCoin", "one_coin_joint"]


@dataclass(eq=False, kw_only=True)
class OneCoin(LabelModel):
    """Each voter has one accuracy for all classes, learned by EM.

    This is Dawid-Skene with tied confusion matrices: q_j on the diagonal, (1 - q_j) / (C - 1)
    elsewhere. It has one parameter for each voter, so it needs far fewer votes.

        E: P(c | votes) ~ p_c * product over votes of (q_j if the vote is c else (1-q_j)/(C-1))
        M: q_j = expected number of j's right votes / number of its votes

    Zhang, Chen, Zhou and Jordan 2014, "Spectral methods meet EM", NeurIPS, section 2.

    >>> OneCoin().fit(votes).accuracies_.round(2)
    array([0.99, 0.5 , 0.99])
    """

    trusts_independence: ClassVar[bool] = True

    max_iter: int = 100
    """The maximum number of EM steps."""
    tol: float = 1e-5
    """Stop when the mean log evidence per item grows by less."""
    smoothing: float = 0.01
    """Pseudo-votes of each voter for each class, right or wrong."""
    learn_class_balance: bool = False
    """If P(class) is not given, let EM learn it instead of using `estimate_class_balance`. With
    voters that prefer a class, EM drifts toward it, because one accuracy per voter cannot express
    the preference. An estimate under which most votes would be wrong is replaced by the shares of
    the majority vote: with few votes, it may swap classes."""

    stop_at_drift: bool = True
    """If EM learns P(class), stop when it gets less certain faster than the evidence grows, as in
    `DawidSkene`."""

    accuracies_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(right | votes) of each voter."""
    evidence_: list[float] = field(init=False, repr=False)
    """The log probability of votes and parameters after every step; it never decreases."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "smoothing", self.smoothing, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        learned = class_balance is None and self.learn_class_balance
        estimated = class_balance is None and not learned and len(votes.voters) > 2
        if estimated:
            self.class_balance_ = estimate_class_balance(votes)
        sums = VoteSums(votes)
        n_votes = self._maximize(sums, learned)
        if estimated and self._is_mirrored(n_votes):
            # The estimate swapped classes. The majority vote cannot, because EM starts there.
            self.class_balance_ = shares(sums.majority().covered + self.smoothing)
            self._maximize(sums, learned)
        if self._is_mirrored(n_votes):
            _warn_of_mirror(self.accuracies_, n_votes, self.class_balance_, votes.labels)

    def _maximize(self, sums: VoteSums, learned: bool) -> npt.NDArray[np.float64]:
        """Run EM from the majority vote; return how many votes each voter cast."""

        def m_step(expected: Expectations) -> tuple[LogJoint, float]:
            log_density = 0.0
            if learned:
                self.class_balance_ = shares(expected.covered + self.smoothing)
                log_density = self.smoothing * float(log_of(self.class_balance_).sum())
            self.accuracies_ = _accuracies(expected.votes, self.smoothing)
            joint = one_coin_joint(self.accuracies_, self.class_balance_)
            # Every cell of a tied confusion row has `smoothing` pseudo-votes.
            log_density += self.smoothing * float(joint.weights[:, 0].sum())
            return joint, log_density

        def certainty(expected: Expectations) -> float:
            return balance_certainty(expected, self.class_balance_)

        majority = sums.majority()
        watched = certainty if learned and self.stop_at_drift else None
        self.evidence_ = maximize(sums, majority, m_step, self.max_iter, self.tol, watched)
        return np.asarray(majority.votes.sum(axis=(1, 2)), dtype=np.float64)

    def _is_mirrored(self, n_votes: FloatArray) -> bool:
        """Whether votes are right less often than by chance, so classes are swapped."""
        return float(self.accuracies_ @ n_votes) < n_votes.sum() / len(self.class_balance_) * 0.98

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        joint = one_coin_joint(self.accuracies_, self.class_balance_)
        return posterior(votes, joint, self.class_balance_)


def one_coin_joint(accuracies: FloatArray, prior: FloatArray) -> LogJoint:
    """Return the model of voters whose errors are spread evenly over the other classes."""
    n_classes = len(prior)
    right = log_of(accuracies)[:, None, None]
    wrong = log_of((1 - accuracies) / (n_classes - 1))[:, None, None]
    weights = np.where(np.eye(n_classes, dtype=bool), right, wrong)
    return LogJoint(weights.reshape(-1, n_classes), log_of(prior))


def _accuracies(expected_votes: FloatArray, smoothing: float) -> npt.NDArray[np.float64]:
    """P(right | votes): the expected share of right votes; chance for voters without votes."""
    n_classes = expected_votes.shape[2]
    right = np.trace(expected_votes, axis1=1, axis2=2) + smoothing
    total = expected_votes.sum(axis=(1, 2)) + smoothing * n_classes
    guess = np.full(len(total), 1 / n_classes)
    # Rounding may make the sum of right votes slightly larger than the sum of all.
    return np.minimum(np.divide(right, total, out=guess, where=total > 0), 1.0)


def _warn_of_mirror(
    accuracies: FloatArray, n_votes: FloatArray, prior: FloatArray, labels: LabelSpace
) -> None:
    balance = ", ".join(
        f"{name!r} {share:.3g}" for name, share in zip(labels.names[:5], prior, strict=False)
    )
    right = accuracies @ n_votes / n_votes.sum()
    warnings.warn(
        f"OneCoin estimates that only {100 * right:.0f} % of the votes are "
        f"right, fewer than by chance: with the class balance {balance}, classes may be swapped. "
        "Either there are too few votes, or the balance is wrong for these items. MajorityVote "
        "cannot fail this way.",
        CollapseWarning,
        stacklevel=4,
    )
