"""Stores people's labels in a SQLite file: each is on disk before the next item is shown."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from wiesel.errors import DataError
from wiesel.io.files import FilePath
from wiesel.io.stores import open_database
from wiesel.labels import is_name

__all__ = ["RESOLVED", "LabelStore"]

RESOLVED = "resolved"
"""The person name for resolved disagreements: its label overrides all others."""

_IS_RESOLVED = pl.col("person") == RESOLVED

_SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS labels (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    item TEXT NOT NULL,
    person TEXT NOT NULL,
    label TEXT,
    purpose TEXT NOT NULL,
    time REAL NOT NULL,
    withdrawn INTEGER NOT NULL DEFAULT 0,
    kind TEXT NOT NULL DEFAULT 'one label'
)
""",
    "CREATE INDEX IF NOT EXISTS by_item ON labels (item, person)",
)
_ADD_KIND = "ALTER TABLE labels ADD COLUMN kind TEXT NOT NULL DEFAULT 'one label'"
"""For files from before there were other kinds of tasks; what is in them stays as it is."""
_LATEST = """
SELECT item, person, label, purpose, time, kind FROM labels
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
    kind: str = "one label"
    """The kind of task: an answer is the name of a class, or with `several labels` and `spans` a
    list in JSON."""
    _held: sqlite3.Connection | None = field(default=None, init=False, repr=False)

    def hold(self) -> None:
        """Keep the file open until `release`: answers are stored in half the time.

        Otherwise SQLite copies its log into the file whenever the last user closes it.
        """
        if self._held is None:
            with self._open():  # the file exists and is a database
                self._held = sqlite3.connect(self.path, check_same_thread=False)
                self._held.execute("SELECT COUNT(*) FROM labels").fetchone()

    def release(self) -> None:
        """Close the file."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def add(self, item: str, label: str | None, person: str, purpose: str = "learn") -> None:
        """Store one answer; it is on disk when this returns. None as label means skipped."""
        self.add_all([item], label, person, purpose)

    def add_all(
        self, items: Sequence[str], label: str | None, person: str, purpose: str = "learn"
    ) -> None:
        """Store one answer to many items, all or none; `undo` withdraws them together."""
        for item in items:
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
        self._insert(items, label, person, purpose)

    def resolve(self, item: str, label: str) -> None:
        """Store the label that people who disagreed about an item decided on."""
        _check_text("The item", item)
        _check_text("The label", label)
        self._insert([item], label, RESOLVED, "learn")

    def _insert(self, items: Sequence[str], label: str | None, person: str, purpose: str) -> None:
        now = time.time()  # the same for all, so that one undo withdraws all
        with self._open() as connection, connection:
            connection.executemany(
                "INSERT INTO labels (item, person, label, purpose, time, kind) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(item, person, label, purpose, now, self.kind) for item in items],
            )

    def undo(self, person: str) -> str | None:
        """Withdraw the last answer of a person and return its item; None if there is none.

        Answers that were given together are withdrawn together.
        """
        with self._open() as connection, connection:
            # Lock before reading: otherwise two could both withdraw the same answer.
            connection.execute("BEGIN IMMEDIATE")
            row = connection.execute(
                "SELECT time, item FROM labels WHERE person = ? AND withdrawn = 0 "
                "ORDER BY number DESC LIMIT 1",
                (person,),
            ).fetchone()
            if row is None:
                return None
            connection.execute(
                "UPDATE labels SET withdrawn = 1 WHERE person = ? AND time = ?", (person, row[0])
            )
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
            found = [self._of_kind(row) for row in connection.execute(_LATEST)]
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

    def _of_kind(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return an answer as one of this kind of task; refuse those that cannot be read as such.

        A class that was given while a task had one label for each item is a set of one label.
        """
        *answer, kind = row
        if kind != self.kind and answer[2] is not None:
            if (kind, self.kind) != ("one label", "several labels"):
                raise DataError(
                    f"{self.path} holds answers for {kind}, such as {answer[2]!r:.60}, and the "
                    f"project is for {self.kind}. Keep the file elsewhere, and label again."
                )
            answer[2] = json.dumps([answer[2]])
        return tuple(answer)

    def labels(self, joined: Callable[[Sequence[str]], str | None] | None = None) -> pl.DataFrame:
        """Return the label of each item: the resolved one, or else the majority of the people.

        In case of a tie, the label is null and `agreed` is false. `joined` decides in another way
        where the answers of people to an item differ.
        """
        answers = self.answers().filter(pl.col("label").is_not_null())
        resolved, own = (answers.filter(each) for each in (_IS_RESOLVED, ~_IS_RESOLVED))
        counts = own.group_by("item", "label", maintain_order=True).len()
        most = counts.group_by("item", maintain_order=True).agg(
            pl.col("label").sort_by("len", descending=True, maintain_order=True).first(),
            (pl.col("len") == pl.col("len").max()).sum().alias("leading"),
            pl.len().alias("different"),
        )
        majority = pl.when(pl.col("leading") == 1).then(pl.col("label")).alias("majority")
        most = most.select("item", majority, "different")
        if joined is not None:
            differ = most.filter(pl.col("different") > 1)["item"]
            given = own.filter(pl.col("item").is_in(differ.implode())).group_by("item").agg("label")
            said = {item: joined(texts) for item, texts in given.iter_rows()}
            chosen = pl.col("item").replace_strict(said, default=None, return_dtype=pl.String)
            is_apart = pl.col("different") > 1
            most = most.with_columns(
                pl.when(is_apart).then(chosen).otherwise("majority").alias("majority")
            )
        decided = resolved.group_by("item").agg(pl.col("label").last().alias("decided"))
        items = answers.group_by("item", maintain_order=True).agg(
            # An item drawn at random stays marked as random if it is requested again.
            pl.when((pl.col("purpose") == "evaluate").any())
            .then(pl.lit("evaluate"))
            .otherwise(pl.lit("learn"))
            .first()
            .alias("purpose"),
            pl.col("person").filter(~_IS_RESOLVED).n_unique().cast(pl.Int64).alias("people"),
        )
        found = items.join(most, on="item", how="left", maintain_order="left").join(
            decided, on="item", how="left", maintain_order="left"
        )
        is_decided = pl.col("decided").is_not_null()
        return found.select(
            "item",
            pl.coalesce("decided", "majority").alias("label"),
            "purpose",
            "people",
            (is_decided | (pl.col("different").fill_null(0) <= 1)).alias("agreed"),
        )

    def seen_by(self, person: str) -> set[str]:
        """Return the items that a person has answered or skipped."""
        answers = self.answers()
        return set(answers.filter(pl.col("person") == person)["item"])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with open_database(self.path, _SCHEMA) as connection:
                _migrate(connection)
                # Flush at every commit, so that no crash or power failure loses an answer.
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise DataError(
                f"The labels in {self.path} cannot be used: {error}. Keep the file, "
                "and check whether another program has it open or the disk is full."
            ) from error


def _migrate(connection: sqlite3.Connection) -> None:
    """Add what earlier versions did not store; another process may do so at the same time."""
    columns = [row[1] for row in connection.execute("PRAGMA table_info(labels)")]
    if "kind" not in columns:
        try:
            connection.execute(_ADD_KIND)
        except sqlite3.OperationalError as error:
            if "duplicate column" not in str(error):
                raise


def _check_text(what: str, value: object) -> None:
    if not is_name(value) or not str(value).strip():
        raise DataError(f"{what} is a text that is not empty; got {value!r:.80}.")
