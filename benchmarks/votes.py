"""A crowd-sized vote matrix from a long table: 1,000,000 items, 10,000 voters, 3,000,000 votes.

It prints the CPU seconds and the memory for building, in addition to the table itself.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import polars as pl

from wiesel import VoteMatrix

RESULTS = Path(__file__).parent / "results" / "votes.json"


def long_table(n_items: int, n_voters: int, n_votes: int, seed: int = 0) -> pl.DataFrame:
    """Return distinct answers (task, worker, label) in random order."""
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, n_items * n_voters, size=n_votes + n_votes // 500))
    cells = rng.permutation(cells)[:n_votes]
    names = np.array([f"worker_{j}" for j in range(n_voters)], dtype=object)
    return pl.DataFrame(
        {
            "task": cells // n_voters,
            "worker": pl.Series(names).gather(cells % n_voters),
            "label": pl.Series(["cat", "dog", "owl"]).gather(rng.integers(0, 3, size=len(cells))),
        }
    )


def peak_megabytes() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(argv: list[str] | None = None) -> None:
    """Build the matrix once, and print its cost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks votes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    scale = 100 if parser.parse_known_args(argv)[0].quick else 1
    table = long_table(1_000_000 // scale, 10_000 // scale, 3_000_000 // scale)
    before, start = peak_megabytes(), time.process_time()
    votes = VoteMatrix.from_long(
        table, item="task", voter="worker", label="label", items=np.arange(1_000_000 // scale)
    )
    seconds, extra = time.process_time() - start, peak_megabytes() - before
    print(f"{votes}\n{seconds:.2f} CPU seconds, {extra:.0f} MB more than the table")
    if scale == 1:
        record = {"cpu_seconds": round(seconds, 2), "extra_megabytes": round(extra)}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
