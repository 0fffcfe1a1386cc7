"""Label models compared with Snorkel, crowd-kit and FlyingSquid: CPU seconds and peak memory.

Each runs with one thread; with `--default-threads`, threads are not limited, as for a user.
Seconds are the total over all threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchmarks.harness import (
    UNKNOWN,
    arguments,
    markdown_table,
    merge_results,
    peak,
    read_results,
    run_in_turn,
    seconds,
    setting,
)
from benchmarks.vote_files import Planted, planted_folder

Measured = dict[str, Any]

DEFAULT_THREADS = ", default threads"
"""Suffix of the names of cases without a thread limit."""


@dataclass(frozen=True)
class Bar:
    """The requirements of a stage; every field bounds the result value of the same name."""

    stage: str
    faster: float | None = None
    """Lower bound: the peer's CPU seconds divided by ours."""
    leaner: float | None = None
    """Lower bound: the peer's extra peak memory divided by ours."""
    seconds: float | None = None
    """Upper bound: our CPU seconds."""
    total_mb: float | None = None
    """Upper bound: memory of our whole process, including votes and Python."""


@dataclass(frozen=True)
class Case:
    """One method and one peer on the same votes."""

    method: str
    votes: Planted
    bars: tuple[Bar, ...]
    peer: tuple[str, str] | None = None
    """Package and class."""
    options: dict[str, Any] = field(default_factory=dict)
    balance_given: bool = False
    """Whether both get P(class). Without it, Snorkel assumes equally frequent classes, while ours
    estimates P(class), which takes time. So both comparisons are of interest."""

    default_threads: bool = False
    """Whether threads are not limited, as for a user; else each has one thread."""

    @property
    def name(self) -> str:
        """The method and votes, as in the table."""
        given = ", balance given" if self.balance_given else ""
        threads = DEFAULT_THREADS if self.default_threads else ""
        return f"{self.method}, {self.votes.title}{given}{threads}"


SNORKEL = ("snorkel", "LabelModel")
DAWID_SKENE = ("crowdkit", "DawidSkene")
MILLION = 1_000_000
THREE_PERCENT = (0.03, 0.03)
LARGEST_MB = 8000

FAST_AND_LEAN = Bar("fit", faster=8, leaner=10)

SNORKEL_CASES = (
    Case("snorkel", Planted(MILLION, 100), (FAST_AND_LEAN, Bar("predict", faster=8)), SNORKEL),
    Case(
        "snorkel",
        Planted(MILLION, 100, coverage=THREE_PERCENT),
        (replace(FAST_AND_LEAN, faster=20), Bar("predict", faster=20)),
        SNORKEL,
    ),
    Case(
        "snorkel",
        Planted(MILLION, 50, n_classes=10),
        (replace(FAST_AND_LEAN, faster=10), Bar("predict", faster=10, leaner=10)),
        SNORKEL,
    ),
)
CASES = (
    *SNORKEL_CASES,
    *(replace(case, balance_given=True) for case in SNORKEL_CASES),
    Case(
        "dawid_skene",
        Planted(MILLION, 10),
        (Bar("fit and predict", faster=10), Bar("one step", faster=10)),
        DAWID_SKENE,
    ),
    Case(
        "dawid_skene",
        Planted(100_000, 50),
        (Bar("fit and predict", faster=10), Bar("one step", faster=10)),
        DAWID_SKENE,
    ),
    Case(
        "one_coin",
        Planted(100_000, 50),
        (Bar("fit and predict"), Bar("one step")),
        ("crowdkit", "OneCoinDawidSkene"),
    ),
    Case(
        "majority_vote",
        Planted(MILLION, 10),
        (Bar("fit and predict", faster=20),),
        ("crowdkit", "MajorityVote"),
    ),
    Case("glad", Planted(2000, 20), (Bar("fit and predict", faster=10),), ("crowdkit", "GLAD")),
    Case("mace", Planted(2000, 20), (Bar("fit and predict", faster=10),), ("crowdkit", "MACE")),
    Case(
        "triplet",
        Planted(10_000, 100),
        (Bar("fit", seconds=0.1), Bar("predict", seconds=0.02)),
        ("flyingsquid", "LabelModel"),
        options={"aggregate": "mean"},
    ),
)
LARGE = Planted(10 * MILLION, 100, coverage=THREE_PERCENT)


