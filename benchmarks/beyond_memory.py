"""Data larger than memory: from rows in files to soft labels in files, on one small machine.

`python -m benchmarks beyond_memory --rows 100000000 --folder /somewhere/large` makes short texts
in 100 Parquet files (unique ids, drawn from two classes of words), lets 136 keyword functions vote
on all of them and 10 Python functions on those of the first file, and then summarizes the votes,
fits Snorkel's model, triplets and Dawid-Skene (20 steps), and writes the soft labels of each. Every
stage runs in a separate process. Finished work is not repeated: after a `kill -9` the same command
resumes with the unfinished file. `--kill` tests this: the process of every stage is killed when
half of the files are done, and a second process resumes. The results are CPU seconds (including the
killed process and workers), peak memory, and the number of files read or voted on twice.
`--together` runs all stages in this process, only for the slopes: its peak covers all stages so
far. Without `--rows` it uses 100,000 rows, as a test of the command. `--sizes` extrapolates to more
rows from these slopes.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.harness import (
    ONE_THREAD,
    ROOT,
    UNKNOWN,
    markdown_table,
    merge_results,
    peak,
    read_results,
    seconds,
    setting,
)

MODULE = "benchmarks.beyond_memory"
LABELS = ["no", "yes"]
N_WORDS, N_LFS, N_PYTHON, WORDS_PER_TEXT, EPOCHS = 3_000, 136, 10, 10, 20
MODELS = ("snorkel", "triplet", "dawid_skene")
SIZES = (10**7, 10**8, 10**9)
STAGES = (
    "rows",
    "apply",
    "apply python",
    "summarize",
    *(f"fit {name}" for name in MODELS),
    *(f"label {name}" for name in MODELS),
)


def make_rows(folder: Path, n_rows: int, n_files: int) -> None:
    """Write texts of words, some of which are more frequent in one class."""
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    words = pl.Series([f"word{k}" for k in range(N_WORDS)])
    for number in range(n_files):
        file = folder / "rows" / f"rows-{number:04d}.parquet"
        start, stop = n_rows * number // n_files, n_rows * (number + 1) // n_files
        if file.exists():
            continue
        rng = np.random.default_rng(number)
        gold = rng.random(stop - start) < 0.4
        drawn = rng.integers(0, N_WORDS, (stop - start, WORDS_PER_TEXT))
        # Even-numbered words belong to "yes"; a quarter of the words is drawn from the right class.
        fits = rng.random(drawn.shape) < 0.25
        drawn = np.where(fits, drawn - drawn % 2 + ~gold[:, None], drawn)
        text = words.gather(drawn.ravel()).reshape((stop - start, WORDS_PER_TEXT))
        frame = pl.DataFrame(
            {
                "id": np.arange(start, stop),
                "text": text.arr.join(" "),
                "gold": np.where(gold, "yes", "no"),
            }
        )
        part = file.with_suffix(".part")
        frame.write_parquet(part)
        part.replace(file)


def labeling_functions() -> list[Any]:
    """Return 136 keyword functions, each with 20 words of one class."""
    from wiesel import keywords

    rng = np.random.default_rng(0)
    lfs = []
    for k in range(N_LFS):
        chosen = rng.choice(N_WORDS // 2, 20, replace=False) * 2 + k % 2
        label = LABELS[1 - k % 2]
        lfs.append(keywords(label, [f"word{w}" for w in chosen], column="text", name=f"lf_{k}"))
    return lfs


def python_functions() -> list[Any]:
    """Return 10 Python functions, each of which looks for a word ending."""
    from wiesel import labeling_function

    def of_digit(digit: int) -> Any:
        def ends_with(row: Any) -> str | None:
            found = sum(word.endswith(f"7{digit}") for word in row["text"].split())
            return LABELS[1 - digit % 2] if found else None

        return labeling_function(ends_with, name=f"python_{digit}")

    return [of_digit(digit) for digit in range(N_PYTHON)]


def run_stage(stage: str, folder: Path, n_rows: int, n_files: int) -> dict[str, Any]:
    """Run one stage, and return its result and the number of vote files it read for its sums."""
    from wiesel import load_model, summarize
    from wiesel.io import VoteParts, write_soft_label_parts
    from wiesel.label_models import REGISTRY
    from wiesel.lfs import apply_lfs_to_folder

    kind, _, name = stage.partition(" ")
    if kind == "rows":
        make_rows(folder, n_rows, n_files)
        return {"found": ""}
    if kind == "apply":
        lfs = python_functions() if name else labeling_functions()
        rows = folder / "rows" / "rows-0000.parquet" if name else folder / "rows"
        place = folder / output_of(stage)
        votes = apply_lfs_to_folder(lfs, rows, place, labels=LABELS, engine="local", ids="id")
        return {"found": f"{votes.n_items:,} rows"}
    votes = VoteParts(folder / "votes", keep=folder / "sums")
    if kind == "summarize":
        found = summarize(votes).caption
    elif kind == "fit":
        options = {"max_iter": EPOCHS, "tol": 0.0} if name == "dawid_skene" else {}
        model = REGISTRY[name].cls(**options).fit(votes)
        model.save(folder / name)
        found = f"P(yes) = {model.class_balance_[1]:.3f}"
    else:
        model = load_model(folder / name)
        files = write_soft_label_parts(model, votes, folder / output_of(stage))
        found = f"{_accuracy(files[0], folder / 'rows'):.1%} right in the first file"
    return {"found": found, "n_read": votes.kept.n_read if votes.kept else 0}


def output_of(stage: str) -> str:
    """Return the folder with the files of a stage."""
    kind, _, name = stage.partition(" ")
    places = {
        "rows": "rows",
        "apply": "votes-python" if name else "votes",
        "label": f"labels-{name}",
    }
    return places.get(kind, "sums")


def _accuracy(labels: Path, rows: Path) -> float:
    gold = pl.read_parquet(sorted(rows.glob("*.parquet"))[0], columns=["gold"])["gold"] == "yes"
    return float(((pl.read_parquet(labels)["p: yes"] > 0.5) == gold).mean())  # type: ignore[arg-type]


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """Run one stage in this process, and return its cost, workers included."""
    import wiesel.catalog
    import wiesel.lfs  # noqa: F401 - import time is not measured

    wall, cpu = time.perf_counter(), _cpu_seconds()
    found = run_stage(job["stage"], Path(job["folder"]), job["rows"], job["files"])
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        **found,
        "cpu_seconds": _cpu_seconds() - cpu,
        "wall_seconds": time.perf_counter() - wall,
        "total_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "worker_mb": workers.ru_maxrss / 1024,
    }


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of finished workers."""
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + workers.ru_utime + workers.ru_stime


