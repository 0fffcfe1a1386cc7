"""Label models that use features or gold labels in addition to the votes."""

import copy
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.linear_models import CrossFit, LinearModel
from wiesel.errors import Advice, Argument, FeatureError, ParameterError, WieselWarning, warn_user
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.majority_vote import vote_balance
from wiesel.label_models.vote_products import (
    alignment_offsets,
    class_shares,
    item_scores,
    normalize_rows,
    vote_totals,
)
from wiesel.labels import checked_proba, class_prior
from wiesel.parameters import check_number
from wiesel.tables import in_order_of
from wiesel.threads import one_thread
from wiesel.training import Inputs, as_inputs
from wiesel.votes import VoteMatrix, VoteSource, require_votes

if TYPE_CHECKING:
    from wiesel.end_to_end.plan import FitInputs, FitPlan

__all__ = [
    "Array",
    "EvidenceLabelModel",
    "FeatureChecked",
    "FeatureEM",
    "FeatureLabelModel",
    "GoldWeighted",
    "SideInformation",
    "fit_label_model",
]

Array = npt.NDArray[np.float64]
_SMALLEST_FACTOR = 0.1
"""No factor of a probability is smaller, so that neither a vote nor the features rule out a
class."""
_SMALLEST_SHARE = 1e-4
_PSEUDO_VOTES = 10.0
"""Voters with few votes are shrunk by so many further votes: toward the average voter (FeatureEM),
or toward votes on which the features carry no information (FeatureChecked)."""
_GAIN = 0.5
"""How far an average vote moves the probability of its class from the class balance to 1."""


class SideInformation(NamedTuple):
    """What a label model learns from in addition to the votes."""

    inputs: Inputs | None
    """The features of all items."""
    gold: tuple[VoteMatrix, npt.NDArray[np.int64]] | None
    """Votes on a few items, and the classes of these items."""
    linear_models: CrossFit | None
    """Linear models of `inputs`, if they were made before."""


