"""Accuracy compared with the peers: planted truth, and the crowd answer sets of WIESEL_DATA."""

import json
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import (
    UNKNOWN,
    arguments,
    markdown_table,
    merge_results,
    read_results,
    run_jobs,
    setting,
)
from benchmarks.systems import RESTARTS
from benchmarks.vote_files import FOLDER, Planted, load_votes, planted_folder, save_votes

SEEDS = range(5)
SKEWED = {2: (0.8, 0.2), 5: (0.4, 0.25, 0.15, 0.12, 0.08)}
SLACK = 0.005
"""Results within half a point count as equal."""


class Pair(NamedTuple):
    """Our method, the peer's equivalent, and whether both are given P(class)."""

    ours: str
    package: str
    theirs: str
    informed: bool = False
    binary_only: bool = False
    options: str = ""
    """The names of our options that are switched on."""

    @property
    def title(self) -> str:
        """The name in the tables."""
        return f"{self.ours}, {self.options}" if self.options else self.ours


PAIRS = (
    Pair("majority_vote", "crowdkit", "MajorityVote"),
    Pair("dawid_skene", "crowdkit", "DawidSkene"),
    Pair("one_coin", "crowdkit", "OneCoinDawidSkene"),
    Pair("snorkel", "snorkel", "LabelModel", informed=True),
    Pair("triplet", "flyingsquid", "LabelModel", informed=True, binary_only=True),
)
CROWD_PAIRS = (
    *PAIRS[:3],
    Pair("one_coin", "crowdkit", "OneCoinDawidSkene", options="learn_class_balance"),
    Pair("glad", "crowdkit", "GLAD"),
    Pair("mace", "crowdkit", "MACE"),
)


def main(argv: Sequence[str] = ()) -> None:
    """Compare on planted truth and on crowd answers; store the results unless `--quick`."""
    options = arguments(argv)
    planted, crowd = read_results("parity"), read_results("crowd")
    if not options.show:
        planted = _kept("parity", _planted_rows(options), options.quick)
        crowd = _kept("crowd", _crowd_rows(options), options.quick)
    print(planted_table(planted), "\n")
    print(crowd_table(crowd))


def _kept(name: str, rows: Iterator[dict[str, Any]], quick: bool) -> list[dict[str, Any]]:
    """Return the rows; each is stored as soon as it is measured."""
    kept = []
    for row in rows:
        kept.append({**row, "key": f"{row['case']}: {row['method']}"})
        print(kept[-1]["key"], flush=True)
        if not quick:
            merge_results(name, kept[-1:], key="key")
    return kept


def planted_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table of planted truth."""
    header = ("votes", "method", "error of accuracies", "peer", "labels right", "peer", "as good")
    return markdown_table(header, [_planted_line(row) for row in rows])


def crowd_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table of the crowd answer sets."""
    header = ("answers", "method", "labels right", "crowd-kit", "on the card", "as good")
    return markdown_table(header, [_crowd_line(row) for row in rows])


def _planted_rows(options: Any) -> Iterator[dict[str, Any]]:
    for planted in _tasks(options.quick):
        title = f"{planted.title}, {'skewed' if planted.balance else 'balanced'}"
        seeds = SEEDS[:1] if options.quick else SEEDS
        folders = [planted_folder(replace(planted, seed=seed)) for seed in seeds]
        for pair in _registered(PAIRS):
            if options.only in f"{title} {pair.ours}" and (
                planted.n_classes == 2 or not pair.binary_only
            ):
                balance = planted.balance if pair.informed else None
                ours, theirs = _both(pair, folders, balance)
                truth = np.linspace(0.6, 0.9, planted.n_voters)
                yield {
                    "case": title,
                    "method": pair.ours,
                    "ours": _summary(ours, truth),
                    "peer": _summary(theirs, truth),
                    "seeds": len(folders),
                    **setting(),
                }


def _tasks(quick: bool) -> Iterator[Planted]:
    n_items = 1000 if quick else 10_000
    for n_classes in (2, 5):
        for balance in (None, SKEWED[n_classes]):
            yield Planted(n_items, 20, n_classes, (0.3, 0.7), balance)
            yield Planted(n_items, 100, n_classes, (0.03, 0.03), balance)


