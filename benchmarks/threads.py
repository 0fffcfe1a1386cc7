"""Default threads compared with one thread, on an idle machine and next to a busy process.

Every run is a separate process. "Defaults" means that no variable limits the threads. The busy
neighbor is a second process that counts endlessly on one core. Bar: with defaults, no task takes
more than 10 % longer than with one thread, in wall or CPU seconds.

Outside load only adds to a time, so a process does its task several times and the minimum counts.
The two kinds run in turn, each first in every other pair. A ratio is the median over the pairs,
because the two runs of a pair have about the same load. The first call of each process is reported
beside the others: it also loads modules.
"""

import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.harness import (
    arguments,
    markdown_table,
    merge_results,
    read_results,
    run_module,
    seconds,
    setting,
)

MODULE = "benchmarks.threads"
BAR = 1.1
BUSY = "while True: pass"
RUNS = 3
"""How often a process does its task."""
LABEL_MODELS = ("snorkel", "triplet", "dawid_skene")


def label_model_work(method: str, size: int) -> Callable[[], object]:
    """Fit a label model and predict, on planted votes of 100 voters."""
    from wiesel.datasets import make_votes
    from wiesel.label_models import REGISTRY

    votes, _ = make_votes(size, 100)
    model = REGISTRY[method].cls()
    return lambda: model.fit(votes).predict_proba(votes)


def embedding_work(size: int) -> Callable[[], object]:
    """Embed headlines: the first ten words of reviews."""
    from wiesel.features.minilm import embed

    headlines = [" ".join(text.split()[:10]) for text in _reviews(size)]
    return lambda: embed(headlines)


def tfidf_work(size: int) -> Callable[[], object]:
    """Learn TF-IDF vectors of whole reviews."""
    from wiesel.features import TextFeatures

    texts = _reviews(size)
    return lambda: TextFeatures("tfidf").fit_transform(texts)


def training_work(size: int) -> Callable[[], object]:
    """Train five stacked networks on majority votes for five epochs, and predict."""
    from wiesel import MajorityVote, TwoStage
    from wiesel.datasets import make_features, make_votes
    from wiesel.nn import MLP

    votes, gold = make_votes(size, 50)
    X = make_features(gold, 300)
    options: dict[str, Any] = {"epochs": 5, "members": 5, "progress": False, "device": "cpu"}
    model = TwoStage(MajorityVote(), MLP(300, 2), **options)
    return lambda: model.fit(X, votes).predict_proba(X)


def _reviews(size: int) -> list[str]:
    from wiesel.datasets import load_movie_reviews

    texts = load_movie_reviews().train.texts
    assert texts is not None  # noqa: S101 - reviews are texts
    return texts[:size].to_list()


WORK: dict[str, tuple[Callable[[int], Callable[[], object]], int, int]] = {
    **{
        f"{method}, 300k x 100": (lambda size, m=method: label_model_work(m, size), 300_000, 3_000)
        for method in LABEL_MODELS
    },
    "sentence embeddings, 500 headlines": (embedding_work, 500, 20),
    "TF-IDF, 2,000 reviews": (tfidf_work, 2_000, 100),
    "five networks, 10k x 300": (training_work, 10_000, 500),
}
"""The timed tasks: the setup, the size, and the size with `--quick`."""


@contextmanager
def neighbor(busy: bool) -> Iterator[None]:
    """Keep one core busy with another process, if `busy`."""
    process = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def measure(work: str, busy: bool, quick: bool, repeats: int) -> dict[str, Any]:
    """Return wall and CPU seconds with one thread and with defaults, run in turn."""
    job = {"work": work, "quick": quick}
    pairs: list[dict[str, dict[str, float]]] = []
    with neighbor(busy):
        for number in range(repeats):
            order = ("one", "defaults") if number % 2 == 0 else ("defaults", "one")
            found = {name: run_module(MODULE, "wiesel", job, name == "one") for name in order}
            pairs.append(found)
    return {
        "case": f"{work}, {'busy' if busy else 'quiet'}",
        **{
            f"{name}_{kind}": statistics.median(pair[name][kind] for pair in pairs)
            for name in ("one", "defaults")
            for kind in ("wall", "cpu", "first")
        },
        **{f"{kind}_ratio": paired_ratio(pairs, kind) for kind in ("cpu", "wall")},
        "repeats": repeats,
        **setting(),
        "threads": "one and defaults",
    }


def paired_ratio(pairs: Sequence[dict[str, dict[str, float]]], kind: str) -> float:
    """Return the median over the pairs of how many times as long the defaults take."""
    return statistics.median(pair["defaults"][kind] / pair["one"][kind] for pair in pairs)


def timed(job: dict[str, Any]) -> dict[str, float]:
    """Run one task a few times in this process, and return its wall and CPU seconds.

    `first` are the CPU seconds of the first call, which also loads modules; the others are the
    least of the calls after it.
    """
    set_up, size, quick_size = WORK[job["work"]]
    run = set_up(quick_size if job["quick"] else size)
    took = []
    for _ in range(1 + (1 if job["quick"] else RUNS)):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        took.append((time.perf_counter() - wall, time.process_time() - cpu))
    (_, first), *later = took
    return {
        "wall": min(wall for wall, _ in later),
        "cpu": min(cpu for _, cpu in later),
        "first": first,
    }


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the results as a table, with the bar."""
    header = ("work", "CPU, one", "CPU, defaults", "ratio", "wall, one", "wall, defaults", "ratio")
    return markdown_table(
        (*header, "bar: 1.10 in both", "first CPU, one", "first CPU, defaults"),
        [
            (
                row["case"],
                *(seconds(row[f"{name}_cpu"]) for name in ("one", "defaults")),
                f"{row['cpu_ratio']:.2f}",
                *(seconds(row[f"{name}_wall"]) for name in ("one", "defaults")),
                f"{row['wall_ratio']:.2f}",
                "met" if max(row["cpu_ratio"], row["wall_ratio"]) <= BAR else "missed",
                *(seconds(row.get(f"{name}_first")) for name in ("one", "defaults")),
            )
            for row in rows
        ],
    )


def main(argv: list[str] | None = None) -> None:
    """Measure every task, print the table, and store it."""
    options = arguments(argv or [])
    if options.show:
        print(results_table(read_results("threads")))
        return
    rows = [
        measure(work, busy, options.quick, 1 if options.quick else options.repeats)
        for work in WORK
        for busy in (False, True)
        if options.only in f"{work}, {'busy' if busy else 'quiet'}"
    ]
    print(results_table(rows))
    if not options.quick:
        merge_results("threads", rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    print(json.dumps(timed(json.loads(sys.stdin.read()))))
