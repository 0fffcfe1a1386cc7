"""The cost of a committee relative to one network, and of a stack to its bare matrix products.

`committee`: `Committee(net)` against `TwoStage(MajorityVote(), net)`, one network with the same
number of updates, on the votes and features of examples/movies. Bar: 5 times the CPU seconds.

`limit`: a default fit of five stacked networks against the bare matrix products of its steps: the
forward and backward pass of every layer, batch by batch, with inputs already in memory. Bar: the
products take half of the CPU seconds of the fit.

`floor`: these products against the whole steps as bare torch calls (benchmarks/bare_steps.py),
without modules, autograd and history. It is the fastest such loop we wrote; the rest is dropout's
random numbers, gathered batches, Adam and its average, and calls on small tensors.

`parts`: where the default fit of five networks spends its time (benchmarks/stack_parts.py).

Every variant runs in a separate process with one thread and fits several times. The minimum CPU
seconds count, because the first fit loads modules and others suffer from outside load. Results are
medians over processes that run in turn.
"""

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import (
    ROOT,
    arguments,
    markdown_table,
    merge_results,
    read_results,
    run_module,
    seconds,
    setting,
)
from benchmarks.stack_parts import time_parts

MODULE = "benchmarks.stacks"
CACHE = ROOT / ".cache" / "benchmarks" / "movies"
COST_BAR = 5.0
LIMIT_BAR = 0.5
FITS = 3
MEMBERS = 5
BLIND_EPOCHS = 8
"""The default number of epochs of a fit without gold."""
OPTIONS: dict[str, Any] = {"progress": False, "device": "cpu"}
CASES = (
    ("committee", "committee on the movies", ("committee", "one network")),
    ("limit", "default fit of 5 networks", ("bare products", "default fit")),
    ("floor", "its steps as bare torch calls", ("bare products", "bare steps")),
)
PARTS = "the parts of a default fit"


def movies(n_items: int) -> tuple[Any, Any]:
    """Return the features and votes of examples/movies; they are cached after the first call."""
    from wiesel import TextFeatures, apply_lfs
    from wiesel.datasets import load_movie_reviews
    from wiesel.io import read_votes, write_votes
    from wiesel.lfs import load_lfs

    vectors, ballots = CACHE / f"{n_items}.npy", CACHE / f"{n_items}.parquet"
    if not ballots.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        reviews = load_movie_reviews()
        rows = reviews.train.rows[:n_items]
        np.save(vectors, TextFeatures("tfidf").fit_transform(rows["text"]))
        lfs = load_lfs(ROOT / "examples" / "movies" / "lfs.py")
        write_votes(apply_lfs(lfs, rows, labels=reviews.labels, ids="id"), ballots)
    return np.load(vectors), read_votes(ballots)


def committee_job(job: dict[str, Any]) -> Callable[[], object]:
    """Return a fit of the committee, or of one network, on the movies data."""
    from wiesel import Committee, MajorityVote, TwoStage
    from wiesel.nn import MLP

    X, votes = movies(job["items"])
    net = MLP(X.shape[1], 2)
    model: Any = Committee(net, **OPTIONS)
    if job["way"] == "one network":
        model = TwoStage(MajorityVote(), net, **OPTIONS)
    return lambda: model.fit(X, votes)


