"""The default with TF-IDF, sentence embeddings or both: the second half of `embedded_features`."""

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import UNKNOWN
from experiments.studies import default
from experiments.studies.default import BASELINE, COMMITTEE, GOLD, PAPER, WEASEL

TFIDF, EMBEDDINGS, BOTH = KINDS = ("TF-IDF", "embeddings", "both")
SETS = ("youtube", "sms", "trec", "agnews", "sst2")
"""The fastest sets first: the embeddings of sst2 take minutes."""
EMBEDDED = ("youtube", "sms", "trec", "agnews")
"""The sets that come with embeddings; the others come with TF-IDF."""
METHODS = (GOLD, BASELINE, "Snorkel", PAPER, WEASEL, COMMITTEE)

GAINS = ("Snorkel", PAPER, WEASEL, COMMITTEE)
"""The methods whose gain over majority vote is reported."""

Results = dict[tuple[str, str, str], list[Record]]
"""The finished runs of all seeds by data set, kind of features and method."""


def option_of(name: str, kind: str) -> dict[str, str]:
    """Return the feature option of a run on a set; empty for the set's own features.

    >>> option_of("sst2", "TF-IDF"), option_of("sst2", "both"), option_of("sms", "TF-IDF")
    ({}, {'features': 'minilm+own'}, {'features': 'tfidf'})
    """
    own, other, made = TFIDF, EMBEDDINGS, "minilm"
    if name in EMBEDDED:
        own, other, made = EMBEDDINGS, TFIDF, "tfidf"
    return {own: {}, other: {"features": made}, BOTH: {"features": f"{made}+own"}}[kind]


def results(store: str, effort: Effort) -> Results:
    """Run what is missing, seed by seed, and return the finished runs.

    Runs with a set's own features are those of `default`, if it has them.
    """
    cells = [(name, kind, method) for name in SETS for kind in KINDS for method in METHODS]
    runs = [_run(cell, seed) for seed in range(effort.seeds) for cell in cells]
    if not effort.recorded:
        known = finished(default.STORE)
        left = [run for run in runs if run.key not in known]
        run_all(store, left, default.execute, effort.jobs)
    done = {**finished(store), **finished(default.STORE)}
    keys = {cell: [_run(cell, seed).key for seed in range(effort.seeds)] for cell in cells}
    return {cell: [done[key] for key in own if key in done] for cell, own in keys.items()}


def _run(cell: tuple[str, str, str], seed: int) -> Run:
    name, kind, method = cell
    return Run(name, method, seed, {"mode": "blind", **option_of(name, kind)})


def table(found: Results) -> str:
    """Return one row per set and kind of features."""
    cells = [
        [name, kind, *(_cell(found[name, kind, method]) for method in METHODS)]
        for name in SETS
        for kind in KINDS
    ]
    return markdown_table(["", "features", *METHODS], cells)


def answer(found: Results) -> list[str]:
    """Describe whether joint training helps, and each method's gain by kind of features."""
    names = [n for n in SETS if all(found[n, kind, m] for kind in KINDS for m in METHODS)]
    if not names:
        return []
    means = {
        kind: {m: float(np.mean([_score(found[n, kind, m]) for n in names])) for m in METHODS}
        for kind in KINDS
    }
    said = [f"- In the default: {verdict(means)} (mean of {len(names)} sets)."]
    for kind, mean in means.items():
        gains = ", ".join(f"{method} {mean[method] - mean[BASELINE]:+.2f}" for method in GAINS)
        said.append(
            f"- Default, {kind}: gold {mean[GOLD]:.1f}, majority vote {mean[BASELINE]:.1f}; "
            f"against majority vote {gains}."
        )
    return said


def verdict(means: dict[str, dict[str, float]]) -> str:
    """Describe whether both forms of WeaSEL beat majority vote where gold scores highest.

    >>> strong = {GOLD: 90.0, BASELINE: 80.0, PAPER: 81.0, WEASEL: 79.0}
    >>> verdict({"TF-IDF": {**strong, GOLD: 85.0, PAPER: 79.0}, "both": strong})
    '**for one of two**: WeaSEL, paper +1.00 with both, -1.00 with TF-IDF; WeaSEL -1.00, -1.00'
    """
    gold = {kind: mean[GOLD] for kind, mean in means.items()}
    weak, strong = min(gold, key=gold.__getitem__), max(gold, key=gold.__getitem__)
    gain = {
        (method, kind): means[kind][method] - means[kind][BASELINE]
        for method in (PAPER, WEASEL)
        for kind in (strong, weak)
    }
    said = ("no", "for one of two", "yes")[sum(gain[m, strong] > 0 for m in (PAPER, WEASEL))]
    return (
        f"**{said}**: {PAPER} {gain[PAPER, strong]:+.2f} with {strong}, {gain[PAPER, weak]:+.2f} "
        f"with {weak}; {WEASEL} {gain[WEASEL, strong]:+.2f}, {gain[WEASEL, weak]:+.2f}"
    )


def n_seeds(found: Results) -> str:
    """Return the number of seeds per cell: one number, or a range.

    >>> n_seeds({("sst2", "both", "gold"): [{}], ("sst2", "both", "WeaSEL"): [{}, {}]})
    '1 to 2 seeds'
    """
    counts = {len(records) for records in found.values() if records} or {0}
    least, most = min(counts), max(counts)
    return f"{least} to {most} seeds" if least < most else f"{most} seed{'s' * (most != 1)}"


def _cell(records: list[Record]) -> str:
    return f"{_score(records):.2f}" if records else UNKNOWN


def _score(records: list[Record]) -> float:
    return 100 * float(np.mean([record["score"] for record in records]))
