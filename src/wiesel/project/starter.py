"""New projects: an example to adapt (`wiesel init`), or one for a file of texts (the workbench)."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from wiesel.errors import DataError, ParameterError, WieselError, listed
from wiesel.io import FilePath, explained, read_rows, write_rows
from wiesel.io.files import FORMATS
from wiesel.labels import LabelSpace
from wiesel.project.settings import FILE_NAME, read_project
from wiesel.unfinished import write_file

__all__ = ["RowsSketch", "project_of", "sketch_rows", "tables_in", "write_project", "write_starter"]

_SIZES = {"train": 600, "dev": 60, "test": 300}
_FILES = ("README.md", "lfs.py.txt", "rules.toml", "wiesel.toml")

_OPENINGS = ("Hello,", "Hi team,", "Good morning,", "Please help:", "Again:", "Urgent!", "")
_CLOSINGS = ("Thanks.", "Please reply soon.", "What can I do?", "I am waiting.", "Any idea?", "")
_REMARKS = (
    "I wrote to you in {month}.",
    "I have used your app on my {device} since {month}.",
    "I already waited {amount} minutes on the phone.",
    "A friend of mine has the same problem.",
    "This is the second time since {month}.",
    "I need an answer before {month}.",
)
"""Sentences that occur in messages of both classes."""
_PROBLEMS = {
    "billing": (
        "I was charged twice for {month}",
        "the invoice for {month} shows {amount} dollars too much",
        "I asked for a refund of {amount} euros weeks ago",
        "my payment from {month} is not in your books",
        "how do I cancel my subscription before {month}",
        "the contract says {amount} euros but you took more",
        "I cannot change the credit card for my account",
        "the discount of {month} is missing on my bill",
        "why did the price go up in {month}",
        "the receipt has the wrong address on my {device} order",
        "the bank says that the invoice of {month} was never sent",
        "I cancelled in {month} and was charged {amount} dollars anyway",
        "the price on your page is {amount} euros lower than mine",
        "please send the receipt for {month} to my company",
        "my subscription was renewed although I said no",
        "the voucher of {amount} euros gave me no discount",
    ),
    "technical": (
        "the app crashes on my {device} since {month}",
        "I get error {amount} when I upload a file",
        "the {device} freezes after the update of {month}",
        "I cannot log in with my password",
        "the sign in page stays white on my {device}",
        "sync between {device} and laptop stopped in {month}",
        "the video has no sound on my {device}",
        "notifications arrive hours late",
        "the search finds nothing since the {month} release",
        "the payment page of the app does not load",
        "the app forgets my password every day",
        "files of {month} are gone after the sync",
        "the screen of my {device} flickers when a video starts",
        "the update stops at {amount} megabytes with an error",
        "the search is slow on my {device}",
        "notifications do not show up since the update",
    ),
}
_MONTHS = ("January", "March", "May", "July", "September", "November")
_URGENT = ("Again:", "Urgent!", "Please reply soon.", "I am waiting.")
_OTHER = "how do I reach you by phone?"
_DEVICES = ("phone", "tablet", "laptop", "watch", "television")

_GOLD_SPANS = {
    "DEVICE": "|".join(_DEVICES),
    "MONTH": "|".join(_MONTHS),
    "AMOUNT": r"\d+ (?:euros|dollars)",
}
Kind = Literal["", "multi", "spans"]


def write_starter(
    folder: FilePath, seed: int = 0, kind: Kind = "", balance: str = ""
) -> list[Path]:
    """Write a starter project into a new or empty folder and return its files.

    `kind` is empty for one label per item, `multi` for several, `spans` for parts of texts.
    `balance` is what is known of the class shares.

    >>> import tempfile
    >>> [file.name for file in write_starter(Path(tempfile.mkdtemp()) / "demo")][:3]
    ['README.md', 'lfs.py', 'rules.toml']
    """
    target = Path(folder)
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        names = sorted(entry.name for entry in target.iterdir()) if target.is_dir() else []
        held = f"it holds {listed(names, limit=3)}" if names else "it is a file"
        raise DataError(f"{target} is not empty: {held}. Choose a new folder.")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name in _FILES:
        source = files("wiesel.project") / "starter_files" / kind / name
        text = source.read_text(encoding="utf-8")
        if name == "wiesel.toml" and balance:
            text += f"\n[training]\nclass_balance = {json.dumps(balance)}\n"
        written.append(target / name.removesuffix(".txt"))
        write_file(written[-1], text.encode())
    rng = np.random.default_rng(seed)
    for name, size in _SIZES.items():
        written.append(target / f"{name}.{'jsonl' if kind else 'csv'}")
        rows = [_MESSAGES[kind](f"{name}-{place}", rng) for place in range(size)]
        if name == "train":
            rows = [{key: value for key, value in row.items() if key != "label"} for row in rows]
        if kind:
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            write_file(written[-1], lines.encode())
        else:
            write_rows(rows, written[-1])
    return written


def _message(id: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return a message with one or two problems of one kind; half of the messages add a remark."""
    label = str(rng.choice(list(_PROBLEMS)))
    n_problems, has_remark = int(rng.integers(1, 3)), bool(rng.integers(2))
    problems = rng.choice(_PROBLEMS[label], size=n_problems, replace=False)
    parts = [
        str(rng.choice(_OPENINGS)),
        *(f"{_filled(problem, rng)}." for problem in problems),
        _filled(rng.choice(_REMARKS), rng) if has_remark else "",
        str(rng.choice(_CLOSINGS)),
    ]
    return {"id": id, "text": " ".join(filter(None, parts)), "label": label}


