"""Making tasks from the real data, and comparing methods on them."""

import json

import numpy as np
import pytest
from experiments.framework import runner
from experiments.framework.definitions import Effort
from experiments.framework.runner import Run, run_all
from experiments.tasks import compare, page, parts
from experiments.tasks.make import FEW_GOLD, make_task
from experiments.tasks.methods import BASELINE, METHODS, Method
from experiments.tasks.specs import spec_named

from wiesel import MajorityVote, TwoStage

TINY = "music_genre-01"


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setattr("experiments.framework.tables.RESULTS", tmp_path)
    return tmp_path


def brief(net, task, training):
    shorter = {**training, "epochs": 1, "epoch_size": 64, "members": 1}
    return TwoStage(MajorityVote(), net, **shorter)


@pytest.fixture
def made(data_folder):
    return make_task(spec_named(TINY))


@pytest.mark.data
def test_the_same_spec_makes_the_same_task(made):
    again = make_task(spec_named(TINY))
    assert made.fingerprint == again.fingerprint
    assert made.fingerprint != make_task(spec_named("music_genre-02")).fingerprint


@pytest.mark.data
@pytest.mark.parametrize("name", [TINY, "hausa-01", "spambase-01", "labelme-01", "digits-02"])
def test_a_task_is_as_its_spec_says(name, data_folder):
    spec = spec_named(name)
    task = make_task(spec)
    assert len(task.labels) == spec.n_classes == len(np.unique(task.y_train))
    assert len(task.X_train) == len(task.votes) == len(task.y_train) <= spec.n_train
    assert len(task.X_valid) == len(task.valid_votes) == len(task.y_valid) >= FEW_GOLD
    assert len(task.y_test) >= 150
    assert task.votes.n_voters == spec.voters.n_voters
    assert task.X_train.dtype == np.float32
    np.testing.assert_allclose(task.X_train.mean(axis=0), 0, atol=1e-3)
    assert task.metric == ("auc" if spec.is_binary else "accuracy")


@pytest.mark.data
def test_a_few_gold_items_have_every_class(made):
    X, y, votes = made.gold(FEW_GOLD)
    assert len(X) == len(y) == len(votes) == FEW_GOLD
    assert set(y) == set(made.y_valid) == set(range(len(made.labels)))


@pytest.mark.data
def test_a_comparison_goes_on_where_it_stopped(results, made, monkeypatch, capsys):
    trained = []

    def quick(net, task, training):
        trained.append(task.name)
        return brief(net, task, training)

    monkeypatch.setitem(METHODS, "quick", Method(quick))
    monkeypatch.setitem(METHODS, BASELINE, Method(brief))
    monkeypatch.setattr(compare, "chosen_specs", lambda *_: [made.spec])
    compare.main(["--methods", "quick"])
    compare.main(["--methods", "quick"])
    assert trained == [TINY]
    lines = (results / "tasks_blind_choose.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["method"] for record in records] == [BASELINE, "quick"]
    assert records[0]["data"] == made.fingerprint
    assert 0 < records[1]["score"] < 1
    assert "| quick" in (results / "tasks.md").read_text()
    compare.main(["--methods", "quick", "--again"])
    assert trained == [TINY, TINY]


@pytest.mark.data
def test_a_method_that_fails_is_a_result(results, made, monkeypatch):
    def broken(net, task, training):
        raise ValueError("no two voters overlap")

    monkeypatch.setitem(METHODS, "broken", Method(broken))
    (run,) = compare.definitions([made.spec], ["broken"], "blind")
    (record,) = compare.execute([run])
    assert record["score"] is None
    assert record["error"] == "ValueError: no two voters overlap"


def test_an_unknown_method_is_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        compare.main(["--methods", "snorkl"])
    assert "snorkel" in capsys.readouterr().err


def test_a_limit_takes_the_first_tasks_of_all_bases():
    specs = compare.chosen_specs("choose", 9)
    assert len({spec.base for spec in specs}) == 9
    assert {spec.half for spec in specs} == {"choose"}


def record(task, method, score):
    return {"dataset": task, "method": method, "score": score, "fit_cpu_seconds": 1.0}


def test_gains_are_points_over_the_baseline_where_both_are_known():
    tasks = ("sms-01", "sms-02", "trec-01")
    scores = page.by_method(
        [record(task, BASELINE, score) for task, score in zip(tasks, (0.5, 0.6, 0.7), strict=True)]
        + [
            record("sms-01", "new", 0.53),
            record("sms-02", "new", None),
            record("trec-01", "new", 0.6),
        ]
    )
    assert page.gains(scores, "new") == pytest.approx({"sms-01": 3.0, "trec-01": -10.0})
    assert page.gains(scores, "new", "confirm") == pytest.approx({"trec-01": -10.0})
    text = "\n".join(page.section(scores))
    assert "trec-01 -10.0" in text
    assert "100 %" in text


def test_the_page_shows_tasks_that_still_exist_only(results):
    run = {"options": {"mode": "blind", "spec": "of an older draw"}}
    page.write_tasks_page([record("sms-01", BASELINE, 0.5) | run], "command")
    assert "Without any gold" not in (results / "tasks.md").read_text()


@pytest.mark.data
def test_the_parts_of_the_committee_are_scored_on_a_task(results, made, monkeypatch):
    monkeypatch.setattr(parts, "task_named", lambda _: made)
    monkeypatch.setitem(parts.UPDATES, "epoch_size", 128)
    run = Run(made.spec.name, "committee", 0, {"spec": made.spec.fingerprint})
    (record,) = run_all(parts.STORE, [run], parts.execute)
    assert set(record["scores"]) <= set(parts.VARIANTS)
    assert "without majority_vote" in record["scores"]
    parts.show([record], Effort(seeds=1))
    page_text = (results / "committee_parts.md").read_text()
    assert "| without majority_vote" in page_text
    assert "on 1 generated tasks" in page_text
