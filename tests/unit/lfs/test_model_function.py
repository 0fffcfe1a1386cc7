"""Fitted models as probabilistic labeling functions."""

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from wiesel import MajorityVote, TwoStage, VoteMatrix, apply_lfs, from_model
from wiesel.errors import DataError, ParameterError, VoteError

LABELS = ["ham", "spam"]
X = np.array([[0.0], [1.0], [3.0], [4.0]])
Y = ["spam", "spam", "ham", "ham"]


def test_the_model_votes_its_distribution_in_the_order_of_the_classes() -> None:
    model = LogisticRegression().fit(X, Y)
    votes = apply_lfs(from_model(model, ["n"]), {"n": [0.0, None, 4.0]}, labels=["spam", "ham"])
    expected = model.predict_proba([[0.0], [4.0]])[:, ::-1]
    np.testing.assert_allclose(votes.distribution, expected, rtol=1e-5)
    assert votes.covered.tolist() == [True, False, True]


def test_it_abstains_where_the_model_is_not_sure_enough() -> None:
    lf = from_model(LogisticRegression().fit(X, Y), ["n"], min_confidence=0.8)
    assert apply_lfs(lf, {"n": [-9.0, 2.0, 9.0]}, labels=LABELS).dense().ravel().tolist() == [
        1,
        -1,
        0,
    ]


def test_a_text_pipeline_gets_the_column_of_text() -> None:
    model = make_pipeline(CountVectorizer(), LogisticRegression(C=100))
    model.fit(["free prize", "see you"], ["spam", "ham"])
    lf = from_model(model, "text", name="bag")
    assert apply_lfs(lf, {"text": ["a prize", "you"]}, labels=LABELS).dense().tolist() == [[1], [0]]


def test_a_column_of_lists_is_a_matrix_and_classes_may_be_indices() -> None:
    model = LogisticRegression().fit(np.eye(2), [0, 1])
    lf = from_model(model, "embedding")
    rows = pl.DataFrame({"embedding": [[1.0, 0.0], [0.0, 1.0]]})
    assert apply_lfs(lf, rows, labels=LABELS).dense().tolist() == [[0], [1]]


def test_a_model_fitted_on_named_columns_is_given_names() -> None:
    pandas = pytest.importorskip("pandas")
    model = LogisticRegression().fit(pandas.DataFrame({"a": X[:, 0], "b": X[:, 0]}), Y)
    lf = from_model(model, ["a", "b"])
    assert apply_lfs(lf, {"a": [0.0], "b": [0.0]}, labels=LABELS).dense().tolist() == [[1]]


@pytest.mark.parametrize("kind", [LogisticRegression, lambda **o: RandomForestClassifier(5, **o)])
def test_the_fingerprint_follows_what_was_learned(kind: type) -> None:
    first = from_model(kind(random_state=0).fit(X, Y), ["n"])
    same = from_model(kind(random_state=0).fit(X, Y), ["n"])
    other = from_model(kind(random_state=0).fit(X + 0.7, Y), ["n"])
    assert first.fingerprint == same.fingerprint
    assert first.fingerprint != other.fingerprint
    assert first.fingerprint != from_model(first.estimator, ["n"], min_confidence=0.5).fingerprint


def test_a_model_that_is_not_fitted_or_gives_no_probabilities_is_refused() -> None:
    with pytest.raises(ParameterError, match="has no classes_"):
        from_model(LogisticRegression(), ["n"])
    with pytest.raises(ParameterError, match="has no predict_proba"):
        from_model(object(), ["n"])
    with pytest.raises(ParameterError, match="min_confidence"):
        from_model(LogisticRegression().fit(X, Y), ["n"], min_confidence=80)


def test_a_class_of_the_model_that_does_not_exist_is_named() -> None:
    lf = from_model(LogisticRegression().fit(X, Y), ["n"], name="m")
    with pytest.raises(VoteError, match=r"model of 'm' has the class 'ham'.*'no', 'yes'"):
        apply_lfs(lf, {"n": [1.0]}, labels=["no", "yes"])


def test_a_missing_column_is_named() -> None:
    lf = from_model(LogisticRegression().fit(X, Y), ["n_links"], name="m")
    with pytest.raises(DataError, match=r"'m' reads the column 'n_links'.*'n_link'"):
        apply_lfs(lf, {"n_link": [1.0]}, labels=LABELS)


def test_it_abstains_on_nan_in_any_table() -> None:
    class Half:
        classes_ = ("a", "b")

        def predict_proba(self, X):
            assert np.isfinite(X).all()
            return np.full((len(X), 2), [0.7, 0.3])

    votes = apply_lfs(from_model(Half(), ["n"]), {"n": [1.0, float("nan")]}, labels=["a", "b"])
    assert votes.dense().tolist() == [[0], [-1]]


def test_a_model_of_wiesel_votes_in_its_own_order_of_classes():
    X = np.array([[0.0], [1.0], [0.0], [1.0]])
    votes = VoteMatrix.from_dense([["no"], ["yes"], ["no"], ["yes"]], ["yes", "no"])
    model = TwoStage(MajorityVote(), LogisticRegression(C=1e6)).fit(X, votes)
    found = apply_lfs([from_model(model, ["x"])], {"x": [0.0, 1.0]}, labels=["no", "yes"])
    assert found.dense().ravel().tolist() == [0, 1]
