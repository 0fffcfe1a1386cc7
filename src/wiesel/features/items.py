"""Vectors of the items of crowd answers: from a column of the answers, a table, or an array."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import FeatureError, listed
from wiesel.features.tabular import TabularFeatures
from wiesel.features.text import TextFeatures, text_column
from wiesel.tables import as_frame, require_columns

__all__ = ["item_vectors"]

_WORDS_OF_A_TEXT = 3
"""From this mean number of words on, a column holds texts, not names of categories."""
_ANSWERS = {"label", "gold", "truth", "answer"}


def item_vectors(
    features: Any, ids: npt.NDArray[Any], item: str, answers: pl.DataFrame
) -> npt.NDArray[np.float32]:
    """Return a vector for each of the items `ids`, in their order.

    `features` is a column of the answers (or several), a table with a row for each item and its id
    (in the column `item` or `id`), or an array with a row for each item if ids are row numbers.
    Texts are read by TF-IDF, lists of numbers as vectors, other columns as numbers or categories.

    >>> answers = pl.DataFrame({"task": ["b", "a", "b"], "size": [1.0, 3.0, 1.0]})
    >>> item_vectors("size", np.array(["a", "b"]), "task", answers)
    array([[ 1.],
           [-1.]], dtype=float32)
    """
    if isinstance(features, str) or (
        isinstance(features, (list, tuple)) and all(isinstance(name, str) for name in features)
    ):
        columns = [features] if isinstance(features, str) else list(features)
        require_columns(answers, columns, "of features")
        return _of_table(_one_per_item(answers.select(item, *columns), item), ids, item)
    if getattr(features, "ndim", None) == 2 and not hasattr(features, "columns"):
        return _of_rows(np.asarray(features, dtype=np.float32), ids, item)
    table = as_frame(features)
    own = item if item in table.columns else "id"
    require_columns(table, [own], "the ids of the items, in the features")
    return _of_table(_one_per_item(table, own), ids, own)


def _one_per_item(table: pl.DataFrame, item: str) -> pl.DataFrame:
    """The rows without repetitions; several rows with one id are refused."""
    rows = table.drop_nulls(item).with_columns(pl.col(item).cast(pl.String).str.strip_chars())
    rows = rows.unique(maintain_order=True)
    several = rows.filter(pl.col(item).is_duplicated())
    if len(several):
        raise FeatureError(
            f"The {item} {several[item][0]!r:.60} has several rows of features that differ: give "
            "one row for each item."
        )
    return rows


def _of_rows(array: npt.NDArray[np.float32], ids: npt.NDArray[Any], item: str) -> Any:
    places = pl.Series(ids.tolist()).cast(pl.String).cast(pl.Int64, strict=False)
    if places.null_count() or not places.is_between(0, len(array) - 1).all():
        raise FeatureError(
            f"An array of features has no ids, so every {item} has to be its row number, from 0 to "
            f"{len(array) - 1:,}; got {str(ids[0])!r:.60}. Give a table with a column {item!r}."
        )
    if not np.isfinite(array).all():
        raise FeatureError("Features must be finite numbers; some are NaN or infinite.")
    return array[places.to_numpy()]


def _of_table(table: pl.DataFrame, ids: npt.NDArray[Any], item: str) -> npt.NDArray[np.float32]:
    wanted = pl.DataFrame({item: pl.Series(ids.tolist()).cast(pl.String)})
    told = [name for name in table.columns if name.lower() in _ANSWERS]
    if told:
        raise FeatureError(
            f"The features have the column {told[0]!r}, which looks like the label that is wanted: "
            "leave it out, or give it as gold."
        )
    missing = wanted.join(table, on=item, how="anti")[item].to_list()
    if missing:
        raise FeatureError(
            f"{len(missing):,} of {len(ids):,} items have no row of features, such as "
            f"{listed(missing, limit=3)}. Give features of all items that have answers."
        )
    rows = wanted.join(table, on=item, how="left", maintain_order="left").drop(item)
    if not rows.width:
        raise FeatureError(f"The features have no column besides {item!r}.")
    parts = [_of_column(rows, name) for name in rows.columns if _is_own(rows[name])]
    plain = [name for name in rows.columns if not _is_own(rows[name])]
    if plain:
        numbers = [name for name in plain if rows[name].dtype.is_numeric()]
        others = [name for name in plain if name not in numbers]
        table_of = TabularFeatures(numeric=numbers, categorical=others)
        parts.append(table_of.fit_transform(rows.select(plain)))
    return np.hstack(parts).astype(np.float32)


def _is_own(column: pl.Series) -> bool:
    """Whether a column is read by itself: texts, and lists of numbers."""
    if column.dtype.base_type() in (pl.List, pl.Array):
        return True
    if column.dtype != pl.String:
        return False
    words = column.drop_nulls().str.split(" ").list.len().mean()
    return isinstance(words, float) and words >= _WORDS_OF_A_TEXT


def _of_column(rows: pl.DataFrame, name: str) -> npt.NDArray[Any]:
    if rows[name].dtype == pl.String:
        return TextFeatures().fit_transform(text_column(rows, name))
    lengths = rows[name].list.len() if rows[name].dtype == pl.List else None
    if rows[name].null_count() or (lengths is not None and lengths.n_unique() > 1):
        raise FeatureError(
            f"The lists of numbers in {name!r} have different lengths, or are missing."
        )
    return np.array(rows[name].to_list(), dtype=np.float32)
