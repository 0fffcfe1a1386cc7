"""In-memory files through which processes on this machine exchange rows and votes."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, MissingExtraError, listed
from wiesel.io.dataset import Dataset, Split
from wiesel.io.files import FilePath, existing_file, existing_folder, explained
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.unfinished import named_problems, owner_mark, remove_abandoned
from wiesel.votes import VoteMatrix, require_votes

__all__ = [
    "Exchange",
    "from_cleanlab",
    "load_wrench",
    "read_exchanged",
    "read_json",
    "to_cleanlab",
    "write_exchanged",
]

_PREFIX, _ENDING = "wiesel-", ".rows"
_SPLITS = ("train", "valid", "test")


class Exchange:
    """A temporary folder, in memory if the system supports it, that is removed on closing.

    >>> with Exchange(room=1000) as exchange:
    ...     write_exchanged(pl.DataFrame({"n": [1, 2]}), exchange.file("rows"))
    ...     read_exchanged(exchange.file("rows"))["n"].to_list()
    [1, 2]
    """

    def __init__(self, room: float) -> None:
        place = _memory_folder(room)
        # A killed process could not clean up after itself.
        remove_abandoned(Path(place or tempfile.gettempdir()), _PREFIX, _ENDING)
        self._folder = tempfile.TemporaryDirectory(
            prefix=f"{_PREFIX}{owner_mark()}-", suffix=_ENDING, dir=place
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return Path(self._folder.name) / name

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def write_exchanged(content: pl.DataFrame | bytes, file: Path) -> None:
    """Write rows or bytes, overwriting the previous content.

    Memory that is already allocated is faster to fill than a new file.
    """
    with named_problems(file), file.open("r+b" if file.exists() else "w+b") as stream:
        if isinstance(content, bytes):
            stream.write(content)
        else:
            newest = pl.CompatLevel.newest()
            content.write_ipc(stream, compression="uncompressed", compat_level=newest)
        stream.truncate()


def read_exchanged(file: Path) -> pl.DataFrame:
    """Return the rows that another process wrote."""
    return pl.scan_ipc(file).collect(engine="in-memory")


def _memory_folder(room: float) -> Path | None:
    folder = Path("/dev/shm")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return None
    return folder if shutil.disk_usage(folder).free > room + 2**24 else None


def to_cleanlab(votes: VoteMatrix) -> Any:
    """Return votes as cleanlab's `labels_multiannotator`: a pandas table of class indices.

    Items are rows, voters are columns, and a missing value is an abstention. cleanlab requires an
    answer for every item and from every voter, so those without one are left out; the index has the
    item ids. For cleanlab's `pred_probs`, use `out_of_sample_proba(model, X, votes)`, in the same
    order.

    >>> to_cleanlab(votes).columns.tolist()
    ['keyword', 'link', 'length']
    """
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise MissingExtraError("cleanlab takes a table of pandas: pip install pandas") from None
    require_votes(votes)
    dense = votes.dense().astype(np.float64)
    dense[dense == ABSTAIN] = np.nan
    has_votes = np.bincount(votes.voter_index, minlength=votes.n_voters) > 0
    table = pandas.DataFrame(dense, index=votes.ids, columns=list(votes.voters))
    return table.loc[votes.covered, has_votes]


def from_cleanlab(answers: Any, labels: LabelSpace | Sequence[str]) -> VoteMatrix:
    """Return the votes in `labels_multiannotator`: class indices, missing for an abstention.

    An array with one label per item is treated as a table with one voter, 'given label'.

    >>> from_cleanlab(np.array([0, 1, 1]), ["ham", "spam"]).voters
    ('given label',)
    """
    if getattr(answers, "ndim", np.ndim(answers)) == 1:
        column = as_indices(answers)[:, None]
        return VoteMatrix.from_dense(column, labels, ["given label"])
    if not hasattr(answers, "columns"):
        return VoteMatrix.from_dense(as_indices(answers), labels)
    if not answers.index.is_unique:
        raise DataError("The index of the answers has an item twice.")
    voters = [str(name) for name in answers.columns]
    return VoteMatrix.from_dense(
        as_indices(answers.to_numpy()), labels, voters, answers.index.to_numpy()
    )


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
