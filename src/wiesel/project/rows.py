"""The first stage: read the rows and gold labels from the sources that the project names."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.datasets import load_dataset, load_movie_reviews
from wiesel.errors import DataError, ParameterError, listed, suggest
from wiesel.io import Dataset, Split, explained, read_rows
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.lfs.loading import load_module
from wiesel.project.settings import Project, located
from wiesel.tables import Gold, require_columns

__all__ = [
    "SPLITS",
    "ProjectRows",
    "find_id",
    "find_item",
    "part_of",
    "places_of",
    "positions",
    "project_classes",
    "read_splits",
    "refuse_equal_test",
    "refuse_several_labels",
    "row_contents",
    "row_keys",
    "row_marks",
    "with_ids",
]

SPLITS = ("train", "dev", "test")
"""The splits of a project's data; only the first is required."""

_DEV_NAMES = ("dev", "valid", "validation")


@dataclass(frozen=True)
class ProjectRows:
    """The rows of a project and what is known of them, by split."""

    labels: Any
    splits: Mapping[str, Any]
    """The rows as labeling functions read them: a `Split`, or `Documents`."""
    truth: Mapping[str, Any]
    """Gold labels in the form that the task takes, of the splits that have any."""
    lfs: Any = None
    """The labeling functions; None if votes come from another source."""
    train_gold: Gold | None = None
    """The labels of training rows that models learn beside votes."""


def read_splits(
    project: Project, classes: LabelSpace | None
) -> tuple[LabelSpace, dict[str, Split]]:
    """Return the classes and the splits; `classes` are those the labeling functions name."""
    refuse_several_labels(project)
    if project.data.dataset or project.data.module:
        dataset = _dataset(project)
        labels = project_classes(project, dataset.labels)
        splits = _named_splits(project, dataset)
        refuse_equal_test(project, splits)
        return labels, splits
    labels = project_classes(project, classes)
    splits = {}
    for name in SPLITS:
        source = getattr(project.data, name)
        if source is not None:
            splits[name] = _file_split(project, name, project.path(source), labels)
    refuse_equal_test(project, splits)
    return labels, splits


def row_contents(rows: pl.DataFrame, text_column: str | None = None) -> pl.Series:
    """Return what each row says, without its id: the same for copies of a row.

    Texts are compared without case, and any white space counts as one blank.

    >>> row_contents(pl.DataFrame({"id": [1, 2], "text": ["Hi  all", "hi all "]})).n_unique()
    1
    """
    names = [text_column] if text_column in rows.columns else [n for n in rows.columns if n != "id"]
    if not names:
        return rows["id"].cast(pl.String)
    words = [
        pl.col(name).cast(pl.String, strict=False).fill_null("").str.to_lowercase()
        if rows[name].dtype.is_numeric() or rows[name].dtype in (pl.String, pl.Boolean)
        else pl.col(name).hash(0).cast(pl.String)
        for name in names
    ]
    plain = [each.str.replace_all(r"\s+", " ").str.strip_chars() for each in words]
    return rows.select(pl.concat_str(plain, separator="\x1f").alias("content"))["content"]


def row_keys(rows: pl.DataFrame, ids: pl.Series, text_column: str) -> pl.Series:
    """Return what each row is recognized by: its text; without texts, its id and all its values.

    Rows of a few numbers are often equal by chance. An empty text is null: no row is known by it.
    """
    if text_column not in rows.columns or rows[text_column].dtype != pl.String:
        return ids.cast(pl.String) + "\x1f" + row_contents(rows)
    texts = row_contents(rows, text_column)
    return texts.set(texts == "", None)


def row_marks(keys: pl.Series) -> pl.Series:
    """Return a number for each key, the same on every machine; null for no key.

    >>> row_marks(pl.Series(["lunch", "lunch", None])).is_not_null().to_list()
    [True, True, False]
    """
    return pl.Series(
        [None if key is None else _mark(key) for key in keys.to_list()], dtype=pl.UInt64
    )


