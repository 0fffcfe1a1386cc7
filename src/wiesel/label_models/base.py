"""The base class of label models: checks, the class prior, and class names."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import VoteError
from wiesel.label_models.overruled import warn_of_overruled
from wiesel.label_models.storage import save_label_model
from wiesel.labels import FloatArray, LabelSpace, class_prior
from wiesel.scikit_learn import Classifier, require_votes
from wiesel.threads import one_thread
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["ClassBalance", "LabelModel", "normalized_exp"]

ClassBalance = Mapping[str, float] | Sequence[float] | FloatArray | None


@dataclass(eq=False, kw_only=True)
class LabelModel(Classifier, ABC):
    """Turns votes into soft labels, without features.

    A method is a dataclass. Its options are fields; its learned attributes are fields with
    `init=False` and a trailing underscore. It implements `_fit`, and `_predict_proba`, which
    returns probabilities whose rows sum to 1 (`normalized_exp` computes them from logarithms), and
    the class balance for items without votes. This class checks the input and stores the class
    balance.
    """

    counts_repeats: ClassVar[bool] = True
    """Whether repeated answers of a voter to an item all count. Methods that learn from pairs of
    votes read their shares instead, because a voter has one vote in a pair."""

    labels_: LabelSpace = field(init=False, repr=False)
    """The classes seen in `fit`."""
    voters_: tuple[str, ...] = field(init=False, repr=False)
    """The voters seen in `fit`, in order."""
    class_balance_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(class): as given, or as the method estimated it."""
    balance_given_: bool = field(init=False, repr=False)
    """Whether P(class) was given to `fit`."""

    def fit(self, votes: VoteSource, class_balance: ClassBalance = None) -> Self:
        """Learn from votes; `class_balance` is P(class) if it is known.

        scikit-learn's cross-validation passes gold labels in its place. They are ignored here,
        because only `score` needs them.
        """
        with one_thread():
            known = self._begin(votes, class_balance)
            self._fit(self._counted(votes) if isinstance(votes, VoteMatrix) else votes, known)
            return self._finish(votes)

    def _begin(
        self, votes: VoteSource, class_balance: ClassBalance
    ) -> npt.NDArray[np.float64] | None:
        """Check options and votes; return the class balance if the user gave one."""
        require_votes(votes)
        if votes.n_items == 0 or not votes.voters:
            raise VoteError(
                f"{type(self).__name__} needs at least one item and one voter; "
                f"got {votes.n_items} items and {len(votes.voters)} voters."
            )
        self.check_options()
        unknown = class_balance is None or _is_gold(class_balance, votes)
        known = None if unknown else class_prior(votes.labels, class_balance)
        self.balance_given_ = known is not None
        self.class_balance_ = class_prior(votes.labels, None) if known is None else known
        return known

    def _finish(self, votes: VoteSource) -> Self:
        self.labels_, self.voters_ = votes.labels, votes.voters
        return self

    def predict_proba(self, votes: VoteSource) -> npt.NDArray[np.float64]:
        """Return P(class | votes): (n_items, n_classes), in the order of `labels_.names`.

        Votes in many files are read part by part; `wiesel.io.write_soft_label_parts` also writes
        the result part by part. Warns if the class balance outweighs voters that agree and are
        better than chance.
        """
        self.check_fitted()
        require_votes(votes)
        if not isinstance(votes, VoteMatrix):
            return np.concatenate([self.predict_proba(part) for part in votes.parts()])
        self.check_votes(votes)
        with one_thread():
            proba = self._predict_proba(self._counted(votes))
            warn_of_overruled(self, votes, proba, getattr(self, "balance_given_", False))
            return proba

    def predict(self, votes: VoteSource) -> npt.NDArray[Any]:
        """Return the name of the most probable class of every item."""
        best = self.predict_proba(votes).argmax(axis=1)
        return np.array(self.labels_.names, dtype=object)[best]

    def _counted(self, votes: VoteMatrix) -> VoteMatrix:
        """The votes with repeated answers as the method counts them."""
        if self.counts_repeats or votes.distribution is None:
            return votes
        total = votes.distribution.sum(axis=1, keepdims=True)
        return replace(votes, distribution=votes.distribution / total)

    def save(self, path: str | Path) -> None:
        """Write the fitted model as a folder of data files; `wiesel.load_model` reads it."""
        self.check_fitted()
        save_label_model(self, path)

    def _features_seen(self) -> dict[str, Any]:
        return {"features": len(self.voters_), "feature_names": self.voters_}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.two_d_array = tags.input_tags.sparse = False
        return tags

    @abstractmethod
    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        """Set the learned attributes; `class_balance` is None if the user gave none."""

    @abstractmethod
    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return the posterior of checked votes."""


def _is_gold(values: Any, votes: VoteSource) -> bool:
    """Whether these are item labels rather than P(class): one per item, or names."""
    if isinstance(values, Mapping):
        return False
    array = np.asarray(values)
    one_each = array.shape == (votes.n_items,)
    if not one_each or (votes.n_items == len(votes.labels) and array.dtype.kind not in "OUT"):
        return False
    votes.labels.indices(values, allow_unknown=True)  # the error names a label that is no class
    return True


def normalized_exp(log_joint: FloatArray) -> npt.NDArray[np.float64]:
    """Return exp(log_joint) with rows that sum to 1; no number of voters underflows.

    >>> normalized_exp(np.array([[-2000.0, -2000.0], [0.0, -np.inf]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    proba = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    return proba