def limit_job(job: dict[str, Any]) -> Callable[[], object]:
    """Return a default fit of five networks, its steps as bare calls, or only their products."""
    import torch

    from benchmarks.bare_steps import BareSteps, bare_products
    from wiesel import MajorityVote, TwoStage
    from wiesel.datasets import make_features, make_votes
    from wiesel.nn import MLP

    votes, gold = make_votes(job["items"], 50)
    X = make_features(gold, 300)
    net = MLP(300, 2)
    model = TwoStage(MajorityVote(), net, **OPTIONS, members=MEMBERS)
    if job["way"] == "default fit":
        return lambda: model.fit(X, votes)
    torch.set_num_threads(1)
    sizes = [net.arguments["n_features"], *net.arguments["hidden"], net.arguments["n_classes"]]
    n_steps = BLIND_EPOCHS * -(-(model.epoch_size or len(X)) // model.batch_size)
    if job["way"] == "bare products":
        return lambda: bare_products(MEMBERS, sizes, model.batch_size, n_steps)
    networks = BareSteps(torch.from_numpy(X).float(), MEMBERS, sizes, model.batch_size)

    def steps() -> None:
        for _ in range(n_steps):
            networks.step()

    return steps


def timed(job: dict[str, Any]) -> dict[str, float]:
    """Fit several times in this process, and return the minimum CPU seconds, or those by part."""
    jobs = {"committee": committee_job}
    fit = jobs.get(job["kind"], limit_job)(job)
    if job["kind"] == "parts":
        fit()  # the first fit loads modules
        return min((time_parts(fit) for _ in range(FITS)), key=lambda parts: sum(parts.values()))
    took = []
    for _ in range(FITS):
        start = time.process_time()
        fit()
        took.append(time.process_time() - start)
    return {"cpu": min(took)}


def measure(kind: str, case: str, ways: Sequence[str], quick: bool, repeats: int) -> dict[str, Any]:
    """Return the CPU seconds of both variants, run in turn, and their ratio."""
    runs: dict[str, list[float]] = {way: [] for way in ways}
    job = {"kind": kind, "case": case, "items": 300 if quick else 4_000}
    if kind == "committee" and not quick:
        job["items"] = 20_000
    for _ in range(1 if quick else repeats):
        for way, found in runs.items():
            found.append(run_module(MODULE, "wiesel", {**job, "way": way})["cpu"])
    first, second = (statistics.median(runs[way]) for way in ways)
    return {
        "case": case,
        "kind": kind,
        "ways": list(ways),
        "cpu_seconds": [first, second],
        "ratio": first / second,
        "repeats": repeats,
        **setting(),
    }


def measure_parts(quick: bool, repeats: int) -> dict[str, Any]:
    """Return the CPU seconds of every part of a default fit."""
    job = {"kind": "parts", "way": "default fit", "items": 300 if quick else 4_000}
    runs = [run_module(MODULE, "wiesel", job) for _ in range(1 if quick else repeats)]
    parts = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return {"case": PARTS, "kind": "parts", "parts": parts, "repeats": len(runs), **setting()}


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the results as a table, and the parts of a fit as another."""
    ratios = [row for row in rows if row["kind"] != "parts"]
    tables = [_parts_table(row["parts"]) for row in rows if row["kind"] == "parts"]
    return "\n\n".join([_ratio_table(ratios), *tables] if ratios else tables)


def _parts_table(parts: dict[str, float]) -> str:
    whole = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    lines = [(name, seconds(cpu), f"{cpu / whole:.0%}") for name, cpu in ordered]
    return markdown_table(("part of a default fit of 5 networks", "CPU", "share"), lines)


def _ratio_table(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        bar = f"at most {COST_BAR:g}: {'met' if row['ratio'] <= COST_BAR else 'missed'}"
        if row["kind"] == "limit":
            bar = f"at least {LIMIT_BAR:g}: {'met' if row['ratio'] >= LIMIT_BAR else 'missed'}"
        if row["kind"] == "floor":
            bar = "none: the best loop of plain torch calls here"
        pairs = zip(row["ways"], row["cpu_seconds"], strict=True)
        times = [f"{way} {seconds(cpu)}" for way, cpu in pairs]
        lines.append((row["case"], *times, f"{row['ratio']:.2f}", bar))
    return markdown_table(("case", "CPU", "beside", "ratio", "bar"), lines)


def main(argv: list[str] | None = None) -> None:
    """Measure the committee and the stacks, print the table, and store it."""
    options = arguments(argv or [])
    if options.show:
        print(results_table(read_results("stacks")))
        return
    rows = [
        measure(kind, case, ways, options.quick, options.repeats)
        for kind, case, ways in CASES
        if options.only in f"{kind} {case}"
    ]
    if options.only in f"parts {PARTS}":
        rows.append(measure_parts(options.quick, options.repeats))
    print(results_table(rows))
    if not options.quick:
        merge_results("stacks", rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(timed(json.loads(sys.stdin.read()))))
