"""`wiesel init`: a small project that runs, to be changed into one's own."""

from importlib.resources import files
from pathlib import Path

import numpy as np

from wiesel.errors import DataError, listed
from wiesel.io import FilePath, write_rows

__all__ = ["write_starter"]

_SIZES = {"train": 600, "dev": 60, "test": 150}
_FILES = ("README.md", "lfs.py.txt", "rules.toml", "wiesel.toml")

_OPENINGS = ("Hello,", "Hi team,", "Good morning,", "Please help:", "Again:", "Urgent!", "")
_CLOSINGS = ("Thanks.", "Please reply soon.", "What can I do?", "I am waiting.", "Any idea?", "")
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
    ),
}
_MONTHS = ("January", "March", "May", "July", "September", "November")
_DEVICES = ("phone", "tablet", "laptop", "watch", "television")


def write_starter(folder: FilePath, seed: int = 0) -> list[Path]:
    """Write a starter project into a new or empty folder and return its files.

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
        text = (files("wiesel.project") / "starter_files" / name).read_text(encoding="utf-8")
        written.append(target / name.removesuffix(".txt"))
        written[-1].write_text(text, encoding="utf-8")
    rng = np.random.default_rng(seed)
    for name, size in _SIZES.items():
        written.append(target / f"{name}.csv")
        rows = [_message(name, place, rng) for place in range(size)]
        if name == "train":
            rows = [{key: value for key, value in row.items() if key != "label"} for row in rows]
        write_rows(rows, written[-1])
    return written


def _message(split: str, place: int, rng: np.random.Generator) -> dict[str, str]:
    label = str(rng.choice(list(_PROBLEMS)))
    problem = str(rng.choice(_PROBLEMS[label])).format(
        month=rng.choice(_MONTHS), device=rng.choice(_DEVICES), amount=rng.integers(10, 900)
    )
    parts = (str(rng.choice(_OPENINGS)), f"{problem}.", str(rng.choice(_CLOSINGS)))
    text = " ".join(part for part in parts if part)
    return {"id": f"{split}-{place}", "text": text, "label": label}
