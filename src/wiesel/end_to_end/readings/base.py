"""What readings share: every vote adds evidence that was learned from more than the votes."""

import copy
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.plan import FitPlan
from wiesel.errors import ParameterError
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.vote_products import LogJoint, posterior
from wiesel.training import Inputs, as_inputs
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["Reading", "fit_label_model"]

Gold = tuple[VoteMatrix, npt.NDArray[np.int64]]


@dataclass(eq=False, kw_only=True)
class Reading(LabelModel):
    """A label model whose `fit` looks at the features, or at gold labels, beside the votes.

    It learns the evidence of every vote: what `voter j said v` adds to the logit of each class.
    """

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
        """Learn from votes and what the reading needs beside them.

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
        # TwoStage has them as inputs already.
        ready = X is None or hasattr(X, "item_bytes")
        inputs: Inputs | None = X if ready else as_inputs(X)
        labeled = None if gold is None else (gold[0], votes.labels.indices(gold[1]))
        self._read(votes, known, inputs, labeled)
        return self._finish(votes)

    def predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return P(class | votes): (n_items, n_classes), in the order of `labels_.names`.

        A vote may count against its own class, if features or gold say so: no warning is due.
        """
        self.check_fitted()
        votes.check_same_voters(self.voters_, self.labels_)
        return self._predict_proba(votes)

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
        """Never called: `fit` is this class's own."""

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        weights = self.evidence_.reshape(-1, votes.n_classes)
        return posterior(votes, LogJoint(weights, self.offsets_), self.class_balance_)


def fit_label_model(
    label_model: LabelModel, plan: FitPlan, class_balance: npt.NDArray[np.float64] | None
) -> LabelModel:
    """Return a fitted copy of a label model; a reading also sees the plan's features and gold."""
    fitted = copy.deepcopy(label_model)
    votes: VoteMatrix = plan.votes  # type: ignore[assignment]
    if not isinstance(fitted, Reading):
        return fitted.fit(votes, class_balance=class_balance)
    labeled = None
    if plan.gold_votes is not None and plan.validation is not None:
        labeled = plan.gold_votes, plan.validation.gold
    return fitted.fit(votes, class_balance, X=plan.data.inputs, gold=labeled)