def states(place: Path) -> dict[str, int]:
    """Return the finished work in a folder: its files, and the number of files in each sum.

    For a sum, the value is the recorded count; for other files, the modification time.
    """
    found = {}
    for file in place.glob("*.*") if place.is_dir() else ():
        if file.suffix == ".parquet":
            found[file.name] = file.stat().st_mtime_ns
        elif file.suffix == ".npz":
            with file.open("rb") as content, np.load(content) as sums:
                found[file.name] = int(sums["counts"][0])
    return found


def killed_halfway(job: dict[str, Any]) -> dict[str, Any]:
    """Start a stage, kill its process when half of the files are done, and return the state.

    A stage that sums over the files repeatedly is killed in the middle of the second sum.
    """
    place = Path(job["folder"]) / output_of(job["stage"])
    before, n_files = states(place), job["files"]
    enough = n_files // 2 + (n_files if place.name == "sums" else 0)
    process = _started(job)
    cpu = 0.0
    while process.poll() is None:
        now = states(place)
        if place.name == "sums":
            n_done = sum(now.values()) - sum(before.get(name, 0) for name in now)
        else:
            n_done = len(now.keys() - before.keys())
        cpu = _cpu_of(process.pid) or cpu
        if n_done >= enough:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return {"killed_after": n_done, "killed_cpu_seconds": cpu, "states": states(place)}
        time.sleep(0.05)
    return {"killed_after": None, "killed_cpu_seconds": cpu, "states": states(place)}


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of a running process, without its workers."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _started(job: dict[str, Any]) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
    )
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    process.stdin.write(json.dumps(job))
    process.stdin.close()
    return process


def done_stage(job: dict[str, Any], kill: bool) -> dict[str, Any]:
    """Run a stage in one process, or in two of which the first is killed; return the cost."""
    first = killed_halfway(job) if kill else None
    process = _started(job)
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    printed = process.stdout.read()
    if process.wait():
        raise RuntimeError(f"The stage {job['stage']!r} ended with {process.returncode}.")
    took = json.loads(printed.splitlines()[-1])
    if first is None:
        return took
    now = states(Path(job["folder"]) / output_of(job["stage"]))
    kept = first["states"]
    took["cpu_seconds"] += first["killed_cpu_seconds"]
    took["killed_after"] = first["killed_after"]
    # A rewritten file has a newer time; a restarted sum has read its files twice.
    took["redone"] = sum(now[name] != kept[name] for name in kept if name.endswith(".parquet"))
    if output_of(job["stage"]) == "sums":
        took["redone"] = took["n_read"] - (sum(now.values()) - sum(kept.values()))
    return took