def _crowd_rows(options: Any) -> Iterator[dict[str, Any]]:
    root = os.environ.get("WIESEL_DATA")
    if not root:
        print("WIESEL_DATA is not set: the crowd answer sets are left out.")
        return
    for path in sorted(Path(root).glob("*/answers.parquet")):
        card = json.loads((path.parent / "card.json").read_text())
        folder = _crowd_folder(path.parent)
        if (load_votes(folder).gold < 0).all():
            continue
        for pair in _registered(CROWD_PAIRS):
            if options.only in f"{path.parent.name} {pair.title}":
                ours, theirs = _both(pair, [folder], None)
                yield {
                    "case": path.parent.name,
                    "method": pair.title,
                    "ours": _summary(ours, None),
                    "peer": _summary(theirs, None),
                    "card": card.get(f"{pair.ours}_accuracy"),
                    **setting(),
                }


def _crowd_folder(source: Path) -> Path:
    """Return the answers as vote files; a worker's last answer to a task counts."""
    from wiesel.datasets import load_dataset

    folder = FOLDER / f"crowd-{source.name}"
    if not (folder / "sizes.json").exists():
        split = load_dataset(source, duplicates="last").train
        save_votes(folder, split.votes, np.asarray(split.gold))
    return folder


def _registered(pairs: Sequence[Pair]) -> list[Pair]:
    from wiesel.label_models import REGISTRY

    return [pair for pair in pairs if pair.ours in REGISTRY]


def _both(
    pair: Pair, folders: Sequence[Path], balance: Sequence[float] | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    shared = {"balance": balance, "accuracies": True, "warm_up": False}
    ours = [
        {
            "package": "wiesel",
            "method": pair.ours,
            "votes": str(folder),
            "options": dict.fromkeys(pair.options.split(), True),
            **shared,
        }
        for folder in folders
    ]
    theirs = [
        {
            "package": pair.package,
            "method": pair.theirs,
            "votes": str(folder),
            "options": RESTARTS.get(pair.theirs, {}),
            **shared,
        }
        for folder in folders
    ]
    return run_jobs(ours), run_jobs(theirs)


def _summary(runs: Sequence[dict[str, Any]], truth: np.ndarray | None) -> dict[str, Any]:
    """Return means over the runs: label accuracy, and the error of the learned accuracies."""
    right = [run["label_accuracy"] for run in runs]
    errors = [
        float(np.abs(np.array(run["accuracies"]) - truth).mean())
        for run in runs
        if truth is not None and run["accuracies"] is not None
    ]
    return {
        "label_accuracy": round(statistics.fmean(right), 4),
        "label_accuracy_lowest": round(min(right), 4),
        "accuracy_error": round(statistics.fmean(errors), 4) if errors else None,
        "versions": runs[0]["versions"],
    }


def as_good(row: dict[str, Any]) -> bool:
    """Whether our labels and learned accuracies are as good as the peer's, within half a point."""
    ours, peer = row["ours"], row["peer"]
    labels = ours["label_accuracy"] >= peer["label_accuracy"] - SLACK
    known = ours["accuracy_error"] is not None and peer["accuracy_error"] is not None
    return labels and (not known or ours["accuracy_error"] <= peer["accuracy_error"] + SLACK)


def _planted_line(row: dict[str, Any]) -> tuple[str, ...]:
    ours, peer = row["ours"], row["peer"]
    return (
        row["case"],
        row["method"],
        _points(ours["accuracy_error"]),
        _points(peer["accuracy_error"]),
        _points(ours["label_accuracy"]),
        _points(peer["label_accuracy"]),
        "yes" if as_good(row) else "NO",
    )


def _crowd_line(row: dict[str, Any]) -> tuple[str, ...]:
    ours, peer = row["ours"]["label_accuracy"], row["peer"]["label_accuracy"]
    # Cards count every repeated answer of a worker; these votes do not.
    verdict = "yes" if ours >= peer - SLACK else "NO"
    return row["case"], row["method"], _points(ours), _points(peer), _points(row["card"]), verdict


def _points(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.2f} %"
