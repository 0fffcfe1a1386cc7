"""Studies of rule methods, of the graph encoder and of choosing crowd methods without gold."""

import json

import numpy as np
import polars as pl
import pytest
from experiments.framework import tables
from experiments.framework.definitions import Effort
from experiments.framework.pages import tables_of
from experiments.framework.runner import Run
from experiments.studies import blind_crowds, crowd_table, graph_encoder, rule_methods

from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.io import Dataset, Split


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    return tmp_path


def tiny(name: str = "tiny") -> Dataset:
    def split(seed: int) -> Split:
        votes, gold = make_votes(90, n_voters=6, coverage=0.6, seed=seed)
        rows = pl.DataFrame({"id": [f"{seed}_{item}" for item in range(90)]})
        return Split(rows, gold, votes, make_features(gold, n_features=4, seed=0))

    splits = {name: split(seed) for seed, name in enumerate(("train", "valid", "test"))}
    return Dataset(name, splits["train"].votes.labels, splits)


@pytest.mark.parametrize("method", rule_methods.METHODS)
def test_rule_methods_are_trained_and_measured(method, monkeypatch):
    monkeypatch.setattr(rule_methods, "dataset_of", lambda _: tiny())
    monkeypatch.setattr(rule_methods, "EPOCHS", 1)
    record = rule_methods.execute(Run("youtube", method, 0))
    assert 0 <= record["accuracy"] <= 1
    assert ("f1_with_votes" in record) == (method in ("deep_logic", "imply_loss", "astra"))
    json.dumps(record)


def test_the_page_of_rule_methods_has_the_papers_figures(results):
    run = {"dataset": "sms", "method": "astra", "seed": 0, "cpu_seconds": 6.0}
    rule_methods.show([{**run, "accuracy": 0.1, "f1": 0.9, "f1_with_votes": 0.8}], Effort(seeds=1))
    page = (results / "rule_methods.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("| sms") and "ASTRA" in line)
    assert [cell.strip() for cell in line.split("|")[3:6]] == [
        "90.00, one seed",
        "80.00, one seed",
        "95.30",
    ]


@pytest.mark.parametrize("encoder", graph_encoder.ENCODERS)
def test_encoders_are_compared_on_the_same_planted_votes(encoder, monkeypatch):
    monkeypatch.setattr(graph_encoder, "QUICK", {"epochs": 2, "epoch_size": 64, "warm_up": 1})
    record = graph_encoder.execute(Run("block", encoder, 0))
    assert (record["edges"] > 0) == (encoder == "graph")
    assert 0.4 < record["score"] <= 1


def test_the_graph_is_better_where_it_gains_more_than_a_deviation(results):
    scores = {("block", "mlp"): 0.7, ("block", "no edges"): 0.75, ("block", "graph"): 0.8}
    records = [
        {"dataset": name, "method": encoder, "seed": seed, "score": value + 0.01 * seed}
        | {"edges": 6, "cpu_seconds": 1.0}
        for (name, encoder), value in scores.items()
        for seed in range(2)
    ]
    graph_encoder.show(records[:-1], graph_encoder.PLANTED, Effort(seeds=2))
    page = (results / "graph_encoder.md").read_text()
    # The second seed of the graph is missing, so the first is compared alone.
    figures = ["6.0", *(f"{share:.2f}, one seed" for share in (70, 75, 80, 10, 5))]
    assert list(tables_of(results / "graph_encoder.md")[0].rows["block"]) == figures
    assert "graph encoder is better by more than a deviation on: block; worse on: none." in page
    assert "With edges it is better by more than a deviation on: block; worse on: none." in page


def test_candidates_of_a_crowd_are_ranked_without_gold(results, monkeypatch):
    monkeypatch.setattr(blind_crowds, "CANDIDATES", ("majority_vote",))
    monkeypatch.setattr(blind_crowds, "EPOCHS", 1)
    monkeypatch.setattr(blind_crowds, "dataset", lambda _: tiny("labelme"))
    first, second = (
        {"dataset": "labelme", "method": "majority_vote", "seed": 0, "options": {"lr": rate}}
        | {"cpu_seconds": 1.0}
        | blind_crowds.execute(Run("labelme", "majority_vote", 0, {"lr": rate}))
        for rate in blind_crowds.RATES
    )
    assert first["losses"].keys() >= {"majority_log", "held_out_voters_error"}
    first["losses"] = dict.fromkeys(first["losses"], 0.5)
    second["losses"] = dict.fromkeys(first["losses"], 0.4)
    first["accuracy"], second["accuracy"] = 0.6, 0.5
    blind_crowds.show([first, second], Effort(seeds=1))
    page = (results / "blind_crowds.md").read_text()
    assert "- labelme: **majority vote, lr 0.001**, test accuracy 50.00, one seed; the best" in page
    assert (
        "(majority vote, lr 0.0001) has 60.00, one seed, the mean of all 55.00, one seed." in page
    )
    assert "- music_genre: not all candidates have been run." in page
    assert np.array_equal(blind_crowds.mean_ranks([first, second]), [2.0, 1.0])
    blind_crowds.show([first], Effort(seeds=1))
    assert "**" not in (results / "blind_crowds.md").read_text()


def test_the_crowd_table_says_who_is_first_and_where_the_newest_methods_are(results, monkeypatch):
    monkeypatch.setattr(crowd_table, "RESULTS", results)
    figures = {
        "gold labels": (95, 96),
        "WeaSEL + MIG": (87, 90),
        "Max-MIG": (88, 89),
        "COINNet": (80, 81),
    }
    rows = [
        {"method": name, "accuracy": [test - 1, test + 1], "validation": [valid], "options": {}}
        | {"in_paper": name.endswith("MIG"), "best_on_test": [test], "paper": None}
        | {"tuning": [({}, valid)], "runs": 2, "cpu_seconds": 1.0}
        for name, (test, valid) in figures.items()
    ]
    crowd_table.write_markdown("labelme", rows, [])
    page = (results / "labelme.md").read_text()
    assert (
        "Of all 3 methods that learn from answers, **Max-MIG** is first on test with 88.00" in page
    )
    assert "; WeaSEL + MIG is 1.00 below. By validation one would take WeaSEL + MIG (87.00" in page
    assert "COINNet is number 3 (-8.00)." in page
