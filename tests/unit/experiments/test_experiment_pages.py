import itertools
import sys

import numpy as np
import pytest
from experiments import __main__ as program
from experiments.framework import definitions, figures, runner, tables
from experiments.framework.definitions import Effort
from experiments.studies import (
    ablation,
    adversarial,
    better_features,
    duplicates,
    independent,
    random_voters,
    table1,
)
from experiments.studies.datasets import majority_accuracy, vote_accuracy

from wiesel import LabelSpace, VoteMatrix
from wiesel.io import Split

EFFORT = Effort(seeds=2)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    for module in (tables, figures):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    return tmp_path


def records(f1):
    """Two seeds, a point above and a point below."""
    return [
        {"f1": (f1 + d) / 100, "auc": (f1 + 5 + d) / 100, "validation": 0.9, "curve": [0.5, 0.9]}
        for d in (-1, 1)
    ]


def line_of(page, title):
    return next(line for line in page.splitlines() if line.startswith(f"| {title} "))


def test_table_1_shows_ours_beside_the_papers_and_a_dash_where_it_is_unknown(results):
    found = {name: {row.title: records(70) for row in table1.ROWS} for name in table1.SETS}
    del found["spouse"]["gold"]
    found["imdb_136"]["Snorkel"] = records(72)
    for record in found["imdb_136"]["WeaSEL"]:
        record["diagnosis"] = {"voting_share": 0.015}
    table1.show(found, EFFORT)
    page = (results / "table1.md").read_text()
    assert "python -m experiments table1 --seeds 2" in page
    assert "| 70.00 ± 1.00 (82.10) " in line_of(page, "WeaSEL")
    assert "| 72.00 ± 1.00 (82.22) " in line_of(page, "Snorkel")
    assert line_of(page, "Triplet-Median").split("|")[3].strip() == "70.00 ± 1.00 (-)"
    assert line_of(page, "gold").split("|")[2].strip() == "- (-)"
    heard = line_of(page.partition("## The share of the weight")[2], "WeaSEL").split("|")
    assert [cell.strip() for cell in heard[2:4]] == ["-", "1.50 ± 0.00"]
    assert "imdb_136: 2.00 behind Snorkel." in page
    assert "Mean F1 over 4 sets: Snorkel 70.50" in page


def test_the_lead_of_weasel_is_told_for_every_hint(results):
    def cell(name, hint, title):
        f1 = 60 if title != "WeaSEL" else 61 if hint is None else 63
        keys = {"key": f"{name} {hint} {title}", "cpu_seconds": 30}
        return [record | keys for record in records(f1)]

    cells = itertools.product(better_features.SETS, better_features.HINTS, better_features.TITLES)
    found = {key: cell(*key) for key in cells}
    found["imdb_12", None, "majority vote"] = records(62)
    found["imdb_12", 1.8, "Snorkel"] = []
    better_features.show(found, EFFORT)
    page = (results / "better_features.md").read_text()
    leads = [line.rstrip(" |").split("| ")[-1] for line in page.splitlines() if "imdb_12" in line]
    assert leads[:3] == ["-1.00 (majority vote)", "-", "+3.00 (Snorkel)"]
    # Two hints on three sets, six rows, of which one was not run.
    assert "35 runs are behind this table; they took 17.5 CPU minutes." in page


def test_a_table_can_be_written_before_all_runs_are_finished(results):
    found = {name: {row.title: [] for row in table1.ROWS} for name in table1.SETS}
    found["amazon_175"] = {row.title: records(70) for row in table1.ROWS}
    table1.show(found, EFFORT)
    page = (results / "table1.md").read_text()
    assert line_of(page, "WeaSEL").split("|")[3].strip() == "- (82.10)"
    assert "spouse: not all methods have been run" in page
    assert "Mean F1 over 1 sets" in page


@pytest.mark.parametrize(
    ("scores", "place"),
    [
        ({"WeaSEL": [80.0, 82.0], "Snorkel": [79.0]}, "first"),
        ({"WeaSEL": [80.0, 82.0], "Snorkel": [81.5]}, "0.50 behind Snorkel, within one deviation"),
        ({"WeaSEL": [80.0, 82.0], "Snorkel": [84.0]}, "3.00 behind Snorkel"),
    ],
)
def test_the_place_of_weasel_counts_deviations(scores, place):
    arrays = {title: np.array(values) for title, values in scores.items()}
    assert table1.place_of_weasel(arrays) == place


