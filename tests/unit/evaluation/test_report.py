"""evaluate and its report."""

import copy
import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from wiesel import LabelSpace, MajorityVote, VoteMatrix
from wiesel.errors import DataError, FeatureError, ParameterError
from wiesel.evaluation import Report, Score, evaluate, evaluate_proba

LABELS = LabelSpace("ham", "spam")
PROBA = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9]])
GOLD = ["ham", "spam", "spam", "spam"]


class Fixed:
    """A model that has made up its mind."""

    labels_ = LABELS

    def __init__(self, proba: Any, threshold: float | None = None) -> None:
        self.proba = proba
        if threshold is not None:
            self.threshold_ = threshold

    def predict_proba(self, X: Any) -> Any:
        return self.proba


def test_a_report_has_every_figure_with_an_interval() -> None:
    report = evaluate(Fixed(PROBA), None, GOLD)
    assert report.accuracy == 0.75
    assert report.f1 == pytest.approx(0.8)
    assert report.auc == 1.0
    assert report.confusion.tolist() == [[1, 0], [1, 2]]
    assert report.n_items == 4
    spam = report.per_class[1]
    assert (spam.name, spam.precision, spam.n_gold, spam.n_predicted) == ("spam", 1.0, 3, 2)
    names = [name for name, score in report.scores() if score.low <= score <= score.high]
    assert len(names) == 8


def test_the_threshold_of_the_model_decides() -> None:
    report = evaluate(Fixed(PROBA, threshold=0.4), None, GOLD)
    assert report.threshold == 0.4
    assert report.accuracy == 1.0
    assert "decision threshold 0.400" in str(report)


def test_covered_and_uncovered_items_are_also_reported_apart() -> None:
    votes = VoteMatrix.from_dense([[0], [1], [-1], [1]], LABELS)
    report = evaluate(Fixed(PROBA), None, GOLD, votes)
    assert report.covered is not None
    assert report.uncovered is not None
    assert (report.covered.n_items, report.covered.accuracy) == (3, 1.0)
    assert (report.uncovered.n_items, report.uncovered.accuracy) == (1, 0.0)
    assert "covered (3)" in str(report)
    assert "uncovered (1)" in str(report)


def test_a_group_without_items_is_left_out() -> None:
    report = evaluate_proba(PROBA, GOLD, LABELS, covered=[True] * 4)
    assert report.covered is not None
    assert report.uncovered is None


def test_unknown_gold_is_left_out_and_counted() -> None:
    report = evaluate_proba(PROBA, ["ham", None, "spam", None], LABELS)
    assert (report.n_items, report.n_unknown, report.accuracy) == (2, 2, 0.5)
    assert "2 without a gold label left out" in str(report)


def test_one_class_alone_leaves_the_undefined_unknown() -> None:
    report = evaluate_proba(PROBA[:1], ["ham"], LABELS)
    assert np.isnan(report.auc)
    assert np.isnan(report.auc.low)
    assert report.accuracy == 1.0
    assert report.to_dict()["scores"]["auc"] == {"value": None, "low": None, "high": None}
    line = next(line for line in str(report).splitlines() if "ROC-AUC" in line)
    assert line.endswith("\N{EN DASH}")


def test_many_classes_are_averaged() -> None:
    proba = np.eye(3)[[0, 1, 2, 2]] * 0.7 + 0.1
    report = evaluate_proba(proba, [0, 1, 2, 1], ["a", "b", "c"])
    # F1: a 1; b 2/3 (one of two found); c 2/3 (one of two right).
    assert report.f1 == report.macro_f1 == pytest.approx(7 / 9)
    printed = [line.strip().partition("  ")[0] for line in str(report).splitlines()[3:10]]
    assert printed == [
        "accuracy",
        "macro F1",
        "ROC-AUC",
        "average precision",
        "log loss",
        "Brier score",
        "calibration error",
    ]
    assert "F1 of" not in str(report)


def test_a_label_model_is_evaluated_on_votes(votes: VoteMatrix) -> None:
    report = evaluate(MajorityVote().fit(votes), votes, [0, 1, 1, 1])
    assert report.accuracy == 0.5


def test_a_scikit_learn_model_is_evaluated() -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = LogisticRegression(C=100).fit(X, ["ham", "ham", "spam", "spam"])
    assert evaluate(model, X, ["ham", "ham", "spam", "spam"]).accuracy == 1.0


def test_the_same_seed_gives_the_same_intervals() -> None:
    first, again = (evaluate_proba(PROBA, GOLD, LABELS, seed=5).to_dict() for _ in range(2))
    assert first == again


