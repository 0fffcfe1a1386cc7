"""The base class of readings: label models fitted with features or gold labels."""

import copy
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.plan import FitPlan
from wiesel.errors import FeatureError, ParameterError
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.vote_products import item_scores, normalize_rows
from wiesel.parameters import check_number
from wiesel.scikit_learn import require_votes
from wiesel.threads import one_thread
from wiesel.training import Inputs, as_inputs
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["Reading", "fit_label_model", "proba_of_votes"]

Gold = tuple[VoteMatrix, npt.NDArray[np.int64]]


@dataclass(eq=False, kw_only=True)
class Reading(LabelModel):
    """A label model whose `fit` uses features or gold labels in addition to the votes.

    It learns the evidence of every vote: what `voter j said v` adds to the logit of each class.
    Voters depend on each other, so n votes on an item count as much as sqrt(n) independent ones.
    """

    power: float = 0.5
    """Evidence is divided by this power of the number of votes on the item; 0 treats voters as
    independent."""

    evidence_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """(n_voters, voted, class): what every vote adds to the logit of every class."""
    offsets_: npt.NDArray[np.float64] = field(init=False, repr=False)
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
        if not isinstance(votes, VoteMatrix):
            raise ParameterError(f"{type(self).__name__} needs all votes in one VoteMatrix.")
        known = self._begin(votes, class_balance)
        inputs = _inputs_of(X, votes)
        labeled = None if gold is None else (gold[0], votes.labels.indices(gold[1]))
        with one_thread():
            self._read(votes, known, inputs, labeled)
        return self._finish(votes)

    def predict_proba(self, votes: VoteSource, X: Any = None) -> npt.NDArray[np.float64]:
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
            return self._normalized(votes, self._scores(votes, inputs))

    def _check_options(self) -> None:
        check_number(self, "power", self.power, low=0, high=1)

    @abstractmethod
    def _read(
        self,
        votes: VoteMatrix,
        class_balance: npt.NDArray[np.float64] | None,
        inputs: Inputs | None,
        gold: Gold | None,
    ) -> None:
        """Set `evidence_` and `offsets_`."""

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        """Never called: this class overrides `fit`."""

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        return self.predict_proba(votes)

    def _scores(self, votes: VoteMatrix, inputs: Inputs | None) -> npt.NDArray[np.float64]:
        """The logits of the classes: (n_items, n_classes)."""
        scores = item_scores(votes, self.evidence_.reshape(-1, votes.n_classes))
        scores /= np.maximum(votes.votes_per_item, 1)[:, None] ** self.power
        return scores + self.offsets_

    def _normalized(
        self, votes: VoteMatrix, scores: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Turn logits into probabilities; items without votes get the class balance."""
        normalize_rows(scores)
        scores[~votes.covered] = self.class_balance_
        return scores


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
    label_model: LabelModel, plan: FitPlan, class_balance: npt.NDArray[np.float64] | None
) -> LabelModel:
    """Return a fitted copy of a label model; a reading also uses the plan's features and gold."""
    fitted = copy.deepcopy(label_model)
    votes: VoteMatrix = plan.votes  # type: ignore[assignment]
    if not isinstance(fitted, Reading):
        return fitted.fit(votes, class_balance=class_balance)
    labeled = None
    if plan.gold_votes is not None and plan.validation is not None:
        labeled = plan.gold_votes, plan.validation.gold
    return fitted.fit(votes, class_balance, X=plan.data.inputs, gold=labeled)


def proba_of_votes(label_model: LabelModel, votes: VoteMatrix, X: Any) -> npt.NDArray[np.float64]:
    """Return the soft labels of a fitted label model; a reading also uses the features."""
    if isinstance(label_model, Reading):
        return label_model.predict_proba(votes, X)
    return label_model.predict_proba(votes)
