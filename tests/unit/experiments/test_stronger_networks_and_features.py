"""The pages of the LSTM on spouse and of table 1 with embeddings; embeddings as features."""

import numpy as np
import polars as pl
import pytest
from experiments.framework import embeddings, tables
from experiments.framework.definitions import Effort
from experiments.framework.runner import Run
from experiments.studies import embedded_default, embedded_features, spouse_evidence, spouse_lstm

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
            "auc": 0.8,
            "cpu_seconds": 30.0,
            "key": f"{f1}{d}",
            "options": {"features": "minilm"},
        }
        for d in (-1, 1)
    ]


def test_the_page_of_the_lstm_has_table_1_and_the_paper_beside_it(results):
    found = {method: records(50 + k) for k, method in enumerate(spouse_lstm.TITLES)}
    spouse_lstm.show(found, ["known"], "python -m experiments spouse_lstm --seeds 2 --epochs 3")
    page = (results / "spouse_lstm.md").read_text()
    assert "spouse_lstm --seeds 2 --epochs 3" in page
    line = next(line for line in page.splitlines() if line.startswith("| WeaSEL"))
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[1:3] == ["52.00 ± 1.00", "80.00 ± 0.00"]
    assert cells[3].startswith("43.")
    assert cells[4] == "51.98"
    assert page.endswith("known\n")


def test_evidence_on_spouse_compares_votes_threshold_and_weighing():
    votes = VoteMatrix.from_dense([[1, 1], [0, -1], [1, 0], [-1, 1]], ["no", "yes"])
    runs = {
        title: [{"f1": 0.5, "f1_at_half": 0.2, "auc": 0.8}] for title in spouse_evidence.METHODS
    }
    runs["WeaSEL"] = [{"f1": 0.4, "f1_at_half": 0.15, "auc": 0.8}]
    # Two of two positives are found, and nothing else: the tie counts as no.
    page = "\n".join(spouse_evidence.told(votes, np.array([1, 0, 0, 1]), runs))
    assert "have 100.00 F1" in page
    assert "is worth 25 to 30 points" in page
    assert "The method is worth 10." in page
    assert "without it WeaSEL has 50.0 F1 instead of 40.0" in page


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
    assert "- Table 1, TF-IDF: gold 70.0 F1; WeaSEL is -2.00 points ahead" in page
    assert "- Table 1, embeddings: gold 80.0 F1; WeaSEL is +1.00 points ahead" in page
    assert "first on 1 of 1 sets" in page
    assert "- Default, both: gold 90.0, majority vote 80.0 on the mean of 5 sets;" in page
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