def test_the_ablation_page_has_a_line_for_every_change(results):
    found = {name: {row.title: records(75) for row in ablation.ROWS} for name in ablation.COLUMNS}
    ablation.show(found, EFFORT)
    page = (results / "ablation.md").read_text()
    assert "75.00 ± 1.00 (78.70)" in line_of(page, "mutual information")
    assert page.count("\n| tanh ") == 2


def test_a_study_with_coins_writes_a_table_and_learning_curves(results):
    places = duplicates.STUDY.definitions(EFFORT)
    found = {place: records(85) for place in places}
    duplicates.STUDY.write(found, records(86), EFFORT)
    duplicates.STUDY.draw(found, records(86))
    page = (results / "duplicates.md").read_text()
    assert "trained on the truth: 91.00 ± 1.00" in page
    assert "1.00 at 2,000" in page
    assert line_of(page, "sigmoid").split("|")[2].strip() == "-"  # not run at 2 copies
    assert (results / "duplicates.png").stat().st_size > 1000
    assert len(random_voters.METHODS) == 7


def test_the_adversarial_page_says_how_far_each_method_falls(results):
    counts = adversarial.counts_of(EFFORT)
    found = {
        (row.title, count): records(75 - count * (row.title == "Snorkel"))
        for row in adversarial.METHODS
        for count in counts
    }
    adversarial.write(found, counts, EFFORT)
    adversarial.draw(found, counts)
    page = (results / "adversarial.md").read_text()
    assert line_of(page, "Snorkel").split("|")[-2].strip() == "-10.00"
    assert line_of(page, "WeaSEL").split("|")[-2].strip() == "+0.00"
    assert (results / "adversarial.png").exists()


def test_accuracies_in_the_table_of_data_sets_are_of_votes_and_of_majorities():
    import polars as pl

    # Votes: three right of four. Majorities: item 0 right, item 1 a tie, item 2 is not covered.
    votes = VoteMatrix.from_dense([[0, 0], [1, 0], [-1, -1]], LabelSpace("no", "yes"))
    split = Split(pl.DataFrame({"id": ["a", "b", "c"]}), np.array([0, 1, 1]), votes)
    assert vote_accuracy(split) == 0.75
    assert majority_accuracy(split) == 0.75


def test_the_program_lists_what_there_is_and_refuses_what_there_is_not(monkeypatch, capsys):
    monkeypatch.setenv("WIESEL_DATA", "somewhere")
    assert program.main([]) == 2
    assert "no experiment is named" in capsys.readouterr().out
    assert program.main(["tabel1"]) == 2
    assert "there is no 'tabel1'" in capsys.readouterr().out
    monkeypatch.delenv("WIESEL_DATA")
    assert program.main(["table1"]) == 2
    assert "WIESEL_DATA is not set" in capsys.readouterr().out


def test_the_program_hands_the_options_to_every_experiment_named(monkeypatch):
    monkeypatch.setenv("WIESEL_DATA", "somewhere")
    calls = []
    for module in (table1, adversarial):
        monkeypatch.setattr(module, "main", lambda options: calls.append(options))
        # A test of the command line may have imported another folder of experiments meanwhile.
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert program.main(["table1", "adversarial", "--seeds", "2"]) == 0
    assert calls == [["--seeds", "2"], ["--seeds", "2"]]


@pytest.mark.parametrize("study", [table1, ablation, adversarial, duplicates, independent])
def test_a_study_runs_what_is_missing_and_then_writes_its_page(study, results, monkeypatch):
    groups = []

    def train(runs):
        groups.append(runs)
        return [records(70)[run.seed] for run in runs]

    monkeypatch.setattr(runner, "RESULTS", results)
    monkeypatch.setattr(definitions, "train_and_test", train)
    study.main(["--seeds", "2"])
    name = study.__name__.rpartition(".")[2]
    page = (results / f"{name}.md").read_text()
    assert "75.00 ± 1.00" in page or "70.00 ± 1.00" in page
    assert any(len(runs) > 1 for runs in groups)
    n_groups = len(groups)
    study.main(["--seeds", "2"])
    assert (results / f"{name}.md").read_text() == page
    study.main(["--seeds", "3", "--recorded"])
    assert "Only finished runs are shown" in (results / f"{name}.md").read_text()
    assert len(groups) == n_groups
