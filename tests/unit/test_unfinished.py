"""Whose half-written files they are, and which nobody owns any more."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wiesel.io.exchange import Exchange
from wiesel.saving import write_file, write_folder
from wiesel.unfinished import is_abandoned, owner_mark, remove_abandoned, unfinished_path

WAITING = """
import sys, time
from pathlib import Path
from wiesel.unfinished import unfinished_path
unfinished_path(Path(sys.argv[1])).write_bytes(b"half")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def writer(tmp_path: Path):
    """A process that has written half of `model` and waits."""
    command = [sys.executable, "-c", WAITING, str(tmp_path / "model")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_what_a_living_process_writes_stays_and_what_a_killed_one_wrote_goes(tmp_path, writer):
    assert remove_abandoned(tmp_path) == []
    os.kill(writer.pid, signal.SIGKILL)
    # Not waited for, it is still in the table of processes, but writes nothing any more.
    while "Z" not in Path(f"/proc/{writer.pid}/stat").read_text().rpartition(")")[2][:3]:
        time.sleep(0.01)
    assert len(remove_abandoned(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("save", [write_file, lambda path, _: write_folder(path, {}, {})])
def test_the_next_save_removes_what_a_killed_one_left(tmp_path, writer, save):
    writer.kill()
    writer.wait()
    save(tmp_path / "other", b"whole")
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]


def test_another_process_with_the_same_number_is_another_process():
    mark = owner_mark()
    pid, started, place = mark.split("-")
    assert not is_abandoned(f".model.{mark}.0.unfinished", 0)
    assert is_abandoned(f".model.{pid}-{int(started) - 1}-{place}.0.unfinished", time.time())


def test_what_comes_from_another_machine_is_left_alone_for_a_day():
    pid, started, _ = owner_mark().split("-")
    name = f".model.{pid}-{started}-00000000.0.unfinished"
    assert not is_abandoned(name, time.time() - 3600)
    assert is_abandoned(name, time.time() - 3 * 24 * 3600)


def test_names_without_a_mark_are_nobodys_to_remove(tmp_path):
    for name in (".gitignore", ".notes.unfinished", ".1-2.unfinished", "model.unfinished"):
        (tmp_path / name).write_bytes(b"mine")
    assert remove_abandoned(tmp_path) == []


def test_links_are_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    pid, _, place = owner_mark().split("-")
    link = tmp_path / f".model.{pid}-1-{place}.0.unfinished"
    link.symlink_to(tmp_path / "thesis")
    assert remove_abandoned(tmp_path) == []
    assert link.is_symlink()


def test_a_long_name_can_be_written_too(tmp_path):
    write_file(tmp_path / ("x" * 250), b"whole")
    write_file(tmp_path / ("\N{GRINNING FACE}" * 60), b"whole")
    assert len(list(tmp_path.iterdir())) == 2


def test_two_of_one_process_have_two_names(tmp_path):
    assert unfinished_path(tmp_path / "a") != unfinished_path(tmp_path / "a")


EXCHANGING = """
import sys, time
from wiesel.io.exchange import Exchange
exchange = Exchange(room=1000)
exchange.file("rows").write_bytes(b"rows")
print(exchange.file("rows"), flush=True)
time.sleep(600)
"""


def test_rows_in_memory_of_a_killed_process_go_with_the_next_exchange():
    command = [sys.executable, "-c", EXCHANGING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with Exchange(room=1000):
            assert left.exists(), "its owner lives"
        process.kill()
    with Exchange(room=1000):
        assert not left.parent.exists()
