import json

import pytest
from experiments.framework import runner
from experiments.framework.runner import Run, finished, run_all, run_groups


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    return tmp_path


class Recorder:
    """Executes groups by writing down their seeds."""

    def __init__(self, fail_at=None):
        self.groups, self.fail_at = [], fail_at

    def __call__(self, runs):
        if len(self.groups) == self.fail_at:
            raise KeyboardInterrupt
        self.groups.append([run.seed for run in runs])
        return [{"auc": run.seed / 10} for run in runs]


def group(method, *seeds):
    return [Run("tiny", method, seed) for seed in seeds]


def test_the_key_of_a_definition_never_changes():
    """Committed results are found by it."""
    assert Run("imdb_136", "gold", 0, {}).key == "caebb9484e12"
    options = {"encoding": "signed", "lr": 3e-05}
    assert Run("imdb_136", "weasel", 0, options).key == "edff60de237b"
    reordered = dict(reversed(options.items()))
    assert Run("imdb_136", "weasel", 0, reordered).key == "edff60de237b"
    assert Run("imdb_136", "weasel", 1, options).key != "edff60de237b"


def test_a_group_is_executed_together_and_gives_a_line_for_every_run(results):
    execute = Recorder()
    done = run_groups("tiny", [group("a", 0, 1), group("b", 0)], execute)
    assert execute.groups == [[0, 1], [0]]
    lines = [json.loads(line) for line in (results / "tiny.jsonl").read_text().splitlines()]
    assert [line["auc"] for line in lines] == [0.0, 0.1, 0.0]
    assert {line["key"] for line in lines} == done.keys() == finished("tiny").keys()
    for line in lines:
        assert line["trained_together"] == (2 if line["method"] == "a" else 1)
        assert {"dataset", "seed", "options", "cpu_seconds", "seconds", "versions"} <= line.keys()


def test_an_interrupted_study_goes_on_where_it_stopped():
    groups = [group("a", 0, 1), group("b", 0), group("c", 0)]
    with pytest.raises(KeyboardInterrupt):
        run_groups("tiny", groups, Recorder(fail_at=2))
    assert len(finished("tiny")) == 3
    later = Recorder()
    assert len(run_groups("tiny", groups, later)) == 4
    assert later.groups == [[0]]


def test_more_seeds_run_only_the_new_ones():
    run_groups("tiny", [group("a", 0, 1)], Recorder())
    later = Recorder()
    run_groups("tiny", [group("a", 0, 1, 2)], later)
    assert later.groups == [[2]]


def test_a_run_that_stands_in_two_groups_is_done_once():
    execute = Recorder()
    run_groups("tiny", [group("a", 0, 1), group("a", 1, 2)], execute)
    assert execute.groups == [[0, 1], [2]]


def test_runs_of_their_own_are_returned_in_order():
    runs = group("a", 2, 0, 1)
    records = run_all("tiny", runs, lambda run: {"auc": run.seed})
    assert [record["auc"] for record in records] == [2, 0, 1]
