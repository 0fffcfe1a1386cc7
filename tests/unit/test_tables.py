"""Tables of any library as Polars frames."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from wiesel.errors import DataError
from wiesel.tables import as_frame, require_columns

COLUMNS = {"id": [1, 2], "text": ["hi", None]}
ROWS = [{"id": 1, "text": "hi"}, {"id": 2, "text": None}]


@pytest.mark.parametrize(
    "table",
    [
        pl.DataFrame(COLUMNS),
        pl.LazyFrame(COLUMNS),
        pd.DataFrame(COLUMNS),
        pa.table(COLUMNS),
        pa.record_batch(COLUMNS),
        COLUMNS,
        ROWS,
        tuple(ROWS),
        (row for row in ROWS),
    ],
    ids=["polars", "lazy", "pandas", "arrow", "batch", "columns", "rows", "tuple", "generator"],
)
def test_every_common_kind_of_table_becomes_a_frame(table: Any) -> None:
    frame = as_frame(table)
    assert isinstance(frame, pl.DataFrame)
    assert frame.to_dicts() == ROWS


def test_a_polars_frame_is_not_copied() -> None:
    frame = pl.DataFrame(COLUMNS)
    assert as_frame(frame) is frame


def test_rows_may_lack_keys_until_late() -> None:
    rows = [{"a": 1}] * 500 + [{"b": "x"}]
    assert as_frame(rows).row(-1) == (None, "x")


def test_no_rows_give_an_empty_frame() -> None:
    assert as_frame([]).shape == (0, 0)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([1.5, None]), [1.5, None]),
        (pd.Series([1, None], dtype="Int64"), [1, None]),
        (pd.Series(["a", None], dtype="category"), ["a", None]),
        (pd.Series(["a", None], dtype="string"), ["a", None]),
        (pd.Series([True, None]), [True, None]),
        (pd.Series([True, None], dtype="boolean"), [True, None]),
        (pd.Series(["a", float("nan")], dtype=object), ["a", None]),
        (pd.to_datetime(pd.Series(["2024-05-01", None])), [datetime.datetime(2024, 5, 1), None]),
        (pd.Series([[1, 2], None]), [[1, 2], None]),
        (pd.Series([1, 2]), [1, 2]),
    ],
)
def test_what_pandas_has_missing_is_null(column: Any, expected: list[Any]) -> None:
    assert as_frame(pd.DataFrame({"x": column}))["x"].to_list() == expected


def test_names_of_pandas_columns_become_text() -> None:
    assert as_frame(pd.DataFrame([[1, 2]])).columns == ["0", "1"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("mails.csv", "Rows must be a Polars, pandas or Arrow table.*got str"),
        (Path("mails.csv"), "got .*Path"),
        (None, "got NoneType"),
        (7, "got int"),
        (pl.Series("a", [1]), "got Series"),
        (pd.Series([1], name="a"), "row 0 is a int|got Series"),
        (pa.array([1]), "Array"),
        ([{"a": 1}, "b"], "row 1 is a str: 'b'"),
        ([[1, 2]], "row 0 is a list"),
        ({"a": [1], "b": [1, 2]}, "one length; got {'a': 1, 'b': 2}"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' appear more than once"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:10],
)
def test_what_is_no_table_is_refused(table: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        as_frame(table)


def test_a_column_that_is_there_is_fine() -> None:
    require_columns(pl.DataFrame(COLUMNS), ("id", "text"), "the test")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            "texts",
            r"no column 'texts' \(the text\). Did you mean 'text'\? The table has 'id', 'text'",
        ),
        ("zzz", r"no column 'zzz' \(the text\). The table has 'id', 'text'\.$"),
    ],
)
def test_a_missing_column_is_answered_with_what_there_is(column: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        require_columns(pl.DataFrame(COLUMNS), (column,), "the text")


def test_a_table_without_columns_says_so() -> None:
    with pytest.raises(DataError, match="The table has no columns"):
        require_columns(pl.DataFrame(), ("id",), "the test")


def test_many_columns_are_looked_up_in_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars makes a new list of names at every look: 20,000 columns took half a minute."""
    frame = pl.DataFrame({f"c{number}": [1] for number in range(50)})
    asked: list[int] = []
    names = frame.columns
    monkeypatch.setattr(pl.DataFrame, "columns", property(lambda _: asked.append(1) or names))
    require_columns(frame, names, "all of them")
    assert len(asked) == 1


@pytest.mark.parametrize("table", [{"text": ["ok", "\ud83d"]}, [{"text": "\ud83d"}]])
def test_half_a_character_in_the_rows_is_told(table: Any) -> None:
    with pytest.raises(DataError, match=r"half of a character, '\\ud83d'.*encode"):
        as_frame(table)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 2.5, None], [0.0, 2.5, None]),
        (["free", 5, None], ["free", "5", None]),
        ([1, np.float32(2.5)], [1.0, 2.5]),
    ],
)
def test_a_column_may_mix_numbers_and_texts(values: list[Any], expected: list[Any]) -> None:
    tables = {"x": values}, pd.DataFrame({"x": pd.Series(values, dtype=object)})
    assert [as_frame(table)["x"].to_list() for table in tables] == [expected] * 2


@pytest.mark.parametrize("make", [dict, pd.DataFrame, lambda table: [{"x": v} for v in table["x"]]])
def test_a_column_that_mixes_lists_and_texts_is_named(make: Any) -> None:
    with pytest.raises(DataError, match=r"'x' mixes values of the types 'list', 'str'"):
        as_frame(make({"x": ["free", [1]]}))


def test_an_array_is_no_table_until_its_columns_have_names() -> None:
    with pytest.raises(DataError, match="Name the columns"):
        as_frame(np.zeros((3, 2)))
