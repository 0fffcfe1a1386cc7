"""Saves, runs and applies that are killed at any moment: nothing is lost, nothing stays behind."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attacks import Tally, tries

from wiesel.io import read_rows, read_votes
from wiesel.saving import read_folder, write_folder

pytestmark = pytest.mark.filterwarnings("ignore")

WIESEL = [sys.executable, "-c", "from wiesel.cli.main import main; main()"]
SAVER = """
import sys
from wiesel.saving import write_file, write_folder
print("ready", flush=True)
for n in range(10**6):
    content = bytes([n % 256]) * 20_000
    write_folder(sys.argv[1], {"n": n % 256}, {"a.bin": content, "b.bin": content[:9]})
    write_file(sys.argv[1] + ".txt", content)
"""
MEMORY = Path("/dev/shm")


def killed(process: subprocess.Popen, rng: random.Random, within: float) -> None:
    """End a process at some moment, by either signal, or find it finished."""
    time.sleep(rng.uniform(0, within))
    process.send_signal(rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
    process.wait()


def test_killed_saves(tmp_path):
    tally, model = Tally("killed saves"), tmp_path / "model"
    write_folder(model, {"n": 0}, {"a.bin": bytes(20_000), "b.bin": bytes(9)})
    for rng in tries("killed saves", least=2):
        command = [sys.executable, "-c", SAVER, str(model)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(rng.randrange(20)):  # whoever reads meanwhile gets a whole model
                _check_whole(model)
                tally.counts["read meanwhile"] += 1
            killed(process, rng, 0.1)
        tally.counts["killed"] += 1
        _check_whole(model)
        write_folder(model, {"n": 1}, {"a.bin": bytes([1]) * 20_000, "b.bin": bytes([1]) * 9})
        names = sorted(entry.name for entry in tmp_path.iterdir())
        assert names in (["model"], ["model", "model.txt"]), names
        text = tmp_path / "model.txt"
        assert not text.exists() or len(set(text.read_bytes())) == 1
    tally.report()
    assert tally.counts["killed"]


def _check_whole(model: Path) -> None:
    manifest, files = read_folder(model)
    assert set(files["a.bin"]) == {manifest["n"]}
    assert set(files["b.bin"]) == {manifest["n"]}


def test_killed_runs(tiny, wiesel):
    tally = Tally("killed runs")
    for rng in tries("killed runs", least=1):
        training = f"epochs = {rng.randrange(1, 400)}"
        text = (tiny / "wiesel.toml").read_text().replace("epochs = 2", training)
        (tiny / "wiesel.toml").write_text(text)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*WIESEL, "run", str(tiny)], **quiet) as process:
            killed(process, rng, 8)
        tally.counts["killed"] += 1
        (tiny / "wiesel.toml").write_text(text.replace(training, "epochs = 2"))
        result = wiesel("run", tiny)
        assert result.exit_code == 0, result.output
        assert not list(tiny.rglob("*.unfinished"))
        assert not list(tiny.rglob("*.previous"))
        assert not list(MEMORY.glob(f"wiesel-{process.pid}-*"))
        read_folder(tiny / "out/model")
        assert len(read_rows(tiny / "out/predictions.parquet")) == 64
    tally.report()


SLOW_LFS = """
import time
from wiesel import LabelSpace, labeling_function

labels = LabelSpace("billing", "technical")

@labeling_function
def money(row):
    time.sleep(0.01)
    return "billing" if "invoice" in row["text"] else None

@labeling_function
def crash(row):
    time.sleep(0.01)
    return "technical" if "crash" in row["text"] else None
"""


def test_killed_applies(tiny, wiesel):
    tally, output, killed_ones = Tally("killed applies"), tiny / "votes.parquet", set()
    (tiny / "lfs.py").write_text(SLOW_LFS)
    rows = read_rows(tiny / "train.csv").sample(400, with_replacement=True, seed=0).drop("id")
    rows.write_csv(tiny / "many.csv")
    rows.head(20).write_csv(tiny / "few.csv")
    for rng in tries("killed applies", least=1):
        words = ["apply", str(tiny / "many.csv"), "--lfs", str(tiny / "lfs.py"), "-o", str(output)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*WIESEL, *words], **quiet) as process:
            killed(process, rng, 8)
        killed_ones.add(process.pid)
        tally.counts["killed"] += 1
        assert not output.exists() or read_votes(output).n_items in (20, 400)
        words[1] = str(tiny / "few.csv")
        result = wiesel(*words)
        assert result.exit_code == 0, result.output
        assert read_votes(output).n_items == 20
        assert not list(tiny.glob(".*"))
    with_workers(tiny, wiesel)
    left = [entry for pid in killed_ones for entry in MEMORY.glob(f"wiesel-{pid}-*")]
    assert not left, "the next exchange removes what killed ones left in memory"
    tally.report()


def with_workers(folder: Path, wiesel) -> None:
    """Apply to many rows, so that rows go through memory to other processes."""
    result = wiesel(
        "apply", folder / "many.csv", "--lfs", folder / "lfs.py", "-o", folder / "votes.parquet"
    )
    assert result.exit_code == 0, result.output
