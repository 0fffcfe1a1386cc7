"""Votes on rows in many files: one vote file each, and finished files are not repeated."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wiesel.errors import DataError
from wiesel.io.files import FilePath, replacing
from wiesel.io.rows import matching_files
from wiesel.io.vote_files import write_votes
from wiesel.io.vote_parts import VoteParts
from wiesel.votes import VoteMatrix

__all__ = ["vote_into_folder"]

_NOTE = "applied.json"
Vote = Callable[[Path], VoteMatrix]


def vote_into_folder(
    vote: Vote, key: str, rows: FilePath, folder: FilePath, numbered: bool
) -> VoteParts:
    """Write `vote(file)` for every file of rows, and return all votes.

    A note next to the votes records their inputs. A file whose rows have not changed is not voted
    on again; votes of other labeling functions are not mixed in. With `numbered`, the item numbers
    continue from file to file.
    """
    files = matching_files(rows)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    note = _read_note(place, key)
    targets, n_before = [], 0
    for file, name in zip(files, _names(files), strict=True):
        target = place / name
        state = [file.stat().st_size, file.stat().st_mtime_ns, n_before if numbered else 0]
        if not target.exists() or note["files"].get(name) != state:
            votes = vote(file)
            if numbered:
                votes = dataclasses.replace(votes, ids=np.arange(votes.n_items) + n_before)
            write_votes(votes, target, layout="list")  # fits read it repeatedly
            note["files"][name] = state
            with replacing(place / _NOTE) as temporary:
                temporary.write_text(json.dumps(note))
        n_before += pl.scan_parquet(target, glob=False).select(pl.len()).collect().item()
        targets.append(target)
    return VoteParts(targets)


def _names(files: Sequence[Path]) -> list[str]:
    names = [f"{file.name.partition('.')[0]}.parquet" for file in files]
    if len(set(names)) < len(names):
        raise DataError("Two files of rows have the same name, and so would their votes.")
    return names


def _read_note(folder: Path, key: str) -> dict[str, Any]:
    file = folder / _NOTE
    if not file.exists():
        if any(folder.glob("*.parquet")):
            raise DataError(
                f"{folder} has Parquet files that are not of `wiesel apply`: choose a new folder."
            )
        return {"key": key, "files": {}}
    try:
        note = json.loads(file.read_text())
        known, files = note["key"], dict(note["files"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{file} cannot be read ({error}): choose a new folder.") from error
    if known != key:
        raise DataError(
            f"{folder} has the votes of other labeling functions, classes or ids: choose a new "
            "folder, or remove this one."
        )
    return {"key": key, "files": files}
