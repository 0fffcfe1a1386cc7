"""The base classes of readings: label models fitted with features or gold labels."""

import copy
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.linear_models import CrossFit, LinearModel
from wiesel.end_to_end.plan import FitInputs, FitPlan, vote_balance
from wiesel.errors import FeatureError, ParameterError
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.vote_products import class_shares, item_scores, normalize_rows
from wiesel.labels import class_prior
from wiesel.parameters import check_number
from wiesel.scikit_learn import require_votes
from wiesel.threads import one_thread
from wiesel.training import Inputs, as_inputs
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["FeatureReading", "Reading", "fit_label_model", "log_ratio", "proba_of_votes"]

Array = npt.NDArray[np.float64]
Gold = tuple[VoteMatrix, npt.NDArray[np.int64]]

_LEAST = 0.1
"""The lower bound of a factor, so that neither a vote nor the features rule out a class."""
_SMALLEST_SHARE = 1e-4
_ALIGNING_ROUNDS, _ALIGNING_STEP = 30, 0.7


@dataclass(eq=False, kw_only=True)
class Reading(LabelModel):
    """A label model whose `fit` uses features or gold labels in addition to the votes.

    It learns the evidence of every vote: what `voter j said v` adds to the logit of each class.
    Voters depend on each other, so n votes on an item count as much as sqrt(n) independent ones.
    """

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
        self._fit_proba(votes, class_balance, X, gold)
        return self

    def _fit_proba(
        self,
        votes: VoteSource,
        class_balance: ClassBalance = None,
        X: Any = None,
        gold: tuple[VoteMatrix, Any] | None = None,
        linear: CrossFit | None = None,
    ) -> Array:
        """Fit, and return the soft labels of the same votes, which fitting computes anyway.

        `linear` are linear models of `X` on the items with votes, if there are any already.
        """
        if not isinstance(votes, VoteMatrix):
            raise ParameterError(f"{type(self).__name__} needs all votes in one VoteMatrix.")
        known = self._begin(votes, class_balance)
        inputs = _inputs_of(X, votes)
        labeled = None if gold is None else (gold[0], votes.labels.indices(gold[1]))
        with one_thread():
            soft_labels = self._read(votes, known, inputs, labeled, linear)
        self._finish(votes)
        return soft_labels

    def predict_proba(self, votes: VoteSource, X: Any = None) -> Array:
        """Return P(class | votes): (n_items, n_classes), in the order of `labels_.names`.

        A reading that learned from features also uses `X`, the features of the same items. A vote
        may count against its own class if features or gold imply it; this causes no warning.
        """
        self.check_fitted()
        require_votes(votes)
        if not isinstance(votes, VoteMatrix):
            if X is not None:
                raise ParameterError(f"{type(self).__name__}: give X beside one VoteMatrix only.")
            return np.concatenate([self.predict_proba(part) for part in votes.parts()])
        self.check_votes(votes)
        inputs = _inputs_of(X, votes)
        with one_thread():
            return self._soft_labels(votes, self._scores(votes, inputs) + self.offsets_)

    def _check_options(self) -> None:
        check_number(self, "power", self.power, low=0, high=1)

    @abstractmethod
    def _read(
        self,
        votes: VoteMatrix,
        class_balance: Array | None,
        inputs: Inputs | None,
        gold: Gold | None,
        linear: CrossFit | None,
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


@dataclass(eq=False, kw_only=True)
class FeatureReading(Reading):
    """A label model that learns from the votes and from the features of the same items.

    The soft labels q start from the vote shares. Every round fits a linear model f of q to the
    features, estimates the meaning of every vote again, and computes the next q from both::

        q(c | x, votes) = (1 + f_c(x) / P(c)) * prod_j (P(c | j said v) / P(c))^(n^-power) * e^b_c

    normalized, where n is the number of votes on the item. No factor is less than 0.1, and b_c
    makes the class shares equal the class balance.
    """

    rounds: int = 3
    """The number of rounds of fitting the linear model and the voters."""

    coefficients_: Array = field(init=False, repr=False)
    """(n_features, n_classes): the coefficients of the features in the first factor."""
    intercept_: Array = field(init=False, repr=False)
    """The first factor if all features are 0."""

    def _check_options(self) -> None:
        super()._check_options()
        check_number(self, "rounds", self.rounds, low=1, whole=True)

    @abstractmethod
    def _vote_evidence(
        self, votes: VoteMatrix, soft_labels: Array, predicted: Array, shares: Array
    ) -> Array:
        """Return log P(c | j said v) / P(c): (n_voters * voted, class).

        `predicted` are the out-of-fold predictions of the linear model, and `shares` are the class
        shares P(c) of the soft labels.
        """

    def _read(
        self,
        votes: VoteMatrix,
        class_balance: Array | None,
        inputs: Inputs | None,
        gold: Gold | None,
        linear: CrossFit | None,
    ) -> Array:
        if inputs is None:
            raise FeatureError(f"{type(self).__name__} needs the features: fit(votes, X=X).")
        self.class_balance_ = vote_balance(votes) if class_balance is None else class_balance
        if linear is None:
            linear = CrossFit.of(inputs, np.flatnonzero(votes.covered))
        soft_labels = class_shares(votes, class_prior(votes.labels, None), np.ones(votes.n_voters))
        for _ in range(self.rounds):
            soft_labels = self._learn(votes, linear, soft_labels)
        return soft_labels

    def _learn(self, votes: VoteMatrix, linear: CrossFit | None, soft_labels: Array) -> Array:
        """Fit the learned attributes to the soft labels; return the next soft labels."""
        n_classes = votes.n_classes
        shares = np.maximum(soft_labels[votes.covered].mean(axis=0), _SMALLEST_SHARE)
        held_out = in_sample = np.zeros_like(soft_labels)
        self.coefficients_, self.intercept_ = np.zeros((0, n_classes)), np.ones(n_classes)
        if linear is not None:
            held_out, in_sample, model = linear.fit(soft_labels - shares)
            self.coefficients_ = model.coefficients / shares
            self.intercept_ = 1 + model.intercept / shares
        evidence = self._vote_evidence(votes, soft_labels, held_out, shares)
        self.evidence_ = evidence.reshape(votes.n_voters, n_classes, n_classes)
        # The linear model has predicted these items: the features are not read again.
        scores = super()._scores(votes, None) + _log_factor(1 + in_sample / shares)
        self.offsets_ = alignment_offsets(self.class_balance_, scores[votes.covered])
        return self._soft_labels(votes, scores + self.offsets_)

    def _scores(self, votes: VoteMatrix, inputs: Inputs | None) -> Array:
        scores = super()._scores(votes, inputs)
        if inputs is not None and len(self.coefficients_):
            scores += _log_factor(LinearModel(self.coefficients_, self.intercept_).predict(inputs))
        return scores


def log_ratio(proba: Array, shares: Array) -> Array:
    """Return what a vote adds to the logits, from P(c | vote) and P(c), bounded from below."""
    return _log_factor(proba / shares)


def _log_factor(factor: Array) -> Array:
    logarithm: Array = np.log(np.maximum(factor, _LEAST))
    return logarithm


def alignment_offsets(balance: Array, logits: Array) -> Array:
    """Return offsets for the logits of soft labels that make the class shares match the balance.

    The match is approximate, by iterative proportional fitting.

    >>> logits = np.log([[0.9, 0.1], [0.6, 0.4]])
    >>> moved = logits + alignment_offsets(np.array([0.5, 0.5]), logits)
    >>> normalize_rows(moved), moved.mean(axis=0).round(3)
    (array([...]), array([0.5, 0.5]))
    """
    # Offsets are factors of the probabilities, so the rounds need no further exponentials.
    proba, offsets = logits.copy(), np.zeros(len(balance))
    normalize_rows(proba)
    for _ in range(_ALIGNING_ROUNDS):
        factors = np.exp(offsets)
        shares = factors * ((1 / (proba @ factors)) @ proba) / len(proba)
        offsets += _ALIGNING_STEP * np.log(balance / np.maximum(shares, _SMALLEST_SHARE))
    return offsets


def _inputs_of(X: Any, votes: VoteMatrix) -> Inputs | None:
    """Return the inputs of the voted items; TwoStage passes inputs that are already converted."""
    if X is None:
        return None
    inputs: Inputs = X if hasattr(X, "item_bytes") else as_inputs(X)
    if len(inputs) != votes.n_items:
        raise FeatureError(
            f"X has {len(inputs)} items, the votes have {votes.n_items}: give the features of "
            "the same items in the same order."
        )
    return inputs


def fit_label_model(
    label_model: LabelModel,
    plan: FitPlan,
    class_balance: Array | None,
    given: FitInputs | None = None,
) -> tuple[LabelModel, Array]:
    """Return a fitted copy of a label model, and its soft labels for all items of the plan.

    A reading also uses the plan's features and gold. `given` are the inputs of several fits, which
    share their linear models.
    """
    fitted = copy.deepcopy(label_model)
    votes: VoteMatrix = plan.votes  # type: ignore[assignment]
    if not isinstance(fitted, Reading):
        return fitted, fitted.fit(votes, class_balance=class_balance).predict_proba(votes)
    labeled = None
    if plan.gold_votes is not None and plan.validation is not None:
        labeled = plan.gold_votes, plan.validation.gold
    shares_models = given is not None and isinstance(fitted, FeatureReading)
    linear = given.linear_models if given is not None and shares_models else None
    return fitted, fitted._fit_proba(votes, class_balance, plan.data.inputs, labeled, linear)


def proba_of_votes(label_model: LabelModel, votes: VoteMatrix, X: Any) -> Array:
    """Return the soft labels of a fitted label model; a reading also uses the features."""
    if isinstance(label_model, Reading):
        return label_model.predict_proba(votes, X)
    return label_model.predict_proba(votes)
