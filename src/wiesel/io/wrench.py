"""Reads folders of the WRENCH benchmark: one JSON file per split, and the class names."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, listed
from wiesel.io.dataset import Dataset, Split
from wiesel.io.files import FilePath, existing_file, existing_folder, explained
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.votes import VoteMatrix

__all__ = ["load_wrench", "read_json"]

_SPLITS = ("train", "valid", "test")


def load_wrench(folder: FilePath, voters: Sequence[str] | None = None) -> Dataset:
    """Return a data set in the format of WRENCH.

    The folder has `label.json` (index to class name) and `train.json`, `valid.json`, `test.json`.
    These map each id to an object with `label`, `weak_labels` (-1 is an abstention) and `data`. The
    entry `feature` of `data` becomes the features; other entries become columns. `voters` are the
    names of the voters, which the format does not have.
    """
    root = existing_folder(folder)
    labels = _label_space(read_json(root / "label.json"), root / "label.json")
    files = [root / f"{name}.json" for name in _SPLITS if (root / f"{name}.json").exists()]
    if not files:
        raise DataError(f"{root} has none of {listed(f'{name}.json' for name in _SPLITS)}.")
    splits = {}
    for file in files:
        with explained(file):
            splits[file.stem] = _split(read_json(file), labels, voters)
    return Dataset(root.name, labels, splits, folder=root)


def read_json(path: FilePath) -> Any:
    """Return the content of a JSON file."""
    found = existing_file(path)
    try:
        return json.loads(found.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}.") from error


def _label_space(names: Any, path: FilePath) -> LabelSpace:
    if not isinstance(names, Mapping) or sorted(names) != sorted(map(str, range(len(names)))):
        raise DataError(f'{path} must map indices to class names: {{"0": "ham", "1": "spam"}}.')
    return LabelSpace(*(names[str(index)] for index in range(len(names))))


def _split(items: Any, labels: LabelSpace, voters: Sequence[str] | None) -> Split:
    if not isinstance(items, Mapping) or not items:
        raise DataError("A split must be an object with one entry per item.")
    for key, item in items.items():
        missing = [name for name in ("label", "weak_labels", "data") if name not in item]
        if missing:
            raise DataError(f"The item {key!r} has no {listed(missing)}.")
    ids = list(items)
    votes = VoteMatrix.from_dense(as_indices(_weak_labels(items)), labels, voters, ids)
    given = [ABSTAIN if item["label"] is None else item["label"] for item in items.values()]
    gold = labels.indices(as_indices(given), allow_unknown=True)
    data = [dict(item["data"]) for item in items.values()]
    features = _features(data)
    rows = [{"id": key, **row} for key, row in zip(ids, data, strict=True)]
    return Split(pl.from_dicts(rows, infer_schema_length=None), gold, votes, features)


def _weak_labels(items: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    width = len(next(iter(items.values()))["weak_labels"])
    for key, item in items.items():
        if len(item["weak_labels"]) != width:
            raise DataError(
                f"The item {key!r} has {len(item['weak_labels'])} weak labels; "
                f"the first one has {width}."
            )
    return np.array([item["weak_labels"] for item in items.values()]).reshape(len(items), width)


def _features(data: list[dict[str, Any]]) -> npt.NDArray[np.float32] | None:
    """The vectors under `feature`, removed from the rows; None unless every item has one."""
    if not all("feature" in row for row in data):
        return None
    return np.array([row.pop("feature") for row in data], dtype=np.float32)
