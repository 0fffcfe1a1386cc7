"""Kept runs: each keeps its own results, and damaged ones are left out."""

import json

import polars as pl
import pytest

from tiny_project import tiny_project
from wiesel import load_model
from wiesel.project import read_project, run_project
from wiesel.project.runs import keep_run, kept_runs, read_run

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
