"""The interface of scikit-learn classifiers, without importing scikit-learn."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError, NotFittedError
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.parameters import Parameterized
from wiesel.votes import VoteMatrix, require_votes

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["Classifier", "agreement_with_votes"]


class Classifier(Parameterized):
    """An estimator that works in scikit-learn's pipelines, cross-validation and grid search.

    It does not derive from `BaseEstimator`, because importing scikit-learn takes a second. It has
    the same interface: `get_params`, tags, `classes_`, `score`.
    """

    labels_: LabelSpace
    """The classes seen in `fit`."""

    voters_: tuple[str, ...]
    """The voters seen in `fit`, in order."""

    def check_votes(self, votes: Any) -> None:
        """Refuse votes of voters or classes other than those the model was fitted on."""
        self.check_fitted()
        if not hasattr(votes, "check_same_voters"):
            require_votes(votes)
        votes.check_same_voters(self.voters_, self.labels_)

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run; also scikit-learn's, if that is loaded."""
        try:
            super().check_fitted()
        except NotFittedError as error:
            raise _known_to_scikit_learn(error) from None

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The names of the classes, in the order of the columns of `predict_proba`."""
        self.check_fitted()
        return np.array(self.labels_.names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """The number of features in `fit`; a label model's features are its voters."""
        return int(self._fact("features"))

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """The names of the features, if they had names in `fit`."""
        return np.array(self._fact("feature_names"), dtype=object)

    def _features_seen(self) -> Mapping[str, Any]:
        """What is known about the features: `features`, their number, and `feature_names`."""
        raise NotImplementedError

    def _fact(self, name: str) -> Any:
        self.check_fitted()
        seen = self._features_seen()
        if name not in seen:
            raise AttributeError(f"X had no {name.replace('_', ' ')} in fit.")
        return seen[name]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on gold labels `y`, given as names or indices.

        Items whose label is unknown (None or -1) are left out. If `y` are votes, as in
        cross-validation without gold, the score is the share of an item's votes that agree with
        the prediction, averaged over the items with votes. `sample_weight` weights the items.
        """
        predicted = self.labels_.indices(self.predict(X))  # type: ignore[attr-defined]
        if isinstance(y, VoteMatrix):
            right = agreement_with_votes(predicted, y, self.labels_)
        else:
            gold = self.labels_.indices(y, allow_unknown=True)
            _check_length(predicted, gold)
            right = np.where(gold == ABSTAIN, np.nan, predicted == gold)
        weights = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight)
        known = ~np.isnan(right)
        total = weights[known].sum()
        return float((right[known] * weights[known]).sum() / total) if total else float("nan")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_")

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(sparse=True, three_d_array=True, dict=True),
        )


def agreement_with_votes(
    predicted: npt.NDArray[np.int64], votes: VoteMatrix, labels: LabelSpace
) -> npt.NDArray[np.float64]:
    """Return the share of every item's votes that name the predicted class; NaN without votes.

    >>> votes = VoteMatrix.from_dense([[0, 1], [1, 1], [-1, -1]], ["ham", "spam"])
    >>> agreement_with_votes(np.array([0, 1, 1]), votes, votes.labels)
    array([0.5, 1. , nan])
    """
    _check_length(predicted, votes)
    if votes.labels != labels:
        raise FeatureError(f"The votes have {votes.labels!r}; the model has {labels!r}.")
    counts = votes.counts()
    agreed = counts[np.arange(len(predicted)), predicted]
    total = counts.sum(axis=1)
    return np.divide(agreed, total, out=np.full(len(agreed), np.nan), where=total > 0)


def _known_to_scikit_learn(error: NotFittedError) -> NotFittedError:
    """The error in a form that `except sklearn.exceptions.NotFittedError` catches, if possible."""
    loaded = sys.modules.get("sklearn.exceptions")
    if loaded is None:
        return error
    made = {"__module__": NotFittedError.__module__, "__reduce__": _as_plain_error}
    kind = type("NotFittedError", (NotFittedError, loaded.NotFittedError), made)
    known: NotFittedError = kind(*error.args)
    return known


def _as_plain_error(error: NotFittedError) -> tuple[Any, ...]:
    """How the error is pickled: as an instance of a class that can be imported."""
    return NotFittedError, error.args


def _check_length(predicted: npt.NDArray[Any], truth: Any) -> None:
    if len(predicted) != len(truth):
        raise FeatureError(f"There are {len(predicted)} items, but {len(truth)} labels.")
