"""Models and votes in scikit-learn's pipelines, splits, cross-validation and searches."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError as UnfittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from wiesel import (
    Committee,
    DawidSkene,
    LabelSpace,
    MajorityVote,
    Supervised,
    TextFeatures,
    TwoStage,
    VoteMatrix,
    WeaSEL,
)
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import DataError, FeatureError, NotFittedError, ParameterError, VoteError
from wiesel.features import ImageFeatures, Standardizer, TabularFeatures, TokenFeatures
from wiesel.nn import Linear
from wiesel.scikit_learn import agreement_with_votes

VOTES, GOLD = make_votes(120, n_voters=5, coverage=0.8)
X = make_features(GOLD, n_features=3)
NAMES = np.array(VOTES.labels.names, dtype=object)[GOLD]
QUICK = {"epochs": 2, "epoch_size": 480, "lr": 0.2, "weight_average": None, "progress": False}


def two_stage(**options) -> TwoStage:
    return TwoStage(MajorityVote(), Linear(3, 2), **{**QUICK, **options})


def weasel() -> WeaSEL:
    return WeaSEL(Linear(3, 2), warm_up=1, **QUICK)


def on_gold(model, features, votes) -> float:
    """A scorer for votes as y: their ids say which rows they are."""
    return model.score(features, GOLD[votes.ids])


@pytest.mark.parametrize(
    ("features", "items"),
    [
        (Standardizer(), X),
        (TextFeatures(n_dimensions=3), [f"{name} word{i % 9}" for i, name in enumerate(NAMES)]),
        (TabularFeatures(numeric=["a", "b", "c"]), pd.DataFrame(X, columns=list("abc"))),
        (ImageFeatures(layout="flat"), X[:, None, :]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_features_are_a_step_of_a_pipeline(features, items):
    model = make_pipeline(features, two_stage()).fit(items, VOTES)
    assert len(model.predict(items)) == len(items)
    assert np.isfinite(cross_val_score(model, items, VOTES, cv=2)).all()


def test_a_pipeline_ends_in_a_model():
    model = make_pipeline(StandardScaler(), weasel()).fit(X, VOTES)
    assert is_classifier(model)
    assert model.score(X, GOLD) == np.mean(model.predict(X) == NAMES)
    assert model.score(X, NAMES) == model.score(X, GOLD)
    assert list(model.classes_) == list(VOTES.labels)
    assert model[-1].n_features_in_ == 3
    check_is_fitted(model)
    assert "WeaSEL" in model._repr_html_()


def test_names_of_columns_come_through_set_output():
    pytest.importorskip("pandas")
    model = (
        make_pipeline(StandardScaler(), two_stage()).set_output(transform="pandas").fit(X, VOTES)
    )
    assert list(model[-1].feature_names_in_) == ["x0", "x1", "x2"]
    table = model[:-1].transform(X)
    assert model[-1].predict(table).shape == (120,)
    with pytest.raises(FeatureError, match=r"columns of X are not those of fit.*order differs"):
        model[-1].predict(table[["x1", "x0", "x2"]])
    with pytest.raises(FeatureError, match=r"missing: 'x0'"):
        model[-1].predict(table.rename(columns={"x0": "other"}))


def test_votes_split_as_arrays_do():
    left, right, votes, rest = train_test_split(X, VOTES, test_size=20, random_state=0)
    assert isinstance(votes, VoteMatrix)
    assert (votes.shape, rest.shape) == ((100, 5), (20, 5))
    assert np.array_equal(left, X[votes.ids])
    assert np.array_equal(right, X[rest.ids])


def test_votes_as_an_array_are_dense():
    assert np.array_equal(np.asarray(VOTES), VOTES.dense())
    assert np.asarray(VOTES, dtype=float).dtype == float
    assert VOTES[[3, 1], ...].equals(VOTES[[3, 1]])
    with pytest.raises(ValueError, match="always a copy"):
        np.array(VOTES, copy=False)


@pytest.mark.parametrize("cv", [2, KFold(2, shuffle=True, random_state=0)], ids=["number", "KFold"])
def test_cross_validation_takes_votes_as_y(cv):
    by_votes = cross_val_score(two_stage(), X, VOTES, cv=cv, error_score="raise")
    by_gold = cross_val_score(two_stage(), X, VOTES, cv=cv, scoring=on_gold, error_score="raise")
    assert len(by_votes) == len(by_gold) == 2
    assert not np.array_equal(by_gold, by_votes)
    assert np.all((by_gold >= 0) & (by_gold <= 1) & (by_votes >= 0) & (by_votes <= 1))


def test_predictions_of_cross_validation_are_names():
    found = cross_val_predict(two_stage(), X, VOTES, cv=2)
    assert set(found) <= set(VOTES.labels)
    assert found.shape == (120,)


def test_options_are_searched_in_nested_models_too():
    pipeline = make_pipeline(StandardScaler(), two_stage())
    grid = {"twostage__label_model__hard": [True, False], "twostage__lr": [0.05]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring=on_gold, error_score="raise").fit(X, VOTES)
    assert set(search.best_params_) == set(grid)
    assert search.predict(X).shape == (120,)
    classifier = TwoStage(MajorityVote(), LogisticRegression())
    assert classifier.get_params()["end_model__C"] == 1.0
    changed = classifier.set_params(end_model__C=0.1, end_model=LogisticRegression(max_iter=50))
    assert (changed.end_model.C, changed.end_model.max_iter) == (0.1, 50)


def test_label_models_are_scored_by_gold_and_do_not_learn_from_it():
    scores = cross_val_score(DawidSkene(), VOTES, GOLD, cv=2, error_score="raise")
    assert np.all(scores > 0.6)
    found = GridSearchCV(MajorityVote(), {"hard": [True, False]}, cv=2).fit(VOTES, NAMES)
    assert found.best_estimator_.voters_ == VOTES.voters
    told = DawidSkene().fit(VOTES, GOLD)
    assert told.balance_given_ is False
    assert np.array_equal(told.predict_proba(VOTES), DawidSkene().fit(VOTES).predict_proba(VOTES))


def test_a_class_balance_is_told_from_gold():
    two_items = VOTES[:2]
    assert MajorityVote().fit(two_items, [3, 1]).balance_given_ is True
    assert MajorityVote().fit(two_items, [0.5, 0.5]).balance_given_ is True
    assert MajorityVote().fit(two_items, ["class_0", "class_1"]).balance_given_ is False
    assert MajorityVote().fit(VOTES, {"class_0": 1, "class_1": 3}).balance_given_ is True


@pytest.mark.parametrize(
    "model", [weasel(), two_stage(members=2), Committee(Linear(3, 2), networks=1, **QUICK)]
)
def test_fitted_models_are_cloned_unfitted_and_pickled_as_they_are(model):
    fitted = clone(model).fit(X, VOTES)
    assert not hasattr(clone(fitted), "labels_")
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.n_features_in_ == 3


def test_attributes_of_scikit_learn_are_there_after_fit_only():
    for model in (two_stage(), MajorityVote()):
        assert not [name for name in ("classes_", "n_features_in_") if hasattr(model, name)]
        with pytest.raises(UnfittedError):
            check_is_fitted(model)
        with pytest.raises(UnfittedError, match="call fit") as caught:
            model.predict(X)
        assert isinstance(caught.value, NotFittedError), "it is ours and scikit-learn's"
        assert type(pickle.loads(pickle.dumps(caught.value))) is NotFittedError  # noqa: S301
    fitted = MajorityVote().fit(VOTES)
    assert fitted.n_features_in_ == 5
    assert tuple(fitted.feature_names_in_) == VOTES.voters
    assert not hasattr(two_stage().fit(X, VOTES), "feature_names_in_")


def test_the_number_of_features_survives_saving(tmp_path):
    from wiesel import load_model

    two_stage().fit(X, VOTES).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.n_features_in_ == 3
    with pytest.raises(FeatureError, match="X has 2 features, but TwoStage is expecting 3"):
        loaded.predict(X[:, :2])


def test_tags_say_what_kind_of_estimator_it_is():
    tags = get_tags(two_stage())
    assert (tags.estimator_type, tags.target_tags.required) == ("classifier", True)
    assert tags.input_tags.sparse
    assert not get_tags(MajorityVote()).target_tags.required
    sparse = sp.csr_matrix(X)
    assert two_stage().fit(sparse, VOTES).predict(sparse).shape == (120,)


def test_the_score_leaves_unknown_items_out_and_weighs_the_rest():
    model = two_stage().fit(X, VOTES)
    right = model.predict(X) == NAMES
    wrong, good = np.flatnonzero(~right)[:1], np.flatnonzero(right)[:3]
    rows = np.r_[wrong, good]
    some = GOLD[rows].astype(object)
    assert model.score(X[rows], some) == 0.75
    assert model.score(X[rows], some, sample_weight=[1, 0, 0, 1]) == 0.5
    some[0] = None
    assert model.score(X[rows], some) == 1.0
    assert np.isnan(model.score(X[rows], [None] * 4))


def test_agreement_with_votes_counts_items_with_votes():
    votes = VoteMatrix.from_dense([[0, 0, 1], [1, -1, -1], [-1, -1, -1]], ["a", "b"])
    found = agreement_with_votes(np.array([0, 0, 0]), votes, votes.labels)
    assert np.allclose(found, [2 / 3, 0, np.nan], equal_nan=True)
    with pytest.raises(FeatureError, match="but 3 labels"):
        agreement_with_votes(np.array([0]), votes, votes.labels)
    with pytest.raises(FeatureError, match="the model has"):
        agreement_with_votes(np.array([0, 0, 0]), votes, LabelSpace("a", "c"))


@pytest.mark.parametrize("model", [two_stage(), DawidSkene(), Committee(Linear(3, 2), **QUICK)])
def test_an_array_instead_of_votes_is_refused_with_the_cure(model):
    given = () if isinstance(model, DawidSkene) else (X,)
    with pytest.raises(VoteError, match=r"got ndarray.*VoteMatrix.from_dense\(array, labels\)"):
        model.fit(*given, VOTES.dense())
    fitted = clone(model).fit(*given, VOTES)
    ask = fitted.predict if isinstance(model, DawidSkene) else fitted.soft_labels
    with pytest.raises(VoteError, match="got ndarray"):
        ask(*given, VOTES.dense())


@pytest.mark.parametrize("y", [["ham", "spam"], np.array([0, 1])])
def test_gold_labels_in_place_of_votes_are_pointed_to_supervised(y):
    with pytest.raises(VoteError, match=r"gold labels.*Supervised\(net\)\.fit"):
        MajorityVote().fit(y)


def test_classes_in_another_order_disturb_only_what_would_mix_them_up():
    votes = VoteMatrix.from_dense(VOTES.dense(), ["ordinary", "fraud"])
    names = np.array(votes.labels.names, dtype=object)[GOLD]
    model = make_pipeline(StandardScaler(), TwoStage(MajorityVote(), LogisticRegression()))
    model.fit(X, votes)
    check_is_fitted(model)
    assert "TwoStage" in model._repr_html_()
    assert model.score(X, names) == np.mean(model.predict(X) == names) > 0.6
    assert cross_val_score(clone(model), X, votes, cv=2, error_score="raise").shape == (2,)
    assert not hasattr(model, "classes_")
    with pytest.raises(ParameterError, match=r"another order: 'ordinary', 'fraud'.*as_classifier"):
        model[-1].classes_  # noqa: B018
    with pytest.raises(ParameterError, match="in a pipeline: as the last step"):
        is_classifier(model)


def test_a_classifier_for_scikit_learn_checks_its_values():
    votes = VoteMatrix.from_dense(np.array([9, 10, None])[VOTES.dense()], [9, 10])
    model = MajorityVote().fit(votes)
    with pytest.raises(ParameterError, match=r"as text than as numbers.*as_classifier\(int\)"):
        model.as_classifier().predict(votes)
    assert model.as_classifier(int).classes_.tolist() == [9, 10]
    assert model.as_classifier(str).classes_.tolist() == ["10", "9"]
    wrapped = model.as_classifier({"9": False, "10": True})
    again = pickle.loads(pickle.dumps(wrapped))  # noqa: S301
    assert np.array_equal(again.predict(votes), wrapped.predict(votes))
    assert np.allclose(np.exp(again.predict_log_proba(votes)), model.predict_proba(votes))
    assert again.score(votes, GOLD == 1) == model.score(votes, np.array([9, 10])[GOLD])
    assert again.score(votes, votes) == model.score(votes, votes), "agreement with votes"
    for values in (bool, {"9": 1}, {"9": 1, "10": 1}):
        with pytest.raises(ParameterError, match="values must give another value to each of '9'"):
            model.as_classifier(values).predict(votes)
    with pytest.raises(DataError, match="5 is none of the values False, True"):
        again.score(votes, [5] * 120)
    for unfitted in (clone(again), MajorityVote().as_classifier()):
        with pytest.raises(UnfittedError, match="call fit"):
            unfitted.predict(votes)
    assert clone(again).fit(votes).feature_names_in_.tolist() == list(votes.voters)


def test_truth_values_are_not_read_as_the_names_true_and_false():
    """scikit-learn would find none of them: an IndexError in its calibration, no accuracy."""
    labels = LabelSpace(False, True)
    votes = VoteMatrix.from_dense(labels.from_indices(VOTES.dense()), labels)
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(X, votes)
    for unsaid in (model, model.as_classifier()):
        with pytest.raises(ParameterError, match=r"as_classifier\(bool\).*as_classifier\(str\)"):
            CalibratedClassifierCV(FrozenEstimator(unsaid)).fit(X, GOLD == 1)
    said = CalibratedClassifierCV(FrozenEstimator(model.as_classifier(bool))).fit(X, GOLD == 1)
    assert said.classes_.tolist() == [False, True]
    assert said.score(X, GOLD == 1) > 0.6
    assert model.as_classifier(str).classes_.tolist() == ["False", "True"]
    assert model.score(X, GOLD == 1) == model.as_classifier(bool).score(X, GOLD == 1)


def test_stratified_folds_of_votes_are_refused_with_the_way_to_make_them():
    with pytest.raises(VoteError, match=r"StratifiedKFold needs one class.*cv=list\(Stratified"):
        cross_val_score(two_stage(), X, VOTES, cv=StratifiedKFold(2), error_score="raise")
    majority = MajorityVote().fit(VOTES).predict(VOTES)
    folds = list(StratifiedKFold(2).split(X, majority))
    assert cross_val_score(two_stage(), X, VOTES, cv=folds, error_score="raise").shape == (2,)
    assert np.asarray(VOTES).shape == VOTES.shape


def test_log_probabilities_are_logarithms():
    for model, items in ((two_stage().fit(X, VOTES), X), (MajorityVote().fit(VOTES), VOTES)):
        with np.errstate(divide="ignore"):
            expected = np.log(model.predict_proba(items))
        assert np.array_equal(model.predict_log_proba(items), expected)


TEXTS = ["good film", "bad film", "good plot", "bad plot"] * 5
TABLE = pd.DataFrame({"text": TEXTS, "x": np.arange(20.0), "c": ["a", "b"] * 10})


@pytest.mark.parametrize(
    ("features", "items", "names"),
    [
        (TextFeatures(min_count=1, n_dimensions=2), TABLE["text"], ["textfeatures0"]),
        (TokenFeatures(length=3, min_count=1), TABLE["text"], ["tokenfeatures0"]),
        (TabularFeatures(numeric=["x"], categorical=["c"]), TABLE, ["x", "c=a", "c=b"]),
        (Standardizer(), TABLE[["x"]], ["x"]),
        (ImageFeatures(layout="flat"), np.zeros((20, 2, 2)), ["imagefeatures0"]),
    ],
)
def test_features_name_their_columns_and_fill_the_container_one_asks_for(features, items, names):
    plain = clone(features).fit_transform(items)
    for kind in ("pandas", "polars"):
        own = clone(features).set_output(transform=kind)
        assert own.set_output() is own
        table = clone(own).fit_transform(items)
        assert type(table).__module__.partition(".")[0] == kind
        assert list(table.columns)[: len(names)] == names
        np.testing.assert_array_equal(table.to_numpy(), plain)
    assert list(own.fit(items).get_feature_names_out(["x"])) == list(table.columns)
    with pytest.raises(ParameterError, match="'default', 'pandas', 'polars'; got 'arrow'"):
        features.set_output(transform="arrow")
    with pytest.raises(NotFittedError):
        clone(features).get_feature_names_out()


def test_a_pipeline_and_a_column_transformer_pass_names_on():
    index = [f"row {k}" for k in range(20)]
    parts = [("text", TextFeatures(min_count=1, n_dimensions=2), "text")]
    columns = ColumnTransformer([*parts, ("number", Standardizer(), ["x"])])
    table = columns.set_output(transform="pandas").fit_transform(TABLE.set_axis(index))
    names = ["text__textfeatures0", "text__textfeatures1", "number__x"]
    assert (list(table.columns), list(table.index)) == (names, index)
    pipeline = make_pipeline(TextFeatures(min_count=1, n_dimensions=2), LogisticRegression())
    fitted = pipeline.set_output(transform="pandas").fit(TEXTS, [0, 1] * 10)
    assert list(fitted[-1].feature_names_in_) == ["textfeatures0", "textfeatures1"]


def test_images_that_are_no_table_are_refused_as_a_table():
    with pytest.raises(FeatureError, match=r"set_output\(transform='default'\)"):
        ImageFeatures().set_output(transform="pandas").fit_transform(np.zeros((3, 2, 2)))


FRAUD = np.array(["ordinary", "fraud"])[GOLD]
AT_END = StandardScaler().fit_transform(np.c_[GOLD * 2.0, X])


def on_gold_alone(*names) -> Supervised:
    return Supervised(Linear(4, len(names)), labels=names, **{**QUICK, "epochs": 5})


@pytest.mark.parametrize("names", [("ordinary", "fraud"), ("fraud", "ordinary")])
def test_positions_that_scikit_learn_fits_with_are_those_of_the_sorted_classes(names):
    """`cross_val_predict` and ensembles replace the names in y by 0, 1, ... before `fit`."""
    model = on_gold_alone(*names).as_classifier()
    proba = cross_val_predict(model, AT_END, FRAUD, cv=3, method="predict_proba")
    assert np.mean((proba[:, 0] > 0.5) == (FRAUD == "fraud")) > 0.9
    for voting in ("soft", "hard"):
        vote = VotingClassifier([("a", model), ("b", clone(model))], voting=voting)
        assert vote.fit(AT_END, FRAUD).score(AT_END, FRAUD) > 0.9
    bag = BaggingClassifier(model, n_estimators=2, random_state=0).fit(AT_END, FRAUD)
    assert bag.score(AT_END, FRAUD) > 0.9
    fitted = clone(model).fit(AT_END, (FRAUD == "ordinary") * 1)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.score(AT_END, (FRAUD == "ordinary") * 1) > 0.9
    assert fitted.model_.score(AT_END, FRAUD) > 0.9, "the model itself has the names right"
    assert fitted.fit(AT_END, FRAUD).classes_.tolist() == ["fraud", "ordinary"]


@pytest.mark.parametrize("classes", [(7, 2), (2, 7), (1, 0), (1, 2)])
def test_positions_are_told_from_numbers_that_are_classes(classes):
    model = on_gold_alone(*classes).as_classifier(int)
    y = np.array(classes)[GOLD]
    proba = cross_val_predict(model, AT_END, y, cv=3, method="predict_proba")
    assert np.mean(np.sort(classes)[proba.argmax(axis=1)] == y) > 0.9
    assert clone(model).fit(AT_END, y).classes_.tolist() == sorted(classes)


def test_positions_with_an_unknown_label_and_what_is_none():
    model = on_gold_alone("ordinary", "fraud").as_classifier()
    y = np.where(np.arange(120) < 5, -1, (FRAUD == "ordinary") * 1)
    assert clone(model).fit(AT_END, y).model_.score(AT_END, FRAUD) > 0.9
    with pytest.raises(DataError, match="label of row 0 is 9"):
        clone(model).fit(AT_END, np.where(y < 0, 9, y))


def test_values_of_a_series_are_matched_by_id():
    rows = pd.DataFrame(AT_END, index=[f"m{row}" for row in range(120)])
    y = pd.Series(GOLD, index=rows.index)
    model = on_gold_alone(0, 1).as_classifier(int)
    first, second = clone(model).fit(rows, y), clone(model).fit(rows, y[::-1])
    assert np.array_equal(first.predict_proba(rows), second.predict_proba(rows))
    assert first.score(rows, y[::-1]) == first.score(rows, y) > 0.9
