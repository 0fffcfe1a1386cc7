"""Kept runs: each keeps its own results, and damaged ones are left out."""

import json

import polars as pl
import pytest

from tiny_project import tiny_project
from wiesel import load_model
from wiesel.project import read_project, run_project
from wiesel.project.runs import KeptRun, effort_curves, keep_run, kept_runs, read_run

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Two runs of one project; the output folder holds the results of the second."""
    project = read_project(tiny_project(tmp_path_factory.mktemp("kept")))
    return project, run_project(project), run_project(project, ["dawid_skene"])


def test_a_run_keeps_its_own_results_when_another_has_written_since(outcomes):
    project, first, second = outcomes
    kept = keep_run(first, "first")
    assert kept.metrics["method"] == "majority_vote"
    assert load_model(kept.folder / "model").label_model_.__class__.__name__ == "MajorityVote"
    proba = kept.predictions().filter(pl.col("split") == "test").select(pl.col("^p: .*$"))
    assert (proba.to_numpy() == first.proba["test"]).all()
    assert keep_run(second, "second").metrics["method"] == "dawid_skene"
    assert read_run(project, "first").metrics["method"] == "majority_vote"


@pytest.mark.parametrize(
    "content",
    ["[]", "7", "null", '"text"', "{}", '{"time": "now"}', "[" * 100_000, "\x00", '{"rows": 3}'],
    ids=range(9),
)
def test_a_damaged_note_of_a_run_hides_only_that_run(outcomes, content):
    project, first, _ = outcomes
    keep_run(first, "whole")
    folder = project.output_folder / "runs" / "damaged"
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(content)
    assert "damaged" not in [run.name for run in kept_runs(project)]
    assert "whole" in [run.name for run in kept_runs(project)]
    broken = {**first_note(project), "rows": {"accuracy": 1}}
    (folder / "run.json").write_text(json.dumps(broken))
    assert "damaged" not in [run.name for run in kept_runs(project)]


def first_note(project):
    return json.loads((project.output_folder / "runs" / "whole" / "run.json").read_text())


def test_what_labels_bought_is_drawn_from_the_runs_that_are_kept(tmp_path):
    def run(name, n_labels, accuracy, split="test"):
        folder = tmp_path / name
        folder.mkdir()
        references = [
            {"method": "always 'ham'", "accuracy": 0.5},
            {"method": "committee without labels", "accuracy": 0.7},
            {"method": "labels alone: logistic", "accuracy": accuracy - 0.1},
        ]
        found = {"methods": [{"method": "committee", "accuracy": accuracy}], "judged_on": split}
        found |= {"labels": n_labels, "references": references if n_labels else []}
        (folder / "metrics.json").write_text(json.dumps(found))
        return KeptRun(name, folder)

    (tmp_path / "broken").mkdir()
    newest_first = [
        run("d", 50, 0.9),
        run("c", 20, 0.8),
        run("b", 20, 0.75),
        run("a", 90, 0.99, split="dev"),
        KeptRun("broken", tmp_path / "broken"),
    ]
    assert effort_curves(newest_first, "test") == {
        "votes and labels": [(0, 0.7), (20, 0.8), (50, 0.9)],
        "labels alone: logistic": [(20, pytest.approx(0.7)), (50, pytest.approx(0.8))],
    }
