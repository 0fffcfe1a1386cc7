"""Scikit-learn classifiers as the end model of TwoStage."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC

from wiesel import GoldWeighted, MajorityVote, TwoStage, VoteMatrix, evaluate, load_model
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.storage import save_end_to_end
from wiesel.errors import FeatureError, ParameterError, SavedModelError
from wiesel.nn import MLP
from wiesel.saving import read_folder, write_folder
from wiesel.training.loop import stratified_folds

VOTES, GOLD = make_votes(200, n_voters=5, coverage=0.6)
X = make_features(GOLD, n_features=4)


def test_it_learns_what_weighted_rows_say():
    # Two items at 0 and 1 with soft labels (1, 0) and (1/2, 1/2): three rows, weights 1, 1/2, 1/2.
    votes = VoteMatrix.from_dense([[0, 0], [0, 1]], ["ham", "spam"])
    points = np.array([[0.0], [1.0]], dtype=np.float32)
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(points, votes)
    expected = LogisticRegression().fit([[0], [1], [1]], [0, 0, 1], sample_weight=[1, 0.5, 0.5])
    assert np.allclose(model.predict_proba(points), expected.predict_proba([[0], [1]]), atol=1e-6)


def test_the_last_of_several_steps_gets_the_weights():
    votes = VoteMatrix.from_dense([[0, 0], [0, 1]], ["ham", "spam"])
    points = np.array([[0.0], [1.0]], dtype=np.float32)
    steps = make_pipeline(StandardScaler(), MinMaxScaler(), LogisticRegression())
    found = TwoStage(MajorityVote(), steps).fit(points, votes).predict_proba(points)
    steps.fit([[0], [1], [1]], [0, 0, 1], logisticregression__sample_weight=[1, 0.5, 0.5])
    assert np.allclose(found, steps.predict_proba(points), atol=1e-6)


@pytest.mark.parametrize(
    "classifier",
    [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["classifier", "pipeline"],
)
def test_it_does_what_every_end_model_does(classifier):
    model = TwoStage(MajorityVote(), classifier).fit(X, VOTES, validation=(X[:50], GOLD[:50]))
    assert evaluate(model, X, GOLD, n_resamples=0).accuracy > 0.8
    assert model.selection_["by"] == "auc"
    assert model.selection_["by"] == "auc"
    assert set(model.predict(X)) <= set(VOTES.labels)
    assert model.soft_labels(X, VOTES).shape == (200, 2)
    assert model.explain(X[0], VOTES[0]).labels == VOTES.labels
    assert not hasattr(classifier, "classes_"), "the user's classifier was fitted"


def test_gold_reaches_the_label_model_and_the_class_balance():
    gold = (X[:100], GOLD[:100], VOTES[np.arange(100)])
    model = TwoStage(GoldWeighted(), LogisticRegression(), class_balance="validation")
    network = TwoStage(GoldWeighted(), MLP(4, 2), class_balance="validation", epochs=1)
    found, wanted = (own.fit(X, VOTES, validation=gold).label_model_ for own in (model, network))
    assert np.array_equal(found.predict_proba(VOTES), wanted.predict_proba(VOTES))


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


def test_several_members_of_a_classifier_are_refused():
    with pytest.raises(ParameterError, match=r"members=2.*leave members out"):
        TwoStage(MajorityVote(), LogisticRegression(), members=2).fit(X, VOTES)


def test_what_cannot_be_an_end_model_is_refused():
    with pytest.raises(ParameterError, match="no predict_proba"):
        TwoStage(MajorityVote(), LinearSVC()).fit(X, VOTES)
    with pytest.raises(FeatureError, match="plain feature vector"):
        TwoStage(MajorityVote(), LogisticRegression()).fit(X[:, :, None], VOTES)


def test_a_model_with_a_classifier_is_saved_and_loaded(tmp_path):
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(X, VOTES)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.allclose(again.predict_proba(X), model.predict_proba(X))
    assert np.allclose(again.soft_labels(X, VOTES), model.soft_labels(X, VOTES))


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(C=0.5),
        SGDClassifier(loss="log_loss", random_state=0),
        LinearDiscriminantAnalysis(),
        GaussianNB(),
        BernoulliNB(),
        make_pipeline(StandardScaler(with_mean=False), MinMaxScaler(), LogisticRegression()),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_a_classifier_comes_back_from_plain_arrays(tmp_path, classifier):
    model = TwoStage(MajorityVote(), classifier, hard=True).fit(X, VOTES)
    save_end_to_end(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-12)
    assert type(again.end_model) is type(classifier)
    assert str(again.end_model.get_params()) == str(classifier.get_params())
    assert np.allclose(again.fit(X, VOTES).predict_proba(X), model.predict_proba(X))


def test_three_classes_and_one_that_nobody_has_come_back(tmp_path):
    votes = VoteMatrix.from_dense(VOTES.dense(), ["a", "b", "c"])
    model = TwoStage(MajorityVote(hard=True), LogisticRegression()).fit(X, votes)
    save_end_to_end(model, tmp_path / "model")
    assert np.allclose(load_model(tmp_path / "model").predict_proba(X), model.predict_proba(X))


class OwnRegression(LogisticRegression):
    """A class of the user's: its code is not in scikit-learn."""