@dataclass(eq=False, kw_only=True)
class EvidenceLabelModel(LabelModel):
    """A label model that learns the evidence of every vote from features or gold labels.

    The evidence of a vote of voter j for class v is what it adds to the logit of each class.
    Voters depend on each other, so n votes on an item count as much as sqrt(n) independent ones.
    """

    takes_inputs = True
    tasks = ("one label", "several labels")

    power: float = 0.5
    """Evidence is divided by this power of the number of votes on the item; 0 treats voters as
    independent."""

    evidence_: Array = field(init=False, repr=False)
    """(n_voters, voted, class): what every vote adds to the logit of every class."""
    offsets_: Array = field(init=False, repr=False)
    """The logits of an item before its votes are added."""

    def fit(
        self,
        votes: VoteSource,
        class_balance: ClassBalance = None,
        X: Any = None,
        gold: tuple[VoteMatrix, Any] | None = None,
    ) -> Self:
        """Learn from votes, and from features or gold if the method needs them.

        Parameters
        ----------
        votes
            The votes to learn from.
        class_balance
            P(class), if it is known.
        X
            The features of the same items.
        gold
            Votes on a few items, and the gold labels of these items (names or indices).
        """
        self.fit_predict_proba(votes, class_balance, X, gold)
        return self

    def fit_predict_proba(
        self,
        votes: VoteSource,
        class_balance: ClassBalance = None,
        X: Any = None,
        gold: tuple[VoteMatrix, Any] | None = None,
        linear_models: CrossFit | None = None,
    ) -> Array:
        """Fit, and return the soft labels of the same votes, which fitting computes anyway.

        `linear_models` are those of `X` on the items with votes, if they were made before.
        """
        if not isinstance(votes, VoteMatrix):
            raise ParameterError(f"{type(self).__name__} needs all votes in one VoteMatrix.")
        known = self._begin(votes, class_balance)
        labeled = None
        if gold is not None:
            labeled = gold[0], votes.labels.indices(in_order_of(*gold, "gold"))
        side = SideInformation(_inputs_of(X, votes), labeled, linear_models)
        with one_thread():
            soft_labels = self._fit_evidence(votes, known, side)
        self._finish(votes)
        return soft_labels

    def predict_proba(self, votes: VoteSource, X: Any = None) -> Array:
        """Return P(class | votes): (n_items, n_classes), in the order of `labels_.names`.

        A label model that learned from features also uses `X`, the features of the same items. A
        vote may count against its own class if features or gold imply it; this causes no warning.
        """
        self.check_fitted()
        require_votes(votes)
        if not isinstance(votes, VoteMatrix):
            if X is not None:
                raise ParameterError(
                    f"{type(self).__name__}: X can be given with one VoteMatrix only."
                )
            return np.concatenate([self.predict_proba(part) for part in votes.parts()])
        self.check_votes(votes)
        inputs = _inputs_of(X, votes)
        with one_thread():
            return self._soft_labels(votes, self._scores(votes, inputs) + self.offsets_)

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "power", self.power, low=0, high=1)

    @abstractmethod
    def _fit_evidence(
        self, votes: VoteMatrix, class_balance: Array | None, side: SideInformation
    ) -> Array:
        """Set `evidence_` and `offsets_`, and return the soft labels of the votes."""

    def _fit(self, votes: VoteSource, class_balance: Array | None) -> None:
        """Never called: this class overrides `fit`."""

    def _predict_proba(self, votes: VoteMatrix) -> Array:
        return self.predict_proba(votes)

    def _scores(self, votes: VoteMatrix, inputs: Inputs | None) -> Array:
        """The logits of the classes without the offsets: (n_items, n_classes)."""
        scores = item_scores(votes, self.evidence_.reshape(-1, votes.n_classes))
        scores /= np.maximum(votes.votes_per_item, 1)[:, None] ** self.power
        return scores

    def _soft_labels(self, votes: VoteMatrix, logits: Array) -> Array:
        """Turn logits into probabilities, in place; items without votes get the class balance."""
        normalize_rows(logits)
        logits[~votes.covered] = self.class_balance_
        return logits


def _inputs_of(X: Any, votes: VoteMatrix) -> Inputs | None:
    """Return the features of all items as inputs."""
    if X is None:
        return None
    inputs = as_inputs(X, votes=votes)
    if len(inputs) != votes.n_items:
        raise FeatureError(
            f"X has {len(inputs)} items, the votes have {votes.n_items}: give the features of "
            "the same items in the same order."
        )
    return inputs


