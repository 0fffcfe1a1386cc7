"""Votes in many Parquet files: summed part by part, so that they need not fit into memory."""

import dataclasses
import hashlib
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, VoteError, WieselError, WieselWarning, listed, warn_user
from wiesel.io.files import FilePath, explained, replacing
from wiesel.io.rows import NoRowsError, matching_files
from wiesel.io.vote_files import read_votes, vote_note, write_votes
from wiesel.labels import LabelSpace
from wiesel.progress import progress
from wiesel.unfinished import locked
from wiesel.version import __version__
from wiesel.vote_entries import id_series, item_ids
from wiesel.votes import Add, Statistics, VoteMatrix, add_statistics

__all__ = [
    "APPLIED",
    "PLANNED",
    "FittedLabelModel",
    "KeptSums",
    "VoteParts",
    "soft_label_frame",
    "sum_files",
    "vote_into_folder",
    "write_soft_label_parts",
]

APPLIED = "applied.json"
"""The note that `wiesel apply` keeps beside the votes."""
PLANNED = "planned"
"""Where the note lists the files of votes that the folder will have."""
_KEY = "wiesel_soft_labels"


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


_SMALL = 2**22
"""Sums up to this size in bytes are written after every file; larger ones after several files."""


class KeptSums:
    """A folder of finished and unfinished sums, each named by the statistic and the files.

    A fit computes one sum after another, and the same ones when it is restarted: finished sums are
    looked up, and an interrupted sum continues with the next file. Models share the sums they have
    in common, such as the pairs of votes. Sums over files that have changed are removed.

    >>> import tempfile
    >>> from wiesel.io import write_votes
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_votes(votes, folder / "part-0.parquet")
    >>> kept = KeptSums(folder / "sums", [folder / "part-0.parquet"])
    >>> def n_votes(part):
    ...     return (np.array([part.n_votes]),)
    >>> kept.sum(n_votes)
    (array([9]),)
    """

    def __init__(self, folder: FilePath, files: Sequence[Path]) -> None:
        self.folder = Path(folder)
        self.files = tuple(files)
        states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        self._of_files = _digest(repr((__version__, states)).encode())
        self.n_read = 0
        """The number of files read so far."""

    def sum(
        self, statistic: Callable[[VoteMatrix], Statistics], add: Add = add_statistics
    ) -> Statistics:
        """Return the sum of `statistic(part)` over all files."""
        place = self._place(statistic)
        total, n_done = (None, 0) if place is None else _read(place)
        for number, file in enumerate(self.files[n_done:], start=n_done + 1):
            part = statistic(read_votes(file))
            self.n_read += 1
            total = part if total is None else add(total, part)
            n_bytes = sum(array.nbytes for array in total)
            every = max(1, math.ceil(n_bytes / _SMALL))
            if place is not None and (number % every == 0 or number == len(self.files)):
                _write(place, total, number)
        if total is None:
            raise ValueError("There are no files to sum over.")
        return total

    def _place(self, statistic: Callable[[VoteMatrix], Statistics]) -> Path | None:
        """The file of a sum; None if the function cannot be identified."""
        name = hashlib.sha256()
        try:
            _add_name(name.update, statistic)
        except _NamelessError:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        for stale in self.folder.glob("*.npz"):
            if not stale.name.startswith(self._of_files):
                stale.unlink(missing_ok=True)
        return self.folder / f"{self._of_files}-{name.hexdigest()[:16]}.npz"


def _read(place: Path) -> tuple[Statistics | None, int]:
    """A sum and the number of files it covers; an unreadable file counts as missing."""
    try:
        # If NumPy opens a damaged file itself, it leaves the file open.
        with place.open("rb") as content, np.load(content, allow_pickle=False) as found:
            n_done, n_arrays = found["counts"].tolist()
            return tuple(found[f"arr_{k}"] for k in range(n_arrays)), n_done
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None, 0


def _write(place: Path, total: Statistics, n_done: int) -> None:
    with replacing(place) as temporary, temporary.open("wb") as target:
        np.savez(target, *total, counts=np.array([n_done, len(total)]))


