"""Votes on rows in many files: one vote file each, and finished files are not repeated."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wiesel.errors import DataError, WieselError, WieselWarning, listed, warn_user
from wiesel.io.files import FilePath, replacing
from wiesel.io.rows import NoRowsError, matching_files
from wiesel.io.vote_files import write_votes
from wiesel.io.vote_parts import APPLIED, PLANNED, VoteParts
from wiesel.progress import progress
from wiesel.replacing import locked
from wiesel.votes import VoteMatrix

__all__ = ["vote_into_folder"]

Vote = Callable[[Path], VoteMatrix]


def vote_into_folder(
    vote: Vote, key: str, rows: FilePath, folder: FilePath, numbered: bool
) -> VoteParts:
    """Write `vote(file)` for every file of rows, and return all votes.

    A note next to the votes records their inputs. A file whose rows have not changed is not voted
    on again; votes of other labeling functions are not mixed in. Files without rows have no votes.
    With `numbered`, the item numbers continue from file to file.
    """
    files = matching_files(rows)
    names = _names(files)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with locked(place):  # votes of two sets of labeling functions that start at once would mix
        note = _read_note(place, key) | {PLANNED: names}
        _write_note(place, note)
    targets, n_before = [], 0
    with progress("votes", len(files), "files") as show:
        for number, (file, name) in enumerate(zip(files, names, strict=True)):
            show(number, file.name)
            target = place / name
            state = [file.stat().st_size, file.stat().st_mtime_ns, n_before if numbered else 0]
            if not target.exists() or note["files"].get(name) != state:
                _write_note(place, note)
                votes = _votes_on(file, vote)
                if votes is None:
                    target.unlink(missing_ok=True)
                    continue
                if numbered:
                    votes = dataclasses.replace(votes, ids=np.arange(votes.n_items) + n_before)
                write_votes(votes, target, layout="list")  # fits read it repeatedly
                note["files"][name] = state
            n_before += pl.scan_parquet(target, glob=False).select(pl.len()).collect().item()
            targets.append(target)
    if not targets:
        raise DataError(f"{rows}: all files have columns but no rows.")
    note[PLANNED] = [target.name for target in targets]
    _write_note(place, note)
    _warn_of_others(place, targets)
    return VoteParts(targets)


def _votes_on(file: Path, vote: Vote) -> VoteMatrix | None:
    """The votes on a file of rows, None if it has no rows; an error names the file."""
    try:
        return vote(file)
    except NoRowsError:
        return None
    except WieselError as error:
        if str(file) in str(error):
            raise
        raise type(error)(f"{file}: ", *error.args) from error


def _warn_of_others(folder: Path, targets: Sequence[Path]) -> None:
    """Warn of votes on rows that were not among the files now, such as deleted ones."""
    others = sorted({file.name for file in folder.glob("*.parquet")} - {t.name for t in targets})
    if others:
        warn_user(
            f"{folder} also has votes on rows that were not read now: {listed(others, 3)}. Delete "
            "them if they should not count.",
            WieselWarning,
        )


def _names(files: Sequence[Path]) -> list[str]:
    names = [f"{file.stem}.parquet" for file in files]
    if len(set(names)) < len(names):
        raise DataError(
            f"Two files of rows have the same name, and so would their votes: {listed(names)}. "
            "Rename one, or write the votes of each folder into a separate folder."
        )
    return names


def _write_note(folder: Path, note: dict[str, Any]) -> None:
    with replacing(folder / APPLIED) as temporary:
        temporary.write_text(json.dumps(note))


def _read_note(folder: Path, key: str) -> dict[str, Any]:
    file = folder / APPLIED
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
