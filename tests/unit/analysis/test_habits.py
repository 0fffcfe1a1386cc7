"""Pace, drift and groups of workers, on answers whose facts are planted."""

import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from wiesel import aggregate
from wiesel.analysis.workers import _drift, worker_groups, worker_pace
from wiesel.cli.main import app
from wiesel.errors import DataError
from wiesel.report.crowd import crowd_html

NAMES = ("cat", "dog", "bird")


@pytest.fixture(scope="module")
def answers() -> pl.DataFrame:
    """Six good workers, two who swap cat and dog, one who clicks, and one who gets tired."""
    rng = np.random.default_rng(0)
    workers = [*(f"good {k}" for k in range(6)), "swap 1", "swap 2", "clicker", "tired"]
    rows = []
    for item in range(240):
        gold = int(rng.integers(0, 3))
        for worker in rng.permutation(workers)[:6].tolist():
            said = gold if rng.random() < 0.9 else int(rng.integers(0, 3))
            said = (1, 0, 2)[said] if worker.startswith("swap") else said
            lazy = worker == "clicker" or (worker == "tired" and item > 120)
            said = int(rng.integers(0, 3)) if lazy else said
            took = float(rng.lognormal(2.5, 0.3)) * (0.1 if worker == "clicker" else 1)
            time = f"2026-11-{1 + item // 24:02d}T{item % 24:02d}:00:00"
            rows.append((f"t{item}", worker, NAMES[said], took, time))
    schema = ["task", "worker", "label", "WorkTimeInSeconds", "created_at"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_fast_clickers_and_drifts_are_named(answers):
    found = aggregate(answers)
    table = found.workers
    assert table.filter(pl.col("pace") < 1 / 3)["worker"].to_list() == ["clicker"]
    assert table.filter(pl.col("drift") == "worse")["worker"].to_list() == ["tired"]
    assert (table["drift"] == "better").sum() == 0
    notes = " ".join(found.notes())
    assert "1 worker answers in less than a third of the time that others take: 'clicker'" in notes
    assert "worse in the second half of their answers: 'tired'" in notes
    tired = table.row(by_predicate=pl.col("worker") == "tired", named=True)
    assert tired["early"] > 0.75 > 0.5 > tired["late"]


def test_without_times_nothing_is_told_of_them(answers):
    plain = aggregate(answers.select("task", "worker", "label"))
    assert not {"pace", "drift"} & set(plain.workers.columns)
    # The order of rows is no time.
    timed = aggregate(answers.drop("created_at"))
    assert "drift" not in timed.workers.columns
    with pytest.raises(DataError, match="'worker' holds no times"):
        aggregate(answers, time="worker", item="task", label="label")


def test_pace_and_drift_by_hand():
    rows = [
        {"item": k, "worker": who, "right": right, "seconds": took, "when": float(k)}
        for k in range(20)
        for who, right, took in (("a", 0.9, 10.0), ("b", float(k < 10), 2.0), ("c", 0.9, 10.0))
    ]
    found = worker_pace(pl.DataFrame(rows)).sort("worker")
    assert found["pace"].to_list() == [1.0, 0.2, 1.0]
    assert found["early"].to_list()[1:] == [1.0, pytest.approx(0.9)]
    assert found["late"].to_list()[1] == 0.0
    assert found["drift"].to_list() == [None, "worse", None]
    few = worker_pace(pl.DataFrame(rows[:27]))  # nine answers each
    assert few["pace"].null_count() == few["drift"].null_count() == 3


def test_workers_who_answer_alike_are_one_group(answers):
    groups = aggregate(answers).groups
    members = [set(workers) for workers in groups["workers"]]
    good = {f"good {k}" for k in range(6)}
    assert good <= members[0] <= good | {"tired"}
    assert {"clicker"} in members
    assert {"swap 1", "swap 2"} in members
    swapping = groups.row(members.index({"swap 1", "swap 2"}), named=True)
    labels = aggregate(answers).votes.labels
    mistake = {labels.names[swapping[name]] for name in ("true", "answered")}
    assert mistake == {"cat", "dog"}
    assert swapping["share"] > 0.7
    assert worker_groups(np.zeros((3, 2, 2)), ["a", "b", "c"]).is_empty()


def test_a_report_without_names_names_nobody(answers, tmp_path):
    found = aggregate(answers)
    page = crowd_html(found.anonymous())
    for name in found.votes.voters:
        assert name not in page
        assert name in crowd_html(found)
    assert found.anonymous().labels.equals(found.labels)
    first = found.anonymous().workers.drop("worker", "copy_of")
    assert first.equals(found.workers.drop("worker", "copy_of"))
    assert first.equals(found.anonymous().workers.drop("worker", "copy_of"))
    for word in ("Workers who answer alike", "Single workers", "hardly reads", "Drift"):
        assert word in page
    file = tmp_path / "answers.csv"
    answers.write_csv(file)
    words = ["aggregate", str(file), "--anonymous", "--html", str(tmp_path / "crowd.html")]
    words += ["--workers", str(tmp_path / "workers.csv")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    written = done.output + "".join(each.read_text() for each in tmp_path.glob("[cw]*.*"))
    assert not re.search("swap 1|clicker|tired|good 3", written)
    assert "worker 10" in written


def test_the_report_of_ratings_has_contested_items():
    rows = [
        {"task": f"t{k}", "worker": f"w{w}", "stars": 1 + (k + (w == 0 and k < 3)) % 5}
        for k in range(20)
        for w in range(4)
    ]
    page = crowd_html(aggregate(rows, label="stars", ordered=True))
    assert "far from it" in page


def test_among_many_workers_a_drift_is_not_found_by_chance():
    # Forty workers without a drift: at 1 % for all together, a table with a drift is rare.
    rng = np.random.default_rng(0)
    worker = np.repeat([f"w{k}" for k in range(40)], 60)
    frame = pl.DataFrame({"worker": worker, "right": (rng.random(2400) < 0.7).astype(float)})
    assert _drift(frame)["drift"].null_count() == 40
    tired = frame.with_columns(
        right=pl.when((pl.col("worker") == "w3") & (pl.int_range(pl.len()) >= 210))
        .then(0.0)
        .otherwise("right")
    )
    found = _drift(tired).filter(pl.col("drift").is_not_null())
    assert found["worker"].to_list() == ["w3"]


@pytest.mark.parametrize(("late", "drift"), [(12, None), (11, "worse")])
def test_a_drift_of_one_worker_lies_beyond_the_two_sided_bound(late, drift):
    """18 of 20 right, then 12 or 11: z is 2.28 or 2.63, and 2.576 is the bound of one percent."""
    right = [1.0] * 18 + [0.0] * 2 + [1.0] * late + [0.0] * (20 - late)
    assert _drift(pl.DataFrame({"worker": ["ann"] * 40, "right": right}))["drift"].to_list() == [
        drift
    ]
