"""The study of tables that the default was not developed on."""

from pathlib import Path

import numpy as np
import pytest
from experiments.framework import runner
from experiments.framework.definitions import Effort
from experiments.framework.runner import Run, run_all
from experiments.tasks import methods, tables

FILE = """@relation circles
@attribute width real [0, 9]
@data
{}
9, 9, 9, 9, 9, 9, 9, 9, ?, far
1, 1, 1, 1, 1, 1, 1, 1, red, rare
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A table in KEEL's format: 900 rows, eight numbers and a color, two classes."""
    rng = np.random.default_rng(0)
    rows = [
        ", ".join([*(f"{x:.3f}" for x in rng.normal(k, size=8)), "red" if k else "blue", name])
        for k, name in ((1, "near"), (0, "far"))
        for _ in range(450)
    ]
    place = tmp_path / "circles.dat"
    place.write_text(FILE.format("\n".join(rows)))
    return place


def test_a_table_is_read_as_numbers_and_frequent_classes(file: Path):
    columns, gold = tables.read_table(file)
    assert columns.shape == (900, 10)  # eight numbers, and two colors
    assert np.bincount(gold).tolist() == [450, 450]  # far and near; neither "?" nor a rare class
    assert np.array_equal(columns[:, 8:], np.eye(2)[gold])  # blue and red


def test_tasks_of_a_table_are_trained_and_shown(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setattr("experiments.framework.tables.RESULTS", tmp_path)
    monkeypatch.setattr(tables, "_file_of", lambda _: file)
    monkeypatch.setitem(methods.UPDATES, "epoch_size", 64)
    spec = next(spec for spec in tables.specs_of("circles") if spec.is_binary)
    runs = [
        Run(spec.name, method, 0, {"spec": spec.fingerprint, "first": True})
        for method in tables.METHODS
    ]
    records = run_all(tables.STORE, runs, tables.execute)
    assert all(0 <= record["score"] <= 1 for record in records)
    tables.show(Effort(seeds=1, recorded=True))
    page = (tmp_path / "unseen_tables.md").read_text()
    assert "1 tasks of 27 tables" in page
    assert "| committee, linear features | first twelve" in page