class _NamelessError(Exception):
    """A function or a value cannot be identified by name."""


def _add_name(add: Callable[[bytes], None], value: Any) -> None:
    """Add the identity of a function or of one of its arguments to the hash."""
    if isinstance(value, FunctionType):
        if "<" in value.__qualname__:  # a lambda or a nested function
            raise _NamelessError
        add(f"{value.__module__}.{value.__qualname__};".encode())
        return
    add(f"{type(value).__module__}.{type(value).__qualname__}(".encode())
    if isinstance(value, np.ndarray):
        add(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        add(repr(value).encode())
    else:
        for part in _parts_of(value):
            _add_name(add, part)
    add(b");")


def _parts_of(value: Any) -> list[Any]:
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if not hasattr(value, "__dict__"):
        raise _NamelessError
    return [vars(value)]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


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


class FittedLabelModel(Protocol):
    """The interface that a label model must provide."""

    labels_: LabelSpace

    def predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return P(class | votes)."""


def write_soft_label_parts(
    model: FittedLabelModel,
    votes: VoteParts,
    folder: FilePath,
    done: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write P(class) of each item, one Parquet file per vote file, and return the files.

    A file has the same name as its vote file, and contains the item ids and one column of
    probabilities per class. Only one part is in memory at a time. Files from an earlier call with
    the same model and votes are kept, so that an interrupted call continues where it stopped; files
    from another model are replaced. `done(part, parts)` is called after each part.

    >>> import tempfile, pathlib
    >>> from wiesel import MajorityVote
    >>> from wiesel.io import write_votes
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_votes(votes, folder / "part-0.parquet")
    >>> parts = VoteParts(folder / "part-0.parquet")
    >>> files = write_soft_label_parts(MajorityVote().fit(parts), parts, folder / "labels")
    >>> pl.read_parquet(files[0]).row(1)
    (1, 0.5, 0.5)
    """
    names = [file.name for file in votes.files]
    if len(set(names)) < len(names):
        raise DataError(
            "Two files of votes have the same name, and so would their soft labels: rename one, "
            "or write the soft labels of each folder into a separate folder."
        )
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise DataError(f"{place} is a file; soft labels of many files go into a folder.")
    place.mkdir(parents=True, exist_ok=True)
    fingerprint = _fingerprint(model)
    written = []
    for number, file in enumerate(votes.files, start=1):
        target = place / file.name
        if target.resolve() == file.resolve():
            raise DataError(f"{target} is a file of votes: choose another folder for the labels.")
        key = f"{fingerprint} {file.stat().st_size} {file.stat().st_mtime_ns}"
        if _known_key(target) != key:
            frame = soft_label_frame(model, read_votes(file))
            with replacing(target) as temporary:
                frame.write_parquet(temporary, metadata={_KEY: key})
        written.append(target)
        if done is not None:
            done(number, len(names))
    return written


def soft_label_frame(model: FittedLabelModel, votes: VoteMatrix) -> pl.DataFrame:
    """Return the id and the class probabilities of each item.

    >>> from wiesel import MajorityVote
    >>> soft_label_frame(MajorityVote().fit(votes), votes).columns
    ['id', 'p: ham', 'p: spam']
    """
    proba = model.predict_proba(votes)
    columns = [pl.Series(f"p: {name}", proba[:, k]) for k, name in enumerate(model.labels_)]
    return pl.DataFrame([id_series(votes.ids).alias("id"), *columns])


def _known_key(file: Path) -> str | None:
    """The key of the model and votes behind a file of soft labels; None if there is no file."""
    if not file.exists():
        return None
    with explained(file):
        return pl.read_parquet_metadata(file).get(_KEY)


def _fingerprint(model: Any) -> str:
    """A hash of the options and the fitted values of a model."""
    digest = hashlib.sha256(type(model).__qualname__.encode())
    for field in dataclasses.fields(model):
        value = getattr(model, field.name, None)
        array = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else None
        content = repr(value).encode() if array is None else array.tobytes()
        digest.update(f"{field.name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:32]
