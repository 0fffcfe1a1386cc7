"""What one has to read to follow a program: `python tests/architecture/walks.py --list`.

A walk runs once to load everything, and once more while the files whose functions are called are
noted. `fit` is `Committee.fit` on the example of the README, `run` is `wiesel run` on the starter;
`walks.py fit` shows one of them.
"""

import argparse
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from source_tree import PACKAGE

_ROOT = f"{PACKAGE}/"


@dataclass
class Walk:
    """The files of the package that a program passes, and which file calls which."""

    files: dict[str, None] = field(default_factory=dict)
    """In the order of their first call."""
    calls: set[tuple[str, str]] = field(default_factory=set)

    def mutual_pairs(self) -> list[tuple[str, str]]:
        """Return the pairs of files that call each other."""
        return sorted(pair for pair in self.calls if pair[0] < pair[1] and pair[::-1] in self.calls)

    def __str__(self) -> str:
        return f"{len(self.files)} files, {len(self.mutual_pairs())} pairs that call each other"


@contextmanager
def walked() -> Iterator[Walk]:
    """Note the files of the package whose functions are called, in every thread."""
    walk = Walk()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not (callee := _file(frame)):
            return
        walk.files.setdefault(callee)
        caller = frame.f_back and _file(frame.f_back)
        if caller and caller != callee:
            walk.calls.add((caller, callee))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]


@contextmanager
def on_one_core() -> Iterator[None]:
    """Start no workers: on a slow machine, their files would be part of the walk."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _file(frame: FrameType) -> str:
    """Return the path of a frame's code in the package; empty outside, and for imports."""
    name = frame.f_code.co_filename
    if not name.startswith(_ROOT) or frame.f_code.co_name == "<module>":
        return ""
    return name.removeprefix(_ROOT)


def fit_of_the_readme() -> Walk:
    """Walk through `Committee.fit` on the example of the README."""
    from wiesel import Committee, TextFeatures, apply_lfs, keywords, regex
    from wiesel.nn import MLP

    texts = ["Free prize: www.win.example", "See you at lunch", "Claim your gift", "Thanks!"] * 50
    lfs = [
        keywords("spam", ["free", "prize", "claim"], column="text", name="offer"),
        regex("spam", r"https?://|www\.", column="text", name="link"),
        keywords("ham", ["lunch", "thanks"], column="text", name="everyday"),
    ]
    votes = apply_lfs(lfs, {"text": texts}, labels=["ham", "spam"])
    X = TextFeatures(n_dimensions=4, min_count=1).fit_transform(texts)
    Committee(MLP(4, 2)).fit(X, votes)
    with walked() as walk:
        Committee(MLP(4, 2)).fit(X, votes)
    return walk


def run_of_the_starter() -> Walk:
    """Walk through `wiesel run` on a new starter project, trained for eight epochs."""
    from typer.testing import CliRunner

    from wiesel.cli.main import app
    from wiesel.project.starter import write_starter

    for _ in ("to load all modules", "to walk"):
        with TemporaryDirectory() as place, on_one_core():
            folder = Path(place) / "starter"
            write_starter(folder)
            with (folder / "wiesel.toml").open("a", encoding="utf-8") as settings:
                settings.write("\n[training]\nepochs = 8\n")
            with walked() as walk:
                result = CliRunner().invoke(app, ["run", str(folder)])
        if result.exit_code:
            raise RuntimeError(result.output)
    return walk


WALKS: dict[str, Callable[[], Walk]] = {"fit": fit_of_the_readme, "run": run_of_the_starter}


def main() -> None:
    """Print how many files the walks pass, and the pairs that call each other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("walk", nargs="*", help=f"which: {' '.join(WALKS)}; by default all")
    parser.add_argument("--list", action="store_true", help="list the files in the order of calls")
    given = parser.parse_args()
    for name in given.walk or WALKS:
        with warnings.catch_warnings(action="ignore"):
            walk = WALKS[name]()
        print(f"{name}: {walk}")  # noqa: T201
        for first, second in walk.mutual_pairs():
            print(f"  {first} <-> {second}")  # noqa: T201
        for file in walk.files if given.list else ():
            print(f"  {file}")  # noqa: T201


if __name__ == "__main__":
    main()
