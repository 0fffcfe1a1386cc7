"""Table 1 and the default with sentence embeddings: whether joint training helps with them.

    python -m experiments embedded_features [--full] [--seeds N] [--jobs N] [--recorded]

Features are TF-IDF (200 dimensions), embeddings of all-MiniLM-L6-v2 (the extra `text`), or both.
All else is as in table 1, with the learning rate 1e-4, and in `default` without gold. The reduced
form leaves out the sets with long texts: embedding those of imdb alone takes an hour on one core.
(`better_features` studies the same question with hints of the truth.)
"""

import sys
from dataclasses import replace

from experiments.framework.definitions import LEARNING_RATES, Choices, Effort, Row, chosen
from experiments.framework.runner import Record
from experiments.framework.tables import (
    UNKNOWN,
    cost_sentence,
    f1_and_auc,
    mean_of,
    percentages,
    write_page,
)
from experiments.studies import embedded_default
from experiments.studies.embedded_default import KINDS, option_of
from experiments.studies.table1 import ROWS, setting_of, source_of

STORE = "embedded_features"
SETS = ("youtube", "sms", "sst2")
LONG_TEXTS = ("amazon_175", "imdb_12", "imdb_136")
METHODS = ("Snorkel", "Triplet-Mean", "majority vote", "WeaSEL")
TITLES = ("gold", *METHODS)

Results = dict[tuple[str, str, str], list[Record]]
"""The runs of every seed, by data set, kind of features and row."""


def main(argv: list[str]) -> None:
    """Run what is missing, and write the tables."""
    effort = Effort.parsed(argv, __doc__)
    # Run one seed of everything first, so that an interrupted study has both tables.
    embedded_default.results(STORE, replace(effort, seeds=1))
    found = results(effort)
    show(found, embedded_default.results(STORE, effort), effort)


def sets_of(effort: Effort) -> tuple[str, ...]:
    """Return the data sets of the reduced or the full form."""
    return (*SETS, *LONG_TEXTS) if effort.full else SETS


def results(effort: Effort) -> Results:
    """Run what is missing, and return the runs; those with a set's features are from table 1."""
    choices = {
        (name, kind, row.title): choices_of(source_of(name, row), row, kind, effort)
        for name in sets_of(effort)
        for kind in KINDS
        for row in ROWS
        if row.title in TITLES
    }
    stores: dict[str, list[Choices]] = {}
    for runs in choices.values():
        stores.setdefault(_store(runs), []).append(runs)
    done = {store: effort.obtain(store, rows) for store, rows in stores.items()}
    return {cell: chosen(runs, done[_store(runs)]) for cell, runs in choices.items()}


def _store(choices: Choices) -> str:
    """Return the store of a cell's runs."""
    first = choices[0][0]
    return STORE if "features" in first.options else first.dataset


def choices_of(name: str, row: Row, kind: str, effort: Effort) -> Choices:
    """Return the runs of one cell, one per seed."""
    setting = {**setting_of(name, row, effort), **option_of(name, kind)}
    return row.runs(name, effort.seeds, LEARNING_RATES[:1], setting)


def show(found: Results, of_default: embedded_default.Results, effort: Effort) -> None:
    """Write the answer, then F1 and AUC of every method, then the default."""
    header = ("", "features", *TITLES, "WeaSEL ahead of the best other")
    records = [record for cell in (*found.values(), *of_default.values()) for record in cell]
    once = {r["key"]: r["cpu_seconds"] for r in records if "features" in r["options"]}
    lines = [
        "Does joint training pay where features explain more?",
        "",
        *answer(found),
        *embedded_default.answer(of_default),
        "",
        f"# Table 1: mean ± deviation over {effort.seeds} seeds, in percent; learning rate 1e-4",
        "",
        *f1_and_auc(header, _rows(found, "f1"), _rows(found, "auc")),
        "",
        "# The default without gold: ROC-AUC (binary) or accuracy, in percent, mean of "
        + embedded_default.n_seeds(of_default),
        "",
        embedded_default.table(of_default),
        "",
        cost_sentence(len(once), sum(once.values()))
        + " Those with the features that a set comes with are of `table1` and `default`.",
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)


def answer(found: Results) -> list[str]:
    """Describe, for each kind of features, the mean score of gold and WeaSEL's mean lead."""
    gold, leads = {}, {}
    names, kinds = _finished(found)
    for kind in kinds:
        means = [_means(found, name, kind) for name in names]
        gold[kind] = sum(of_set["gold"] for of_set in means) / len(means)
        leads[kind] = [_lead(of_set)[0] for of_set in means]
    said = [f"- In table 1: {verdict(gold, leads)}"] if leads else []
    said += [
        f"- Table 1, {kind}: gold {gold[kind]:.1f} F1; WeaSEL's lead over the best other method is "
        f"{_mean(leads[kind]):+.2f} points; it is first on {sum(x > 0 for x in leads[kind])} "
        f"of {len(leads[kind])} sets."
        for kind in leads
    ]
    return said


def verdict(gold: dict[str, float], leads: dict[str, list[float]]) -> str:
    """Describe whether WeaSEL leads with the features on which gold scores highest.

    >>> verdict({"TF-IDF": 80.0, "both": 90.0}, {"TF-IDF": [-3.0], "both": [-1.0]})
    '**no, but it loses less** (1 set). Its lead is -1.00 with both, -3.00 with TF-IDF.'
    """
    weak, strong = min(gold, key=gold.__getitem__), max(gold, key=gold.__getitem__)
    before, now = _mean(leads[weak]), _mean(leads[strong])
    said = "yes" if now > 0 else "no, but it loses less" if now > before else "no"
    sets = f"{len(leads[strong])} set{'s' * (len(leads[strong]) != 1)}"
    return f"**{said}** ({sets}). Its lead is {now:+.2f} with {strong}, {before:+.2f} with {weak}."


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _finished(found: Results) -> tuple[list[str], list[str]]:
    """Return the comparable sets: those with all kinds of features that any set has."""
    names = list(dict.fromkeys(name for name, _, _ in found))
    whole = {
        (name, kind)
        for name in names
        for kind in KINDS
        if all(found[name, kind, title] for title in TITLES)
    }
    kinds = [kind for kind in KINDS if any((name, kind) in whole for name in names)]
    names = [name for name in names if all((name, kind) in whole for kind in kinds)]
    return names, kinds if names else []


def _means(found: Results, name: str, kind: str, column: str = "f1") -> dict[str, float]:
    return {t: float(percentages(found[name, kind, t], column).mean()) for t in TITLES}


def _rows(found: Results, column: str) -> list[list[str]]:
    rows = []
    for name, kind in dict.fromkeys((name, kind) for name, kind, _ in found):
        cells = [found[name, kind, title] for title in TITLES]
        lead = UNKNOWN
        if all(cells):
            ahead, best = _lead(_means(found, name, kind, column))
            lead = f"{ahead:+.2f} ({best})"
        rows.append([name, kind, *(mean_of(cell, column) for cell in cells), lead])
    return rows


def _lead(means: dict[str, float]) -> tuple[float, str]:
    """Return WeaSEL's lead over the best other method that learns from votes, and its name."""
    best = max((t for t in METHODS if t != "WeaSEL"), key=means.__getitem__)
    return means["WeaSEL"] - means[best], best


if __name__ == "__main__":
    main(sys.argv[1:])
