"""Training on data larger than memory: ten million items with 300 features in a file, and votes.

`python -m benchmarks large_training --rows 10000000 --folder /somewhere/large` writes a file of
float16 numbers (6 GB), memory-maps it, and trains `TwoStage(MajorityVote(), MLP)` with defaults,
once with epochs of a million items and once with the default epochs. Every fit runs in a separate
process with one thread. The results are CPU seconds, the peak memory of the process, which includes
cached pages of the file, and the peak of its private memory. Bar: 3 GB. Without `--rows` it uses
20,000 items, as a test of the command.
"""

import argparse
import json
import resource
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    ROOT,
    markdown_table,
    merge_results,
    peak,
    read_results,
    run_module,
    seconds,
    setting,
)

MODULE = "benchmarks.large_training"
N_FEATURES, N_VOTERS, BLOCK, SHIFTED = 300, 10, 50_000, 20
BAR_MB = 3_000
EPOCHS: dict[str, dict[str, Any]] = {
    "epochs of 3,200 items, as it comes": {},
    "2 epochs of a million items": {"epochs": 2, "epoch_size": 1_000_000},
}


def gold_of(n_rows: int) -> np.ndarray:
    """Return the class of every item."""
    return np.random.default_rng(1).integers(0, 2, n_rows, dtype=np.int8)


def make_features(file: Path, n_rows: int) -> None:
    """Write repeated blocks of noise, with some columns shifted by the class."""
    if file.exists():
        return
    noise = np.random.default_rng(0).standard_normal((BLOCK, N_FEATURES), dtype=np.float32)
    noise = noise.astype(np.float16)
    gold = gold_of(n_rows)
    part = file.with_suffix(".part")
    shape = (n_rows, N_FEATURES)
    table = np.lib.format.open_memmap(part, mode="w+", dtype=np.float16, shape=shape)
    for start in range(0, n_rows, BLOCK):
        rows = slice(start, min(start + BLOCK, n_rows))
        table[rows] = noise[: rows.stop - start]
        table[rows, :SHIFTED] += (gold[rows, None] - np.float16(0.5)) * np.float16(0.6)
    table.flush()
    part.replace(file)


def make_votes(n_rows: int) -> Any:
    """Return the votes of voters that are right three times out of four, on half of the items."""
    from wiesel import VoteMatrix

    rng, gold = np.random.default_rng(2), gold_of(n_rows)
    cast = rng.random((n_rows, N_VOTERS), dtype=np.float32) < 0.5
    item, voter = np.nonzero(cast)
    wrong = rng.random(len(item), dtype=np.float32) > 0.75
    return VoteMatrix(
        np.concatenate([[0], np.cumsum(cast.sum(axis=1), dtype=np.int64)]),
        voter.astype(np.int32),
        (gold[item] ^ wrong).astype(np.int16),
        _labels(),
        tuple(f"voter_{k}" for k in range(N_VOTERS)),
        np.arange(n_rows),
    )


def _labels() -> Any:
    from wiesel import LabelSpace

    return LabelSpace("no", "yes")


@contextmanager
def own_memory() -> Iterator[list[float]]:
    """Monitor the private memory of the process in megabytes; the last entry is the maximum."""
    most, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    most[0] = max(most[0], int(line.split()[1]) / 1024)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        ended.set()
        watcher.join()


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """Make the data or train on it in this process, and return the cost."""
    file, n_rows = Path(job["file"]), job["rows"]
    if job["fit"] is None:
        make_features(file, n_rows)
        return {}
    from wiesel import MajorityVote, TwoStage
    from wiesel.nn import MLP

    with own_memory() as most:
        X, votes = np.load(file, mmap_mode="r"), make_votes(n_rows)
        net = MLP(N_FEATURES, 2)
        model = TwoStage(MajorityVote(), net, progress=False, device="cpu", **EPOCHS[job["fit"]])
        start = time.process_time()
        model.fit(X, votes)
        cpu = time.process_time() - start
        held_out = X[-BLOCK:].astype(np.float32)
        right = model.predict_proba(held_out).argmax(axis=1) == gold_of(n_rows)[-BLOCK:]
    return {
        "cpu_seconds": cpu,
        "accuracy": float(right.mean()),
        "own_mb": most[0],
        "total_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the cost of every fit, with the bar."""
    return markdown_table(
        (
            "items",
            "fit",
            "CPU",
            "memory of its own",
            "with pages of the file",
            "bar: 3 GB",
            "right",
        ),
        [
            (
                f"{row['rows']:,} x {N_FEATURES}",
                row["fit"],
                seconds(row["cpu_seconds"]),
                peak(row["own_mb"]),
                peak(row["total_mb"]),
                "met" if row["total_mb"] <= BAR_MB else "missed",
                f"{row['accuracy']:.1%}",
            )
            for row in rows
        ],
    )


def main(argv: list[str] | None = None) -> None:
    """Write the features, fit, print the table, and store it if `--rows` was given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks large_training")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None, help="where the features go")
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true", help="print the committed results only")
    options, _ = parser.parse_known_args(argv)
    if options.show:
        print(results_table(read_results("large_training")))
        return
    n_rows = options.rows or 20_000
    folder = options.folder or ROOT / ".cache" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    job = {"file": str(folder / f"features-{n_rows}.npy"), "rows": n_rows, "fit": None}
    run_module(MODULE, "wiesel", job)
    rows = []
    for fit in [name for name in EPOCHS if options.only in name]:
        took = run_module(MODULE, "wiesel", {**job, "fit": fit})
        rows.append({"case": f"{fit}, {n_rows}", "fit": fit, "rows": n_rows, **took, **setting()})
        if options.rows:
            merge_results("large_training", rows)
    print(results_table(rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measured(json.loads(sys.stdin.read()))))
