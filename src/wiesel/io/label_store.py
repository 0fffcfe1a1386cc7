"""Stores people's labels in a SQLite file: each is on disk before the next item is shown."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl

from wiesel.errors import DataError
from wiesel.io.databases import open_database
from wiesel.io.files import FilePath
from wiesel.labels import is_name

__all__ = ["RESOLVED", "LabelStore"]

RESOLVED = "resolved"
"""The person name for resolved disagreements: its label overrides all others."""

_SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS labels (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    item TEXT NOT NULL,
    person TEXT NOT NULL,
    label TEXT,
    purpose TEXT NOT NULL,
    time REAL NOT NULL,
    withdrawn INTEGER NOT NULL DEFAULT 0
)
""",
    "CREATE INDEX IF NOT EXISTS by_item ON labels (item, person)",
)
_LATEST = """
SELECT item, person, label, purpose, time FROM labels
WHERE number IN (SELECT MAX(number) FROM labels WHERE withdrawn = 0 GROUP BY item, person)
ORDER BY number
"""


@dataclass(eq=False)
class LabelStore:
    """The labels of a project; several people and processes may use the file at the same time.

    Nothing is overwritten: a person's last answer to an item counts, and `undo` withdraws the last
    one. A skipped item has no label but is not shown again.

    >>> import tempfile
    >>> from pathlib import Path
    >>> store = LabelStore(Path(tempfile.mkdtemp()) / "labels.sqlite")
    >>> store.add("m1", "ham", "ada")
    >>> store.add("m2", None, "ada")
    >>> store.undo("ada"), store.labels().to_dicts()
    ('m2', [{'item': 'm1', 'label': 'ham', 'purpose': 'learn', 'people': 1, 'agreed': True}])
    """

    path: FilePath

    def add(self, item: str, label: str | None, person: str, purpose: str = "learn") -> None:
        """Store one answer; it is on disk when this returns. None as label means skipped."""
        _check_text("The item", item)
        _check_text("The name of the person", person)
        if label is not None:
            _check_text("The label", label)
        if purpose not in ("learn", "evaluate"):
            raise DataError(f"The purpose is 'learn' or 'evaluate'; got {purpose!r}.")
        if person == RESOLVED:
            raise DataError(
                f"No person can be named {RESOLVED!r}: labels under this name override all others. "
                "Use another name."
            )
        self._insert(item, label, person, purpose)

    def resolve(self, item: str, label: str) -> None:
        """Store the label that people who disagreed about an item decided on."""
        _check_text("The item", item)
        _check_text("The label", label)
        self._insert(item, label, RESOLVED, "learn")

    def _insert(self, item: str, label: str | None, person: str, purpose: str) -> None:
        values = (item, person, label, purpose, time.time())
        with self._open() as connection, connection:
            connection.execute(
                "INSERT INTO labels (item, person, label, purpose, time) VALUES (?, ?, ?, ?, ?)",
                values,
            )

    def undo(self, person: str) -> str | None:
        """Withdraw the last answer of a person and return its item; None if there is none."""
        with self._open() as connection, connection:
            # Lock before reading: otherwise two could both withdraw the same answer.
            connection.execute("BEGIN IMMEDIATE")
            row = connection.execute(
                "SELECT number, item FROM labels WHERE person = ? AND withdrawn = 0 "
                "ORDER BY number DESC LIMIT 1",
                (person,),
            ).fetchone()
            if row is None:
                return None
            connection.execute("UPDATE labels SET withdrawn = 1 WHERE number = ?", (row[0],))
        return str(row[1])

    def purpose_of(self, item: str) -> str:
        """Return the last purpose of an item, even if its label was withdrawn."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT purpose FROM labels WHERE item = ? ORDER BY number DESC LIMIT 1", (item,)
            ).fetchone()
        return "learn" if row is None else str(row[0])

    def answers(self) -> pl.DataFrame:
        """Return the last answer of each person to each item, in the order they were given."""
        with self._open() as connection:
            found = connection.execute(_LATEST).fetchall()
        schema = {
            "item": pl.String,
            "person": pl.String,
            "label": pl.String,
            "purpose": pl.String,
            "time": pl.Float64,
        }
        try:
            return pl.DataFrame(found, schema=schema, orient="row")
        except (pl.exceptions.PolarsError, TypeError) as error:  # SQLite takes any type anywhere
            raise DataError(
                f"{self.path} holds values that are no labels: items, people and labels are texts. "
                "Another program wrote them; remove these rows, or use an earlier copy of the file."
            ) from error

    def labels(self) -> pl.DataFrame:
        """Return the label of each item: the resolved one, or else the majority of the people.

        In case of a tie, the label is null and `agreed` is false.
        """
        answers = self.answers().filter(pl.col("label").is_not_null())
        rows = [
            _settled(item[0], group)
            for item, group in answers.group_by("item", maintain_order=True)
        ]
        schema = {
            "item": pl.String,
            "label": pl.String,
            "purpose": pl.String,
            "people": pl.Int64,
            "agreed": pl.Boolean,
        }
        return pl.DataFrame(rows, schema=schema)

    def seen_by(self, person: str) -> set[str]:
        """Return the items that a person has answered or skipped."""
        answers = self.answers()
        return set(answers.filter(pl.col("person") == person)["item"])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with open_database(self.path, _SCHEMA) as connection:
                # Flush at every commit, so that no crash or power failure loses an answer.
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise DataError(
                f"The labels in {self.path} cannot be used: {error}. Keep the file, "
                "and check whether another program has it open or the disk is full."
            ) from error


def _settled(item: object, group: pl.DataFrame) -> dict[str, Any]:
    people = group.filter(pl.col("person") != RESOLVED)
    settled = group.filter(pl.col("person") == RESOLVED)
    counts = people["label"].value_counts(sort=True)
    tie = len(counts) > 1 and counts["count"][0] == counts["count"][1]
    label = None if tie or not len(counts) else counts["label"][0]
    if len(settled):
        label = settled["label"][-1]
    return {
        "item": str(item),
        "label": label,
        # An item drawn at random stays marked as random if it is requested again.
        "purpose": "evaluate" if "evaluate" in group["purpose"].to_list() else "learn",
        "people": people["person"].n_unique(),
        "agreed": len(settled) > 0 or len(counts) <= 1,
    }


def _check_text(what: str, value: object) -> None:
    if not is_name(value) or not str(value).strip():
        raise DataError(f"{what} is a text that is not empty; got {value!r:.80}.")
