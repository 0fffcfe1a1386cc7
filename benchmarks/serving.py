"""How long answers of `wiesel serve` take: the median and p99 at 100 requests of one row a second.

The model is that of `wiesel init` and `wiesel run`, a committee. Requests start on a schedule,
whether or not earlier ones are answered, on connections that stay open; a time runs from when a
request was due, so waiting in the client counts.
"""

import contextlib
import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, markdown_table, merge_results, read_results, setting

CONNECTIONS = 20
RATES = (5, 100)
"""Requests per second."""


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[int, int]]:
    """Run `wiesel serve` on a free port; yield the port and the process id."""
    command = [sys.executable, "-m", "wiesel", "serve", str(folder), "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            ports = (re.search(r":(\d{4,5})\b", line) for line in process.stdout or ())
            port = next(int(found[1]) for found in ports if found)
            for _ in range(100):
                with contextlib.suppress(OSError):
                    _asked(http.client.HTTPConnection("127.0.0.1", port, timeout=5), "warm up")
                    break
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.terminate()


def _asked(connection: http.client.HTTPConnection, text: str) -> None:
    body = json.dumps({"rows": [{"text": text}]})
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"/predict answered {answer.status}: {found[:300]!r}")


def latencies(port: int, rate: int, n_seconds: float, texts: Sequence[str]) -> list[float]:
    """Return the milliseconds of every answer, from when its request was due."""
    n_requests = max(10, int(rate * n_seconds))
    n_connections = min(CONNECTIONS, rate)  # the server closes those that are idle for long
    begin = time.perf_counter() + 0.1

    def ask(first: int) -> list[float]:
        connection, took = http.client.HTTPConnection("127.0.0.1", port, timeout=30), []
        for k in range(first, n_requests, n_connections):
            due = begin + k / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            _asked(connection, texts[k % len(texts)])
            took.append(1e3 * (time.perf_counter() - due))
        connection.close()
        return took

    with ThreadPoolExecutor(n_connections) as pool:
        return [each for took in pool.map(ask, range(n_connections)) for each in took]


def _cpu(process: int) -> float:
    """Return the CPU seconds of a process (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a line for every rate."""
    return markdown_table(
        ("requests per second", "median", "p99", "longest", "server's CPU per request"),
        [
            (str(row["rate"]), *(f"{row[key]:.1f} ms" for key in ("p50", "p99", "longest", "cpu")))
            for row in sorted(rows, key=lambda row: row["rate"])
        ],
    )


def main(argv: Sequence[str] = ()) -> None:
    """Train a starter project, serve it, and ask."""
    options = arguments(argv)
    if options.show:
        print(results_table(read_results("serving")))
        return
    import polars as pl

    from wiesel.project import read_project, run_project, write_starter

    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        write_starter(folder)
        run_project(read_project(folder))
        texts = pl.read_csv(folder / "test.csv")["text"].to_list()
        with server(folder / "out" / "model") as (port, process):
            for rate in RATES:
                before = _cpu(process)
                took = latencies(port, rate, 1 if options.quick else 30, texts)
                found = {
                    "p50": float(np.percentile(took, 50)),
                    "p99": float(np.percentile(took, 99)),
                    "longest": max(took),
                    "cpu": 1e3 * (_cpu(process) - before) / len(took),
                    "n_requests": len(took),
                }
                row = {"case": f"{rate} per second", "rate": rate, **found, **setting()}
                rows.append({**row, "threads": "defaults"})
    print(results_table(rows))
    if not options.quick:
        merge_results("serving", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
