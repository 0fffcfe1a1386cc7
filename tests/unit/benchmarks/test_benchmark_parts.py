import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import harness, worker
from benchmarks.__main__ import discovered
from benchmarks.harness import markdown_table, merge_results, read_results, run_job
from benchmarks.label_models import Bar, _stage, results_table
from benchmarks.parity import as_good
from benchmarks.scaling import _exponent
from benchmarks.suite_cost import by_place
from benchmarks.vote_files import Planted, load_votes, save_votes

from wiesel.datasets.synthetic import make_votes


@pytest.fixture
def folder(tmp_path, votes):
    save_votes(tmp_path, votes, np.array([0, 0, 1, -1]))
    return tmp_path


def measured(fit, predict, memory, **more):
    return {
        "fit_seconds": fit,
        "predict_seconds": predict,
        "fit_mb": memory,
        "predict_mb": memory,
        "n_iter": 10,
        "total_mb": 500,
        "label_accuracy": 0.9,
        "package": "wiesel",
        **more,
    }


def test_benchmarks_are_found_by_their_main_and_described_by_their_first_line():
    found = discovered()
    assert {"label_models", "parity", "scaling"} <= set(found)
    assert all(found.values())
    assert "harness" not in found


def test_stored_votes_are_the_votes_that_were_saved(folder, votes):
    stored = load_votes(folder)
    assert (stored.dense() == votes.dense()).all()
    assert (stored.item == votes.item_index).all()
    assert (stored.n_items, stored.n_voters, stored.n_classes) == (4, 3, 2)


def test_a_job_measures_time_memory_and_the_labels_that_are_right(folder):
    job = {"package": "wiesel", "method": "majority_vote", "votes": str(folder)}
    result = worker.run_job(job)
    # Items 0 and 2 are right, item 1 is a tie that counts half, item 3 has no known label.
    assert result["label_accuracy"] == pytest.approx(2.5 / 3)
    assert result["fit_seconds"] >= 0
    assert result["total_mb"] > 10


def test_a_large_allocation_shows_as_extra_memory():
    # In a process of its own: what other tests leave behind may be freed in the meantime.
    code = "import numpy as np; from benchmarks.worker import _measured; "
    code += "print(_measured(lambda: np.ones(20_000_000))[2])"
    home = Path(harness.__file__).parents[1]
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=home
    )
    assert float(found.stdout) == pytest.approx(160, rel=0.2)


@pytest.mark.slow
def test_a_job_runs_in_a_process_of_its_own(folder):
    job = {"package": "wiesel", "method": "majority_vote", "votes": str(folder)}
    result = run_job(job, repeats=2)
    assert result["repeats"] == 2
    assert result["label_accuracy"] == pytest.approx(2.5 / 3)


@pytest.mark.slow
def test_a_job_that_fails_says_why(tmp_path):
    job = {"package": "wiesel", "method": "majority_vote", "votes": str(tmp_path)}
    with pytest.raises(RuntimeError, match=r"sizes\.json"):
        run_job(job)


def test_bars_compare_seconds_and_memory_with_the_peer():
    ours, theirs = measured(1.0, 0.5, 20), measured(12.0, 1.0, 180)
    entry = _stage(Bar("fit", faster=10, leaner=10), ours, theirs)
    assert entry["faster"] == 12
    assert entry["leaner"] == 9
    assert entry["met"] is False
    assert _stage(Bar("fit", faster=10), ours, theirs)["met"] is True
    assert _stage(Bar("predict", seconds=0.1), ours, theirs)["met"] is False
    assert _stage(Bar("one step", faster=11.9), ours, theirs)["met"] is True


def test_crowd_kit_is_not_charged_for_reordering_its_answers():
    theirs = measured(12.0, 5.0, 1, package="crowdkit")
    entry = _stage(Bar("fit and predict"), measured(1.0, 0.5, 1), theirs)
    assert entry["peer_seconds"] == 12.0
    assert entry["seconds"] == 1.5


def test_missed_bars_are_plain_to_see_in_the_table():
    ours, theirs = measured(1.0, 0.5, 20), measured(2.0, 1.0, 180)
    row = {"case": "x", "ours": ours, "peer": theirs}
    row["stages"] = [_stage(Bar("fit", faster=10), ours, theirs)]
    assert "10x: MISSED" in results_table([row])