@dataclass(eq=False, kw_only=True)
class FeatureLabelModel(EvidenceLabelModel):
    """A label model that learns from the votes and from the features of the same items.

    The soft labels q start from the vote shares. Every round fits a linear model f of q to the
    features, estimates the evidence of every vote again, and computes the next q from both::

        q(c | x, votes) = (1 + f_c(x) / P(c)) * prod_j (P(c | j votes v) / P(c))^(n^-power) * e^b_c

    normalized, where n is the number of votes on the item. No factor is less than 0.1, and b_c
    makes the class shares equal the class balance. For vectors of at most 100 numbers, f also reads
    300 random ReLU units of them, if these predict the vote shares of held-out items better.
    """

    rounds: int = 3
    """The number of rounds of fitting the linear model and the voters."""

    coefficients_: Array = field(init=False, repr=False)
    """(n_features + n_units, n_classes): the coefficients of the features, and of their random
    units if there are any, in the first factor."""
    intercept_: Array = field(init=False, repr=False)
    """The first factor if all features and units are 0."""
    units_: Array | None = field(init=False, repr=False)
    """(n_features + 1, n_units): the weights and offsets of the random units; None without them."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "rounds", self.rounds, low=1, whole=True)

    def _fit_evidence(
        self, votes: VoteMatrix, class_balance: Array | None, side: SideInformation
    ) -> Array:
        if side.inputs is None:
            raise FeatureError(f"{type(self).__name__} needs the features: fit(votes, X=X).")
        self.class_balance_ = vote_balance(votes) if class_balance is None else class_balance
        soft_labels = class_shares(votes, class_prior(votes.labels, None), np.ones(votes.n_voters))
        linear = side.linear_models
        if linear is None:
            linear = CrossFit.of(side.inputs, np.flatnonzero(votes.covered), soft_labels)
        for _ in range(self.rounds):
            soft_labels = self._fit_round(votes, linear, soft_labels)
        return soft_labels

    def _fit_round(self, votes: VoteMatrix, linear: CrossFit | None, soft_labels: Array) -> Array:
        """Fit the learned attributes to the soft labels; return the next soft labels."""
        n_classes = votes.n_classes
        shares = np.maximum(soft_labels[votes.covered].mean(axis=0), _SMALLEST_SHARE)
        held_out = in_sample = np.zeros_like(soft_labels)
        self.coefficients_, self.intercept_ = np.zeros((0, n_classes)), np.ones(n_classes)
        self.units_ = None
        if linear is not None:
            held_out, in_sample, model = linear.fit(soft_labels - shares)
            self.coefficients_ = model.coefficients / shares
            self.intercept_, self.units_ = 1 + model.intercept / shares, model.units
        proba = self._class_given_vote(votes, soft_labels, held_out, shares)
        self.evidence_ = _log_factor(proba / shares)
        # The linear model has predicted these items: the features are not read again.
        scores = super()._scores(votes, None) + _log_factor(1 + in_sample / shares)
        self.offsets_ = alignment_offsets(self.class_balance_, scores[votes.covered])
        return self._soft_labels(votes, scores + self.offsets_)

    @abstractmethod
    def _class_given_vote(
        self, votes: VoteMatrix, soft_labels: Array, held_out: Array, shares: Array
    ) -> Array:
        """Return P(c | j votes v): (n_voters, voted, class); bounds are applied to it later.

        `held_out` are the out-of-fold predictions of the linear model for the soft labels minus
        their class shares P(c), which are `shares`.
        """

    def _scores(self, votes: VoteMatrix, inputs: Inputs | None) -> Array:
        scores = super()._scores(votes, inputs)
        if inputs is not None and len(self.coefficients_):
            scores += _log_factor(self._linear_model.predict(inputs))
        return scores

    def check_learned(self) -> None:
        """Raise ValueError if the linear model has wrong shapes, NaN or infinite numbers."""
        model = self._linear_model
        if not len(model.coefficients):
            return
        # NaN and infinity remain visible: times 0 they are NaN.
        with np.errstate(invalid="ignore"):
            factor = model.predict(as_inputs(np.zeros((1, model.width))))
        if factor.shape != (1, len(self.labels_)) or not np.isfinite(factor).all():
            raise ValueError(f"its answer to features is {factor!r:.80}")

    @property
    def _linear_model(self) -> LinearModel:
        return LinearModel(self.coefficients_, self.intercept_, self.units_)


@dataclass(eq=False, kw_only=True)
class FeatureEM(FeatureLabelModel):
    """A few rounds of EM over the votes and a linear model of the features.

    As in Raykar et al. (2010), the features give a prior for the soft label of an item, and the
    meaning of a vote is estimated from the soft labels q of the items on which it was cast::

        P(c | j votes v) = (sum_{i: j votes v} q_i(c) + 10 P(c | vote v)) / (n_jv + 10)

    where P(c | vote v) is the estimate from all voters. There are three differences: the linear
    model is a ridge regression, voters with few votes are shrunk toward the average of all voters,
    and there are only three rounds. Images and token ids are converted to vectors. Without vectors
    only the voters are learned, as in Dawid and Skene's model.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(500, n_voters=4)
    >>> X = make_features(gold, n_features=4)
    >>> FeatureEM().fit(votes, X=X).predict_proba(votes, X).shape
    (500, 2)
    """

    def _class_given_vote(
        self, votes: VoteMatrix, soft_labels: Array, held_out: Array, shares: Array
    ) -> Array:
        n_classes = votes.n_classes
        cast = vote_totals(votes)[:, :, None]
        counts = np.asarray(votes.one_hot().T @ soft_labels).reshape(-1, n_classes, n_classes)
        # A class without votes carries no information: it gets the class shares.
        pooled = (counts.sum(axis=0) + shares) / (cast.sum(axis=0) + 1)
        proba: Array = (counts + _PSEUDO_VOTES * pooled) / (cast + _PSEUDO_VOTES)
        return proba


@dataclass(eq=False, kw_only=True)
class FeatureChecked(FeatureLabelModel):
    """Votes weighted by how well a linear model of the features confirms them.

    Let l_jv(c) be the mean prediction of a linear model for class c on the items where voter j
    votes v, minus its mean over all items, shrunk toward 0 by ten pseudo-votes. The linear model
    never predicts an item it was fitted on, so no voter confirms itself::

        P(c | j votes v) = P(c) + s * l_jv(c)

    where s makes an average vote move its class half of the way from P(c) to 1. Voters need not
    overlap. Images and token ids are converted to vectors. Without vectors, or if
    they confirm the votes no better than chance, every vote counts the same, with a warning.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(500, n_voters=4)
    >>> X = make_features(gold, n_features=4)
    >>> FeatureChecked().fit(votes, X=X).predict_proba(votes, X).shape
    (500, 2)
    """

    confirmed_: bool = field(init=False, repr=False)
    """Whether the features confirm the votes better than chance."""

    def _fit_evidence(
        self, votes: VoteMatrix, class_balance: Array | None, side: SideInformation
    ) -> Array:
        soft_labels = super()._fit_evidence(votes, class_balance, side)
        if not self.confirmed_:
            warn_user(
                "The features do not confirm the votes, so every vote counts the same.",
                WieselWarning,
            )
        return soft_labels

    def _class_given_vote(
        self, votes: VoteMatrix, soft_labels: Array, held_out: Array, shares: Array
    ) -> Array:
        counts = vote_totals(votes).ravel()
        covered = held_out[votes.covered]
        lift = votes.one_hot().T @ held_out - np.outer(counts, covered.mean(axis=0))
        lift /= (counts + _PSEUDO_VOTES)[:, None]
        voted = np.tile(np.arange(votes.n_classes), votes.n_voters)
        confirmed = np.average(lift[np.arange(len(lift)), voted], weights=counts)
        # Uninformative features confirm votes by chance.
        self.confirmed_ = bool(confirmed > 2 * covered.std() / np.sqrt(len(covered)))
        if self.confirmed_:
            scale = _GAIN * (1 - np.average(shares[voted], weights=counts)) / confirmed
            proba = shares + scale * lift
        else:
            proba = np.eye(votes.n_classes)[voted]
        return proba.reshape(votes.n_voters, votes.n_classes, votes.n_classes)


def _log_factor(factor: Array) -> Array:
    logarithm: Array = np.log(np.maximum(factor, _SMALLEST_FACTOR))
    return logarithm


@dataclass(eq=False, kw_only=True)
class GoldWeighted(EvidenceLabelModel):
    """Votes weighted by their voters' precision on gold labels.

    On the items with gold, n_jv(c) counts how often the class is c where voter j votes v::

        P(c | j votes v) = (n_jv(c) + shrinkage * P(c | vote v)) / (n_jv + shrinkage)
        e_jv(c)          = log P(c | j votes v) - log P(c)
        P(c | votes)     = softmax(log P(c) + sum_j e_jv(c) / n_votes^power)

    P(c | vote v) is the estimate from all voters, itself shrunk toward the accuracy of all votes.
    With few gold labels the precision of a voter is close to that of all voters; with many, it is
    its own. `power` 1/2 assumes that voters depend on each other, 0 that they are independent.

    >>> from wiesel.datasets.synthetic import make_votes
    >>> votes, gold = make_votes(500, n_voters=4)
    >>> model = GoldWeighted().fit(votes, gold=(votes[:50], gold[:50]))
    >>> model.predict_proba(votes).shape
    (500, 2)
    """

    shrinkage: float = 10.0
    """The number of pseudo-votes that shrink a voter toward the average of all voters."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "shrinkage", self.shrinkage, low=0.001)

    def _fit_evidence(
        self, votes: VoteMatrix, class_balance: Array | None, side: SideInformation
    ) -> Array:
        if side.gold is None or not len(side.gold[1]):
            raise ParameterError(
                "GoldWeighted needs votes on items with gold labels: give ",
                Argument("validation"),
                Advice(
                    " as (X, y, votes) to fit() of TwoStage or Committee, or its own fit() gold"
                ),
                ".",
            )
        labeled, truth = side.gold
        labeled.check_same_voters(votes.voters, votes.labels)
        one_hot = np.eye(votes.n_classes)[truth]
        # Add one of each class, so that a class that is missing by chance is not ruled out.
        counted = (one_hot.sum(axis=0) + 1) / (len(truth) + votes.n_classes)
        balance = counted if class_balance is None else class_balance
        cells = (votes.n_voters, votes.n_classes, votes.n_classes)
        counts = np.asarray(labeled.one_hot().T @ one_hot).reshape(cells)
        proba = _shrunk(
            counts, _pooled(counts.sum(axis=0), counted, self.shrinkage), self.shrinkage
        )
        self.evidence_ = np.log(proba / counted)
        self.class_balance_, self.offsets_ = balance, np.log(balance)
        return self._soft_labels(votes, self._scores(votes, None) + self.offsets_)


