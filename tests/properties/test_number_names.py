"""Classes named by numbers: integers, names and indices as gold labels and votes mean the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from wiesel import (
    ASTRA,
    Committee,
    DawidSkene,
    LabelSpace,
    MajorityVote,
    Supervised,
    TwoStage,
    VoteMatrix,
    aggregate,
    apply_lfs,
    compare,
    evaluate,
    findings,
    labeling_function,
    load_model,
    rows_to_label,
    suggest_lfs,
    summarize,
)
from wiesel.analysis import disagreements, label_buckets
from wiesel.end_to_end import GoldWeighted
from wiesel.evaluation import compare_paired, evaluate_proba
from wiesel.guidance import preview_end_model
from wiesel.io import Split, read_hugging_face, soft_labeled_rows, write_hugging_face
from wiesel.multilabel import MultiLabelVotes
from wiesel.nn import Linear
from wiesel.training import seeded

STARS = LabelSpace("2", "3", "1")
RNG = np.random.default_rng(0)
INDEX = np.r_[np.arange(3), RNG.integers(3, size=57)]
INTS = np.array([2, 3, 1])[INDEX]
TEXT = INTS.astype(str).astype(object)
X = np.eye(3)[INDEX] + RNG.normal(size=(60, 3)) / 3
WRONG = RNG.random((60, 4)) < 0.25
VOTES = VoteMatrix.from_dense(np.where(WRONG, 3, INTS[:, None]), STARS)
with seeded(0):
    NET = Linear(3, 3)
QUICK = {"epochs": 2, "epoch_size": 100, "lr": 0.1, "progress": False, "weight_average": None}
MODEL = MajorityVote().fit(VOTES)
ROWS = {"text": [f"{word} word" for word in np.array(["good", "fair", "bad"])[INDEX]]}
EVEN = slice(0, 40)


def proba_after(model: Any, *arguments: Any, **options: Any) -> Any:
    inputs = arguments[0] if isinstance(arguments[0], np.ndarray) else VOTES
    return model.fit(*arguments, **options).predict_proba(inputs)


def network(kind: type = TwoStage, *first: Any) -> Any:
    return kind(*first, NET, **QUICK)


USES: dict[str, Callable[[Any], Any]] = {
    "indices": STARS.indices,
    "summarize": lambda y: summarize(VOTES, y).frame,
    "findings": lambda y: findings(VOTES, y).frame,
    "disagreements": lambda y: disagreements(VOTES, ROWS, gold=y),
    "label_buckets": lambda y: label_buckets(ROWS, gold=y, votes=VOTES).table.frame,
    "evaluate": lambda y: evaluate(MODEL, VOTES, y, n_resamples=0).to_dict(),
    "evaluate_proba": lambda y: float(evaluate_proba(np.eye(3)[INDEX], y, STARS).accuracy),
    "compare_paired": lambda y: str(compare_paired(MODEL, DawidSkene().fit(VOTES), VOTES, y)),
    "score": lambda y: MODEL.score(VOTES, y),
    "label model, gold in cross-validation": lambda y: proba_after(MajorityVote(), VOTES, y),
    "GoldWeighted": lambda y: proba_after(GoldWeighted(), VOTES, gold=(VOTES[EVEN], y[EVEN])),
    "Supervised": lambda y: proba_after(Supervised(NET, labels=STARS, **QUICK), X, y),
    "ASTRA": lambda y: proba_after(network(ASTRA), X, VOTES, gold=y),
    "validation": lambda y: (
        network(TwoStage, MajorityVote()).fit(X, VOTES, validation=(X, y)).selection_
    ),
    "Committee": lambda y: proba_after(
        Committee(NET, networks=1, **QUICK), X, VOTES, validation=(X, y, VOTES)
    ),
    "compare": lambda y: (
        compare(["majority_vote"], X, VOTES, test=(X, y), validation=(X, y), end_model="linear")
        .frame.drop("seconds", strict=False)
        .select("method", "accuracy")
    ),
    "rows_to_label": lambda y: str(rows_to_label(VOTES, X, n=5, gold=y).frame),
    "suggest_lfs": lambda y: [s.precision for s in suggest_lfs(ROWS, labels=STARS, gold=y)],
    "preview_end_model": lambda y: preview_end_model(X, VOTES, gold=y).proba,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.filterwarnings("ignore")
def test_gold_labels_mean_the_same_as_names_numbers_and_indices(use: Callable[[Any], Any]) -> None:
    wanted = use(TEXT)
    for given in (
        INTS,
        pd.Series(INTS),
        STARS.from_indices(INDEX),
        Split(pl.DataFrame({"id": range(60)}), INDEX).gold,
    ):
        found = use(given)
        if isinstance(wanted, pl.DataFrame):
            assert found.equals(wanted, null_equal=True)
        else:
            np.testing.assert_equal(found, wanted)


@pytest.mark.filterwarnings("ignore")
def test_the_true_accuracy_is_found() -> None:
    """As with ratings of 1 to 4 of five stars, which were read as indices."""
    stars = LabelSpace("1", "2", "3", "4", "5")
    ratings = RNG.integers(1, 5, size=50)
    votes = VoteMatrix.from_dense(np.tile(ratings[:, None], 3), stars)
    assert votes.equals(VoteMatrix.from_dense(np.tile(ratings[:, None], 3).astype(str), stars))
    assert evaluate(MajorityVote().fit(votes), votes, ratings).accuracy == 1
    assert summarize(votes, ratings).frame["precision"].to_list() == [1.0] * 3


def test_gold_items_of_dawid_skene_are_named_by_their_numbers() -> None:
    some = range(9)
    by_text = proba_after(DawidSkene(), VOTES, gold={i: TEXT[i] for i in some})
    assert np.array_equal(
        proba_after(DawidSkene(), VOTES, gold={i: INTS[i] for i in some}), by_text
    )


def test_votes_mean_the_same_as_names_numbers_and_indices() -> None:
    dense = VOTES.dense()
    numbers = np.array([2, 3, 1])[dense]
    assert VoteMatrix.from_dense(dense, STARS).equals(VOTES)
    assert VoteMatrix.from_dense(dense[:30], STARS).equals(VOTES[:30])
    for given in (numbers, numbers.astype(float), numbers.astype(str), numbers.astype(object)):
        assert VoteMatrix.from_dense(given, STARS).equals(VOTES)
    long = VOTES.to_long()
    columns = {"item": "item", "voter": "voter", "label": "label"}
    for kind in (pl.String, pl.Int8, pl.Int64, pl.Float64):
        table = long.with_columns(pl.col("label").cast(pl.String).cast(kind))
        again = VoteMatrix.from_long(table, **columns, labels=STARS, items=VOTES.ids)
        assert again.equals(VOTES), kind


def test_labeling_functions_and_models_vote_by_name() -> None:
    from sklearn.linear_model import LogisticRegression

    from wiesel import from_model

    @labeling_function
    def stars(row: Any) -> Any:
        return row["stars"]

    rows = pl.DataFrame({"stars": INTS, "x": INTS * 10.0})
    model = from_model(LogisticRegression(C=1e6).fit(INTS[:, None] * 10.0, INTS), ["x"])
    votes = apply_lfs([stars, model], rows, labels=STARS)
    assert np.array_equal(votes.dense()[:, 0], INDEX)
    assert np.array_equal(votes.dense()[:, 1], INDEX)
    truths = pl.DataFrame({"stars": [True, False]})
    assert apply_lfs([stars], truths, labels=[True, False]).dense().ravel().tolist() == [0, 1]


def test_answers_of_a_crowd_are_named_by_their_numbers() -> None:
    answers = pl.DataFrame({"task": [1, 1, 2, 2], "worker": ["a", "b"] * 2, "label": [5, 5, 1, 1]})
    found = aggregate(answers, item="task", worker="worker", label="label")
    assert found.labels["label"].to_list() == [5, 1]


@pytest.mark.filterwarnings("ignore")
def test_files_keep_the_classes(tmp_path: Any) -> None:
    model = network(TwoStage, MajorityVote()).fit(X, VOTES)
    model.save(tmp_path / "model")
    MODEL.save(tmp_path / "label_model")
    assert load_model(tmp_path / "model").score(X, INTS) == model.score(X, TEXT)
    assert load_model(tmp_path / "label_model").score(VOTES, INTS) == MODEL.score(VOTES, TEXT)
    rows = soft_labeled_rows(ROWS, np.eye(3)[INDEX], STARS)
    write_hugging_face(tmp_path / "soft", rows, STARS)
    assert np.array_equal(read_hugging_face(tmp_path / "soft").label, INDEX)
    rows = {**ROWS, "label": INTS}
    write_hugging_face(tmp_path / "gold", rows, STARS)
    assert np.array_equal(read_hugging_face(tmp_path / "gold").label, INDEX)


def test_a_label_of_a_multi_label_task_may_be_a_number() -> None:
    votes = MultiLabelVotes.from_dense([[[1, 0], [1, -1]], [[0, 1], [0, 1]]], ["0", "1"])
    assert votes["0"].dense().tolist() == [[1, 1], [0, 0]]
    found = votes.summary(gold=[{"0"}, {"1"}]).frame["precision"]
    assert set(found.drop_nulls()) == {1.0}