def main(argv: Sequence[str] = ()) -> None:
    """Time every case, print the table, and store the results unless `--quick`."""
    options = arguments(argv)
    if options.show:
        print(results_table(read_results("label_models")))
        return
    rows = []
    for case in _chosen(options.only, options.quick, options.default_threads):
        print(f"{case.name} ...", flush=True)
        rows.append(_compared(case, options.repeats))
        if not options.quick:
            merge_results("label_models", rows)
    print("\n" + results_table(rows))


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the results as a Markdown table: one row per case and stage."""
    header = (
        "case",
        "stage",
        "Wiesel",
        "peer",
        "ratio",
        "memory",
        "peer's memory",
        "labels right, %",
        "first fit and predict",
        "bar",
    )
    lines = [_line(row, entry) for row in rows for entry in row["stages"]]
    return markdown_table(header, lines)


def _chosen(only: str, quick: bool, default_threads: bool) -> Iterator[Case]:
    from wiesel.label_models import REGISTRY

    bars = (Bar("fit", total_mb=LARGEST_MB), Bar("predict"))
    large = [Case(name, LARGE, bars) for name in REGISTRY]
    cases = [*CASES, *large]
    if default_threads:  # cases without a peer are in `benchmarks threads`
        cases = [replace(case, default_threads=True) for case in CASES]
    for case in cases:
        if only not in case.name:
            continue
        if case.method in REGISTRY:
            yield _smaller(case) if quick else case
        else:
            print(f"{case.name}: no such method is registered, left out")


def _smaller(case: Case) -> Case:
    """Return the case with a hundredth of the items; the bars do not apply to it."""
    votes = replace(case.votes, n_items=max(1000, case.votes.n_items // 100))
    return replace(case, votes=votes, bars=tuple(Bar(bar.stage) for bar in case.bars))


def _compared(case: Case, repeats: int) -> dict[str, Any]:
    folder = str(planted_folder(case.votes))
    n_classes = case.votes.n_classes
    shared = {
        "votes": folder,
        "balance": [1 / n_classes] * n_classes if case.balance_given else None,
    }
    jobs = [{"package": "wiesel", "method": case.method, "options": case.options, **shared}]
    if case.peer:
        package, method = case.peer
        jobs.append({"package": package, "method": method, **shared})
    n_runs = 1 if case.votes == LARGE else repeats
    runs = run_in_turn(jobs, n_runs, one_thread=not case.default_threads)
    ours, *peers = [{**run, "package": job["package"]} for run, job in zip(runs, jobs, strict=True)]
    theirs = peers[0] if peers else None
    stages = [_stage(bar, ours, theirs) for bar in case.bars]
    return {
        "case": case.name,
        "ours": ours,
        "peer": theirs,
        "stages": stages,
        **setting(),
        "threads": "defaults" if case.default_threads else 1,
    }


def _stage(bar: Bar, ours: Measured, theirs: Measured | None) -> dict[str, Any]:
    """Return one row of the table: seconds and megabytes of both, and whether the bar is met."""
    mine, room = _cost(bar.stage, ours)
    other, other_room = (None, None) if theirs is None else _cost(bar.stage, theirs)
    entry = {
        "stage": bar.stage,
        "seconds": mine,
        "peer_seconds": other,
        "faster": None if other is None else other / mine,
        "mb": room,
        "peer_mb": other_room,
        # A difference below one memory page is not a measurement.
        "leaner": None if other_room is None else other_room / max(room, 0.1),
        "total_mb": ours["total_mb"],
    }
    bounds = {name: value for name, value in asdict(bar).items() if name != "stage" and value}
    entry["bar"] = bounds
    entry["met"] = all(_within(name, entry[name], bounds[name]) for name in bounds)
    return entry


def _cost(stage: str, run: Measured) -> tuple[float, float]:
    """Return the CPU seconds and extra peak memory of a stage."""
    if stage == "one step":
        return run["fit_seconds"] / run["n_iter"], run["fit_mb"]
    if stage != "fit and predict":
        return run[f"{stage}_seconds"], run[f"{stage}_mb"]
    if run["package"] == "crowdkit":
        # It labels the items in `fit`; `predict` only reorders a table here.
        return run["fit_seconds"], run["fit_mb"]
    return run["fit_seconds"] + run["predict_seconds"], max(run["fit_mb"], run["predict_mb"])


def _within(name: str, measured: float, bound: float) -> bool:
    return measured >= bound if name in ("faster", "leaner") else measured <= bound


def _line(row: dict[str, Any], entry: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["case"],
        entry["stage"],
        seconds(entry["seconds"]),
        seconds(entry["peer_seconds"]),
        UNKNOWN if entry["faster"] is None else f"{entry['faster']:.1f}x",
        peak(entry["mb"]),
        peak(entry["peer_mb"]),
        " / ".join(f"{100 * run['label_accuracy']:.1f}" for run in _runs(row)),
        " / ".join(seconds(run.get("first_seconds")) for run in _runs(row)),
        _bar_text(entry),
    )


def _runs(row: dict[str, Any]) -> list[Measured]:
    return [run for run in (row["ours"], row["peer"]) if run is not None]


def _bar_text(entry: dict[str, Any]) -> str:
    words = {
        "faster": "{:g}x",
        "leaner": "1/{:g} of the memory",
        "seconds": "{:g} s",
        "total_mb": "{:g} MB in all",
    }
    parts = [words[name].format(bound) for name, bound in entry["bar"].items()]
    return f"{', '.join(parts)}: {'met' if entry['met'] else 'MISSED'}" if parts else UNKNOWN
