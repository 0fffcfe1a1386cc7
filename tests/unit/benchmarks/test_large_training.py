"""The benchmark of training beyond memory trains on what it wrote."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks import large_training


@pytest.mark.slow
def test_a_file_of_features_is_written_once_and_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_training, "BLOCK", 400)
    monkeypatch.setattr(large_training, "N_FEATURES", 30)
    file = tmp_path / "features.npy"
    job = {"file": str(file), "rows": 1_000, "fit": None}
    large_training.measured(job)
    written = file.stat().st_mtime_ns
    large_training.measured(job)
    assert file.stat().st_mtime_ns == written
    assert np.load(file, mmap_mode="r").shape == (1_000, 30)
    took = large_training.measured({**job, "fit": next(iter(large_training.EPOCHS))})
    assert took["accuracy"] > 0.7
    assert 0 < took["own_mb"] <= took["total_mb"] * 1.01


def test_the_table_says_whether_the_bar_is_met() -> None:
    row = {"rows": 10, "fit": "short", "cpu_seconds": 1.0, "own_mb": 900, "accuracy": 0.9}
    table = large_training.results_table([{**row, "total_mb": 2_999}, {**row, "total_mb": 3_001}])
    assert [line.split("|")[-3].strip() for line in table.splitlines()[2:]] == ["met", "missed"]
