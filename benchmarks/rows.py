"""The cost of rows with attributes (`row.text`) compared with plain dicts."""

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from benchmarks.harness import arguments, markdown_table
from wiesel.lfs.batch import rows_of


def main(argv: Sequence[str] = ()) -> None:
    """Print CPU time of both, and their ratio."""
    n_rows = 2_000 if arguments(argv).quick else 20_000
    texts = [f"message {k}" for k in range(n_rows)]
    frame = pl.DataFrame({"id": range(n_rows), "text": texts, "score": [0.5] * n_rows})
    lines = []
    for columns in (["text"], ["id", "text", "score"]):
        part = frame.select(columns)
        plain, ours = _cpu_times(lambda part=part: _dicts(part), lambda part=part: rows_of(part))
        figures = (f"{1e3 * plain:.1f} ms", f"{1e3 * ours:.1f} ms", f"{ours / plain:.2f}")
        lines.append((str(len(columns)), *figures))
    print(markdown_table(("columns", "dicts", "rows", "ratio"), lines))


def _dicts(frame: pl.DataFrame) -> list[dict[str, Any]]:
    names = frame.columns
    return [dict(zip(names, values, strict=False)) for values in frame.rows()]


def _cpu_times(*functions: Callable[[], Any]) -> list[float]:
    """Return the minimum CPU time of each, run in turn, with the garbage collector on."""
    gc.enable()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(15):
        for function, kept in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            kept.append(time.process_time() - start)
    return [min(kept) for kept in times]


if __name__ == "__main__":
    main()
