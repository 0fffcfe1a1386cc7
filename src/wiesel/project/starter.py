"""`wiesel init`: a small working project for users to adapt."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wiesel.errors import DataError, listed
from wiesel.io import FilePath, write_rows
from wiesel.replacing import write_file

__all__ = ["write_starter"]

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


def write_starter(folder: FilePath, seed: int = 0, kind: Kind = "") -> list[Path]:
    """Write a starter project into a new or empty folder and return its files.

    `kind` is empty for one label per item, `multi` for several, `spans` for parts of texts.

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
