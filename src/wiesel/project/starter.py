"""New projects: an example to adapt (`wiesel init`), or one for a file of texts (the workbench)."""

import json
import os
import re
import tomllib
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

_URGENT = ("Again:", "Urgent!", "Please reply soon.", "I am waiting.")
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
    for name, rows in starter_messages(seed, kind).items():
        written.append(target / f"{name}.{'jsonl' if kind else 'csv'}")
        if name == "train":
            rows = [{key: value for key, value in row.items() if key != "label"} for row in rows]
        if kind:
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            write_file(written[-1], lines.encode())
        else:
            write_rows(rows, written[-1])
    return written


def starter_messages(seed: int = 0, kind: Kind = "") -> dict[str, list[dict[str, Any]]]:
    """Return the made-up messages of a starter by split: those of train with labels, too."""
    grammar = _Grammar(np.random.default_rng(seed))
    return {
        name: [{"id": f"{name}-{place}", **_MESSAGES[kind](grammar)} for place in range(size)]
        for name, size in _SIZES.items()
    }


class _Grammar:
    """Draws sentences from `messages.toml`."""

    def __init__(self, rng: np.random.Generator) -> None:
        source = files("wiesel.project") / "starter_files" / "messages.toml"
        self.table = tomllib.loads(source.read_text(encoding="utf-8"))
        self.rng = rng

    def sentences(self, name: str, size: int = 1) -> list[str]:
        """Return different sentences of a list, with words in place of names in braces."""
        choices = self.table[name] if name in self.table else self.table["problems"][name]
        return [self._filled(each) for each in self.rng.choice(choices, size, replace=False)]

    def _filled(self, sentence: str) -> str:
        while found := re.search(r"\{(\w+)\}", sentence):
            number = str(self.rng.integers(10, 900))
            words = [number] if found[1] == "number" else self.table["words"][found[1]]
            sentence = sentence.replace(found[0], str(self.rng.choice(words)), 1)
        return str(sentence)


def _message(grammar: _Grammar) -> dict[str, Any]:
    """Return a message with one or two problems of one kind and up to two remarks."""
    rng = grammar.rng
    label = str(rng.choice(list(grammar.table["problems"])))
    text = _joined(
        *grammar.sentences("openings"),
        *grammar.sentences(label, 1 + int(rng.random() < 0.25)),
        *grammar.sentences("remarks", int(rng.integers(3))),
        *grammar.sentences("closings"),
    )
    return {"text": text, "label": label}


def _several(grammar: _Grammar) -> dict[str, Any]:
    """Return a message about one or two problems, or none, urgent or not."""
    labels = [name for name in grammar.table["problems"] if grammar.rng.random() < 0.6]
    problems = [sentence for name in labels for sentence in grammar.sentences(name)]
    [opening], [closing] = grammar.sentences("openings"), grammar.sentences("closings")
    if opening in _URGENT or closing in _URGENT:
        labels.append("urgent")
    text = _joined(opening, *(problems or grammar.sentences("other")), closing)
    return {"text": text, "label": labels}


def _joined(*sentences: str) -> str:
    """Return a text: sentences end with a sign, and start large except after a comma or colon."""
    text = ""
    for each in filter(None, sentences):
        start = each if text.endswith((",", ":")) else each[0].upper() + each[1:]
        text += f" {start}" if each.endswith(tuple(".!?,:")) else f" {start}."
    return text.strip()


def _marked(grammar: _Grammar) -> dict[str, Any]:
    """Return a message with the spans of its devices, months and amounts of money."""
    text, words = _message(grammar)["text"], grammar.table["words"]
    spans = [
        [match.start(), match.end(), label]
        for label, names in (("DEVICE", "device"), ("MONTH", "month"), ("AMOUNT", "money"))
        for match in re.finditer(_pattern(words[names]), text)
    ]
    return {"text": text, "label": sorted(spans)}


def _pattern(words: Sequence[str]) -> str:
    return rf"\b(?:{'|'.join(words)})\b".replace("{number}", r"\d+")


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
