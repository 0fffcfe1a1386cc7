"""A million tokens by 50 span functions: votes on tokens, then the hidden Markov model.

Planted names in documents of 500 tokens; 40 gazetteers (one of them with 100,000 names) and 10
patterns over four labels. CPU seconds of one process with one thread.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import (
    arguments,
    markdown_table,
    merge_results,
    read_results,
    run_module,
    seconds,
    setting,
)
from benchmarks.votes import peak_megabytes

N_TOKENS, LENGTH = 1_000_000, 500


def main(argv: Sequence[str] = ()) -> None:
    """Measure; keep the results unless `--quick`."""
    options = arguments(argv)
    rows = read_results("spans")
    if not options.show:
        job = {"n_tokens": N_TOKENS // 50 if options.quick else N_TOKENS}
        runs = [run_module("benchmarks.spans", "wiesel", job) for _ in range(options.repeats)]
        runs.sort(key=lambda run: run["total_seconds"])
        case = "wiesel, 1,000,000 tokens x 50 span functions"
        rows = [{"case": case, **runs[len(runs) // 2], "repeats": options.repeats, **setting()}]
        if not options.quick:
            merge_results("spans", rows)
    print(results_table(rows))


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table."""
    lines = [
        (
            row["case"],
            seconds(row["tokenize_seconds"]),
            seconds(row["apply_seconds"]),
            f"{seconds(row['hmm_seconds'])} ({row['steps']} steps of EM)",
            seconds(row["total_seconds"]),
            f"{row['peak_mb']:,.0f} MB",
        )
        for row in rows
    ]
    header = ("case", "tokenize", "span functions", "HMM", "in all", "memory")
    return markdown_table(header, lines)


def measure(n_tokens: int) -> dict[str, float]:
    """Return what tokenizing, voting and the model took."""
    from wiesel.spans import Documents, HiddenMarkov, apply_span_lfs

    texts, functions = _planted(n_tokens)
    times = [time.process_time()]
    documents = Documents.from_texts(texts)
    times.append(time.process_time())
    votes = apply_span_lfs(functions, documents, labels=["PER", "LOC", "ORG", "MISC"])
    times.append(time.process_time())
    model = HiddenMarkov().fit(votes)
    model.predict(votes)
    times.append(time.process_time())
    return {
        "n_tokens": documents.n_tokens,
        "n_votes": votes.votes.n_votes,
        "tokenize_seconds": times[1] - times[0],
        "apply_seconds": times[2] - times[1],
        "hmm_seconds": times[3] - times[2],
        "total_seconds": times[3] - times[0],
        "steps": len(model.evidence_),
        "peak_mb": peak_megabytes(),
    }


def _planted(n_tokens: int) -> tuple[list[str], list[Any]]:
    """Texts of made-up words and names, and functions that know some of the names."""
    import numpy as np

    from wiesel.spans import gazetteer, pattern

    rng = np.random.default_rng(0)
    plain = np.array([f"word{k}" for k in range(20_000)])
    labels = ("PER", "LOC", "ORG", "MISC")
    names = {label: [f"{label}{k} Name{k % 977}" for k in range(2_500)] for label in labels}
    flat = np.array([name for own in names.values() for name in own])
    texts, left = [], n_tokens
    while left > 0:
        length = min(LENGTH, left)
        n_names = length // 25
        parts = [*rng.choice(plain, length - 2 * n_names), *rng.choice(flat, n_names)]
        texts.append(" ".join(rng.permutation(parts)))
        left -= length
    functions: list[Any] = []
    for k in range(40):
        label = labels[k % 4]
        known = rng.choice(names[label], 1_000, replace=False).tolist()
        wrong = rng.choice(names[labels[(k + 1) % 4]], 100, replace=False).tolist()
        more = [f"other{n} place" for n in range(100_000)] if k == 0 else []
        entries = [*known, *wrong, *more]
        functions.append(
            gazetteer(label, entries, case=("exact", "ignore")[k % 2], name=f"list{k}")
        )
    for k in range(10):
        functions.append(pattern(labels[k % 4], rf"{labels[k % 4]}\d*{k} Name\d+", name=f"rule{k}"))
    return texts, functions


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.stdin.read())["n_tokens"])))
