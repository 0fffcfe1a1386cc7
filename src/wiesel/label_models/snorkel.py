"""Snorkel's label model: accuracies from the agreement of pairs of voters."""

import math
import warnings
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from wiesel.errors import WieselWarning
from wiesel.label_models.base import LabelModel
from wiesel.label_models.class_balance import estimate_class_balance
from wiesel.label_models.moment_matching import (
    MomentLoss,
    Moments,
    minimize_adam,
    minimize_lbfgs,
    minimize_sgd,
    moments_of,
)
from wiesel.label_models.vote_products import (
    LogJoint,
    item_scores,
    posterior,
    refuse_too_many_numbers,
)
from wiesel.labels import FloatArray
from wiesel.parameters import check_choice, check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["Snorkel"]

FITS_WELL = 1.5
"""The largest misfit of voters that count as independent. Independent voters give about 1 at most;
most sets of real labeling functions give far more (tests/parity has both)."""

SPREAD = 0.3
"""The expected distance of P(vote | class) from the start, in units of a vote's mean frequency."""

_MOST_UNKNOWNS = 2_000_000
"""More take half a minute or more: a step multiplies matrices of them by another C classes."""


@dataclass(eq=False, kw_only=True)
class Snorkel(LabelModel):
    """Estimates P(vote | class) from the moments of pairs of votes.

    With O the frequencies of two votes cast together, q those of single votes, p the class
    balance and mu[(voter, vote), class] = P(vote | class), it minimizes

        |O - mu P mu^T|^2 over pairs of different voters + |mu p - q|^2 + l2^2 |mu - start|^2

    and P(class | votes) ~ p * product over votes of mu[vote, class], in log space. A vote never
    counts against its own class. If no class balance is given, it is estimated from triples of
    voters, or uniform if the voters are not independent given the class. Probabilistic votes enter
    O and q, and the posterior, as distributions.

    Ratner, Hancock, Dunnmon, Sala, Pandey and Ré 2019, "Training complex models with multi-task
    weak supervision", AAAI.

    >>> Snorkel().fit(votes).predict(votes)[:3]
    array(['ham', 'ham', 'spam'], dtype=object)
    """

    counts_repeats: ClassVar[bool] = False

    optimizer: Literal["lbfgs", "sgd", "adam"] = "lbfgs"
    """`lbfgs` converges. `sgd` with the other defaults takes the steps of the Snorkel library and
    stays near the start."""
    epochs: int = 100
    """The maximum number of steps."""
    lr: float = 0.01
    """The size of `sgd` and `adam` steps."""
    l2: float = 0.0
    """The penalty toward the start; `sgd` and `adam` also use it as weight decay, like Snorkel."""
    precision: float = 0.7
    """The initial precision of all voters."""
    smoothing: float = 200.0
    """After `lbfgs`: the number of pseudo-votes per class for the assumption that a voter's errors
    are spread evenly."""
    keep_unanimous: bool | None = None
    """Unanimous votes decide the label of an item, regardless of the class balance.
    None: only if `fit` gets no class balance; a given one enters by Bayes' rule."""
    seed: int = 0
    """For `sgd` and `adam`: their start is the assumed precisions times one random number."""

    conditionals_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(voted | true class): (n_voters, true, voted); rows sum to 1 - P(abstains)."""
    accuracies_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(right | votes) of each voter; NaN for one that never votes."""
    loss_: list[float] = field(init=False, repr=False)
    """The loss at every step; empty if there was nothing to learn from."""
    misfit_: float = field(init=False, repr=False)
    """Squared errors of the pair moments in units of sampling noise; NaN without any pairs.
    Well above 1, the voters are not independent given the class."""
    keeps_unanimous_: bool = field(init=False, repr=False)
    """Whether a unanimous vote is kept against the class balance."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "optimizer", self.optimizer, ("lbfgs", "sgd", "adam"))
        check_number(self, "epochs", self.epochs, low=1, whole=True)
        check_number(self, "lr", self.lr, low=0)
        check_number(self, "l2", self.l2, low=0)
        check_number(self, "precision", self.precision, low=0, high=1)
        check_number(self, "smoothing", self.smoothing, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        refuse_too_many_numbers(self, votes, _MOST_UNKNOWNS)
        moments = moments_of(votes)
        self.keeps_unanimous_ = class_balance is None
        if self.keep_unanimous is not None:
            self.keeps_unanimous_ = self.keep_unanimous
        if len(votes.voters) < 3 or moments.squares == 0:
            _warn_of_fallback(len(votes.voters), self.precision)
            self.loss_, self.misfit_ = [], math.nan
            mu = _equal_voters(moments.singles, self.class_balance_, self.precision)
        elif self.optimizer == "lbfgs":
            mu = self._converge(moments)
            if class_balance is None and self.misfit_ <= FITS_WELL:
                self.class_balance_ = estimate_class_balance(votes)
                mu = self._converge(moments)
        else:
            mu = self._descend(moments)
        self._keep(mu, moments)

    def _converge(self, moments: Moments) -> npt.NDArray[np.float64]:
        prior = self.class_balance_
        start = _start(moments.singles, prior, self.precision)
        loss = MomentLoss(moments, prior, start, max(self.l2, _pull(moments)))
        mu, self.loss_ = minimize_lbfgs(loss, start, self.epochs)
        self.misfit_ = loss.misfit(mu)
        return _evenly_wrong(mu, moments, prior, self.smoothing)

    def _descend(self, moments: Moments) -> npt.NDArray[np.float64]:
        """Take gradient steps from the start, shorter ones if the loss explodes."""
        start = _start(moments.singles, self.class_balance_, self.precision)
        loss = MomentLoss(moments, self.class_balance_, start, self.l2)
        start = start * np.random.default_rng(self.seed).uniform()
        descend = minimize_adam if self.optimizer == "adam" else minimize_sgd
        lr = self.lr
        while True:
            mu, self.loss_ = descend(loss, start, self.epochs, lr, self.l2)
            if np.isfinite(self.loss_[-1]) and self.loss_[-1] <= 10 * self.loss_[0] + 1e-12:
                break
            lr /= 4
        if lr < self.lr:
            warnings.warn(
                f"Snorkel: steps of lr={self.lr} made the loss explode; took lr={lr} instead.",
                WieselWarning,
                stacklevel=4,
            )
        self.misfit_ = loss.misfit(mu)
        return mu

    def _keep(self, mu: FloatArray, moments: Moments) -> None:
        prior = self.class_balance_
        self.accuracies_ = _accuracies(mu, moments.singles, prior)
        mu = _trusted(_ordered(_clamped(mu, moments.n_items), prior))
        by_voter = mu.reshape(-1, len(prior), len(prior))
        self.conditionals_ = by_voter.transpose(0, 2, 1).copy()

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        prior = self.class_balance_
        log_mu = np.log(self.conditionals_.transpose(0, 2, 1).reshape(-1, len(prior)))
        proba = posterior(votes, LogJoint(log_mu, np.log(prior)), prior)
        if self.keeps_unanimous_ and np.ptp(prior) > 0:
            overruled = _overruled(votes, proba)
            no_prior = LogJoint(log_mu, np.zeros(len(prior)))
            proba[overruled] = posterior(votes[overruled], no_prior, prior)
        return proba


def _overruled(votes: VoteMatrix, proba: FloatArray) -> npt.NDArray[np.int64]:
    """The items on which all votes agree, but the class balance makes another class win."""
    n_classes = votes.n_classes
    counts = item_scores(votes, np.tile(np.eye(n_classes), (votes.n_voters, 1)))
    choice = counts.argmax(axis=1)
    unanimous = votes.covered & (counts.max(axis=1) > votes.votes_per_item - 1e-6)
    return np.flatnonzero(unanimous & (proba.argmax(axis=1) != choice))


def _start(singles: FloatArray, prior: FloatArray, precision: float) -> npt.NDArray[np.float64]:
    """P(vote | class) if votes have the assumed precision; wrong votes are undetermined."""
    n_classes = len(prior)
    diagonal = np.clip(singles * precision / prior, 0, 1)
    return (diagonal[:, :, None] * np.eye(n_classes)).reshape(-1, n_classes)


def _pull(moments: Moments) -> float:
    """The smallest `l2` of L-BFGS: sampling noise relative to the expected distance.

    It stabilizes estimates from few items. With three or more classes it also selects one solution
    among the rotations that the moments cannot distinguish.
    """
    noise = math.sqrt(float(moments.pairs.mean()) / moments.n_items)
    return noise / (SPREAD * float(moments.singles.mean()))


def _equal_voters(
    singles: FloatArray, prior: FloatArray, precision: float
) -> npt.NDArray[np.float64]:
    """P(vote | class) if all votes have the same precision and errors are spread evenly."""
    n_classes = len(prior)
    right = (singles * precision / prior)[:, :, None]
    wrong = (singles * (1 - precision) / (1 - prior))[:, :, None]
    return np.where(np.eye(n_classes, dtype=bool), right, wrong).reshape(-1, n_classes)


def _evenly_wrong(
    mu: FloatArray, moments: Moments, prior: FloatArray, smoothing: float
) -> npt.NDArray[np.float64]:
    """Shrink the estimates of voters with few votes toward evenly spread errors.

    This applies only to voters that vote for every class; others have their own pattern of errors.
    """
    n_classes = len(prior)
    own = mu.reshape(-1, n_classes, n_classes)
    coverage = moments.singles.sum(axis=1)
    accuracy = _accuracies(mu, moments.singles, prior)
    accuracy = np.clip(np.nan_to_num(accuracy, nan=1 / n_classes), 1 / n_classes, 0.999)
    right, wrong = accuracy[:, None, None], ((1 - accuracy) / (n_classes - 1))[:, None, None]
    even = np.where(np.eye(n_classes, dtype=bool), right, wrong) * coverage[:, None, None]
    votes_on_class = moments.n_items * prior * coverage[:, None]
    share = smoothing / (smoothing + votes_on_class + 1e-300)
    share *= np.all(moments.singles > 0, axis=1, keepdims=True)
    return (own + share[:, None, :] * (even - own)).reshape(mu.shape)


def _accuracies(mu: FloatArray, singles: FloatArray, prior: FloatArray) -> npt.NDArray[np.float64]:
    n_classes = len(prior)
    right = np.einsum("jyy,y->j", mu.reshape(-1, n_classes, n_classes), prior)
    coverage = singles.sum(axis=1)
    unknown = np.full(len(coverage), np.nan)
    return np.clip(np.divide(right, coverage, out=unknown, where=coverage > 0), 0, 1)


def _clamped(mu: FloatArray, n_items: int) -> npt.NDArray[np.float64]:
    """Keep probabilities away from 0 and 1, by a margin that shrinks with the number of items."""
    eps = min(0.01, 10.0 ** -math.ceil(math.log10(max(n_items, 2))))
    return np.clip(mu, eps, 1 - eps)


def _ordered(mu: FloatArray, prior: FloatArray) -> npt.NDArray[np.float64]:
    """Assign the columns of equally frequent classes to the classes they fit best.

    The moments cannot distinguish such classes; the assumption that votes are mostly right can.
    """
    from scipy.optimize import linear_sum_assignment

    n_classes = len(prior)
    fit = np.einsum("jcy->cy", mu.reshape(-1, n_classes, n_classes)) * prior[:, None]
    ordered = np.array(mu, dtype=np.float64)
    for value in np.unique(prior.round(3)):
        alike = np.flatnonzero(prior.round(3) == value)
        classes, columns = linear_sum_assignment(fit[np.ix_(alike, alike)], maximize=True)
        ordered[:, alike[classes]] = mu[:, alike[columns]]
    return ordered


def _trusted(mu: FloatArray) -> npt.NDArray[np.float64]:
    """Let no vote be evidence against its own class, so that unanimous votes win."""
    n_classes = mu.shape[1]
    own = mu.reshape(-1, n_classes, n_classes)
    diagonal = np.einsum("jcc->jc", own)[:, :, None]
    # Slightly less, so that a tie goes to the class that was voted for.
    capped = np.minimum(own, diagonal * (1 - 1e-6))
    return np.where(np.eye(n_classes, dtype=bool), own, capped).reshape(mu.shape)


def _warn_of_fallback(n_voters: int, precision: float) -> None:
    cause = (
        f"needs at least three voters; there are {n_voters}"
        if n_voters < 3
        else "needs voters that vote on the same items; no two of these do"
    )
    warnings.warn(
        f"Snorkel {cause}. Every voter is assumed to be right in {100 * precision:.0f} % of its "
        "votes.",
        WieselWarning,
        stacklevel=4,
    )