def test_a_report_is_plain_data() -> None:
    report = evaluate_proba(PROBA, GOLD, LABELS, covered=[True, True, False, False])
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["scores"]["accuracy"]["value"] == 0.75
    assert data["per_class"]["spam"]["n_gold"] == 3
    assert data["confusion"] == [[1, 0], [1, 2]]
    assert data["covered"]["n_items"] == 2
    assert len(data["calibration"]["n_items"]) == 15


def test_html_escapes_the_names_of_classes() -> None:
    labels = ["ham", "<script>alert(1)</script>"]
    html = evaluate_proba(PROBA, [0, 1, 1, 1], labels)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<table") == 3


def test_a_report_cannot_be_changed() -> None:
    report = evaluate_proba(PROBA, GOLD, LABELS)
    with pytest.raises(AttributeError):
        report.accuracy = Score(1.0)  # type: ignore[misc]


def test_without_resamples_there_are_no_intervals() -> None:
    report = evaluate_proba(PROBA, GOLD, LABELS, n_resamples=0)
    assert np.isnan(report.accuracy.low)
    assert "95 %" not in str(report)
    assert "(" not in next(line for line in str(report).splitlines() if "accuracy" in line)


def test_a_score_is_a_number_and_survives_copying() -> None:
    score = Score(0.5, 0.4, 0.6)
    assert f"{score:.2f}" == "0.50"
    copied = copy.deepcopy(score)
    assert (copied, copied.low, copied.high) == (0.5, 0.4, 0.6)


def test_a_confusion_matrix_of_many_classes_is_not_printed() -> None:
    labels = [f"class {k}" for k in range(30)]
    report = evaluate_proba(np.full((30, 30), 1 / 30), np.arange(30), labels, n_resamples=0)
    assert "true \\ predicted" not in str(report)
    assert "class 29" in str(report)


@pytest.mark.parametrize(
    ("proba", "words"),
    [
        ([[0.5, np.nan]], r"row 0 are \[0.5, nan\]"),
        ([[0.5, 0.5], [2.0, -1.0]], "row 1"),
        ([[3.0, 2.0]], "Logits need a softmax"),
        ([[0.2, 0.3, 0.5]], r"items x 2 classes.*\(1, 3\)"),
        ([0.5], r"the shape \(1,\)"),
        (np.empty((0, 2)), "at least one item"),
    ],
)
def test_what_are_no_probabilities_is_refused(proba: Any, words: str) -> None:
    with pytest.raises(FeatureError, match=words):
        evaluate_proba(proba, [0], LABELS)


def test_gold_that_does_not_fit_is_refused() -> None:
    with pytest.raises(FeatureError, match="4 predictions but 1 gold labels"):
        evaluate_proba(PROBA, [0], LABELS)
    with pytest.raises(FeatureError, match="None of the gold labels is known"):
        evaluate_proba(PROBA, [-1] * 4, LABELS)
    with pytest.raises(DataError, match="label of row 2 is 'eggs'"):
        evaluate_proba(PROBA, ["ham", "ham", "eggs", "ham"], LABELS)


def test_votes_on_other_items_are_refused() -> None:
    votes = VoteMatrix.from_dense([[0]], LABELS)
    with pytest.raises(FeatureError, match="4 predictions but votes on 1 items"):
        evaluate(Fixed(PROBA), None, GOLD, votes)


def test_a_threshold_needs_two_classes() -> None:
    with pytest.raises(ParameterError, match="two classes; there are 3"):
        evaluate_proba(np.eye(3), [0, 1, 2], ["a", "b", "c"], threshold=0.5)


def test_a_model_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(ParameterError, match="LogisticRegression has neither labels_ nor classes_"):
        evaluate(LogisticRegression(), None, GOLD)


def test_a_model_without_probabilities_is_refused() -> None:
    class Silent:
        labels_ = LABELS

    with pytest.raises(ParameterError, match="Silent has no predict_proba"):
        evaluate(Silent(), None, GOLD)  # type: ignore[arg-type]


def test_the_type_is_public() -> None:
    assert isinstance(evaluate_proba(PROBA, GOLD, LABELS, n_resamples=0), Report)


@pytest.mark.parametrize("classes", [(-1, 1), (1, 2), (0, 3)])
def test_numbers_are_the_classes_of_a_scikit_learn_model(classes: tuple[int, int]) -> None:
    gold = np.repeat(classes, 10)
    X = np.concatenate([np.zeros((10, 1)), np.ones((10, 1))])
    report = evaluate(LogisticRegression().fit(X, gold), X, gold, n_resamples=0)
    assert (report.n_items, report.accuracy) == (20, 1.0)
