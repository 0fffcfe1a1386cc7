"""Table 1 of the paper: the test F1 of every method on every data set.

    python -m experiments table1 [--full] [--seeds N] [--jobs N]

Networks, Adam, batch size 64 and weight decay are as in the paper. For every method and seed, the
learning rate (1e-4 or 3e-5) and the epoch are selected by validation AUC, the threshold by
validation F1.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import (
    LEARNING_RATES,
    SIGNED,
    Choices,
    Effort,
    Row,
    chosen,
)
from experiments.framework.runner import Record
from experiments.framework.tables import (
    UNKNOWN,
    f1_and_auc,
    figure_of_paper,
    mean_of,
    percentages,
    write_page,
)
from experiments.studies import paper, spouse_lstm

SILENT = {"silent": ["could", "would"]}
"""Without these two LFs imdb_12 has the paper's coverage: imdb_10."""

SETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "imdb_136": ({}, {}),
    "imdb_12": ({"epochs": 75}, {}),
    "amazon_175": ({"epochs": 300}, {"epochs": 500}),
    "spouse": ({"epochs": 150}, {"epochs": 300}),
    "imdb_10": ({"epochs": 30, **SILENT}, SILENT),
    "youtube": ({"epochs": 300}, {"epochs": 600}),
    "sms": ({"epochs": 300}, {"epochs": 600}),
    "sst2": ({"epochs": 200}, {"epochs": 400}),
}
"""Data sets, and their deviations from the protocol in the reduced and the full form. An epoch of a
small set has few steps: 300 epochs of our 5,500 Amazon reviews have 19,000 steps; 100 epochs of the
paper's 160,000 had about 180,000."""

OF_PAPER = ("spouse", "imdb_136", "imdb_12", "amazon_175")
"""The columns with the paper's LFs; the others are ours and stand in for ProfTeacher."""

SAME_TEXTS = {"imdb_12": "imdb_136", "imdb_10": "imdb_136"}
"""Sets that differ only in their votes; methods that ignore votes run once."""

PART_OF = {"imdb_10": "imdb_12"}
"""Sets that are copies of others with fewer LFs."""

AVERAGED = {"weight_average": 0.9995}
"""Predict with weights averaged over about 2,000 steps; not in the paper."""

FIRST_RATE = LEARNING_RATES[:1]
"""Averaging replaces a lower learning rate, so there is no rate to select."""

HEARD = {"voting_only": True}
"""Share the weight only among the LFs that voted on an item; not in the paper."""

ROWS = (
    Row("gold", "gold"),
    Row("validation set only", "validation", {"epochs": 1000}),
    Row("Snorkel", "snorkel"),
    Row("Triplet", "triplet"),
    Row("Triplet-Mean", "triplet_mean"),
    Row("Triplet-Median", "triplet_median"),
    Row("majority vote", "majority_vote"),
    Row("majority vote, hard as in the code", "majority_vote_hard"),
    Row("WeaSEL-random", "weasel_random", SIGNED),
    Row("WeaSEL", "weasel", SIGNED),
    Row("WeaSEL, settings of the code", "weasel", {**SIGNED, "tau_2": "sqrt_input"}),
    Row("WeaSEL, averaged weights", "weasel", {**SIGNED, **AVERAGED}, True, FIRST_RATE),
    Row("majority vote, averaged weights", "majority_vote", AVERAGED, True, FIRST_RATE),
    Row("WeaSEL, no weight for LFs that abstain", "weasel", {**SIGNED, **HEARD}, ours=True),
)

ENCODERS: dict[str, dict[str, Any]] = {"spouse": {"encoder": [50, 5]}}
"""The paper's encoder for spouse is smaller than the others."""

OF_CODE: dict[str, dict[str, Any]] = {"spouse": {"tau_1": 1 / 3}}
"""Settings of the paper's code per data set, apart from tau_2, for the row that uses them."""

LABEL_FREE = (
    "Snorkel",
    "Triplet",
    "Triplet-Mean",
    "Triplet-Median",
    "majority vote",
    "WeaSEL-random",
    "WeaSEL",
)
"""The rows of the paper that learn from votes alone, once each."""

WEIGHING = ("WeaSEL-random", "WeaSEL", "WeaSEL, settings of the code")
"""The rows of the paper with an encoder."""

Results = dict[str, dict[str, list[Record]]]
"""The selected run of every seed, by data set and row; no entry without gold."""


def main(argv: list[str]) -> None:
    """Run what is missing, print the table, and write it as Markdown."""
    effort = Effort.parsed(argv, __doc__)
    show(results(effort), effort)


def results(effort: Effort, sets: Iterable[str] = tuple(SETS)) -> Results:
    """Run what is missing, and return the selected runs."""
    found: Results = {}
    for name in sets:
        found[name] = {}
        for source, rows in by_store(name).items():
            definitions = {row.title: choices_of(source, row, effort) for row in rows}
            done = effort.obtain(PART_OF.get(source, source), definitions.values())
            found[name] |= {title: chosen(runs, done) for title, runs in definitions.items()}
    return found


def by_store(name: str) -> dict[str, list[Row]]:
    """Return the rows of a data set, by the store of their runs."""
    stores: dict[str, list[Row]] = {}
    for row in ROWS:
        if row.method == "gold" and name == "spouse":
            continue
        stores.setdefault(source_of(name, row), []).append(row)
    return stores