@pytest.mark.parametrize("classifier", [RandomForestClassifier(2), OwnRegression()])
def test_a_classifier_that_is_no_data_is_refused_with_those_that_are(tmp_path, classifier):
    model = TwoStage(MajorityVote(), classifier).fit(X, VOTES)
    with pytest.raises(
        SavedModelError, match=r"cannot be saved as data.*LogisticRegression.*skops"
    ):
        save_end_to_end(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"steps": [{"name": "ensemble.RandomForestClassifier", "options": {}}]},
            "not an estimator",
        ),
        ({"steps": [{"name": "os.system", "options": {}}]}, "not an estimator"),
        ({"shapes": {"0__predict_proba": [1]}}, "cannot have learned"),
        ({"shapes": {"0__coef_": [10**12, 10**6]}}, "do not fit"),
        ({"steps": []}, "is inconsistent"),
        ({"n_classes": 1}, "other classes"),
    ],
)
def test_a_forged_classifier_is_refused(tmp_path, change, words):
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(X, VOTES)
    save_end_to_end(model, tmp_path / "model")
    manifest, files = read_folder(tmp_path / "model")
    manifest["modules"]["end_model"]["arguments"] |= change
    write_folder(tmp_path / "forged", manifest, files)
    with pytest.raises(SavedModelError, match=words):
        load_model(tmp_path / "forged")


def test_gold_rows_weigh_one_in_two_hundred_each_and_are_predicted_without_them():
    """Equal to scikit-learn's own fit on the same rows and weights."""
    gold = X[:20], GOLD[:20]
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(X, VOTES, gold=gold)
    soft = model.soft_labels(X, VOTES)[VOTES.covered]
    rows, classes = np.nonzero(soft > 1e-6)
    worth = max(1, soft.sum() / 200)

    def own(kept):
        vectors = np.concatenate([X[VOTES.covered][rows], X[:20][kept]])
        targets = np.concatenate([classes, GOLD[:20][kept]])
        weights = np.concatenate([soft[rows, classes], np.full(len(kept), worth)])
        return LogisticRegression().fit(vectors, targets, sample_weight=weights)

    expected = own(np.arange(20)).predict_proba(X)
    assert np.allclose(model.predict_proba(X), expected, atol=1e-4)
    fold = stratified_folds(GOLD[:20], 5)[0]
    honest = own(np.setdiff1d(np.arange(20), fold)).predict_proba(X[fold])
    assert np.allclose(model.out_of_fold_proba(X[:20])[fold], honest, atol=1e-4)