def results_table(rows: list[dict[str, Any]]) -> str:
    """Return the cost of every stage, in total and per million rows."""
    header = ("rows", "stage", "CPU", "CPU for a million rows", "peak of a process")
    return markdown_table(
        (*header, "killed after", "files done twice", "found"),
        [
            (
                f"{row['rows']:,}",
                row["stage"],
                seconds(row["cpu_seconds"]),
                seconds(row["cpu_seconds"] * 1e6 / _n_rows(row)),
                peak(max(row["total_mb"], row["worker_mb"])),
                UNKNOWN if row.get("killed_after") is None else f"{row['killed_after']} files",
                UNKNOWN if row.get("killed_after") is None else str(row["redone"]),
                row["found"],
            )
            for row in sorted(rows, key=lambda row: (row["rows"], STAGES.index(row["stage"])))
        ],
    )


def sizes_table(rows: list[dict[str, Any]]) -> str:
    """Return the core hours for more rows, from the slopes of the largest complete run."""
    stages: dict[int, set[str]] = {}
    for row in rows:
        stages.setdefault(row["rows"], set()).add(row["stage"])
    largest = max(n_rows for n_rows, found in stages.items() if len(found) == len(STAGES))
    slopes = [
        (row["stage"], row["cpu_seconds"] / _n_rows(row)) for row in rows if row["rows"] == largest
    ]
    slopes.sort(key=lambda slope: STAGES.index(slope[0]))
    # Python functions vote on a sample, so their time does not grow with the rows.
    growing = [slope for stage, slope in slopes if stage != "apply python"]
    lines = [(stage, *_hours(slope)) for stage, slope in slopes]
    return markdown_table(
        ("stage", *(f"{n:,} rows" for n in SIZES)),
        [*lines, ("all but Python functions", *_hours(sum(growing)))],
    )


def _hours(slope: float) -> list[str]:
    spans = [slope * n_rows for n_rows in SIZES]
    return [f"{span / 3600:.1f} h" if span >= 3600 else f"{span / 60:.1f} min" for span in spans]


def _n_rows(row: dict[str, Any]) -> float:
    """Return the number of rows a stage processed; Python functions vote on one file."""
    return row["rows"] / row["files"] if row["stage"] == "apply python" else row["rows"]


def main(argv: list[str] | None = None) -> None:
    """Run the unfinished stages, print the table, and store it if `--rows` was given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks beyond_memory")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=None, help="where rows and votes go")
    parser.add_argument("--kill", action="store_true", help="kill every stage halfway, then go on")
    parser.add_argument("--together", action="store_true", help="all stages in this process")
    parser.add_argument("--show", action="store_true", help="print the committed results only")
    parser.add_argument("--sizes", action="store_true", help="print what more rows would take")
    options, _ = parser.parse_known_args(argv)
    if options.show or options.sizes:
        table = sizes_table if options.sizes else results_table
        print(table(read_results("beyond_memory")))
        return
    n_rows = options.rows or 100_000
    folder = options.folder or ROOT / ".cache" / "benchmarks" / f"beyond-memory-{n_rows}"
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "stages.json"
    done: dict[str, Any] = json.loads(note.read_text()) if note.exists() else {}
    for stage in STAGES:
        if stage not in done:
            job = {"stage": stage, "folder": str(folder), "rows": n_rows, "files": options.files}
            kill = options.kill and stage != "apply python"
            took = measured(job) if options.together else done_stage(job, kill)
            about = {"stage": stage, "rows": n_rows, "files": options.files}
            done[stage] = {"case": f"{stage}, {n_rows}", **about, **took, **setting()}
            part = note.with_suffix(".part")
            part.write_text(json.dumps(done, indent=1))
            part.replace(note)
            if options.rows:
                merge_results("beyond_memory", [done[stage]])
        print(
            f"{stage}: {done[stage]['cpu_seconds']:.1f} CPU s, {done[stage]['found']}", flush=True
        )
    print(results_table(list(done.values())))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measured(json.loads(sys.stdin.read()))))
