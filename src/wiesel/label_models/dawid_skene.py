"""Dawid-Skene: every voter has its own confusion matrix."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError
from wiesel.label_models.base import ClassBalance, LabelModel
from wiesel.label_models.expectation_maximization import (
    Expectations,
    GoldItems,
    VoteSums,
    balance_certainty,
    log_of,
    maximize,
    shares,
)
from wiesel.label_models.vote_products import LogJoint, item_scores, posterior, vote_totals
from wiesel.labels import FloatArray
from wiesel.parameters import check_choice, check_number
from wiesel.threads import one_thread
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["DawidSkene"]

PSEUDO_ITEMS = 0.01
"""Added to counts that have no other smoothing, so that no class is ever impossible."""


@dataclass(eq=False, kw_only=True)
class DawidSkene(LabelModel):
    """Each voter has a confusion matrix, learned by EM from the majority vote.

    With p the class balance and pi_j[c, l] = P(voter j votes l | true class c, it votes):

        E: P(c | votes) ~ p_c * product over votes of pi_j[c, vote]
        M: p_c ~ sum of P(c | votes), pi_j[c, l] ~ sum of P(c | votes) over j's votes for l

    in log space. The confusions of a voter with few votes are shrunk toward the average voter: the
    confusions of all voters with the majority vote count as `smoothing` pseudo-votes per cell, on
    average. A probabilistic vote counts for each class with its probability.

    Dawid and Skene 1979, "Maximum likelihood estimation of observer error-rates using the EM
    algorithm", Applied Statistics 28(1).

    >>> model = DawidSkene().fit(votes)
    >>> model.predict(votes)[:3]
    array(['ham', 'ham', 'spam'], dtype=object)
    >>> model.confusions_.shape
    (3, 2, 2)
    """

    trusts_independence: ClassVar[bool] = True

    max_iter: int = 100
    """The maximum number of EM steps."""
    tol: float = 1e-5
    """Stop when the mean log evidence per item grows by less."""
    smoothing: float = 2.0
    """Pseudo-votes for an average cell of each voter's confusions; 0 is maximum likelihood."""
    abstain_as_vote: bool | Literal["auto"] = "auto"
    """Treat abstaining as an answer: the confusions get a last column for it. Items without any
    vote still get the class balance. `auto` does so if most votes come from voters that vote for
    one class only: such a voter is informative only through when it votes."""

    stop_at_drift: bool = True
    """If the class balance is learned, stop when it gets less certain faster than the evidence
    grows. That is when the evidence falls if the class balance counts once per vote instead of
    once per item. Items that are hard for all voters would otherwise make EM drift. In `make
    bench` this helps on some crowd data and hurts on others; synthetic data is not affected."""

    confusions_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(voted | true class): (n_voters, true, voted), rows sum to 1. Abstaining has the last
    column if it counts as a vote."""
    silence_counts_: bool = field(init=False, repr=False)
    """Whether abstaining was treated as a vote."""
    evidence_: list[float] = field(init=False, repr=False)
    """The log probability of votes and parameters after every step; it never decreases."""

    def fit(
        self,
        votes: VoteSource,
        class_balance: ClassBalance = None,
        *,
        gold: GoldItems | None = None,
        initial_confusions: Any = None,
    ) -> Self:
        """Learn from votes.

        `class_balance` fixes P(class); otherwise it is learned. `gold` maps item ids to known
        classes. `initial_confusions` (n_voters, true, voted) replace the majority vote as the
        start of EM.
        """
        with one_thread():
            known = self._begin(votes, class_balance)
            self._decide_on_silence(votes)
            start = None
            if initial_confusions is not None:
                confusions = _check_confusions(initial_confusions, votes, self.silence_counts_)
                start = self._log_joint(confusions)
            self._maximize(VoteSums(votes, gold), known, start)
            return self._finish(votes)

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)
        check_number(self, "smoothing", self.smoothing, low=0)
        if not isinstance(self.abstain_as_vote, bool):
            check_choice(self, "abstain_as_vote", self.abstain_as_vote, ("auto",))

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        self._decide_on_silence(votes)
        self._maximize(VoteSums(votes), class_balance, None)

    def _decide_on_silence(self, votes: VoteSource) -> None:
        if isinstance(self.abstain_as_vote, bool):
            self.silence_counts_ = self.abstain_as_vote
        else:
            totals = vote_totals(votes)
            one_sided = np.count_nonzero(totals, axis=1) == 1
            self.silence_counts_ = bool(totals[one_sided].sum() > totals.sum() / 2)

    def _maximize(
        self, sums: VoteSums, known: npt.NDArray[np.float64] | None, start: LogJoint | None
    ) -> None:
        majority = sums.majority()
        pseudo_votes = self.smoothing * _average_confusions(self._counts(majority))

        def m_step(expected: Expectations) -> tuple[LogJoint, float]:
            if known is None:
                items = expected.items if self.silence_counts_ else expected.covered
                self.class_balance_ = shares(items + PSEUDO_ITEMS)
            self.confusions_ = shares(self._counts(expected) + pseudo_votes)
            log_density = float((pseudo_votes * log_of(self.confusions_)).sum())
            if known is None:
                log_density += PSEUDO_ITEMS * float(log_of(self.class_balance_).sum())
            return self._log_joint(self.confusions_), log_density

        def certainty(expected: Expectations) -> float:
            return balance_certainty(expected, self.class_balance_)

        # If abstaining counts as a vote, every item has one observation per voter.
        guarded = self.stop_at_drift and known is None and not self.silence_counts_
        first = majority if start is None else sums.expect(start)
        watched = certainty if guarded else None
        self.evidence_ = maximize(sums, first, m_step, self.max_iter, self.tol, watched)

    def _counts(self, expected: Expectations) -> FloatArray:
        """Expected votes (n_voters, true, voted), with abstains as an optional last column."""
        counts = expected.votes.transpose(0, 2, 1)
        if not self.silence_counts_:
            return counts
        silent = np.maximum(expected.items - counts.sum(axis=2), 0)
        return np.concatenate([counts, silent[:, :, None]], axis=2)

    def _log_joint(self, confusions: FloatArray) -> LogJoint:
        log_confusions, offset = log_of(confusions), log_of(self.class_balance_)
        if self.silence_counts_:
            # Start from all voters abstaining; each vote replaces its voter's abstain term.
            silence = log_confusions[:, :, -1]
            offset = offset + silence.sum(axis=0)
            log_confusions = log_confusions[:, :, :-1] - silence[:, :, None]
        n_classes = len(offset)
        return LogJoint(log_confusions.transpose(0, 2, 1).reshape(-1, n_classes), offset)

    def log_evidence(self, votes: VoteMatrix, proba: FloatArray) -> npt.NDArray[np.float64]:
        """Return log P(class, votes) of every item; the logarithm of `proba` ends at 1e-300."""
        joint = self._log_joint(self.confusions_)
        return item_scores(votes, joint.weights) + joint.offset

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        return posterior(votes, self._log_joint(self.confusions_), self.class_balance_)


def _average_confusions(counts: FloatArray) -> npt.NDArray[np.float64]:
    """The pooled confusions of all voters, scaled to one pseudo-vote per cell on average."""
    pooled = counts.sum(axis=0) + PSEUDO_ITEMS
    return pooled.shape[1] * shares(pooled)


def _check_confusions(
    confusions: Any, votes: VoteSource, abstain_as_vote: bool
) -> npt.NDArray[np.float64]:
    array = np.asarray(confusions, dtype=np.float64)
    n_classes = len(votes.labels)
    expected = (len(votes.voters), n_classes, n_classes + abstain_as_vote)
    if array.shape != expected:
        raise ParameterError(
            f"The initial confusions have the shape {array.shape}; "
            f"expected {expected}: (n_voters, true, voted)."
        )
    total = array.sum(axis=2, keepdims=True)
    if not np.isfinite(array).all() or (array < 0).any() or (total <= 0).any():
        raise ParameterError(
            "The initial confusions must be non-negative, with rows that sum to 1 for each voter "
            "and true class."
        )
    return array / total
