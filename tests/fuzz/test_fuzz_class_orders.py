"""scikit-learn's own metrics, calibration and ensembles on classes in any order and of any type."""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from attacks import Tally, tries
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    get_scorer,
    log_loss,
    roc_auc_score,
)
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from wiesel import LabelSpace, MajorityVote, Supervised, TwoStage, VoteMatrix, load_model
from wiesel.errors import ParameterError
from wiesel.nn import Linear

NAMES = ["ham", "spam", "Spam", "10", "9", "-1", "zoo", "1", "2", "no", "True"]


class Task(NamedTuple):
    """Items of known classes: what scikit-learn gets as `y`, and how to read it."""

    votes: VoteMatrix
    X: Any
    y: Any
    values: type | Mapping[str, Any] | None
    value_of: dict[str, Any]


def random_task(source: random.Random) -> Task:
    """Two to four classes in any order: text, numbers, truth values, or names of other values."""
    kind = source.choice(["text", "numbers as text", "bool", "int", "numpy", "mapped"])
    n_classes = source.randint(2, 4)
    if kind == "bool":
        classes: list[Any] = source.sample([False, True], 2)
    elif kind in ("text", "mapped"):
        classes = source.sample(NAMES, n_classes)
    else:
        classes = source.sample(range(-3, 200), n_classes)
    labels = LabelSpace(*map(np.int64, classes)) if kind == "numpy" else LabelSpace(*classes)
    known = list(labels) if kind in ("text", "numbers as text") else classes
    if kind == "mapped":
        known = source.sample(range(n_classes), n_classes)
    value_of = dict(zip(labels, known, strict=True))
    types: dict[str, Any] = {"bool": bool, "int": int, "numpy": int, "mapped": value_of}
    gold, X, dense = items(source.randrange(100), len(labels))
    votes = VoteMatrix.from_dense(labels.from_indices(dense), labels)
    y = np.array([known[index] for index in gold])
    return Task(votes, X, y, types.get(kind, str), value_of)


