"""Data sets in the format of the Hugging Face Hub: Parquet files and a card, with soft labels."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Argument, DataError, MissingExtraError, listed
from wiesel.io.files import (
    FilePath,
    appearing_folder,
    code_span,
    existing_folder,
    explained,
    read_unchanged,
    replacing,
)
from wiesel.io.rows import refuse_oversized
from wiesel.labels import LabelSpace, as_indices
from wiesel.tables import as_frame

__all__ = [
    "SoftLabeled",
    "card_text",
    "feature_types",
    "read_hugging_face",
    "soft_labeled_rows",
    "to_hugging_face",
    "write_hugging_face",
]

LABEL, SOFT_LABEL = "label", "soft_label"
_KEY = "huggingface"


@dataclass(frozen=True, eq=False)
class SoftLabeled:
    """Rows with their soft labels."""

    rows: pl.DataFrame
    """All columns except the labels."""
    label: npt.NDArray[np.int64]
    """The class index in the column `label`; with soft labels, the most probable class."""
    proba: npt.NDArray[np.float64] | None
    """(n_items, n_classes); None if the data set has no soft labels."""
    labels: LabelSpace


def soft_labeled_rows(rows: Any, proba: Any, labels: LabelSpace | Sequence[str]) -> pl.DataFrame:
    """Return the rows with `label`, the most probable class, and `soft_label`, a list of floats.

    >>> soft_labeled_rows({"text": ["see you"]}, [[0.75, 0.25]], ["ham", "spam"]).row(0)
    ('see you', 0, [0.75, 0.25])
    """
    frame, space = as_frame(rows), LabelSpace.of(labels)
    try:
        array = np.asarray(proba, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError(f"Soft labels are an array of numbers; got {proba!r:.60}.") from None
    if array.shape != (len(frame), len(space)):
        raise DataError(
            f"Soft labels of {len(frame)} rows and {len(space)} classes are an array of that "
            f"shape; got {array.shape}."
        )
    taken = [name for name in (LABEL, SOFT_LABEL) if name in frame.columns]
    if taken:
        raise DataError(
            f"The rows have columns {listed(taken)} already, where the soft labels are to go: "
            "rename them, such as to 'gold'."
        )
    return frame.with_columns(
        pl.Series(LABEL, array.argmax(axis=1), pl.Int64),
        pl.Series(SOFT_LABEL, array.tolist(), pl.List(pl.Float32)),
    )


def write_hugging_face(
    folder: FilePath,
    splits: Any,
    labels: LabelSpace | Sequence[str],
    *,
    title: str = "Soft labels",
    description: str = "",
    license: str | None = None,
) -> None:
    """Write a folder for `datasets.load_dataset` and the Hub: Parquet files and README.md.

    `splits` is one table, which becomes the split `train`, or a dict of tables by split name. The
    column `label` has class indices and is stored with the class names; the column `soft_label` is
    a list of floats. `soft_labeled_rows` creates both. The package `datasets` is not needed.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "mails"
    >>> rows = soft_labeled_rows({"text": ["see you"]}, [[0.75, 0.25]], ["ham", "spam"])
    >>> write_hugging_face(folder, rows, ["ham", "spam"], title="Mails")
    >>> read_hugging_face(folder).proba.tolist()
    [[0.75, 0.25]]
    """
    space = LabelSpace.of(labels)
    tables = splits if _is_splits(splits) else {"train": splits}
    frames = {str(name): _with_indices(as_frame(table), space) for name, table in tables.items()}
    _check_splits(frames)
    files = {name: f"data/{name}-00000-of-00001.parquet" for name in frames}
    with appearing_folder(folder) as unfinished:
        (unfinished / "data").mkdir()
        for name, frame in frames.items():
            note = json.dumps({"info": {"features": feature_types(frame, space)}})
            with replacing(unfinished / files[name]) as temporary:
                frame.write_parquet(temporary, metadata={_KEY: note})
        card = card_text(frames, files, space, title, description, license)
        (unfinished / "README.md").write_text(card, encoding="utf-8")


def read_hugging_face(
    source: Any, split: str = "train", labels: LabelSpace | Sequence[str] | None = None
) -> SoftLabeled:
    """Return the rows and labels of a folder with Parquet files, or of a `datasets.Dataset`.

    The class names are those stored with the column `label`, or `labels`.
    """
    if isinstance(source, (str, Path)):
        file = _split_file(existing_folder(source), split)
        return read_unchanged(file, partial(_read_file, file, labels))
    if hasattr(source, "keys") and not hasattr(source, "features"):
        source = source[split]  # a DatasetDict
    if not hasattr(source, "features") or not hasattr(source, "to_polars"):
        raise DataError(
            f"A data set is a folder or a datasets.Dataset; got {type(source).__name__}."
        )
    names = getattr(source.features.get(LABEL), "names", None)
    return _soft_labeled(source.to_polars(), labels or names, names)


def _read_file(file: Path, labels: LabelSpace | Sequence[str] | None) -> SoftLabeled:
    with explained(file):
        note = pl.read_parquet_metadata(file).get(_KEY)
        named = _named_in(json.loads(note)["info"]["features"]) if note else None
        refuse_oversized([file])
        return _soft_labeled(pl.read_parquet(file, glob=False), labels or named, named)


def to_hugging_face(rows: Any, labels: LabelSpace | Sequence[str]) -> Any:
    """Return a `datasets.Dataset` of rows with the class names of the column `label`.

    The package `datasets` must be installed. See `soft_labeled_rows` for soft labels.
    """
    try:
        datasets: Any = import_module("datasets")
    except ImportError:
        datasets = None
    if not hasattr(datasets, "Dataset"):  # a folder named datasets can be imported too
        raise MissingExtraError(
            "A Dataset needs the package datasets: pip install datasets. Without it, "
            "write_hugging_face writes a folder that load_dataset reads."
        )
    space = LabelSpace.of(labels)
    frame = _with_indices(as_frame(rows), space)
    types = feature_types(frame, space)
    return datasets.Dataset.from_polars(frame, features=datasets.Features.from_dict(types))


def _is_splits(splits: Any) -> bool:
    """Whether this is a dict of tables, not a dict of columns."""
    if not isinstance(splits, Mapping) or not splits:
        return False
    return all(hasattr(table, "columns") or isinstance(table, Mapping) for table in splits.values())


def _with_indices(frame: pl.DataFrame, labels: LabelSpace) -> pl.DataFrame:
    """Check the labels; those that are numbers become class indices, which the format stores."""
    if LABEL not in frame.columns:
        return frame
    column = frame[LABEL]
    if not column.dtype.is_integer():
        labels.indices(column, allow_unknown=True)
        return frame
    # Beside soft labels are the indices of `soft_labeled_rows`.
    given = as_indices(column) if SOFT_LABEL in frame.columns else column
    indices = pl.Series(LABEL, labels.indices(given, allow_unknown=True), column.dtype)
    return frame.with_columns(indices)


def _check_splits(frames: Mapping[str, pl.DataFrame]) -> None:
    columns = next(iter(frames.values())).columns
    for name, frame in frames.items():
        if not re.fullmatch(r"\w+(\.\w+)*", name):
            raise DataError(f"A split is named by letters, digits and _; got {name!r}.")
        if frame.columns != columns:
            raise DataError(f"The split {name!r} has other columns than the first split.")


def _split_file(folder: Path, split: str) -> Path:
    found = sorted(folder.glob(f"data/{split}-*.parquet")) + sorted(folder.glob(f"{split}.parquet"))
    if any((folder / name).is_file() for name in ("dataset_info.json", "dataset_dict.json")):
        raise DataError(
            f"{folder} was written by save_to_disk: read it with datasets.load_from_disk, and "
            "give what that returns."
        )
    if len(found) != 1:
        have = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.parquet"))
        raise DataError(
            f"{folder} has {len(found) or 'no'} Parquet files of the split {split!r}; there are "
            f"{listed(have, limit=5) or 'none'}."
        )
    return found[0]


def _named_in(features: Mapping[str, Any]) -> list[str] | None:
    kind = features.get(LABEL)
    return kind.get("names") if isinstance(kind, Mapping) else None


def _soft_labeled(
    frame: pl.DataFrame,
    labels: LabelSpace | Sequence[str] | None,
    named: Sequence[str] | None,
) -> SoftLabeled:
    if labels is None:
        problem = "The data set does not say what its classes are: give "
        raise DataError(problem, Argument("labels", [...]), ".")
    space = LabelSpace.of(labels)
    proba = None
    if SOFT_LABEL in frame.columns:
        proba = np.array(frame[SOFT_LABEL].to_list(), dtype=np.float64)
        if proba.shape != (len(frame), len(space)):
            raise DataError(f"The soft labels are not lists of {len(space)} numbers.")
    if LABEL in frame.columns:
        # Numbers of a column with class names are indices, as the format has it.
        column = frame[LABEL]
        given = as_indices(column) if named else column
        label = space.indices(given, allow_unknown=True)
    elif proba is not None:
        label = proba.argmax(axis=1)
    else:
        raise DataError(f"The data set has neither {LABEL!r} nor {SOFT_LABEL!r}.")
    return SoftLabeled(frame.drop(LABEL, SOFT_LABEL, strict=False), label, proba, space)


_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))


def feature_types(frame: pl.DataFrame, labels: LabelSpace) -> dict[str, Any]:
    """Return the column types in the notation of the package datasets.

    >>> feature_types(pl.DataFrame({"text": ["hi"], "label": [0]}), LabelSpace("ham", "spam"))
    {'text': {'dtype': 'string', '_type': 'Value'}, 'label': {'names': ['ham', 'spam'],
    '_type': 'ClassLabel'}}
    """
    return {
        name: {"names": list(labels), "_type": "ClassLabel"}
        if name == "label" and kind.is_integer()
        else _type_of(name, kind)
        for name, kind in frame.schema.items()
    }


def _type_of(name: str, kind: pl.DataType) -> dict[str, Any]:
    if isinstance(kind, (pl.List, pl.Array)):
        return {"feature": _type_of(name, kind.inner), "_type": "Sequence"}  # type: ignore[arg-type]
    return {"dtype": _plain_type(name, kind), "_type": "Value"}


def _plain_type(name: str, kind: pl.DataType) -> str:
    if kind in (pl.String, pl.Categorical) or isinstance(kind, pl.Enum):
        return "string"
    if kind.is_integer() or kind.is_float():
        return str(kind).lower()
    if kind == pl.Boolean:
        return "bool"
    if kind == pl.Null:
        return "null"
    raise DataError(f"The column {name!r} holds {kind}: make it text, numbers or lists of them.")


def card_text(
    frames: Mapping[str, pl.DataFrame],
    files: Mapping[str, str],
    labels: LabelSpace,
    title: str,
    description: str,
    license: str | None,
) -> str:
    """Return README.md: metadata for the Hub, and text for people."""
    first = next(iter(frames.values()))
    n_items = sum(map(len, frames.values()))
    size = next((name for limit, name in _SIZES if n_items < limit), "n>1M")
    lines = ["---", f"pretty_name: {_quoted(title)}"]
    lines += [f"license: {_quoted(license)}"] if license else []
    lines += ["task_categories:\n- text-classification"] if "text" in first.columns else []
    lines += ["tags:\n- weak-supervision", f"size_categories:\n- {size}"]
    lines += ["configs:\n- config_name: default\n  data_files:"]
    lines += [f"  - split: {name}\n    path: {files[name]}" for name in frames]
    lines += ["dataset_info:\n  features:", *_features(first, labels), "  splits:"]
    lines += [_split_size(name, frame) for name, frame in frames.items()]
    lines += ["---", "", f"# {title}", ""]
    lines += [description, ""] if description else []
    return "\n".join([*lines, *_sentences(frames, first, labels)]) + "\n"


def _split_size(name: str, frame: pl.DataFrame) -> str:
    # The Hub ignores all sizes if the number of bytes is missing.
    size = int(frame.estimated_size())
    return f"  - name: {name}\n    num_bytes: {size}\n    num_examples: {len(frame)}"


def _features(frame: pl.DataFrame, labels: LabelSpace) -> Iterator[str]:
    for name, kind in feature_types(frame, labels).items():
        yield f"  - name: {_quoted(name)}"
        if kind["_type"] == "ClassLabel":
            yield "    dtype:\n      class_label:\n        names:"
            yield from (f"          '{k}': {_quoted(each)}" for k, each in enumerate(labels))
        elif kind["_type"] == "Sequence":
            yield f"    sequence: {kind['feature'].get('dtype', 'null')}"
        else:
            yield f"    dtype: {kind['dtype']}"


def _sentences(
    frames: Mapping[str, pl.DataFrame], first: pl.DataFrame, labels: LabelSpace
) -> Iterator[str]:
    sizes = ", ".join(f"{len(frame):,} in {code_span(name)}" for name, frame in frames.items())
    yield f"Rows: {sizes}. Classes, in order: {', '.join(map(code_span, labels))}."
    if "soft_label" in first.columns:
        yield ""
        yield (
            "`soft_label` has the probability of every class, in that order, as Wiesel estimated "
            "it from votes (of labeling functions, annotators or models); `label` is the most "
            "probable class. Nobody has checked the labels by hand."
        )


def _quoted(text: str) -> str:
    """A string that is the same in JSON and in YAML."""
    return json.dumps(text, ensure_ascii=False)
