"""The comparison page: each method's gain over majority vote, by mode and half."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from benchmarks.harness import markdown_table

from experiments.framework.runner import Record
from experiments.framework.tables import UNKNOWN, cost_sentence, write_page
from experiments.tasks.families import family_specs
from experiments.tasks.methods import BASELINE, GOLD, METHODS
from experiments.tasks.specs import all_specs, spec_named

MODES = {
    "blind": "Without any gold",
    "validation": "With the validation items",
    "gold50": "With 50 gold items",
}
GROUPS = (("choose", True), ("choose", False), ("confirm", True), ("confirm", False))
"""Groups of tasks: the half, and whether the tasks are binary."""

TOLERATED = -2.0
"""In points; the page reports the share of tasks that lose more."""
CLIFF = -10.0
"""In points; no task should lose more."""
LEAST_GAP = 0.03
"""The least gap between gold and the baseline of which a share is closed."""
FIGURES = ("score", "accuracy", "macro_f1", "log_loss")
N_WORST = 5
_BEFORE = "`committee_before` is the committee of 1ec35445, with equal weights and without offsets."

Scores = dict[str, dict[str, Record]]
"""Records by method and task."""


def write_tasks_page(records: Iterable[Record], command: str) -> None:
    """Write results/tasks.md from all results of existing tasks, and print it."""
    known = {spec.name: spec.fingerprint for spec in all_specs()}
    current = [r for r in records if known.get(r["dataset"]) == r["options"]["spec"]]
    lines = _introduction(len(known))
    for mode, title in MODES.items():
        scores = by_method([r for r in current if r["options"]["mode"] == mode])
        if BASELINE in scores:
            lines += [f"## {title}", "", *section(scores), ""]
            if _parts(scores, by_family=False):
                lines += ["Tasks with all four figures:", "", *four_figures(scores), ""]
    seconds = sum(record["fit_cpu_seconds"] for record in current)
    write_page("tasks", command, [*lines, cost_sentence(len(current), seconds)])


def write_families_page(records: Iterable[Record], command: str) -> None:
    """Write results/families.md from all results of existing tasks of families, and print it."""
    known = {spec.name: spec for spec in family_specs()}
    current = [
        r
        for r in records
        if r["dataset"] in known and r["options"]["spec"] == known[r["dataset"]].fingerprint
    ]
    lines = [
        f"{len(known)} generated tasks of the families in `experiments/tasks/families.py`, drawn "
        "by seed for both halves before anything was run on them (`--list` describes each). "
        + _BEFORE,
        "",
    ]
    for mode, title in MODES.items():
        scores = by_method([r for r in current if r["options"]["mode"] == mode])
        if BASELINE in scores:
            lines += [f"## {title}", "", *four_figures(scores), ""]
            lines += ["By family:", "", *four_figures(scores, by_family=True), ""]
            lines += [*_worst(scores, [*scores]), "", *_by_agreement(scores), ""]
    seconds = sum(record["fit_cpu_seconds"] for record in current)
    write_page("families", command, [*lines, cost_sentence(len(current), seconds)])


def four_figures(scores: Scores, by_family: bool = False) -> list[str]:
    """Return each method's means and differences to the baseline, in all four figures.

    Tasks count where the baseline and the method have all four. The share of the gap that is closed
    is the median over the tasks where gold is at least three points better than the baseline.
    """
    header = ["method", "tasks", "", "main score", "accuracy", "macro F1", "log loss"]
    header += ["gap closed", f"accuracy below {TOLERATED:.0f}", f"below {CLIFF:.0f}"]
    rows = []
    for part in _parts(scores, by_family):
        for name, own in scores.items():
            tasks = [t for t in part.tasks if all(f in own.get(t, {}) for f in FIGURES)]
            if tasks and not (by_family and name == BASELINE):
                rows.append([name, str(len(tasks)), part.title, *_figures(scores, name, tasks)])
    return [markdown_table(header, rows)]


def _by_agreement(scores: Scores) -> list[str]:
    """Return how often the committee loses to the baseline, by the agreement of its members."""
    rows = []
    known = {t: r for t, r in scores.get("committee", {}).items() if "agreement" in r}
    for low, high in pairwise((0.0, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0001)):
        own = [t for t, r in known.items() if low <= r["agreement"] < high]
        lost = [100 * (known[t]["accuracy"] - scores[BASELINE][t]["accuracy"]) for t in own]
        cells = [mean_and_error(lost), share(_array(lost) < TOLERATED)]
        rows.append([f"{low:.2f} to {min(high, 1):.2f}", str(len(own)), *cells])
    header = ["agreement of the members", "tasks", "accuracy", f"worse than {TOLERATED:.0f}"]
    return [markdown_table(header, rows)] if known else []


class _Part(NamedTuple):
    title: str
    tasks: list[str]


def _parts(scores: Scores, by_family: bool) -> list[_Part]:
    """Return the tasks of each half, or of each family in each half."""
    groups: dict[str, list[str]] = {}
    for task, record in scores[BASELINE].items():
        if all(figure in record for figure in FIGURES):
            spec = spec_named(task)
            family = f"{getattr(spec, 'family', '')}, " if by_family else ""
            groups.setdefault(f"{family}{spec.half}", []).append(task)
    return [_Part(title, tasks) for title, tasks in sorted(groups.items())]


def _figures(scores: Scores, name: str, tasks: Sequence[str]) -> list[str]:
    """Return a method's cells: its means if it is the baseline, else its differences."""
    own, baseline, gold = scores[name], scores[BASELINE], scores.get(GOLD, {})
    if name == BASELINE:
        means = [_array(own[t][figure] for t in tasks).mean() for figure in FIGURES]
        return [*(f"{100 * mean:.2f}" for mean in means[:3]), f"{means[3]:.3f}", *3 * [UNKNOWN]]
    difference = {
        figure: _array(own[t][figure] - baseline[t][figure] for t in tasks) for figure in FIGURES
    }
    cells = [mean_and_error(100 * difference[figure]) for figure in FIGURES[:3]]
    cells.append(f"{difference['log_loss'].mean():+.3f}")
    gaps = {t: gold[t]["score"] - baseline[t]["score"] for t in tasks if "score" in gold.get(t, {})}
    closed = [
        (own[t]["score"] - baseline[t]["score"]) / gap
        for t, gap in gaps.items()
        if gap >= LEAST_GAP
    ]
    lost = 100 * difference["accuracy"]
    return [
        *cells,
        f"{100 * np.median(closed):.0f} %" if closed else UNKNOWN,
        share(lost < TOLERATED),
        share(lost < CLIFF),
    ]