def source_of(name: str, row: Row) -> str:
    """Return the data set whose runs a row shows; methods that ignore votes run once per text."""
    return SAME_TEXTS.get(name, name) if row.method in ("gold", "validation") else name


def choices_of(name: str, row: Row, effort: Effort) -> Choices:
    """Return the runs of one cell of the table."""
    setting = setting_of(name, row, effort)
    return row.runs(PART_OF.get(name, name), effort.seeds, LEARNING_RATES, setting)


def setting_of(name: str, row: Row, effort: Effort) -> dict[str, Any]:
    """Return the options that a data set changes in a row."""
    setting = dict(SETS[name][effort.full])
    if row.method.startswith("weasel"):
        setting |= ENCODERS.get(name, {})
    if row.options.get("tau_2") == "sqrt_input":
        setting |= OF_CODE.get(name, {})
    return setting


def show(found: Results, effort: Effort) -> None:
    """Print and write F1 next to the paper's, AUC, and whether WeaSEL leads."""
    sets = [*OF_PAPER, *(name for name in SETS if name not in OF_PAPER)]
    header = ["", *(name if name in OF_PAPER else f"{name} (ours)" for name in sets)]
    lstm = spouse_lstm.results(effort.seeds)
    f1, auc = [], []
    for row in ROWS:
        title = f"*{row.title}* (ours)" if row.ours else row.title
        f1.append([title, *(f1_cell(found, name, row) for name in sets)])
        auc.append([title, *(mean_of(found[name].get(row.title, []), "auc") for name in sets)])
        for cells, column in ((f1, "f1"), (auc, "auc")):
            cells[-1].append(mean_of(lstm.get(row.title, []), column))
    for title in lstm.keys() - {row.title for row in ROWS}:
        for cells, column in ((f1, "f1"), (auc, "auc")):
            cells.append(
                [f"*{title}* (ours)", *([UNKNOWN] * len(sets)), mean_of(lstm[title], column)]
            )
    lines = [
        f"Mean ± deviation over {effort.seeds} seeds, in percent; in brackets the paper's figure, "
        "a dash where it is not known to us. The last column is spouse with an LSTM on tokens, as "
        "in the paper, where it was run ([its page](spouse_lstm.md)).",
        "",
        *f1_and_auc([*header, "spouse, LSTM"], f1, auc),
        "",
        "## The share of the weight that LFs get which voted, in the epochs that were kept",
        "",
        "What LFs get that abstain is lost. An encoder that is not trained (WeaSEL-random) shares "
        "the weight more or less equally.",
        "",
        markdown_table(header, [[title, *_heard(found, sets, title)] for title in WEIGHING]),
        "",
        "## Is WeaSEL ahead of the methods that learn from votes alone?",
        "",
        *verdicts(found),
    ]
    write_page("table1", f"python -m experiments table1 {effort.words}", lines)


def f1_cell(found: Results, name: str, row: Row) -> str:
    """Return one cell: our result and, in the paper's columns, the paper's."""
    ours = mean_of(found[name].get(row.title, []), "f1")
    if name not in OF_PAPER or row.ours:
        return ours
    papers = paper.TABLE_1.get(row.title, {}).get(name)
    return f"{ours} ({figure_of_paper(papers and papers.mean)})"


def _heard(found: Results, sets: Iterable[str], title: str) -> list[str]:
    """Return the mean over seeds, in percent; some older runs did not record it."""
    cells = []
    for name in sets:
        noted = [record["diagnosis"] for record in found[name][title] if "diagnosis" in record]
        cells.append(mean_of(noted, "voting_share"))
    return cells


def verdicts(found: Mapping[str, Mapping[str, list[Record]]]) -> list[str]:
    """Describe WeaSEL's rank by data set and on average."""
    lines = []
    averages: dict[str, list[float]] = {title: [] for title in LABEL_FREE}
    for name in OF_PAPER:
        scores = {title: percentages(found[name][title], "f1") for title in LABEL_FREE}
        if not all(map(len, scores.values())):
            lines.append(f"- {name}: not all methods have been run.")
            continue
        lines.append(f"- {name}: {place_of_weasel(scores)}.")
        for title, values in scores.items():
            averages[title].append(float(values.mean()))
    n_sets = len(averages["WeaSEL"])
    if n_sets:
        listed = ", ".join(f"{title} {np.mean(means):.2f}" for title, means in averages.items())
        lines.append(f"- Mean F1 over {n_sets} sets: {listed}.")
    return lines


def place_of_weasel(scores: Mapping[str, np.ndarray]) -> str:
    """Describe whether WeaSEL leads, or its gap and whether that is within one deviation.

    >>> place_of_weasel({"WeaSEL": np.array([80.0, 82.0]), "Snorkel": np.array([81.5])})
    '0.50 behind Snorkel, within one deviation'
    """
    best = max(scores, key=lambda title: scores[title].mean())
    if best == "WeaSEL":
        return "first"
    gap = scores[best].mean() - scores["WeaSEL"].mean()
    near = gap <= max(scores["WeaSEL"].std(), scores[best].std())
    return f"{gap:.2f} behind {best}" + (", within one deviation" if near else "")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
