"""Soft labels of votes in many files: one file of labels for each, and none is done twice."""

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
    """What a label model must provide."""

    labels_: LabelSpace

    def predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return P(class | votes)."""


def write_soft_label_parts(
    model: FittedLabelModel,
    votes: VoteParts,
    folder: FilePath,
    done: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write P(class) of every item, a Parquet file for each file of votes, and return the files.

    A file has the item's id and a column of probabilities for each class, and the name of its
    file of votes. One part is in memory at a time. Files of an earlier call with the same model
    and the same votes are kept, so that an interrupted call goes on where it was; those of another
    model are replaced. `done(part, parts)` is called after each part.

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
    """Return the id and the probability of every class, for every item.

    >>> from wiesel import MajorityVote
    >>> soft_label_frame(MajorityVote().fit(votes), votes).columns
    ['id', 'p: ham', 'p: spam']
    """
    proba = model.predict_proba(votes)
    columns = [pl.Series(f"p: {name}", proba[:, k]) for k, name in enumerate(model.labels_)]
    return pl.DataFrame([id_series(votes.ids).alias("id"), *columns])


def _known_key(file: Path) -> str | None:
    """What the soft labels in a file were made of; None where there is no such file."""
    if not file.exists():
        return None
    with explained(file):
        return pl.read_parquet_metadata(file).get(_KEY)


def _fingerprint(model: Any) -> str:
    """Changes with the options of a model and with what it learned."""
    digest = hashlib.sha256(type(model).__qualname__.encode())
    for field in dataclasses.fields(model):
        value = getattr(model, field.name, None)
        array = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else None
        content = repr(value).encode() if array is None else array.tobytes()
        digest.update(f"{field.name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:32]
