"""A row as labeling functions get it: `row["text"]`, or `row.text`."""

import gc
from collections.abc import Mapping
from itertools import repeat
from typing import Any

import polars as pl

from wiesel.errors import suggest

__all__ = ["Row", "as_row", "rows_of"]


class Row(dict[str, Any]):
    """A dict whose keys can be read as attributes, too.

    A column that has the name of a dict method (`items`, `keys`, `get`, ...) or is not a valid
    Python name is read as `row["items"]`.

    >>> row = Row(text="see you", words=2)
    >>> row.text, row["words"]
    ('see you', 2)
    >>> row.txt
    Traceback (most recent call last):
    AttributeError: The row has no column 'txt'. Did you mean 'text'?

    All labeling functions read the same row, so none can change it.

    >>> row["text"] = "other"
    Traceback (most recent call last):
    TypeError: A row cannot be changed: all labeling functions read it. Change dict(row), a copy.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            # Special attributes (for copying, pickling, printing) are not columns.
            problem = f"The row has no column {name!r}. {suggest(name, self)}"
            raise AttributeError(name if name.startswith("__") else problem) from None

    def _refuse_change(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError(
            "A row cannot be changed: all labeling functions read it. Change dict(row), a copy."
        )

    __setitem__ = __delitem__ = __ior__ = _refuse_change
    clear = pop = popitem = setdefault = update = _refuse_change

    def __reduce__(self) -> tuple[type["Row"], tuple[dict[str, Any]]]:
        return Row, (dict(self),)

    def __or__(self, other: Mapping[str, Any]) -> "Row":  # type: ignore[override]
        return Row({**self, **other})


def as_row(row: Any) -> Any:
    """Return a dict as a row; anything else, such as a row of pandas, as it is."""
    return Row(row) if type(row) is dict else row


def rows_of(frame: pl.DataFrame) -> list[Row]:
    """Return every row of a frame.

    >>> rows_of(pl.DataFrame({"text": ["hi"]}))[0].text
    'hi'
    """
    values = frame.rows()
    # Unlike plain dicts of text and numbers, these are objects that the garbage collector looks
    # at, again and again while thousands are made: half of the time went into that.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [Row(pairs) for pairs in map(zip, repeat(frame.columns), values)]
    finally:
        if collecting:
            gc.enable()
