"""One network on several workers: seconds per epoch, compared with one process.

Ray Train workers run on this machine, or on the cluster named by `RAY_ADDRESS`, with 20,000 items,
300 features, and small and large networks and batches. The result is the mean over all epochs but
the first, which includes startup. On one machine, the workers share its cores.
"""

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import (
    arguments,
    markdown_table,
    merge_results,
    read_results,
    seconds,
    setting,
)

CASES = {
    "hidden layer of 50, batches of 64": ((50,), 64),
    "two hidden layers of 1,024, batches of 256": ((1024, 1024), 256),
    "two hidden layers of 1,024, batches of 2,048": ((1024, 1024), 2048),
}
WORKERS = (1, 2)


def main(argv: Sequence[str] = ()) -> None:
    """Measure all cases; store the results unless `--quick`."""
    options = arguments(argv)
    rows = read_results("ray_training")
    if not options.show:
        rows = []
        for case, (hidden, batch_size) in CASES.items():
            if options.only not in case:
                continue
            n_items = 1_000 if options.quick else 20_000
            for workers in (0, *WORKERS):
                taken = epoch_seconds(hidden, batch_size, n_items, workers)
                row = {"case": f"{case}, {_named(workers)}", "epoch_seconds": taken, **setting()}
                print(row["case"], f"{taken:.3f} s", flush=True)
                rows.append(row)
        if not options.quick:
            merge_results("ray_training", rows)
    print(results_table(rows))


def _named(workers: int) -> str:
    return f"{workers} workers of Ray" if workers else "this process"


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table."""
    lines = [(row["case"], seconds(row["epoch_seconds"])) for row in rows]
    return markdown_table(("case", "an epoch"), lines)


def epoch_seconds(
    hidden: Sequence[int], batch_size: int, n_items: int, workers: int, epochs: int = 12
) -> float:
    """Return the seconds per epoch with a number of workers; 0 means this process."""
    from wiesel import MajorityVote, TwoStage
    from wiesel.datasets.synthetic import make_features, make_votes
    from wiesel.nn import MLP
    from wiesel.training import RayTrain
    from wiesel.training.history import watching

    votes, gold = make_votes(n_items, n_voters=10, coverage=0.9)
    X = make_features(gold, n_features=300)
    model = TwoStage(
        MajorityVote(),
        MLP(300, 2, hidden=hidden),
        epochs=epochs,
        batch_size=batch_size,
        epoch_size=None,
    )
    times: list[float] = []
    engine = RayTrain(workers=workers) if workers else None
    with watching(lambda record: times.append(time.perf_counter())):
        model.fit(X, votes, engine=engine)
    # Many epochs, because this process checks only five times a second for a finished epoch.
    return (times[-1] - times[0]) / (len(times) - 1)
