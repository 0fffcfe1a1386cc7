"""Scikit-learn classifiers as the end model of TwoStage."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from wiesel import MajorityVote, TwoStage, VoteMatrix, evaluate
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import FeatureError, ParameterError, SavedModelError

VOTES, GOLD = make_votes(200, n_voters=5, coverage=0.6)
X = make_features(GOLD, n_features=4)


def test_it_learns_what_weighted_rows_say():
    # Two items at 0 and 1 with soft labels (1, 0) and (1/2, 1/2): three rows, weights 1, 1/2, 1/2.
    votes = VoteMatrix.from_dense([[0, 0], [0, 1]], ["ham", "spam"])
    points = np.array([[0.0], [1.0]], dtype=np.float32)
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(points, votes)
    expected = LogisticRegression().fit([[0], [1], [1]], [0, 0, 1], sample_weight=[1, 0.5, 0.5])
    assert np.allclose(model.predict_proba(points), expected.predict_proba([[0], [1]]), atol=1e-6)


@pytest.mark.parametrize(
    "classifier",
    [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["classifier", "pipeline"],
)
def test_it_does_what_every_end_model_does(classifier):
    model = TwoStage(MajorityVote(), classifier).fit(X, VOTES, validation=(X[:50], GOLD[:50]))
    assert evaluate(model, X, GOLD, n_resamples=0).accuracy > 0.8
    assert model.threshold_ is not None
    assert model.selection_["by"] == "auc"
    assert set(model.predict(X)) <= set(VOTES.labels)
    assert model.soft_labels(X, VOTES).shape == (200, 2)
    assert model.explain(X[0], VOTES[0]).labels == VOTES.labels
    assert not hasattr(classifier, "classes_"), "the user's classifier was fitted"


def test_a_class_that_no_item_has_is_next_to_impossible():
    votes = VoteMatrix.from_dense(VOTES.dense(), ["a", "b", "c"])
    proba = TwoStage(MajorityVote(hard=True), LogisticRegression()).fit(X, votes).predict_proba(X)
    assert proba.shape == (200, 3)
    assert proba[:, 2].max() < 1e-6


def test_without_sample_weights_only_hard_labels_can_be_learned():
    with pytest.raises(ParameterError, match=r"takes no sample_weight.*hard=True"):
        TwoStage(MajorityVote(), KNeighborsClassifier()).fit(X, VOTES)
    model = TwoStage(MajorityVote(), KNeighborsClassifier(), hard=True).fit(X, VOTES)
    assert evaluate(model, X, GOLD, n_resamples=0).accuracy > 0.8


def test_what_cannot_be_an_end_model_is_refused():
    with pytest.raises(ParameterError, match="no predict_proba"):
        TwoStage(MajorityVote(), LinearSVC()).fit(X, VOTES)
    with pytest.raises(FeatureError, match="plain feature vector"):
        TwoStage(MajorityVote(), LogisticRegression()).fit(X[:, :, None], VOTES)


def test_saving_says_what_to_do_instead(tmp_path):
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(X, VOTES)
    with pytest.raises(SavedModelError, match="skops"):
        model.save(tmp_path / "model")
