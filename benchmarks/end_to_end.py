"""From texts to a trained classifier, stage by stage, beside a pipeline built with Snorkel.

Both read the same CSV files of 30-word texts, apply the same 30 keyword functions, fit Snorkel's
label model, reduce TF-IDF to 300 dimensions, and train the same network for the same number of
steps. Wiesel's side is `wiesel run`, which also writes the report page. The pipeline is Snorkel's
applier and label model, TF-IDF and SVD of scikit-learn, and a loop of plain torch. Each runs twice
in a fresh process, on two copies of the files, because the first call of a process costs more.
"""

import csv
import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    UNKNOWN,
    arguments,
    markdown_table,
    merge_results,
    peak,
    read_results,
    run_module,
    seconds,
    setting,
)
from benchmarks.worker import memory_peak, reset_peak, versions

MODULE = "benchmarks.end_to_end"
CLASSES = ("billing", "technical")
SIZES = (1_000, 10_000, 100_000)
N_TEST = 2_000
N_FUNCTIONS, WORDS_EACH = 30, 3
N_DIMENSIONS = 300
TOLD = "wiesel, told the shares of the classes"
_N_WORDS, _POOL, _LENGTH = 20_000, 200, 30


def write_files(folder: Path, n_rows: int, balance_given: bool = False) -> None:
    """Write train.csv, test.csv, the functions as rules.toml and keywords.json, and wiesel.toml.

    With `balance_given`, wiesel.toml says that the classes are equally frequent.

    Words are drawn by Zipf's law; 8 % are drawn from a pool of 200 words that lean to a class, and
    three in four of these lean to the right one. A function knows three words of a pool.
    """
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for name, size in (("train", n_rows), ("test", N_TEST)):
        gold = rng.integers(2, size=size)
        shares = 1 / np.arange(1, _N_WORDS + 1)
        words = rng.choice(_N_WORDS, size=(size, _LENGTH), p=shares / shares.sum())
        leaning = rng.random(words.shape) < 0.08
        side = np.where(rng.random(words.shape) < 0.75, gold[:, None], 1 - gold[:, None])
        pooled = _N_WORDS + _POOL * side + rng.integers(_POOL, size=words.shape)
        words = np.where(leaning, pooled, words)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(("id", "text", "label") if name == "test" else ("id", "text"))
            for place, (row, label) in enumerate(zip(words.tolist(), gold.tolist(), strict=True)):
                text = " ".join(f"word{number}" for number in row)
                given = (CLASSES[label],) if name == "test" else ()
                out.writerow((f"{name}-{place}", text, *given))
    functions = [
        {
            "label": CLASSES[k % 2],
            "keywords": [
                f"word{_N_WORDS + _POOL * (k % 2) + k // 2 * WORDS_EACH + j}"
                for j in range(WORDS_EACH)
            ],
        }
        for k in range(N_FUNCTIONS)
    ]
    (folder / "keywords.json").write_text(json.dumps(functions))
    rules = [
        f'[[lf]]\nname = "f{k}"\nkind = "keywords"\ncolumn = "text"\n'
        f"label = {json.dumps(each['label'])}\nkeywords = {json.dumps(each['keywords'])}\n"
        for k, each in enumerate(functions)
    ]
    (folder / "rules.toml").write_text("\n".join(rules))
    (folder / "wiesel.toml").write_text(
        f"classes = {json.dumps(CLASSES)}\n"
        '[data]\ntrain = "train.csv"\ntest = "test.csv"\nid = "id"\nlabel = "label"\n'
        '[votes]\nlfs = ["rules.toml"]\n'
        f'[features]\nkind = "tfidf"\ncolumn = "text"\nn_dimensions = {N_DIMENSIONS}\n'
        '[end_model]\nname = "mlp"\n'
        '[method]\nname = "snorkel"\nbaselines = []\n'
        + ("[training]\nclass_balance = [0.5, 0.5]\n" if balance_given else "")
    )


