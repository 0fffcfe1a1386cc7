"""Writes the soft labels of votes in many files: one label file each, and none is done twice."""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError
from wiesel.io.files import FilePath, explained, replacing
from wiesel.io.vote_files import read_votes
from wiesel.io.vote_parts import VoteParts
from wiesel.labels import LabelSpace
from wiesel.vote_entries import id_series
from wiesel.votes import VoteMatrix

__all__ = ["FittedLabelModel", "soft_label_frame", "write_soft_label_parts"]

_KEY = "wiesel_soft_labels"


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
