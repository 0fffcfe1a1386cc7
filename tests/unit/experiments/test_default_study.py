import numpy as np
import pytest
from experiments.framework.runner import Run
from experiments.studies import default

from wiesel import Supervised


def record(score):
    return {"score": score, "n_test": 1000, "cpu_seconds": 1}


@pytest.fixture
def finished(monkeypatch):
    """Every run of the first mode: gold has 90, the others have 80."""
    done = {
        run.key: record(0.9 if run.method == default.GOLD else 0.8)
        for run in default.definitions("blind", 1)
    }
    monkeypatch.setattr(default, "finished", lambda _: done)
    return done


def test_gold_is_trained_where_training_rows_have_gold_labels():
    sets = [run.dataset for run in default.definitions("blind", 1) if run.method == default.GOLD]
    assert sets == list(default.GOLD_SETS)
    assert set(default.SETS) - set(sets) == {"spouse"}


def test_gold_is_the_same_network_trained_on_labels(monkeypatch):
    monkeypatch.setattr(default, "paper_network", lambda *_: "network")
    dataset = type("Data", (), {"labels": ["no", "yes"]})
    model = default.build(Run("sms", default.GOLD, 0, {"mode": "blind"}), dataset)
    assert isinstance(model, Supervised)
    assert (model.end_model, model.members, model.epochs) == ("network", 5, None)


def test_means_of_the_quoted_table_leave_out_the_sets_without_gold(finished):
    spouse = Run("spouse", default.BASELINE, 0, {"mode": "blind"})
    finished[spouse.key] = record(0.0)  # would pull the mean of majority vote down
    rows = [[cell.strip() for cell in line.split("|")] for line in default.quoted().splitlines()]
    means = {row[1]: row[-3] for row in rows[2:]}
    assert means["majority vote"] == "80.00"
    assert means[default.QUOTED_NAMES[default.GOLD]] == "90.00"


def test_a_dash_stands_where_gold_has_no_figure(finished):
    found = default.by_method(default.definitions("blind", 1))
    lines = default.table(found)
    gold = lines[0].split("|").index(next(c for c in lines[0].split("|") if c.strip() == "gold"))
    cells = {line.split("|")[1].strip(" *"): line.split("|")[gold].strip() for line in lines[2:]}
    assert cells["spouse"] == cells["mean"] == "-"
    assert float(cells["mean of 15"]) == pytest.approx(90)
    assert np.isfinite(float(cells["sms"]))
