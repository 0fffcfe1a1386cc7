"""The pages of the LSTM on spouse and of table 1 with embeddings; embeddings as features."""

import numpy as np
import polars as pl
import pytest
from experiments.framework import embeddings, tables
from experiments.framework.definitions import Effort
from experiments.framework.pages import tables_of
from experiments.framework.runner import Run
from experiments.studies import (
    embedded_default,
    embedded_features,
    spouse_evidence,
    spouse_lstm,
    table1,
)

from wiesel import LabelSpace, VoteMatrix
from wiesel.io import Dataset, Split


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    return tmp_path


def records(f1: float) -> list[dict]:
    return [
        {
            "f1": (f1 + d) / 100,
            "f1_at_half": 0.2,
            "auc": 0.8,
            "cpu_seconds": 30.0,
            "key": f"{f1}{d}",
            "options": {"features": "minilm"},
        }
        for d in (-1, 1)
    ]


def of_table_1(f1: float) -> list[dict]:
    return [{"f1": f1 / 100, "f1_at_half": 0.2, "auc": 0.8}]


def test_the_page_of_the_lstm_says_what_the_papers_figures_owe_to_what(results):
    lstm = {title: records(50 + k) for k, title in enumerate(spouse_lstm.TITLES.values())}
    perceptron = {title: of_table_1(50) for title in spouse_evidence.METHODS}
    perceptron["WeaSEL"] = of_table_1(40)
    command = "python -m experiments spouse_lstm --seeds 2 --epochs 3"
    spouse_evidence.show(lstm, perceptron, 46.6, command)
    page = (results / "spouse_lstm.md").read_text()
    assert command in page
    table = tables_of(results / "spouse_lstm.md")[0]
    assert table.rows["WeaSEL"] == (
        *("52.00 ± 1.00", "80.00 ± 0.00"),
        *("40.00, one seed", "80.00, one seed", "51.98 ± 1.60"),
    )
    assert "majority vote has 50.0 F1, +0.0 to the perceptron of table 1" in page
    assert "WeaSEL is ahead by 2.0 points; in the paper it is ahead by 11.3." in page
    assert "Snorkel with the same network has 51.0." in page
    assert "have 46.60 F1" in page
    assert "is worth 20 to 30 points" in page
    assert "The method is worth 10." in page
    assert "without it WeaSEL has 50.0 F1 instead of 40.0" in page


def test_without_runs_the_page_of_the_lstm_says_that_the_question_is_open(results):
    perceptron = {title: of_table_1(50) for title in spouse_evidence.METHODS}
    lstm = {title: [] for title in spouse_lstm.TITLES.values()}
    spouse_evidence.show(lstm, perceptron, 40.0, "it")
    assert "its runs are not finished" in (results / "spouse_lstm.md").read_text()


def test_a_tie_of_votes_counts_as_no():
    votes = VoteMatrix.from_dense([[1, 1], [0, -1], [1, 0], [-1, 1]], ["no", "yes"])
    assert spouse_evidence.f1_of_votes(votes, np.array([1, 0, 0, 1])) == 100


def test_sentences_are_cut_around_both_persons():
    far = ["w"] * 100
    text = " ".join([*far, "<p1> Ann </p1>", *far, "<p2> Bob </p2>", *far])
    words = spouse_lstm.around_persons(text).split()
    assert len(words) == spouse_lstm.WORDS
    assert words[spouse_lstm.BESIDE] == "persona"
    assert words[-spouse_lstm.BESIDE - 1] == "personb"
    assert spouse_lstm.around_persons("nobody here") == "nobody here"


def test_table_1_has_a_column_of_the_lstm_and_a_row_that_only_it_has(results, monkeypatch):
    lstm = {title: records(60) for title in spouse_lstm.TITLES.values()}
    monkeypatch.setattr(table1.spouse_lstm, "results", lambda *_: lstm)
    found = {name: {row.title: records(70) for row in table1.ROWS} for name in table1.SETS}
    table1.show(found, Effort(seeds=2))
    shown = tables_of(results / "table1.md")[0]
    assert shown.number("WeaSEL", "spouse, LSTM") == 60
    assert shown.cell("Triplet", "spouse, LSTM") == "-"
    assert shown.number("WeaSEL, our defaults* (ours)", "spouse, LSTM") == 60


def test_the_page_of_embeddings_answers_whether_joint_training_pays(results):
    cells = [
        (name, kind, title)
        for name in embedded_features.SETS
        for kind in embedded_features.KINDS
        for title in embedded_features.TITLES
    ]
    found = {cell: records(70) if cell[0] == "sst2" else [] for cell in cells}
    found["sst2", "embeddings", "gold"] = records(80)
    found["sst2", "embeddings", "WeaSEL"] = records(71)
    found["sst2", "TF-IDF", "Snorkel"] = records(72)
    scores = {"gold": 0.9, "majority vote": 0.8, "Committee": 0.85}
    of_default = {
        (name, kind, method): [
            {"score": scores.get(method, 0.8), "key": f"{name}{kind}{method}", "options": {}}
        ]
        for name in embedded_default.SETS
        for kind in embedded_features.KINDS
        for method in embedded_default.METHODS
    }
    embedded_features.show(found, of_default, Effort(seeds=2))
    page = (results / "embedded_features.md").read_text()
    assert (
        "- In table 1: **yes** (1 set). Its lead is +1.00 with embeddings, -2.00 with TF-" in page
    )
    assert "- In the default: **no**: WeaSEL, paper +0.00 with TF-IDF" in page
    assert "mean of 1 seed\n" in page
    assert "- Table 1, TF-IDF: gold 70.0 F1; WeaSEL's lead over the best other method is -2" in page
    assert "- Table 1, embeddings: gold 80.0 F1; WeaSEL's lead over the best other" in page
    assert "first on 1 of 1 sets" in page
    assert "- Default, both: gold 90.0, majority vote 80.0; against" in page
    assert "(mean of 5 sets)." in page
    assert "Committee +5.00." in page
    assert "8 runs are behind" in page


def test_runs_with_other_features_are_kept_apart_from_those_of_table_1():
    row = next(row for row in embedded_features.ROWS if row.title == "WeaSEL")
    own, embedded = (
        embedded_features.choices_of("sst2", row, kind, Effort(seeds=1))[0][0]
        for kind in ("TF-IDF", "embeddings")
    )
    assert isinstance(own, Run)
    assert embedded.options["features"] == "minilm"
    assert own.key != embedded.key


def test_embeddings_stand_alone_or_before_a_sets_own_features(monkeypatch):
    rows = pl.DataFrame({"id": ["a", "b"], "text": ["good", "bad"]})
    split = Split(rows, np.array([1, 0]), features=np.ones((2, 3), dtype=np.float32))
    dataset = Dataset(
        "tiny", LabelSpace("no", "yes"), dict.fromkeys(("train", "valid", "test"), split)
    )
    vectors = dict.fromkeys(("train", "valid", "test"), np.zeros((2, 4)))
    monkeypatch.setattr(embeddings, "_vectors", lambda *_: vectors)
    assert embeddings.with_features(dataset, "minilm").test.features.shape == (2, 4)
    both = embeddings.with_features(dataset, "minilm+own").train.features
    assert both.tolist() == [[0, 0, 0, 0, 1, 1, 1]] * 2
    assert both.dtype == np.float32
    with pytest.raises(ValueError, match=r"minilm\+own"):
        embeddings.with_features(dataset, "bert")
