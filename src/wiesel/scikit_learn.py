"""The interface of scikit-learn classifiers, without importing scikit-learn."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError, FeatureError, NotFittedError, ParameterError, listed
from wiesel.labels import ABSTAIN, ClassIndices, LabelSpace, is_missing
from wiesel.parameters import Parameterized
from wiesel.tables import in_order_of
from wiesel.votes import VoteMatrix, require_votes

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["Classifier", "SortedClassifier", "agreement_with_votes"]

_TEXT_OR_NUMBERS = (
    "scikit-learn sorts the classes {}, which have another order as text than as numbers. Say what "
    "y contains: model.as_classifier(int), or model.as_classifier(str)."
)
_TEXT_OR_TRUTH = (
    "scikit-learn takes the classes {} for text, and would find none of them in a y of truth "
    "values. Say what y contains: model.as_classifier(bool), or model.as_classifier(str)."
)


class Classifier(Parameterized):
    """An estimator that works in scikit-learn's pipelines, cross-validation and grid search.

    It does not derive from `BaseEstimator`, because importing scikit-learn takes a second. It has
    the same interface: `get_params`, tags, `classes_`, `score`.

    scikit-learn sorts the classes. A fitted model whose classes have another order says so in an
    error where scikit-learn would mix them up; `as_classifier` sorts them.
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
        """The names of the classes, sorted, in the order of the columns of `predict_proba`."""
        self.check_fitted()
        problem = _order_problem(self)
        if problem:
            raise _ClassOrderError(problem)
        return np.array(self.labels_.names, dtype=object)

    def as_classifier(self, values: Mapping[str, Any] | type | None = None) -> "SortedClassifier":
        """Return this model for scikit-learn, which sorts the classes and may know them as values.

        `values` are what `y` contains: `int`, `bool` or `str` if the names of the classes are such
        values, or a dict of the value of each class.

        >>> from wiesel import MajorityVote
        >>> votes = VoteMatrix.from_dense([[0], [1], [1]], ["ordinary", "fraud"])
        >>> model = MajorityVote().fit(votes)
        >>> model.as_classifier().classes_
        array(['fraud', 'ordinary'], dtype=object)
        >>> model.as_classifier({"ordinary": False, "fraud": True}).predict(votes)
        array([False,  True,  True])
        """
        wrapped = SortedClassifier(self, values)
        if hasattr(self, "labels_"):
            wrapped.model_ = self
        return wrapped

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

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the logarithm of P(class), -inf where it is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))  # type: ignore[attr-defined]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on gold labels `y`, given as names or indices.

        Items whose label is unknown (None or -1) are left out. If `y` are votes, as in
        cross-validation without gold, the score is the share of an item's votes that agree with
        the prediction, averaged over the items with votes. `sample_weight` weights the items.
        """
        y = in_order_of(X, y, "y", "X")
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

        problem = _order_problem(self)
        return Tags(
            estimator_type=_Unsorted(problem) if problem else "classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(sparse=True, three_d_array=True, dict=True),
        )


@dataclass(eq=False)
class SortedClassifier(Parameterized):
    """A model as scikit-learn expects a classifier: its classes are sorted.

    `classes_`, the columns of `predict_proba` and the results of `predict` follow scikit-learn, so
    that its metrics, calibration and ensembles are right for every order of the classes. `fit` fits
    a copy of the model. `model.as_classifier()` makes one of a fitted or an unfitted model.

    >>> from sklearn.metrics import get_scorer
    >>> from wiesel import MajorityVote
    >>> votes = VoteMatrix.from_dense([[0], [1], [1]], ["ordinary", "fraud"])
    >>> model = SortedClassifier(MajorityVote()).fit(votes)
    >>> float(get_scorer("roc_auc")(model, votes, ["ordinary", "fraud", "fraud"]))
    1.0
    """

    model: Any
    """The model: an end-to-end method or a label model."""
    values: Mapping[str, Any] | type | None = None
    """What `y` contains: `int`, `bool` or `str` if the names of the classes are such values; a dict
    of the value of each class; None if `y` contains the names. Whole numbers that are no such value
    are positions in `classes_`: `cross_val_predict`, ensembles and others of scikit-learn fit
    classifiers with these, and get them back."""

    model_: Any = field(init=False, repr=False)
    """The fitted model."""
    values_: Mapping[str, Any] | type | None = field(init=False, repr=False)
    """What the `y` of `fit` contained: `values`, or the position of each class."""

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Fit a copy of the model; `y` are votes, or gold labels where the model takes these."""
        from sklearn.base import clone

        labels = X.labels if isinstance(X, VoteMatrix) else getattr(self.model, "labels", None)
        self.values_ = self.values
        if labels is not None and y is not None and not isinstance(y, VoteMatrix):
            self.values_ = self._values_in(y, LabelSpace.of(labels))
        given = None if y is None else self._gold(in_order_of(X, y, "y", "X"))
        self.model_ = clone(self.model).fit(X, *([] if given is None else [given]), **options)
        return self

    def _values_in(self, y: Any, labels: LabelSpace) -> Mapping[str, Any] | type | None:
        """What `y` contains: `values`, or positions in `classes_`, by name."""
        numbers = np.asarray(y)
        if numbers.dtype.kind not in "iu" or isinstance(y, ClassIndices):
            return self.values
        values = self._values_of(labels, self.values)
        known = {*values, *(() if isinstance(self.values, Mapping) else labels.named_values)}
        given = set(numbers.tolist()) - {ABSTAIN}
        if given <= known or not given <= set(range(len(labels))):
            return self.values
        by_value = sorted(zip(values, labels, strict=True))
        return {name: position for position, (_, name) in enumerate(by_value)}

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return P(class), in the order of `classes_`."""
        values = self._values()
        proba: npt.NDArray[np.float64] = self.model_.predict_proba(X)
        return proba[:, sorted(range(len(values)), key=values.__getitem__)]

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return log P(class), in the order of `classes_`."""
        with np.errstate(divide="ignore"):
            logarithms: npt.NDArray[np.float64] = np.log(self.predict_proba(X))
        return logarithms

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the value of the predicted class of every item."""
        known = self._values()
        values = dict(zip(self.model_.labels_, known, strict=True))
        return _as_array([values[name] for name in self.model_.predict(X)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the values `y`, or the agreement with votes, as the model does."""
        self._values()
        gold = self._gold(in_order_of(X, y, "y", "X"))
        return float(self.model_.score(X, gold, sample_weight))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The values of the classes, sorted."""
        return _as_array(sorted(self._values()))

    @property
    def n_features_in_(self) -> int:
        """The number of features in `fit`."""
        self.check_fitted()
        return int(self.model_.n_features_in_)

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """The names of the features, if they had names in `fit`."""
        self.check_fitted()
        names: npt.NDArray[Any] = self.model_.feature_names_in_
        return names

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run, or `as_classifier` got a fitted model."""
        if not hasattr(self, "model_"):
            name = type(self.model).__name__
            raise _known_to_scikit_learn(
                NotFittedError(
                    f"This classifier of a {name} is not fitted yet: call fit(...) first, or "
                    "make it from a fitted model with model.as_classifier()."
                )
            )

    def _values(self) -> list[Any]:
        """The value of every class, in the order of the model's classes."""
        self.check_fitted()
        return self._values_of(self.model_.labels_, self._known_values)

    @property
    def _known_values(self) -> Mapping[str, Any] | type | None:
        """What `y` contained in `fit`; `values` for a model that was fitted before."""
        return getattr(self, "values_", self.values)

    def _values_of(self, labels: LabelSpace, values: Mapping[str, Any] | type | None) -> list[Any]:
        if values is None:
            if problem := _values_problem(labels):
                raise ParameterError(problem)
            return list(labels)
        if isinstance(values, Mapping):
            found = [values.get(name) for name in labels]
        elif values is str:
            found = list(labels)
        else:
            known = {index: value for value, index in labels.named_values.items()}
            found = [known.get(index) for index in range(len(labels))]
            found = [value if value is None else values(value) for value in found]
        if None in found or len(set(found)) < len(found):
            raise ParameterError(
                f"values must give another value to each of {listed(labels)}: a dict, or int, bool "
                f"or str if the names are such values; got {values!r:.80}."
            )
        return found

    def _gold(self, y: Any) -> Any:
        """The names of the classes with the values `y`, None where one is missing; or votes."""
        values = self._known_values
        if values is None or isinstance(y, VoteMatrix):
            return y
        plain = [getattr(value, "item", lambda own=value: own)() for value in y]
        if not isinstance(values, Mapping):
            return [None if is_missing(value) else str(values(value)) for value in plain]
        names = {value: name for name, value in values.items()}
        for value in plain:
            if not (is_missing(value) or value == ABSTAIN or value in names):
                raise DataError(f"{value!r:.80} is none of the values {listed(names)}.")
        return [names.get(value) for value in plain]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> "Tags":
        tags: Tags = self.model.__sklearn_tags__()
        tags.estimator_type = "classifier"
        return tags


