"""Labels that people gave to rows of a project, used as gold."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from wiesel.errors import DataError
from wiesel.gold import RANDOM, Gold
from wiesel.io import LabelStore, Split
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.project.answers import Answers, answers_for
from wiesel.project.lf_set import WORKBENCH_FOLDER
from wiesel.project.rows import part_of
from wiesel.project.settings import Project
from wiesel.saving import write_json

__all__ = [
    "gold_of",
    "label_store",
    "labeled_gold",
    "missing_dev_labels",
    "people_labels",
    "read_guidelines",
    "with_labeled_dev",
    "write_guidelines",
]

OF_FILE, OF_WORKBENCH = "file", "workbench"
"""How rows were chosen whose labels are in the training file, and those labeled to learn from."""

_GUIDELINES = "guidelines.json"
_FEWEST_DEV = 10
"""With fewer rows than this, no epoch and no threshold is chosen."""


def label_store(project: Project) -> LabelStore:
    """Return the store of a project's labels."""
    return LabelStore(project.folder / WORKBENCH_FOLDER / "labels.sqlite", project.kind)


def labeled_gold(project: Project, split: Split, labels: Any, purpose: str | None = None) -> Any:
    """Return what people answered to each row of a split, as gold labels of the project's task.

    It is -1, or None for spans, where nobody did. `purpose` selects only the labels for learning
    (`learn`) or for evaluation (`evaluate`).
    """
    answers = answers_for(project.kind, labels)
    path = project.folder / WORKBENCH_FOLDER / "labels.sqlite"
    if not path.is_file():
        return answers.gold(len(split), [], [])
    given = people_labels(label_store(project), answers).drop_nulls("label")
    if purpose is not None:
        given = given.filter(pl.col("purpose") == purpose)
    places = split.ids.cast(pl.String).to_frame("item").with_row_index("row")
    found = places.join(given, on="item", how="inner")
    return answers.gold(len(split), found["row"].to_list(), found["label"].to_list())


def people_labels(store: LabelStore, answers: Answers) -> pl.DataFrame:
    """Return what people agreed on for each item, as `LabelStore.labels` does."""
    return store.labels(None if store.kind == "one label" else answers.joined)


def gold_of(
    project: Project, train: Split, labels: LabelSpace, dev_is_random_part: bool = False
) -> Gold:
    """Return the labels of the training rows that models learn, and how their rows were chosen.

    They are those that people gave in the workbench, where rows to evaluate on are drawn at random,
    and those of a column of labels that some of the rows have. A column that all rows have is the
    truth to compare with: only the method `supervised` learns from it. Rows drawn at random are
    left out if they are the dev rows, which models learn anyway.
    """
    learned = labeled_gold(project, train, labels)
    random = labeled_gold(project, train, labels, "evaluate") != ABSTAIN
    if dev_is_random_part:
        learned = np.where(random, ABSTAIN, learned)
    chosen = np.where(random, RANDOM, OF_WORKBENCH).astype(object)
    if (train.gold == ABSTAIN).any():
        of_file = (learned == ABSTAIN) & (train.gold != ABSTAIN)
        learned = np.where(of_file, train.gold, learned)
        chosen[of_file] = OF_FILE
    return Gold(labels.from_indices(learned), chosen=chosen.tolist())


def missing_dev_labels(project: Project, train: Split, labels: LabelSpace) -> str:
    """Return what the labels for evaluation lack before they are dev rows; empty if nothing."""
    gold = labeled_gold(project, train, labels, "evaluate")
    known = np.flatnonzero(answers_for(project.kind, labels).known(gold))
    if len(known) < _FEWEST_DEV:
        return f"{len(known)} of at least {_FEWEST_DEV} randomly drawn rows are labeled."
    if project.kind == "one label" and len(np.unique(gold[known])) < 2:
        name = labels.names[gold[known[0]]]
        return f"All {len(known)} randomly drawn rows with a label are {name!r}."
    return ""


def with_labeled_dev(
    project: Project, splits: Mapping[str, Split], labels: LabelSpace
) -> dict[str, Split]:
    """Return the splits, with dev rows from the workbench if the project names no dev file.

    The dev rows are the training rows that were drawn at random for evaluation and labeled. They
    also remain among the training rows.
    """
    if "dev" in splits:
        return dict(splits)
    if missing_dev_labels(project, splits["train"], labels):
        return dict(splits)
    gold = labeled_gold(project, splits["train"], labels, "evaluate")
    rows = np.flatnonzero(gold != ABSTAIN)
    dev = replace(part_of(splits["train"], rows), gold=gold[rows])
    return {
        "train": splits["train"],
        "dev": dev,
        **{k: v for k, v in splits.items() if k != "train"},
    }


def read_guidelines(project: Project) -> dict[str, str]:
    """Return what people are told about each class when they label; empty without any."""
    file = project.folder / WORKBENCH_FOLDER / _GUIDELINES
    try:
        found = json.loads(file.read_bytes()) if file.is_file() else {}
    except ValueError:
        raise DataError(f"{file} is not JSON: mend or remove it.") from None
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def write_guidelines(project: Project, guidelines: Mapping[str, str]) -> None:
    """Store what people are told about each class when they label."""
    folder = project.folder / WORKBENCH_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write_json({k: text for k, text in guidelines.items() if text.strip()}, folder / _GUIDELINES)