def items(seed: int, n_classes: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    gold = np.r_[np.tile(np.arange(n_classes), 3), rng.integers(n_classes, size=24)]
    X = np.eye(n_classes)[gold] * 2 + rng.normal(size=(len(gold), n_classes))
    wrong = rng.random((len(gold), 3)) < 0.2
    dense = np.where(wrong, rng.integers(n_classes, size=wrong.shape), gold[:, None])
    return gold, X, dense


def expected(task: Task, model: Any, inputs: Any) -> dict[str, float]:
    """The metrics by the definitions of scikit-learn, from the probabilities by name."""
    proba = dict(zip(model.labels_.names, model.predict_proba(inputs).T, strict=True))
    by_value = sorted((task.value_of[name], column) for name, column in proba.items())
    table = np.stack([column for _, column in by_value], axis=1)
    predicted = np.array([task.value_of[name] for name in model.predict(inputs)])
    figures = {
        "neg_log_loss": -log_loss(task.y, table),
        "accuracy": float(np.mean(predicted == task.y)),
    }
    if len(by_value) == 2:
        figures["roc_auc"] = roc_auc_score(task.y == by_value[1][0], table[:, 1])
    else:
        figures["roc_auc_ovr"] = roc_auc_score(task.y, table, multi_class="ovr")
    truth = (task.y[:, None] == np.array([value for value, _ in by_value])).astype(float)
    # With two classes, scikit-learn's Brier score is that of the second class alone.
    squared = ((table - truth) ** 2).sum(axis=1) / (2 if len(by_value) == 2 else 1)
    figures["neg_brier_score"] = -float(squared.mean())
    places = [1] if len(by_value) == 2 else range(len(by_value))
    precisions = [precision_by_definition(truth[:, k], table[:, k]) for k in places]
    figures["average_precision"] = float(np.mean(precisions))
    return figures


def precision_by_definition(truth: Any, scores: Any) -> float:
    """The mean, over the positive items, of the precision among items with at least their score."""
    return float(np.mean([truth[scores >= score].mean() for score in scores[truth == 1]]))


def measured(name: str, model: Any, X: Any, y: Any) -> float:
    """What scikit-learn measures; of two classes named by text it must be told the positive one."""
    metric = {"neg_brier_score": brier_score_loss, "average_precision": average_precision_score}
    if name not in metric or len(model.classes_) > 2:
        return float(get_scorer(name)(model, X, y))
    found = metric[name](y, model.predict_proba(X)[:, 1], pos_label=model.classes_[1])
    return float(-found if name == "neg_brier_score" else found)


def test_scikit_learn_reads_classes_of_any_order_and_type_right() -> None:
    tally = Tally("class orders")
    for number, source in enumerate(tries("class orders", least=40)):
        task = random_task(source)
        check_metrics(task)
        check_the_model_itself(task)
        if number % 5 == 0:
            check_meta_estimators(task)
            check_cross_validation(task)
            check_supervised(task)
        tally.counts[f"tasks of {type(task.y[0]).__name__.rstrip('_')}"] += 1
    tally.report()


def check_metrics(task: Task) -> None:
    end = TwoStage(MajorityVote(), LogisticRegression())
    for model, inputs in (
        (end.fit(task.X, task.votes), task.X),
        (MajorityVote().fit(task.votes), task.votes),
    ):
        wrapped = model.as_classifier(task.values)
        assert np.array_equal(wrapped.classes_, np.unique(task.y))
        for name, figure in expected(task, model, inputs).items():
            assert measured(name, wrapped, inputs, task.y) == pytest.approx(figure), name
        assert wrapped.score(inputs, task.y) == expected(task, model, inputs)["accuracy"]


def check_the_model_itself(task: Task) -> None:
    """It is right, or refused with the cure: never silently wrong."""
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(task.X, task.votes)
    texts = [name for value in task.y for name, known in task.value_of.items() if known == value]
    as_text = task._replace(y=np.array(texts), value_of={name: name for name in model.labels_})
    figures = expected(as_text, model, task.X)
    by_name = dict(zip(model.labels_, model.predict_proba(task.X).T, strict=True))
    table = np.stack([by_name[name] for name in sorted(by_name)], axis=1)
    vote = VotingClassifier([("model", FrozenEstimator(model))], voting="soft")
    refused = list(model.labels_) != sorted(model.labels_) or numbers_sort_otherwise(model.labels_)
    if refused:
        for asked in (get_scorer(auc(task)), get_scorer("neg_log_loss"), vote.fit):
            with pytest.raises(ParameterError, match=r"as_classifier\("):
                asked(*(() if asked == vote.fit else (model,)), task.X, as_text.y)
    else:
        for name, figure in figures.items():
            assert measured(name, model, task.X, as_text.y) == pytest.approx(figure), name
        assert np.allclose(vote.fit(task.X, as_text.y).predict_proba(task.X), table)
    assert model.score(task.X, as_text.y) == figures["accuracy"], "whatever the order"


def numbers_sort_otherwise(labels: LabelSpace) -> bool:
    if set(labels) == {"False", "True"}:
        return True
    try:
        return sorted(labels) != sorted(labels, key=float)
    except ValueError:
        return False


def check_meta_estimators(task: Task) -> None:
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(task.X, task.votes)
    wrapped = model.as_classifier(task.values)
    frozen = FrozenEstimator(wrapped)
    accuracy = expected(task, model, task.X)["accuracy"]
    vote = VotingClassifier([("model", frozen)], voting="soft").fit(task.X, task.y)
    assert vote.score(task.X, task.y) == accuracy
    calibrated = CalibratedClassifierCV(frozen, cv=3).fit(task.X, task.y)
    assert np.array_equal(calibrated.classes_, wrapped.classes_)
    assert get_scorer(auc(task))(calibrated, task.X, task.y) > 0.7
    stack = StackingClassifier([("model", frozen)], cv="prefit").fit(task.X, task.y)
    assert stack.score(task.X, task.y) > 0.6
    importance = permutation_importance(
        wrapped, task.X, task.y, scoring="neg_log_loss", random_state=0
    )
    assert importance.importances_mean.max() > 0.1
    again = clone(wrapped).fit(task.X, task.votes)
    assert np.array_equal(again.predict_proba(task.X), wrapped.predict_proba(task.X))


def check_cross_validation(task: Task) -> None:
    def fold(learned: Any, judged: Any) -> tuple[Any, Any, list[str]]:
        own = MajorityVote().fit(task.votes[learned])
        return own.labels_, own.predict_proba(task.votes[judged]), own.predict(task.votes[judged])

    model = MajorityVote().as_classifier(task.values)
    aucs = check_folds(task, model, task.votes, fold)
    search = GridSearchCV(model, {"model__hard": [False]}, scoring=auc(task), cv=3)
    found = search.fit(task.votes, task.y).cv_results_["mean_test_score"]
    assert found == pytest.approx(np.mean(aucs))


def check_supervised(task: Task) -> None:
    quick = {"epochs": 3, "epoch_size": 400, "lr": 0.3, "weight_average": None, "progress": False}
    labels = task.votes.labels
    network = Supervised(Linear(len(labels), len(labels)), labels=labels, **quick)
    names = np.array([name_of(task)[value] for value in task.y])

    def fold(learned: Any, judged: Any) -> tuple[Any, Any, list[str]]:
        scaler = StandardScaler().fit(task.X[learned])
        own = clone(network).fit(scaler.transform(task.X[learned]), names[learned])
        X = scaler.transform(task.X[judged])
        return own.labels_, own.predict_proba(X), own.predict(X)

    model = make_pipeline(StandardScaler(), network.as_classifier(task.values))
    check_folds(task, model, task.X, fold)
    everything = slice(None)
    whole = [task.value_of[name] for name in fold(everything, everything)[2]]
    voting = VotingClassifier([("model", model)], voting="hard").fit(task.X, task.y)
    assert voting.predict(task.X).tolist() == whole, "it fits with positions in place of values"


def check_folds(task: Task, model: Any, X: Any, fold: Any) -> list[float]:
    """scikit-learn's cross-validation against the model itself, fitted on each fold by name."""
    values = sorted(task.value_of.values())
    proba = np.full((len(task.y), len(values)), np.nan)
    predicted, aucs = np.empty_like(task.y), []
    for learned, judged in StratifiedKFold(3).split(X, task.y):
        labels, found, names = fold(learned, judged)
        columns = [labels.names.index(name_of(task)[value]) for value in values]
        proba[judged] = found[:, columns]
        predicted[judged] = [task.value_of[name] for name in names]
        truth = task.y[judged, None] == np.array(values)
        places = [1] if len(values) == 2 else range(len(values))
        aucs.append(np.mean([roc_auc_score(truth[:, k], proba[judged, k]) for k in places]))
    scores = cross_val_score(model, X, task.y, scoring=auc(task), cv=3, error_score="raise")
    assert scores == pytest.approx(aucs)
    assert np.array_equal(cross_val_predict(model, X, task.y, cv=3), predicted)
    by_column = cross_val_predict(model, X, task.y, cv=3, method="predict_proba")
    assert np.array_equal(by_column, proba), "one column for each class, in scikit-learn's order"
    return aucs


def name_of(task: Task) -> dict[Any, str]:
    return {value: name for name, value in task.value_of.items()}


def auc(task: Task) -> str:
    return "roc_auc" if len(task.value_of) == 2 else "roc_auc_ovr"


def test_a_saved_model_with_features_too(tmp_path: Any) -> None:
    from wiesel import TextFeatures

    gold, _, dense = items(0, 2)
    names = np.array(["technical", "billing"], dtype=object)[gold]
    texts = [f"{name} {place % 7}" for place, name in enumerate(names)]
    features = TextFeatures(n_dimensions=3).fit(texts)
    votes = VoteMatrix.from_dense(dense, ["technical", "billing"])
    model = TwoStage(MajorityVote(), LogisticRegression()).fit(features.transform(texts), votes)
    model.save(tmp_path / "model", features=features)
    loaded = load_model(tmp_path / "model")
    with pytest.raises(ParameterError, match=r"another order: 'technical', 'billing'.*as_classif"):
        get_scorer("roc_auc")(loaded, texts, names)
    assert get_scorer("roc_auc")(loaded.as_classifier(), texts, names) > 0.9
    pipeline = make_pipeline(features, model.as_classifier())
    assert get_scorer("roc_auc")(pipeline, texts, names) > 0.9
