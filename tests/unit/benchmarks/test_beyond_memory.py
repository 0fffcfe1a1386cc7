"""The benchmark of votes larger than memory goes on where it was."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import beyond_memory

from wiesel.datasets import make_votes
from wiesel.io import VoteParts, write_votes
from wiesel.votes import Statistics, VoteMatrix


def test_stages_that_are_done_are_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beyond_memory, "N_LFS", 6)
    command = ["--folder", str(tmp_path), "--files", "3"]
    monkeypatch.setattr(beyond_memory, "MODELS", ("triplet",))
    monkeypatch.setattr(
        beyond_memory, "STAGES", ("rows", "apply", "summarize", "fit triplet", "label triplet")
    )
    monkeypatch.setattr(beyond_memory, "N_PYTHON", 2)
    assert [lf.name for lf in beyond_memory.python_functions()] == ["python_0", "python_1"]
    ran: list[str] = []

    def killed_while_labeling(job: dict[str, Any], kill: bool) -> dict[str, Any]:
        ran.append(job["stage"])
        if job["stage"].startswith("label") and len(ran) < 6:
            raise KeyboardInterrupt
        return beyond_memory.measured({**job, "rows": 600})

    monkeypatch.setattr(beyond_memory, "done_stage", killed_while_labeling)
    with pytest.raises(KeyboardInterrupt):
        beyond_memory.main(command)
    beyond_memory.main(command)
    assert ran == [*beyond_memory.STAGES, "label triplet"]
    assert len(list((tmp_path / "labels-triplet").glob("*.parquet"))) == 3
    assert set(json.loads((tmp_path / "stages.json").read_text())) == set(beyond_memory.STAGES)
    assert "600 items" in capsys.readouterr().out


def test_what_is_finished_is_told_from_files_and_from_kept_sums(tmp_path: Path) -> None:
    votes, _ = make_votes(20, 3)
    for number in range(2):
        write_votes(votes[number * 10 : number * 10 + 10], tmp_path / f"part-{number}.parquet")
    VoteParts(tmp_path, keep=tmp_path / "sums").sum(n_items)
    assert set(beyond_memory.states(tmp_path)) == {"part-0.parquet", "part-1.parquet"}
    assert list(beyond_memory.states(tmp_path / "sums").values()) == [2]
    assert beyond_memory.states(tmp_path / "nothing") == {}


def n_items(part: VoteMatrix) -> Statistics:
    return (np.array([part.n_items]),)


def test_more_rows_take_as_long_as_the_largest_whole_run_says() -> None:
    whole = [
        {"stage": stage, "rows": 1_000_000, "files": 10, "cpu_seconds": 3.6}
        for stage in beyond_memory.STAGES
    ]
    partial = {"stage": "apply", "rows": 2_000_000, "files": 10, "cpu_seconds": 9_999.0}
    table = beyond_memory.sizes_table([partial, *whole])
    assert "| apply                    | 0.6 min         | 6.0 min          | 1.0 h" in table
    assert "| apply python             | 6.0 min         | 1.0 h            | 10.0 h" in table
    assert "| all but Python functions | 5.4 min         | 54.0 min         | 9.0 h" in table
