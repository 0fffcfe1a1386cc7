"""50 span functions on a million tokens: votes on tokens, then the hidden Markov model.

The documents have 500 tokens with planted names; 40 gazetteers (one with 100,000 names) and 10
patterns vote for four labels. CPU seconds are those of one process with one thread. skweak gets the
same texts, lists and patterns (`benchmarks.spans_skweak`), but fewer tokens.
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
SKWEAK_TOKENS = 50_000
"""The number of tokens skweak processes in half a minute; Wiesel is also measured on it."""
STEPS = 4
"""EM steps: the number Wiesel's model takes on these votes, and skweak's default."""
LABELS = ("PER", "LOC", "ORG", "MISC")


def main(argv: Sequence[str] = ()) -> None:
    """Run the measurements; store the results unless `--quick`."""
    options = arguments(argv)
    rows = read_results("spans")
    if not options.show:
        most = SKWEAK_TOKENS if options.quick else N_TOKENS
        cases = [("wiesel", most), ("wiesel", SKWEAK_TOKENS), ("skweak", SKWEAK_TOKENS)]
        named = {f"{name}, {n:,} tokens x 50 span functions": (name, n) for name, n in cases}
        chosen = {case: own for case, own in named.items() if options.only in case}
        rows = [_measured(case, *own, options.repeats) for case, own in chosen.items()]
        if not options.quick:
            merge_results("spans", rows)
    print(results_table(rows))


def _measured(case: str, package: str, n_tokens: int, repeats: int) -> dict[str, Any]:
    """Return the median over several processes of one package."""
    if package == "wiesel":
        job: dict[str, Any] = {"n_tokens": n_tokens}
        runs = [run_module("benchmarks.spans", package, job) for _ in range(repeats)]
    else:
        texts, functions = planted(n_tokens)
        job = {"texts": texts, "functions": functions, "steps": STEPS}
        runs = [run_module("benchmarks.spans_skweak", package, job)]
    runs.sort(key=lambda run: run["total_seconds"])
    return {"case": case, **runs[len(runs) // 2], "repeats": len(runs), **setting()}


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
    """Return the time for tokenizing, voting and the model."""
    from wiesel.spans import Documents, HiddenMarkov, apply_span_lfs

    texts, described = planted(n_tokens)
    functions = [_function(each) for each in described]
    times = [time.process_time()]
    documents = Documents.from_texts(texts)
    times.append(time.process_time())
    votes = apply_span_lfs(functions, documents, labels=LABELS)
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


def planted(n_tokens: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Return texts of synthetic words and names, and functions that know some of them, as data."""
    import numpy as np

    rng = np.random.default_rng(0)
    plain = np.array([f"word{k}" for k in range(20_000)])
    names = {label: [f"{label}{k} Name{k % 977}" for k in range(2_500)] for label in LABELS}
    flat = np.array([name for own in names.values() for name in own])
    texts, left = [], n_tokens
    while left > 0:
        length = min(LENGTH, left)
        n_names = length // 25
        parts = [*rng.choice(plain, length - 2 * n_names), *rng.choice(flat, n_names)]
        texts.append(" ".join(rng.permutation(parts)))
        left -= length
    functions: list[dict[str, Any]] = []
    for k in range(40):
        label = LABELS[k % 4]
        known = rng.choice(names[label], 1_000, replace=False).tolist()
        wrong = rng.choice(names[LABELS[(k + 1) % 4]], 100, replace=False).tolist()
        more = [f"other{n} place" for n in range(100_000)] if k == 0 else []
        own = {"name": f"list{k}", "label": label, "exact": k % 2 == 0}
        functions.append({**own, "entries": [*known, *wrong, *more]})
    for k in range(10):
        label = LABELS[k % 4]
        rule = rf"{label}\d*{k} Name\d+"
        functions.append({"name": f"rule{k}", "label": label, "pattern": rule})
    return texts, functions


def _function(each: dict[str, Any]) -> Any:
    """Return a Wiesel span function from its description."""
    from wiesel.spans import gazetteer, pattern

    if "pattern" in each:
        return pattern(each["label"], each["pattern"], name=each["name"])
    case = "exact" if each["exact"] else "ignore"
    return gazetteer(each["label"], each["entries"], case=case, name=each["name"])


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.stdin.read())["n_tokens"])))
