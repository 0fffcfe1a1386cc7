"""The base class of label models that use features or gold labels in addition to the votes."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.linear_models import CrossFit
from wiesel.errors import FeatureError, ParameterError
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.vote_products import item_scores, normalize_rows
from wiesel.parameters import check_number
from wiesel.row_ids import in_order_of
from wiesel.threads import one_thread
from wiesel.training import Inputs, as_inputs
from wiesel.votes import VoteMatrix, VoteSource, require_votes

__all__ = ["Array", "EvidenceLabelModel", "SideInformation"]

Array = npt.NDArray[np.float64]


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

    def _check_options(self) -> None:
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