def by_method(records: Iterable[Record]) -> Scores:
    """Return the records by method and task."""
    found: Scores = {}
    for record in records:
        found.setdefault(record["method"], {})[record["dataset"]] = record
    return found


def section(scores: Scores) -> list[str]:
    """Return the tables of one mode."""
    names = [name for name in METHODS if name in scores]
    names += sorted(scores.keys() - METHODS.keys())
    return [
        *_means(scores, names),
        "",
        *_gains(scores, names),
        "",
        *_worst(scores, names),
    ]


def gains(scores: Scores, method: str, half: str | None = None) -> dict[str, float]:
    """Return a method's gain over the baseline by task, in points, where both are known."""
    baseline = scores[BASELINE]
    return {
        task: 100 * (record["score"] - baseline[task]["score"])
        for task, record in scores.get(method, {}).items()
        if half in (None, spec_named(task).half)
        and record["score"] is not None
        and baseline.get(task, {}).get("score") is not None
    }


def _introduction(n_tasks: int) -> list[str]:
    return [
        f"{n_tasks} generated tasks (`python -m experiments tasks --list` describes each). Scores "
        "are ROC-AUC for binary tasks and accuracy for multi-class ones, in percent; every method "
        "is five networks averaged (the committee two or four for each member), "
        "8 epochs of 50 updates without gold, with gold the best of 20 epochs, and at least one "
        f"epoch for each class. Differences are to {BASELINE} on the same tasks, in "
        f"points, with the standard error of their mean over tasks. {_BEFORE}",
        "",
    ]


def _means(scores: Scores, names: Sequence[str]) -> list[str]:
    header = ["mean score", *(group_title(*group) for group in GROUPS), "tasks", "failed"]
    rows = []
    for name in names:
        records = [*scores[name].values()]
        cells = [_mean_score(of_group(records, *group)) for group in GROUPS]
        failed = sum(record["score"] is None for record in records)
        rows.append([name, *cells, str(len(records)), str(failed)])
    return [markdown_table(header, rows)]


def _gains(scores: Scores, names: Sequence[str]) -> list[str]:
    header = ["difference", *(group_title(*group) for group in GROUPS)]
    header += ["choose", "confirm", f"worse than {TOLERATED:.0f}, choose", "confirm"]
    rows = []
    for name in (name for name in names if name != BASELINE):
        gained = gains(scores, name)
        records = [scores[name][task] for task in gained]
        groups = [of_group(records, *group) for group in GROUPS]
        cells = [mean_and_error([gained[r["dataset"]] for r in group]) for group in groups]
        halves = [_array(gains(scores, name, half).values()) for half in ("choose", "confirm")]
        cells += [mean_and_error(half) for half in halves]
        cells += [share(half < TOLERATED) for half in halves]
        rows.append([name, *cells])
    return [markdown_table(header, rows)] if rows else []


def _worst(scores: Scores, names: Sequence[str]) -> list[str]:
    lines = []
    for name in (name for name in names if name != BASELINE):
        gained = gains(scores, name)
        worst = sorted(gained, key=gained.__getitem__)[:N_WORST]
        shown = ", ".join(f"{task} {gained[task]:+.1f}" for task in worst)
        lines.append(f"- {name}, worst tasks: {shown or UNKNOWN}.")
    return lines


def group_title(half: str, binary: bool) -> str:
    """Return the title of a group's column."""
    return f"{half}, {'binary' if binary else 'multi-class'}"


def of_group(records: Iterable[Record], half: str, binary: bool) -> list[Record]:
    """Return the records of the tasks in a group."""
    specs = ((record, spec_named(record["dataset"])) for record in records)
    return [r for r, spec in specs if spec.half == half and spec.is_binary == binary]


def _mean_score(records: Iterable[Record]) -> str:
    known = _array(100 * record["score"] for record in records if record["score"] is not None)
    return f"{known.mean():.2f}" if len(known) else UNKNOWN


def mean_and_error(gained: Iterable[float]) -> str:
    """Return the mean and standard error.

    >>> mean_and_error([1.0, 3.0]), mean_and_error([])
    ('+2.00 ± 1.00', '-')
    """
    values = _array(gained)
    if len(values) < 2:
        return f"{values[0]:+.2f}" if len(values) else UNKNOWN
    return f"{values.mean():+.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}"


def share(mask: npt.NDArray[np.bool_]) -> str:
    """Return the share of True in percent."""
    return f"{100 * mask.mean():.0f} %" if len(mask) else UNKNOWN


def _array(values: Iterable[float]) -> npt.NDArray[np.float64]:
    return np.array([*values], dtype=np.float64)