class Stages:
    """CPU seconds, wall-clock seconds and the peak of memory of the stages of one call."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._restart()

    def _restart(self) -> None:
        reset_peak()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def end(self, name: str) -> None:
        """End a stage; one that was ended before continues."""
        took = {
            "cpu": time.process_time() - self._cpu,
            "wall": time.perf_counter() - self._wall,
            "mb": memory_peak(),
        }
        row = next((row for row in self.rows if row["stage"] == name), None)
        if row is None:
            self.rows.append({"stage": name, **took})
        else:
            row.update(cpu=row["cpu"] + took["cpu"], wall=row["wall"] + took["wall"])
            row["mb"] = max(row["mb"], took["mb"])
        self._restart()


MODELS = "label model and network"
PREDICTIONS = "predictions, report"


def run_wiesel(folder: Path, stages: Stages) -> float:
    """Run the project, and return the accuracy on test."""
    from wiesel.project.pipeline import run_project
    from wiesel.project.settings import read_project

    stages.end("imports")
    names = {"read": "read", "votes": "votes", "features": "features", "train": MODELS}

    def say(stage: str, _text: str) -> None:
        if stage in names:
            stages.end(names[stage])

    outcome = run_project(read_project(folder), None, say)
    stages.end(PREDICTIONS)
    return float(outcome.rows[0]["accuracy"])


def run_snorkel(folder: Path, stages: Stages) -> float:
    """Run the pipeline built with Snorkel, and return the accuracy on test."""
    import pandas as pd
    import torch
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from snorkel.labeling import LabelingFunction, PandasLFApplier
    from snorkel.labeling.model import LabelModel

    stages.end("imports")
    train, test = (pd.read_csv(folder / f"{name}.csv") for name in ("train", "test"))
    stages.end("read")

    def function(name: str, label: int, keywords: Sequence[str]) -> Any:
        known = frozenset(keywords)
        return LabelingFunction(
            name, lambda row: -1 if known.isdisjoint(row.text.split()) else label
        )

    written = json.loads((folder / "keywords.json").read_text())
    functions = [
        function(f"f{k}", CLASSES.index(each["label"]), each["keywords"])
        for k, each in enumerate(written)
    ]
    applier = PandasLFApplier(functions)
    votes = applier.apply(train, progress_bar=False)
    applier.apply(test, progress_bar=False)  # as `wiesel run` does for its report
    stages.end("votes")
    features = make_pipeline(
        TfidfVectorizer(max_features=20_000, min_df=2, dtype=np.float32),
        TruncatedSVD(N_DIMENSIONS, random_state=0),
        StandardScaler(),
    )
    vectors = features.fit_transform(train.text).astype(np.float32)
    test_vectors = features.transform(test.text).astype(np.float32)
    stages.end("features")
    label_model = LabelModel(cardinality=len(CLASSES), verbose=False)
    label_model.fit(votes, progress_bar=False, seed=0)
    covered = (votes >= 0).any(axis=1)
    soft = torch.from_numpy(label_model.predict_proba(votes[covered]).astype(np.float32))
    network = _trained(torch.from_numpy(vectors[covered]), soft)
    stages.end(MODELS)
    with torch.no_grad():
        proba = [
            network(torch.from_numpy(given)).softmax(1).numpy() for given in (vectors, test_vectors)
        ]
    predicted = pd.DataFrame(proba[0], columns=list(CLASSES)).assign(id=train.id)
    predicted.to_csv(folder / "predictions.csv", index=False)
    accuracy = float((np.array(CLASSES)[proba[1].argmax(axis=1)] == test.label).mean())
    stages.end(PREDICTIONS)
    return accuracy


def _trained(vectors: Any, soft: Any) -> Any:
    """Return the network of `wiesel.nn.MLP`, trained for as many steps as Wiesel's defaults."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Linear(vectors.shape[1], 50), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.Linear(50, 50), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.Linear(50, 25), nn.ReLU(), nn.Linear(25, len(CLASSES))),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=7e-7)
    for _ in range(8):
        chosen = torch.cat([torch.randperm(len(vectors)) for _ in range(3200 // len(vectors) + 1)])
        for batch in chosen[:3200].split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(vectors[batch]), soft[batch]).backward()
            optimizer.step()
    return network.eval()


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """Run a pipeline on both copies of the files in this process, and return both tables."""
    run: Callable[[Path, Stages], float] = {"wiesel": run_wiesel, "snorkel": run_snorkel}[
        job["package"]
    ]
    calls = []
    for folder in job["folders"]:
        stages = Stages()
        accuracy = run(Path(folder), stages)
        calls.append(stages.rows)
    second = {row["stage"]: row["cpu"] for row in calls[1]}
    rows = [{**row, "second_cpu": second[row["stage"]]} for row in calls[0]]
    return {"stages": rows, "accuracy": accuracy, "versions": versions(job["package"])}


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a line for every number of rows and stage, Wiesel beside the pipeline."""
    lines = []
    for n_rows in sorted({row["n_rows"] for row in rows if row["package"] != TOLD}):
        both = {row["package"]: row for row in rows if row["n_rows"] == n_rows}
        ours, peer = (
            _with_total(both[name]["stages"]) if name in both else {}
            for name in ("wiesel", "snorkel")
        )
        nothing = (UNKNOWN,) * 3
        for stage in ours or peer:
            cells = [
                cell
                for each in (ours, peer)
                for cell in (_cells(each[stage]) if each else (UNKNOWN, *nothing))
            ]
            lines.append((f"{n_rows:,}", stage, *cells))
        right = [
            f"{both[name]['accuracy']:.1%}" if name in both else UNKNOWN
            for name in ("wiesel", "snorkel")
        ]
        lines.append((f"{n_rows:,}", "accuracy on test", right[0], *nothing, right[1], *nothing))
    measures = ("CPU", "second call", "wall", "peak")
    header = ("rows", "stage", *measures, *(f"Snorkel's {name}" for name in measures))
    parts = markdown_table(header, lines), memory_slope(rows), balance_line(rows)
    return "\n\n".join(filter(None, parts))


def quotable_lines(rows: Sequence[dict[str, Any]], n_rows: int = 100_000) -> list[tuple[str, ...]]:
    """Return all of a run beside the pipeline, as a line of the README's table; none if unknown."""
    both = {row["package"]: _with_total(row["stages"]) for row in rows if row["n_rows"] == n_rows}
    if len(both) < 2:
        return []
    ours, peer = (both[name]["all of it"] for name in ("wiesel", "snorkel"))
    return [
        (
            f"`wiesel run` on {n_rows:,} texts, one thread",
            seconds(ours["cpu"]),
            f"snorkel's pipeline {seconds(peer['cpu'])}",
            f"{peer['cpu'] / ours['cpu']:.1f}x",
            peak(ours["mb"]),
            peak(peer["mb"]),
        )
    ]


def balance_line(rows: Sequence[dict[str, Any]]) -> str:
    """Return what it changes if Wiesel is told how frequent the classes are; empty if unknown."""
    right = {(row["package"], row["n_rows"]): row["accuracy"] for row in rows}
    told = [n_rows for package, n_rows in right if package == TOLD and ("wiesel", n_rows) in right]
    if not told:
        return ""
    n_rows = max(told)
    return (
        "The classes are equally frequent, as Snorkel's label model assumes; Wiesel estimates "
        f"their shares from the votes. Told so, it is right on {right[TOLD, n_rows]:.1%} of the "
        f"test rows after {n_rows:,} rows instead of {right['wiesel', n_rows]:.1%}."
    )


def memory_slope(rows: Sequence[dict[str, Any]]) -> str:
    """Return how Wiesel's peak of memory grows from 100,000 rows on; empty if it is unknown."""
    peaks = {
        row["n_rows"]: _with_total(row["stages"])["all of it"]["mb"]
        for row in rows
        if row["package"] == "wiesel" and row["n_rows"] >= 100_000
    }
    if len(peaks) < 2:
        return ""
    least, most = min(peaks), max(peaks)
    slope = (peaks[most] - peaks[least]) / (most - least) * 1e6
    return (
        f"From {least:,} to {most:,} rows, the largest peak of `wiesel run` grows from "
        f"{peak(peaks[least])} to {peak(peaks[most])}: {peak(slope)} per million rows."
    )


def _with_total(stages: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    total = {
        key: sum(row[key] for row in stages) if key != "mb" else max(row[key] for row in stages)
        for key in ("cpu", "second_cpu", "wall", "mb")
    }
    return {**{row["stage"]: row for row in stages}, "all of it": total}


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    times = (seconds(row[key]) for key in ("cpu", "second_cpu", "wall"))
    return (*times, peak(row["mb"]))


def main(argv: Sequence[str] = ()) -> None:
    """Run both pipelines at every size; store the results unless `--quick`.

    `--rows N` measures that number of rows instead of 1,000, 10,000 and 100,000, and
    `--package wiesel` only that side: the pipeline takes half an hour for a million rows.
    `--told` measures Wiesel with the shares of the classes in wiesel.toml.
    """
    options = arguments(argv)
    if options.show:
        print(results_table(read_results("end_to_end")))
        return
    sizes = (300,) if options.quick else SIZES
    if "--rows" in argv:
        sizes = (int(argv[list(argv).index("--rows") + 1]),)
    packages: tuple[str, ...] = ("wiesel", "snorkel")
    if "--package" in argv:
        packages = (argv[list(argv).index("--package") + 1],)
    if "--told" in argv:
        packages = (TOLD,)
    found = []
    for n_rows in sizes:
        with tempfile.TemporaryDirectory() as place:
            for package in packages:
                folders = [Path(place) / package / str(k) for k in range(2)]
                write_files(folders[0], n_rows, package == TOLD)
                shutil.copytree(folders[0], folders[1])
                name = "wiesel" if package == TOLD else package
                job = {"package": name, "folders": [str(folder) for folder in folders]}
                took = run_module(MODULE, name, job)
                row = {"case": f"{n_rows} {package}", "n_rows": n_rows, "package": package}
                found.append({**row, **took, **setting()})
                if not options.quick:
                    merge_results("end_to_end", found[-1:])
    print(results_table(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the peers warn about their own dependencies
    print(json.dumps(measured(json.loads(sys.stdin.read()))))
