"""The quality of soft labels that use the inputs of an end model, for each kind of input.

    python -m experiments input_kinds [--jobs N] [--recorded]

`FeatureEM` and `FeatureChecked` are fitted on the training votes with four kinds of input: none,
the features of the data set, a sparse TF-IDF matrix of up to 20,000 words, and token ids, as an
LSTM or a transformer reads them. The score compares the soft labels of covered training items with
their gold: ROC-AUC for binary tasks, else accuracy. No test label is used.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from benchmarks.harness import markdown_table
from sklearn.feature_extraction.text import TfidfVectorizer

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of
from experiments.framework.runner import Record, Run
from experiments.framework.tables import UNKNOWN, write_page
from experiments.studies.default import score
from experiments.tasks.halves import REAL_HALVES
from wiesel import FeatureChecked, FeatureEM
from wiesel.errors import WieselWarning
from wiesel.features import TokenFeatures
from wiesel.io import Split

STORE = "input_kinds"
SETS = ("amazon_175", "sms", "sst2", "agnews", "hausa", "youtube", "trec", "imdb_12")
"""Sets with texts and gold on the training rows."""
LABEL_MODELS = {"feature_em": FeatureEM, "feature_checked": FeatureChecked}
KINDS: dict[str, Callable[[Split], Any]] = {
    "nothing": lambda split: np.zeros((split.votes.n_items, 1), dtype=np.float32),
    "features": lambda split: split.features,
    "wide TF-IDF": lambda split: TfidfVectorizer(
        max_features=20_000, sublinear_tf=True
    ).fit_transform(_texts(split)),
    "word ids": lambda split: TokenFeatures().fit_transform(_texts(split)),
}


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    effort = Effort.parsed(argv, __doc__, full_seeds=1, reduced_seeds=1)
    runs = [Run(name, label_model, 0) for name in SETS for label_model in LABEL_MODELS]
    show(effort.records(STORE, runs, execute), effort)


def execute(run: Run) -> Record:
    """Fit a label model to the votes and every kind of input."""
    train = dataset_of(run.dataset).train
    covered = np.flatnonzero(train.votes.covered)
    found = {}
    for kind, make in KINDS.items():
        X = make(train)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WieselWarning)
            label_model = LABEL_MODELS[run.method]().fit(train.votes, X=X)
        proba = label_model.predict_proba(train.votes, X)
        found[kind] = score(proba[covered], train.gold[covered])
    return found


def show(records: Sequence[Record], effort: Effort) -> None:
    """Write one row per data set and label model."""
    rows = [
        [
            r["dataset"],
            REAL_HALVES[r["dataset"]],
            r["method"],
            *[f"{100 * r[k]:.1f}" for k in KINDS],
        ]
        for r in records
    ]
    for half in ("choose", "confirm"):
        own = [r for r in records if REAL_HALVES[r["dataset"]] == half]
        means = [f"{100 * np.mean([r[k] for r in own]):.1f}" if own else UNKNOWN for k in KINDS]
        rows.append([f"**mean, {half}**", "", "", *means])
    table = markdown_table(["soft labels, %", "half", "label model", *KINDS], rows)
    write_page(STORE, f"python -m experiments input_kinds {effort.words}", table.splitlines())


def _texts(split: Split) -> list[str]:
    return split.rows["text"].fill_null("").to_list()  # type: ignore[union-attr,no-any-return]


if __name__ == "__main__":
    main(sys.argv[1:])