def _mark(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")


def refuse_equal_test(project: Project, splits: Mapping[str, Split]) -> None:
    """Refuse test rows that are the dev rows: figures on rows that were learned from flatter."""
    if not {"dev", "test"} <= set(splits):
        return
    dev, test = (row_contents(splits[name].rows) for name in ("dev", "test"))
    # A few different rows that repeat in both files are no sign that one file is the other.
    same = 3 * test.n_unique() >= 2 * len(test) and test.is_in(dev.implode()).all()
    if same or (project.data.test is not None and project.data.test == project.data.dev):
        raise DataError(
            f"All {len(test):,} test rows are dev rows too, which models learn from: figures on "
            f"them would flatter. Leave out test in {project.file}: without it, dev rows are "
            "judged by networks that have not seen them."
        )


def refuse_several_labels(project: Project) -> None:
    """Reject a multi-label project where only a single label per item is supported."""
    if project.task == "spans":
        raise ParameterError(
            f"{project.file} has spans = true, but this command needs one label per item. For "
            "spans, use wiesel run, explain or spans."
        )
    if project.task == "several labels":
        raise ParameterError(
            f"{project.file} has multi = true, but this command needs one label per item. For "
            "several labels, use wiesel run, compare, inspect, predict, evaluate or explain."
        )


def project_classes(project: Project, found: LabelSpace | None) -> LabelSpace:
    """Return the classes named in the project, or else those found with its data."""
    if not project.classes and found is None:
        raise ParameterError(
            f'{project.file} does not say what the classes are: add classes = ["ham", "spam"] '
            "at its top, with your own."
        )
    if not project.classes and found is not None:
        return LabelSpace(*found, ordered=project.ordered or found.ordered)
    with located(project, "classes"):
        labels = LabelSpace(
            *project.classes, ordered=project.ordered or (found is not None and found.ordered)
        )
    if found is not None and found != labels:
        raise ParameterError(
            f"{project.file} names the classes {listed(labels)}; the data or the labeling "
            f"functions name {listed(found)}. Both must agree, in the same order."
        )
    return labels


def with_ids(frame: pl.DataFrame, column: str | None, prefix: str = "") -> pl.DataFrame:
    """Return rows with a column `id`: the named column, an existing `id`, or row numbers.

    With an empty name, rows are numbered even if there is a column `id`, which is `given_id` then.

    >>> with_ids(pl.DataFrame({"mail": ["m1"]}), "mail")["id"].to_list()
    ['m1']
    >>> with_ids(pl.DataFrame({"text": ["a", "b"]}), None, "dev-")["id"].to_list()
    ['dev-0', 'dev-1']
    """
    if column == "":
        frame, column = frame.rename({"id": "given_id"}, strict=False), None
    if column is not None:
        require_columns(frame, [column], "named as id")
        frame = frame.with_columns(pl.col(column).alias("id"))
    elif "id" not in frame.columns:
        numbers = pl.concat_str(pl.lit(prefix), pl.col("id"))
        frame = frame.with_row_index("id").with_columns(numbers.alias("id"))
    ids = frame["id"]
    if ids.null_count():
        raise DataError(f"{ids.null_count()} rows have no id.")
    repeated = ids.filter(ids.is_duplicated())
    if len(repeated):
        different = repeated.unique(maintain_order=True)
        raise DataError(
            f"Item ids must be unique; {len(repeated):,} rows share the "
            f"{'id' if len(different) == 1 else 'ids'} {listed(different, limit=3)}. Name another "
            "column as id, or leave it out to number the rows."
        )
    return frame


def places_of(
    wanted: Iterable[Any], known: Iterable[Any], path: Path, what: str, items: str
) -> npt.NDArray[np.int64]:
    """Return where each wanted id is among the ids of a file; they are compared as text.

    >>> places_of([7, 8], ["8", "7", "9"], Path("votes.csv"), "votes", "items")
    array([1, 0])
    """
    ids, texts = list(map(str, wanted)), list(map(str, known))
    place = {text: row for row, text in enumerate(texts)}
    if len(place) < len(texts):
        repeated = [text for text, count in Counter(texts).items() if count > 1]
        raise DataError(f"{path} has several items whose id is the text {listed(repeated, 3)}.")
    missing = [item for item in ids if item not in place]
    if missing:
        like = f"; its ids look like {texts[0]!r}" if texts else ""
        raise DataError(
            f"{path} has no {what} on {len(missing):,} of the {len(ids):,} {items}, such as "
            f"{listed(missing, limit=3)}{like}."
        )
    return np.array([place[item] for item in ids], dtype=np.int64)


def positions(ids: pl.Series, wanted: Sequence[str]) -> dict[str, int]:
    """Return the rows of some ids.

    >>> positions(pl.Series(["a", "b", "c"]), ["c", "x"])
    {'c': 2}
    """
    frame = ids.cast(pl.String).to_frame("item").with_row_index("row")
    found = frame.filter(pl.col("item").is_in(list(wanted)))
    return dict(zip(found["item"].to_list(), found["row"].to_list(), strict=True))


def find_item(splits: Mapping[str, Split], item: str) -> tuple[str, int]:
    """Return the split and the row of the item with an id.

    Ids need only be unique within a split. If two splits have the same id, write `dev:17`.

    >>> split = Split(pl.DataFrame({"id": [7, 8]}), np.array([-1, -1]))
    >>> find_item({"train": split, "dev": split}, "dev:8")
    ('dev', 1)
    >>> find_item({"train": split, "dev": split}, "8")
    Traceback (most recent call last):
    wiesel.errors.DataError: There is an item '8' in 'train' and in 'dev': say train:8 or dev:8.
    """
    return find_id({name: split.ids.cast(pl.String) for name, split in splits.items()}, item)


def find_id(ids: Mapping[str, pl.Series], item: str) -> tuple[str, int]:
    """Do the same as `find_item`, given the ids of every split as texts."""
    places = {name: own.index_of(item) for name, own in ids.items()}
    found = [(name, int(row)) for name, row in places.items() if row is not None]
    named, _, own = item.partition(":")
    if not found and named in ids:
        row = ids[named].index_of(own)
        found = [] if row is None else [(named, int(row))]
    if len(found) == 1:
        return found[0]
    if found:
        names = [name for name, _ in found]
        raise DataError(
            f"There is an item {item!r} in {' and in '.join(map(repr, names))}: say "
            f"{' or '.join(f'{name}:{item}' for name in names)}."
        )
    every = [value for own in ids.values() for value in own.head(2000)]
    hint = suggest(item, every)
    shown = hint if hint.startswith("Did") else f"Ids look like {listed(every, limit=3)}."
    raise DataError(f"There is no item {item!r} in the project. {shown}")


def part_of(split: Split, rows: Sequence[int] | npt.NDArray[np.int64]) -> Split:
    """Return some rows of a split."""
    return Split(
        split.rows[rows],
        split.gold[rows],
        None if split.votes is None else split.votes[np.asarray(rows)],
        None if split.features is None else split.features[rows],
        None if split.images is None else split.images[rows],
    )


def _file_split(project: Project, name: str, path: Path, labels: LabelSpace) -> Split:
    written = project.data
    rows = read_rows(path, separator=written.separator, encoding=written.encoding)
    with explained(path):
        rows = with_ids(rows, project.data.id, f"{name}-")
        column = project.data.label
        if name != "train":
            require_columns(rows, [column], f"the gold labels of the {name} rows")
        gold = np.full(len(rows), ABSTAIN, dtype=np.int64)
        if column in rows.columns:
            gold = labels.indices(rows[column], allow_unknown=True)
        if name != "train" and (gold == ABSTAIN).all():
            raise DataError(f"None of the {name} rows has a gold label in {column!r}.")
        # Labeling functions must not see the labels they are evaluated on.
        return Split(rows.drop(column, strict=False), gold)


def _dataset(project: Project) -> Dataset:
    data = project.data
    if data.module:
        return _loaded(project.path(data.module))
    name: str = data.dataset  # type: ignore[assignment]
    if name == "movie_reviews":
        return load_movie_reviews()
    own = project.path(name)
    return load_dataset(own if own.is_dir() else name)


def _loaded(file: Path) -> Dataset:
    module = load_module(file)
    load = getattr(module, "load", None)
    if not callable(load):
        raise ParameterError(f"{file} has no function load() that returns a wiesel.io.Dataset.")
    dataset: Any = load()
    if not isinstance(dataset, Dataset):
        raise ParameterError(
            f"load() of {file} must return a wiesel.io.Dataset; got {type(dataset).__name__}."
        )
    return dataset


def _named_splits(project: Project, dataset: Dataset) -> dict[str, Split]:
    """Return the splits under the project's names for them, each with ids."""
    found: Mapping[str, Split] = dataset.splits
    names = {"train": ("train",), "dev": _DEV_NAMES, "test": ("test",)}
    splits = {}
    for name, aliases in names.items():
        split = next((found[alias] for alias in aliases if alias in found), None)
        if split is None:
            continue
        if name != "train" and (split.gold == ABSTAIN).all():
            continue
        rows = with_ids(split.rows, project.data.id, f"{name}-")
        splits[name] = Split(rows, split.gold, split.votes, split.features, split.images)
    if "train" not in splits:
        raise DataError(f"The data set {dataset.name!r} has no split 'train'.")
    return splits