def test_results_keep_rows_that_were_not_measured_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    merge_results("speed", [{"case": "a", "value": 1}, {"case": "b", "value": 2}])
    merge_results("speed", [{"case": "b", "value": 3}])
    assert read_results("speed") == [{"case": "a", "value": 1}, {"case": "b", "value": 3}]
    assert json.loads((tmp_path / "speed.json").read_text())


def test_markdown_columns_line_up():
    lines = markdown_table(("case", "s"), [("a", "1.5"), ("longer", "2")]).splitlines()
    assert lines == [
        "| case   | s   |",
        "|--------|-----|",
        "| a      | 1.5 |",
        "| longer | 2   |",
    ]


def test_titles_read_well():
    assert Planted(1_000_000, 100).title == "1M x 100 at 10-50 %"
    assert Planted(2500, 50, 10, (0.03, 0.03)).title == "2.5k x 50 at 3 %, 10 classes"


def test_coverages_differ_from_the_order_of_the_accuracies():
    rates = Planted(10, 50).coverages
    assert sorted(rates) == pytest.approx(np.linspace(0.1, 0.5, 50))
    assert abs(np.corrcoef(rates, np.arange(50))[0, 1]) < 0.5


def test_as_good_means_labels_and_accuracies_within_half_a_point():
    def row(labels, error):
        return {
            "ours": {"label_accuracy": labels, "accuracy_error": error},
            "peer": {"label_accuracy": 0.90, "accuracy_error": 0.02},
        }

    assert as_good(row(0.896, 0.024))
    assert not as_good(row(0.89, 0.02))
    assert not as_good(row(0.90, 0.03))
    assert as_good(row(0.90, None))


def test_the_exponent_of_linear_growth_is_one():
    points = [{"at": 10, "seconds": 0.5}, {"at": 1000, "seconds": 50}]
    assert _exponent(points) == pytest.approx(1)


def test_planted_truth_is_what_parity_compares_with():
    votes, gold = make_votes(20_000, 4, coverage=Planted(1, 4).coverages)
    right = votes.class_index == gold[votes.item_index]
    shares = np.bincount(votes.voter_index, right) / np.bincount(votes.voter_index)
    assert shares == pytest.approx(np.linspace(0.6, 0.9, 4), abs=0.03)


def test_costs_of_tests_are_added_up_by_folder_file_and_test():
    costs = {
        "tests/unit/a.py::one[x]": (1.0, 0.5),
        "tests/unit/a.py::one[y]": (2.0, 0.0),
        "tests/unit/b.py::two": (4.0, 8.0),
    }
    found = by_place(costs)
    assert found["folders"] == {"tests/unit": (7.0, 8.5)}
    assert found["files"] == {"tests/unit/a.py": (3.0, 0.5), "tests/unit/b.py": (4.0, 8.0)}
    assert found["tests"] == {
        "tests/unit/a.py::one": (3.0, 0.5),
        "tests/unit/b.py::two": (4.0, 8.0),
    }


def test_the_cost_of_a_test_contains_that_of_its_processes(tmp_path):
    file = tmp_path / "test_here.py"
    file.write_text(
        "import subprocess, sys\n"
        "def test_one():\n"
        "    subprocess.run([sys.executable, '-c', 'sum(range(3_000_000))'], check=True)\n"
        "def test_two():\n"
        "    pass\n"
    )
    plain = ["-q", "--rootdir", tmp_path, "-c", "/dev/null", "-p", "no:cacheprovider", "-n", "1"]
    command = [sys.executable, "-m", "pytest", *plain, "-p", "benchmarks.suite_cost", file]
    root = Path(harness.__file__).parents[1]
    # Both processes of pytest would load every plug-in that is installed.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    done = subprocess.run(command, cwd=root, env=alone, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines() if "::" in line]
    costs = {line[-1].partition("::")[2]: float(line[-2]) for line in lines}
    assert costs.keys() == {"test_one", "test_two"}
    assert costs["test_one"] > costs["test_two"] == 0
