"""Votes in many Parquet files: summed part by part, so that they need not fit into memory."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path

import polars as pl

from wiesel.errors import DataError, VoteError, WieselWarning, listed, warn_user
from wiesel.io.files import FilePath, explained
from wiesel.io.kept_sums import KeptSums
from wiesel.io.rows import matching_files
from wiesel.io.vote_files import read_votes, vote_note
from wiesel.labels import LabelSpace
from wiesel.vote_entries import item_ids
from wiesel.votes import Add, Statistics, VoteMatrix, add_statistics

__all__ = ["APPLIED", "PLANNED", "VoteParts", "sum_files"]

APPLIED = "applied.json"
"""The note that `wiesel apply` keeps beside the votes."""
PLANNED = "planned"
"""Where the note lists the files of votes that the folder will have."""


class VoteParts:
    """Votes of the same voters in several files of `write_votes`, each with a part of the items.

    Pass it to a label model's `fit` instead of a `VoteMatrix`. The model needs sums over the items,
    which are computed part by part, with one part in memory at a time. Creating it reads only the
    files' metadata, no votes. `keep` is a folder that caches the sums: a fit or summary that was
    killed continues where it stopped when it is restarted, and models that need the same sums
    reuse them.

    >>> import tempfile, pathlib
    >>> from wiesel import MajorityVote
    >>> from wiesel.io import write_votes
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_votes(votes[:3], folder / "part-0.parquet")
    >>> write_votes(votes[3:], folder / "part-1.parquet")
    >>> parts = VoteParts(folder)
    >>> parts
    VoteParts(2 parts, 4 items x 3 voters, 2 classes)
    >>> MajorityVote().fit(parts).predict(votes[0])
    array(['ham'], dtype=object)
    >>> parts.read().equals(votes)
    True
    """

    def __init__(self, files: FilePath | Sequence[FilePath], keep: FilePath | None = None) -> None:
        self.files = _part_files(files)
        notes = [_head(file) for file in self.files]
        self._labels, self._voters, _ = notes[0]
        self._sizes = tuple(size for _, _, size in notes)
        for file, (labels, voters, _) in zip(self.files, notes, strict=True):
            if (labels, voters) != (self._labels, self._voters):
                raise VoteError(
                    f"{file} has other voters or classes than {self.files[0]}: "
                    "parts are votes of the same voters, in the same order."
                )
        self.kept = None if keep is None else KeptSums(keep, self.files)
        """The sums cached on disk; None without `keep`."""

    @property
    def labels(self) -> LabelSpace:
        """The classes."""
        return self._labels

    @property
    def voters(self) -> tuple[str, ...]:
        """The names of the voters."""
        return self._voters

    @property
    def n_items(self) -> int:
        """The number of items in all parts."""
        return sum(self._sizes)

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[VoteMatrix]:
        """Read one part after another."""
        return map(read_votes, self.files)

    def parts(self) -> Iterator[VoteMatrix]:
        """Read one part after another, with one in memory at a time."""
        return iter(self)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self):,} parts, {self.n_items:,} items x "
            f"{len(self.voters):,} voters, {len(self.labels)} classes)"
        )

    def sum(
        self, statistic: Callable[[VoteMatrix], Statistics], add: Add = add_statistics
    ) -> Statistics:
        """Return the sum of `statistic(part)` over all parts."""
        if self.kept is not None:
            return self.kept.sum(statistic, add)
        return sum_files(self.files, statistic, add)

    def read(self) -> VoteMatrix:
        """Return all votes as one matrix. It must fit into memory, and ids must be unique."""
        votes = VoteMatrix.concatenate(list(self))
        item_ids(votes.ids, votes.n_items)
        return votes


def sum_files(
    files: Sequence[Path],
    statistic: Callable[[VoteMatrix], Statistics],
    add: Add = add_statistics,
) -> Statistics:
    """Return the sum of a statistic over vote files, with one file in memory at a time."""
    return reduce(add, (statistic(read_votes(file)) for file in files))


def _part_files(files: FilePath | Sequence[FilePath]) -> tuple[Path, ...]:
    """The files in a folder or matching a pattern, sorted by name, or the given files."""
    if isinstance(files, Sequence) and not isinstance(files, str):
        found = tuple(file for each in files for file in matching_files(each))
    else:
        folder = Path(files)
        found = tuple(matching_files(folder / "*.parquet" if folder.is_dir() else folder))
        if folder.is_dir():
            _warn_if_unfinished(folder)
    if not found:
        raise DataError("There are no parts: give at least one file of votes.")
    return found


def _warn_if_unfinished(folder: Path) -> None:
    """Warn if `wiesel apply` has not written all votes of a folder, because it was interrupted."""
    try:
        planned = set(json.loads((folder / APPLIED).read_text())[PLANNED])
        missing = sorted(planned - {file.name for file in folder.iterdir()})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return  # written in another way, or by an earlier version
    if missing:
        warn_user(
            f"The votes in {folder} are not complete: {listed(missing, 3)} of {len(planned):,} "
            "files are missing. `wiesel apply` is still running or was interrupted; run it again, "
            "and it goes on where it stopped.",
            WieselWarning,
        )


def _head(file: Path) -> tuple[LabelSpace, tuple[str, ...], int]:
    """The classes, voters and number of items of a file, from its metadata."""
    with explained(file):
        note = vote_note(file)
        if note is None:
            raise DataError(
                "This file was not written by write_votes or `wiesel apply`; parts of votes are. "
                "For rows, apply labeling functions first."
            )
        n_items = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    return note.labels, note.voters, int(n_items)
