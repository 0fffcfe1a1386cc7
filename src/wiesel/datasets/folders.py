"""Data-set folders: Parquet splits with votes, or crowd answers with gold, and a card."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, suggest
from wiesel.features import Standardizer
from wiesel.io import (
    Dataset,
    FilePath,
    Split,
    existing_file,
    explained,
    load_wrench,
    read_answers,
    read_gold,
    read_json,
    read_rows,
)
from wiesel.labels import LabelSpace, as_indices
from wiesel.tables import require_columns
from wiesel.vote_entries import id_series
from wiesel.votes import VoteMatrix

__all__ = ["load_dataset", "standardized"]

_SPLITS = ("train", "valid", "test")
_VOTER_PREFIX = "lf_"


def load_dataset(
    source: FilePath,
    *,
    standardize: bool = False,
    duplicates: Literal["refuse", "first", "last", "all"] = "refuse",
) -> Dataset:
    """Return a data set, given the path of its folder or its name under `WIESEL_DATA`.

    Folders have a `card.json` with the classes and either splits (`train.parquet`, ... with
    votes in `lf_*` columns, and `features_train.npy`, ...) or crowd answers (`answers.parquet`
    and `gold.parquet`, which become the split `train`). WRENCH folders work too. `standardize`
    scales the features to mean 0 and standard deviation 1 on the training split. `duplicates`
    selects the answer that counts if a worker answered a task twice.

    >>> load_dataset("no such set")
    Traceback (most recent call last):
    wiesel.errors.DataError: There is no data set 'no such set'...
    """
    folder = _find(source)
    if not (folder / "card.json").exists() and (folder / "label.json").exists():
        dataset = load_wrench(folder)
    else:
        dataset = _load_folder(folder, duplicates)
    return standardized(dataset) if standardize else dataset


def standardized(dataset: Dataset) -> Dataset:
    """Return the data set with features standardized on the training split.

    >>> split = Split(pl.DataFrame({"id": [1, 2]}), np.array([0, 1]), features=np.array([[2], [4]]))
    >>> standardized(Dataset("tiny", LabelSpace("a", "b"), {"train": split})).train.features
    array([[-1.],
           [ 1.]], dtype=float32)
    """
    if dataset.train.features is None:
        return dataset
    standardizer = Standardizer().fit(dataset.train.features)
    splits = {
        name: replace(split, features=standardizer.transform(split.features))
        for name, split in dataset.splits.items()
    }
    return replace(dataset, splits=splits)


def _find(source: FilePath) -> Path:
    """The folder for a path or a name."""
    if Path(source).is_dir():
        return Path(source)
    root = os.environ.get("WIESEL_DATA")
    if root and (Path(root) / source).is_dir():
        return Path(root) / source
    if not root or not Path(root).is_dir():
        where = f"WIESEL_DATA is {root!r}, no folder" if root else "WIESEL_DATA is not set"
        raise DataError(
            f"There is no data set {str(source)!r}: it is not a folder here, and {where}. Give the "
            "path of a data-set folder, or set WIESEL_DATA to the folder that holds them."
        )
    names = sorted(card.parent.name for card in Path(root).glob("*/card.json"))
    raise DataError(
        f"There is no data set {str(source)!r} in {root}. {suggest(str(source), names)}"
    )


def _load_folder(folder: Path, duplicates: Literal["refuse", "first", "last", "all"]) -> Dataset:
    card = read_json(folder / "card.json")
    if not isinstance(card, Mapping) or "classes" not in card:
        raise DataError(f"{folder / 'card.json'} must be an object with the class names, classes.")
    labels = LabelSpace(*map(str, card["classes"]), ordered=card.get("ordered", False))
    if (folder / "answers.parquet").exists():
        splits = {"train": _crowd_split(folder, labels, duplicates)}
    else:
        names = [name for name in _SPLITS if (folder / f"{name}.parquet").exists()]
        if not names:
            raise DataError(
                f"{folder} has neither answers.parquet nor a split such as train.parquet."
            )
        splits = {name: _split(folder, name, labels, card) for name in names}
    return Dataset(str(card.get("name", folder.name)), labels, splits, card, folder)


def _crowd_split(
    folder: Path, labels: LabelSpace, duplicates: Literal["refuse", "first", "last", "all"]
) -> Split:
    votes = read_answers(folder / "answers.parquet", labels=labels, duplicates=duplicates)
    rows = pl.DataFrame({"id": id_series(votes.ids)})
    gold = np.full(votes.n_items, -1)
    if pl.scan_parquet(folder / "gold.parquet").limit(1).collect().height:
        gold = read_gold(folder / "gold.parquet", labels, votes.ids, id_column="task")
    return Split(rows, gold, votes)


def _split(folder: Path, name: str, labels: LabelSpace, card: Mapping[str, Any]) -> Split:
    file = folder / f"{name}.parquet"
    table = read_rows(file)
    with explained(file):
        require_columns(table, ("id", "label"), "every split has it")
        voters = [column for column in table.columns if column.startswith(_VOTER_PREFIX)]
        votes = VoteMatrix.from_dense(
            as_indices(table.select(voters).to_numpy()),
            labels,
            [voter.removeprefix(_VOTER_PREFIX) for voter in voters],
            table["id"],
        )
        gold = labels.indices(as_indices(table["label"]), allow_unknown=True)
    rows = table.drop("label", *voters)
    source = _shared_folder(folder, card)
    if source != folder:
        rows = _rows_of(source / f"{name}.parquet", rows)
    features = _array(source / f"features_{name}.npy", np.float32)
    return Split(rows, gold, votes, features, _array(source / f"images_{name}.npy"))


def _shared_folder(folder: Path, card: Mapping[str, Any]) -> Path:
    """The folder with the texts and features; another folder if the card names one."""
    note = str(card.get("text_and_features_from", ""))
    return folder.parent / note.split()[0] if note else folder


def _rows_of(file: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of another data set, which must have the same items in the same order."""
    table = read_rows(existing_file(file))
    shared = table.drop("label", *(c for c in table.columns if c.startswith(_VOTER_PREFIX)))
    if not shared["id"].equals(rows["id"]):
        raise DataError(f"{file} does not have the same ids in the same order.")
    return shared


def _array(file: Path, dtype: type[np.float32] | None = None) -> npt.NDArray[Any] | None:
    """An array file, memory-mapped unless it must be converted; None if it does not exist."""
    if not file.exists():
        return None
    try:
        stored = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{file} cannot be read as an array: {error}.") from error
    return stored if dtype is None else np.asarray(stored, dtype=dtype)