def _pooled(counts: Array, balance: Array, shrinkage: float) -> Array:
    """P(true | voted) of all voters together: (voted, true)."""
    n_classes = len(balance)
    accuracy = (np.trace(counts) + 1) / (counts.sum() + n_classes)
    others = np.tile(balance, (n_classes, 1)) * (1 - np.eye(n_classes))
    others *= (1 - accuracy) / others.sum(axis=1, keepdims=True)
    return _shrunk(counts, others + accuracy * np.eye(n_classes), shrinkage)


def _shrunk(counts: Array, towards: Array, shrinkage: float) -> Array:
    """Shares of counts over the last axis, shrunk by this number of pseudo-counts."""
    shares: Array = (counts + shrinkage * towards) / (
        counts.sum(axis=-1, keepdims=True) + shrinkage
    )
    return shares


def fit_label_model(
    label_model: LabelModel,
    plan: "FitPlan",
    class_balance: npt.NDArray[np.float64] | None,
    given: "FitInputs | None" = None,
    whole: "FitPlan | None" = None,
) -> tuple[LabelModel, npt.NDArray[np.float64]]:
    """Return a fitted copy of a label model, and its soft labels for all items of the plan.

    Some label models also use the plan's features or gold. `given` are the inputs of several fits,
    which share the linear models of the `whole` plan, but not those of a part of it.
    """
    fitted, votes = copy.deepcopy(label_model), plan.votes
    if not isinstance(fitted, EvidenceLabelModel):
        return fitted, _checked(fitted, fitted.fit_predict_proba(votes, class_balance), votes)
    gold = None
    if plan.gold is not None and plan.gold.votes is not None:
        gold = plan.gold.votes, plan.gold.known.gold
    linear = None
    if given is not None and plan is whole and isinstance(fitted, FeatureLabelModel):
        linear = given.linear_models
    inputs = plan.data.inputs
    soft_labels = fitted.fit_predict_proba(votes, class_balance, inputs, gold, linear)
    return fitted, _checked(fitted, soft_labels, votes)


def _checked(label_model: LabelModel, proba: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """The soft labels of a label model, which may be the user's own."""
    source = f"The soft labels by {type(label_model).__name__}"
    return checked_proba(proba, votes.labels, source, votes.n_items)
