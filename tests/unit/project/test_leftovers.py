"""What killed runs leave behind, and what is nobody's to remove."""

import os
import subprocess
import sys

import pytest

from wiesel.project import read_project, run_project
from wiesel.project.outputs import remove_leftovers
from wiesel.unfinished import owner_mark

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")


@pytest.fixture
def gone() -> str:
    """The mark of a process that has ended."""
    code = "from wiesel.unfinished import owner_mark; print(owner_mark())"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def made(folder, name: str, age: float = 0.0):
    """A folder with a file for names of models, else a file."""
    entry = folder / name
    entry.parent.mkdir(parents=True, exist_ok=True)
    if "model-" in name or name == "model":
        entry.mkdir()
        (entry / "weights.safetensors").write_bytes(b"half")
    else:
        entry.write_bytes(b"half")
    then = entry.stat().st_mtime - age
    os.utime(entry, (then, then))
    return entry


def test_what_a_process_that_is_gone_was_writing_is_removed(tmp_path, gone):
    left = [
        made(tmp_path, f".metrics.json.{gone}.0.unfinished"),
        made(tmp_path, f".cache/models/.model-0-ab.{gone}.3.unfinished"),
        made(tmp_path, f".cache/features-ab/.train..npy.{gone}.1.unfinished"),
        made(tmp_path, f".cache/models/.weasel-0-ab.checkpoint.{gone}.1.unfinished"),
        made(tmp_path, ".cache/models/weasel-0-old.checkpoint", age=2 * 24 * 3600),
        made(tmp_path, ".cache/models/weasel-0-done.checkpoint"),
        made(tmp_path, ".cache/models/weasel-0-done.checkpoint.2"),
    ]
    made(tmp_path, ".cache/models/weasel-0-done.json")
    assert sorted(remove_leftovers(tmp_path)) == sorted(left)
    assert not [entry for entry in left if entry.exists()]


def test_what_may_still_be_written_or_is_not_ours_stays(tmp_path, gone):
    kept = [
        made(tmp_path, f".metrics.json.{owner_mark()}.0.unfinished"),
        made(tmp_path, f".metrics.json.{10**30}.unfinished"),
        made(tmp_path, ".cache/models/weasel-0-going-on.checkpoint", age=3600),
        made(tmp_path, ".gitignore", age=10**6),
        made(tmp_path, "model", age=10**6),
        made(tmp_path, f"notes.{gone}.unfinished", age=10**6),
        made(tmp_path, f"below/.metrics.json.{gone}.unfinished"),
    ]
    link = tmp_path / f".link.{gone}.unfinished"
    link.symlink_to(tmp_path / "model")
    assert remove_leftovers(tmp_path) == []
    assert all(entry.exists() for entry in [*kept, link])


def test_the_next_run_cleans_up_and_says_so(tiny, gone):
    left = made(tiny / "out", f".cache/models/.model-0-ab.{gone}.unfinished")
    said: list[str] = []
    run_project(read_project(tiny), say=lambda stage, text: said.append(f"{stage}: {text}"))
    assert "cleaned: 1 half-written files of runs that were killed" in said
    assert not left.exists()
