"""Runs scikit-learn's estimator checks on methods that learn from votes."""

import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from wiesel.end_to_end import EndToEndModel, Supervised
from wiesel.label_models import LabelModel
from wiesel.nn import Linear
from wiesel.testing.modules import ContractError
from wiesel.training import seeded
from wiesel.votes import VoteMatrix

__all__ = ["check_scikit_learn"]

_VOTERS = 3


def check_scikit_learn(
    model: EndToEndModel | LabelModel,
    expected: Mapping[str, str] | None = None,
    whole: bool = True,
) -> tuple[str, ...]:
    """Raise `ContractError` unless a method passes scikit-learn's checks; return the passed ones.

    The checks provide features and labels. An end-to-end method gets the labels as the votes of
    three voters that agree, and a linear network of the right size. A label model gets every
    feature as a voter. Everything else is the unchanged method.

    Parameters
    ----------
    model
        An unfitted model with options that make it quick.
    expected
        The checks that are expected to fail, each with the reason. If one of them passes, that is
        an error too, so that the list stays accurate.
    whole
        Whether to run all checks, or only those of the interface.

    >>> from wiesel import MajorityVote
    >>> "check_estimators_unfitted" in check_scikit_learn(MajorityVote(), whole=False)
    True
    """
    expected = dict(expected or {})
    with warnings.catch_warnings():
        # A few steps on a few items may cause warnings, which are not checked here.
        warnings.simplefilter("ignore")
        results = check_estimator(
            _adapted(model),
            legacy=whole,
            expected_failed_checks=expected,
            on_skip=None,
            on_fail=None,
        )
    failed = [result for result in results if result["status"] == "failed"]
    if failed:
        details = "; ".join(
            f"{found['check_name']}: {found['exception']!r:.300}" for found in failed
        )
        raise ContractError(f"{type(model).__name__} fails checks of scikit-learn: {details}")
    passed = [result["check_name"] for result in results if result["status"] == "passed"]
    ran = {result["check_name"] for result in results if result["status"] == "xfail"}
    wrong = sorted(name for name in expected if name in passed and name not in ran)
    if wrong:
        raise ContractError(f"{type(model).__name__} passes what is expected to fail: {wrong}")
    return tuple(passed)


class _FromLabels:
    """An adapter between an end-to-end method and the arrays of the checks."""

    def fit(self: Any, X: Any, y: Any) -> Any:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        target = _target(y)
        values, index = np.unique(target, return_inverse=True)
        names = [f"class {number}" for number in range(len(values))]
        options = {**self.get_params(deep=False), "end_model": _network(X, len(names))}
        method: Any = type(self).__mro__[2]
        if issubclass(method, Supervised):
            inner = method(**{**options, "labels": names}).fit(X, index)
        else:
            votes = VoteMatrix.from_dense(np.tile(index[:, None], _VOTERS), names)
            inner = method(**options).fit(X, votes)
        return _take_over(self, inner, values)

    def predict(self: Any, X: Any) -> Any:
        names = super().predict(X)  # type: ignore[misc]
        return self.values_[self.labels_.indices(names)]

    def score(self: Any, X: Any, y: Any) -> float:
        return float(np.mean(self.predict(X) == y))

    @property
    def classes_(self: Any) -> Any:
        return self.values_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.classifier_tags.poor_score = True  # it is trained for only a few steps
        return tags


class _FromColumns:
    """An adapter between a label model and the arrays of the checks: columns are voters."""

    def fit(self: Any, X: Any, y: Any = None) -> Any:
        votes = _column_votes(X)
        if y is not None:
            check_consistent_length(X, _target(y))
        inner = type(self).__mro__[2](**self.get_params(deep=False)).fit(votes)
        return _take_over(self, inner, np.arange(2))

    def predict_proba(self: Any, X: Any) -> Any:
        self.check_fitted()
        votes = _column_votes(X)
        if votes.n_voters != self.n_features_in_:
            raise ValueError(
                f"X has {votes.n_voters} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return super().predict_proba(votes)  # type: ignore[misc]

    def predict(self: Any, X: Any) -> Any:
        return self.predict_proba(X).argmax(axis=1)

    def score(self: Any, X: Any, y: Any = None) -> float:
        return float(np.mean(self.predict(X) == y))

    @property
    def classes_(self: Any) -> Any:
        return self.values_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = True
        tags.classifier_tags.poor_score = True  # it does not use labels
        return tags


def _target(y: Any) -> Any:
    target = column_or_1d(y, warn=True)
    check_classification_targets(target)
    assert_all_finite(target)
    return target


def _adapted(model: EndToEndModel | LabelModel) -> Any:
    """The model with an adapted class, which the module stores so that it can be pickled."""
    adapter = _FromLabels if isinstance(model, EndToEndModel) else _FromColumns
    name = f"Checked{type(model).__name__}"
    cls: Any = type(name, (adapter, type(model)), {"__module__": __name__})
    setattr(sys.modules[__name__], name, cls)
    return cls(**model.get_params(deep=False))


def _take_over(model: Any, inner: Any, values: Any) -> Any:
    for name in inner.learned_names():
        if hasattr(inner, name):
            setattr(model, name, getattr(inner, name))
    model.values_ = values
    return model


def _network(X: Any, n_classes: int) -> Any:
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    with seeded(0):
        return Linear(shape[1] if len(shape) == 2 else 1, max(2, n_classes))


def _column_votes(X: Any) -> VoteMatrix:
    return VoteMatrix.from_dense((check_array(X) > 0).astype(int), ["negative", "positive"])