def _filled(sentence: object, rng: np.random.Generator) -> str:
    details = {"month": rng.choice(_MONTHS), "device": rng.choice(_DEVICES)}
    return str(sentence).format(amount=rng.integers(10, 900), **details)


def _several(id: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return a message about one or two problems, urgent or not."""
    labels = [name for name in _PROBLEMS if rng.random() < 0.6]
    problems = [_filled(rng.choice(_PROBLEMS[name]), rng) for name in labels]
    opening, closing = str(rng.choice(_OPENINGS)), str(rng.choice(_CLOSINGS))
    if opening in _URGENT or closing in _URGENT:
        labels.append("urgent")
    parts = (opening, ". And ".join(problems) + "." if problems else _OTHER, closing)
    return {"id": id, "text": " ".join(filter(None, parts)), "label": labels}


def _marked(id: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return a message with the spans of its devices, months and amounts of money."""
    text = _message(id, rng)["text"]
    spans = [
        [match.start(), match.end(), label]
        for label, words in _GOLD_SPANS.items()
        for match in re.finditer(rf"\b(?:{words})\b", text)
    ]
    return {"id": id, "text": text, "label": sorted(spans)}


_MESSAGES = {"": _message, "multi": _several, "spans": _marked}


_LABEL_NAMES = ("label", "labels", "class", "category", "target", "sentiment", "intent", "gold")
_MOST_CLASSES = 1000
_HEAD = 5


@dataclass(frozen=True, eq=False)
class RowsSketch:
    """What a file of texts looks like, for the questions that a new project needs answered."""

    file: Path
    n_rows: int
    head: pl.DataFrame
    """The first rows."""
    texts: tuple[str, ...]
    """The columns of text, the one with the longest texts first."""
    classes: Mapping[str, Mapping[str, int]]
    """The columns that may hold labels: the values of each and how often they occur."""
    ids: tuple[str, ...]
    """The columns in which every value is different."""

    @property
    def label(self) -> str:
        """The column that by its name holds labels; empty if none does."""
        named = (name for name in self.classes if name.lower() in _LABEL_NAMES)
        return next(named, "")


def sketch_rows(file: FilePath) -> RowsSketch:
    """Return what a file of texts looks like; the error says why it cannot be used.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mails.csv"
    >>> write_rows({"text": ["free prize", "see you"], "label": ["spam", "ham"]}, file)
    >>> sketch = sketch_rows(file)
    >>> sketch.texts[0], sketch.label, dict(sketch.classes["label"])
    ('text', 'label', {'ham': 1, 'spam': 1})
    """
    rows = read_rows(file)
    plain = [name for name in rows.columns if _is_plain(rows[name])]
    n_values = {name: rows[name].drop_nulls().n_unique() for name in plain}
    texts = [name for name, dtype in rows.schema.items() if dtype == pl.String]
    lengths = {name: int(rows[name].head(1000).str.len_chars().sum()) for name in texts}
    if not texts:
        kinds = [f"{name} ({dtype})" for name, dtype in rows.schema.items()]
        raise DataError(
            f"{file} has no column of text; it has {listed(kinds, limit=5)}. The page starts "
            "from texts. For other data, write wiesel.toml: `wiesel init example` shows how."
        )
    texts.sort(key=lambda name: (-lengths[name], name))
    few = [
        name
        for name, count in n_values.items()
        if name != texts[0] and 2 <= count <= min(_MOST_CLASSES, max(2, len(rows) / 2))
    ]
    return RowsSketch(
        Path(file),
        len(rows),
        rows.head(_HEAD),
        tuple(texts),
        {name: _counted(rows[name]) for name in few},
        tuple(name for name, count in n_values.items() if count == len(rows) and name != texts[0]),
    )


def _is_plain(values: pl.Series) -> bool:
    return values.dtype == pl.String or values.dtype.is_integer()


def _counted(values: pl.Series) -> dict[str, int]:
    counts = values.drop_nulls().cast(pl.String).rename("value").value_counts()
    counts = counts.sort("count", "value", descending=[True, False])
    return dict(zip(counts["value"].to_list(), counts["count"].to_list(), strict=True))


def write_project(
    sketch: RowsSketch,
    text: str,
    classes: Sequence[str],
    *,
    label: str = "",
    id: str | None = None,
    shares: Mapping[str, float] | None = None,
) -> Path:
    """Write the project of a file into a new folder beside it, and return its wiesel.toml.

    `label` is the column of labels that some rows have already, `id` the column that names rows;
    without it, rows are numbered. `shares` says roughly how common every class is.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mails.csv"
    >>> write_rows({"text": ["free prize", "see you"]}, file)
    >>> read_project(write_project(sketch_rows(file), "text", ["ham", "spam"])).classes
    ('ham', 'spam')
    """
    LabelSpace(*classes)
    if id is None and "id" in sketch.head.columns and "id" not in sketch.ids:
        id = ""  # its values repeat
    unnamed = [name for name in sketch.classes.get(label, ()) if name not in classes]
    if unnamed:
        raise ParameterError(
            f"The column {label!r} has labels that are not among the classes: "
            f"{listed(unnamed, limit=3)}. Add them, or choose no column of labels."
        )
    lines = [
        f"# Made by the workbench from {_on_one_line(sketch.file.name)}; `wiesel run` works, too.",
        "",
        f"classes = [{', '.join(map(_toml, classes))}]",
        "",
        "[data]",
        f"train = {_toml(os.path.join('..', sketch.file.name))}",
        f"label = {_toml(label)}   # the column of labels that some rows have already",
        *([f"id = {_toml(id)}"] if id is not None else []),
        "",
        "[votes]",
        'lfs = ["rules.toml"]',
        "",
        "[features]",
        f"column = {_toml(text)}",
    ]
    if shares:
        parts = ", ".join(
            f"{_toml(name)} = {share:.4f}" for name, share in _scaled(shares, classes)
        )
        lines += ["", "[training]", f"class_balance = {{ {parts} }}   # roughly"]
    folder = _free_beside(sketch.file)
    folder.mkdir(parents=True)
    file = folder / FILE_NAME
    write_file(file, ("\n".join(lines) + "\n").encode())
    read_project(file)
    return file


def _scaled(shares: Mapping[str, float], classes: Sequence[str]) -> list[tuple[str, float]]:
    missing = [name for name in classes if not shares.get(name, 0) > 0]
    if missing:
        raise ParameterError(
            f"Say of every class roughly how common it is, or of none: {listed(missing, limit=5)} "
            "lacks a share above 0."
        )
    total = sum(shares[name] for name in classes)
    return [(name, shares[name] / total) for name in classes]


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _on_one_line(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _free_beside(file: Path) -> Path:
    named = [file.with_suffix(""), *(file.with_name(f"{file.stem}-{k}") for k in range(2, 1000))]
    return next(folder for folder in named if not folder.exists())


def project_of(file: FilePath) -> Path | None:
    """Return the wiesel.toml that `write_project` made for a file before; None if there is none."""
    source = Path(file)
    for found in sorted(source.parent.glob(f"*/{FILE_NAME}")):
        try:
            train = read_project(found).data.train
        except WieselError:
            continue
        if train and (found.parent / train).resolve() == source.resolve():
            return found
    return None


def tables_in(folder: FilePath) -> list[Path]:
    """Return the tables in a folder, without hidden files, sorted by name."""
    place = Path(folder)
    with explained(place):
        found = sorted(place.iterdir())
    return [
        each
        for each in found
        if each.suffix.lower() in FORMATS and each.is_file() and not each.name.startswith(".")
    ]
