"""Ten thousand crowd workers: the memory and the time of every end-to-end method.

The data have 2,000 items with three answers each, 4 or 20 classes and 16 features; training takes
one epoch. Each method runs in a separate process (`python -m benchmarks.workers` with a case as
JSON on stdin). Dense votes of all items would take 320 MB with 4 classes and 1.6 GB with 20. The
encoder of WeaSEL reads every worker, so its batches are dense; the other methods read only the
given answers.
"""

import json
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import (
    arguments,
    markdown_table,
    merge_results,
    peak,
    read_results,
    run_module,
    seconds,
    setting,
)
from benchmarks.votes import peak_megabytes

METHODS = ("MaxMIG", "CrowdLayer", "DoctorNet", "MBEM", "AggNet", "Raykar", "CoNAL", "WeaSEL")
N_WORKERS, N_ITEMS = 10_000, 2_000


def main(argv: Sequence[str] = ()) -> None:
    """Measure every method; store the results unless `--quick`."""
    options = arguments(argv)
    rows = read_results("workers")
    if not options.show:
        rows = []
        for n_classes in (4, 20):
            for method in METHODS:
                case = f"{method}, {n_classes} classes"
                if options.only in case:
                    job = {"method": method, "n_classes": n_classes, "quick": options.quick}
                    measured = run_module("benchmarks.workers", "wiesel", job)
                    rows.append({"case": case, **measured, **setting()})
        if not options.quick:
            merge_results("workers", rows)
    print(results_table(rows))


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table."""
    lines = [
        (row["case"], peak(row["extra_mb"]), seconds(row["fit_seconds"]), f"{row['parameters']:,}")
        for row in rows
    ]
    header = ("method", "memory beyond the data", "CPU time", "numbers it learned")
    return markdown_table(header, lines)


def measure(method: str, n_classes: int, quick: bool) -> dict[str, float]:
    """Return the time and memory for fitting a method."""
    import wiesel
    from wiesel.datasets.synthetic import make_features, make_votes
    from wiesel.nn import MLP

    n_items, n_workers = (N_ITEMS // 20, N_WORKERS // 20) if quick else (N_ITEMS, N_WORKERS)
    votes, gold = make_votes(n_items, n_workers, n_classes=n_classes, coverage=3 / n_workers)
    X = make_features(gold, n_features=16)
    build = wiesel.WeaSEL.paper if method == "WeaSEL" else getattr(wiesel, method)
    model = build(MLP(16, n_classes), epochs=1, epoch_size=None, progress=False)
    before, start = peak_megabytes(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # after one epoch, it may not have learned
        model.fit(X, votes)
    learned = model.encoder_ if method == "WeaSEL" else model.voter_model_
    return {
        "fit_seconds": time.process_time() - start,
        "extra_mb": peak_megabytes() - before,
        "parameters": sum(parameter.numel() for parameter in learned.state_dict().values()),
    }


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.stdin.read()))))