class _ClassOrderError(ParameterError, AttributeError):
    """An AttributeError, so that what lists the attributes of an estimator leaves classes_ out."""


class _Unsorted(str):
    """The type of an estimator with unsorted classes: an error if it matters to scikit-learn.

    Some of scikit-learn's ensembles read `predict_proba` without looking at `classes_`, but ask
    before whether the estimator is a classifier.
    """

    def __eq__(self, other: object) -> bool:
        if other == "classifier":
            raise ParameterError(str(self))
        return False

    def __hash__(self) -> int:
        return super().__hash__()


def _order_problem(model: Any) -> str:
    """Why scikit-learn would mix up the classes of a fitted model; empty if it would not."""
    labels: LabelSpace | None = getattr(model, "labels_", None)
    if labels is None:
        return ""
    if problem := _values_problem(labels):
        return problem
    if list(labels) == sorted(labels):
        return ""
    return (
        f"scikit-learn sorts the classes, and this {type(model).__name__} has them in another "
        f"order: {listed(labels)}. Give scikit-learn model.as_classifier(), which sorts them (in a "
        "pipeline: as the last step)."
    )


def _values_problem(labels: LabelSpace) -> str:
    """Why scikit-learn must know whether `y` contains names or values; empty if it need not."""
    values = {labels.names[index]: value for value, index in labels.named_values.items()}
    if any(isinstance(value, bool) for value in values.values()):
        return _TEXT_OR_TRUTH.format(listed(labels))
    same = sorted(values) == sorted(values, key=values.__getitem__)
    return "" if same else _TEXT_OR_NUMBERS.format(listed(labels))


def _as_array(values: list[Any]) -> npt.NDArray[Any]:
    """An array of numbers or truth values, or of texts as objects."""
    return np.array(values, dtype=object if any(isinstance(v, str) for v in values) else None)


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


def require_model(model: Any, name: str) -> None:
    """Refuse anything but a fitted model, for an argument with this name."""
    if not hasattr(model, "check_fitted"):
        raise ParameterError(
            f"{name} must be a fitted model, such as DawidSkene().fit(votes); got "
            f"{type(model).__name__}."
        )
    model.check_fitted()


def _check_length(predicted: npt.NDArray[Any], truth: Any) -> None:
    if len(predicted) != len(truth):
        raise FeatureError(f"There are {len(predicted)} items, but {len(truth)} labels.")
