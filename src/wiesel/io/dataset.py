"""A loaded data set: named splits with rows, votes, gold labels and features."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, listed
from wiesel.labels import LabelSpace, as_indices
from wiesel.votes import VoteMatrix

__all__ = ["Dataset", "Split"]


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """One part of a data set; row `i` of every field belongs to the same item.

    >>> split = Split(pl.DataFrame({"id": ["a", "b"], "text": ["hi", "yo"]}), np.array([1, -1]))
    >>> split
    Split(2 items, 1 with a gold label, rows)
    >>> split.texts.to_list()
    ['hi', 'yo']
    """

    rows: pl.DataFrame
    """`id`, `text` if there is text, and other columns that labeling functions read."""
    gold: npt.NDArray[np.int64]
    """Class indices; -1 if the label is unknown. A number is always an index."""
    votes: VoteMatrix | None = None
    """The votes that come with the data set."""
    features: npt.NDArray[Any] | None = None
    """(n_items, n_features), as distributed or standardized."""
    images: npt.NDArray[Any] | None = None
    """(n_items, height, width, channels); None if there are no images."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gold", as_indices(self.gold))
        for name in ("gold", "votes", "features", "images"):
            part = getattr(self, name)
            if part is not None and len(part) != len(self.rows):
                raise DataError(
                    f"The {name} have {len(part)} rows; there are {len(self.rows)} items."
                )

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        parts = [f"{len(self):,} items", f"{np.sum(self.gold >= 0):,} with a gold label", "rows"]
        if self.votes is not None:
            parts.append(f"votes of {self.votes.n_voters:,} voters")
        for name in ("features", "images"):
            part = getattr(self, name)
            parts += [] if part is None else [f"{name} {'x'.join(map(str, part.shape[1:]))}"]
        return f"Split({', '.join(parts)})"

    @property
    def ids(self) -> pl.Series:
        """The id of each item."""
        return self.rows["id"]

    @property
    def texts(self) -> pl.Series | None:
        """The text of each item; None if the data set has no text."""
        if "text" not in self.rows.columns or self.rows["text"].null_count() == len(self):
            return None
        return self.rows["text"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Named splits of one task, as they were distributed; nothing is split implicitly.

    >>> split = Split(pl.DataFrame({"id": ["a"]}), np.array([1]))
    >>> dataset = Dataset("mails", LabelSpace("ham", "spam"), {"train": split})
    >>> dataset
    Dataset('mails', LabelSpace('ham', 'spam'))
      train  Split(1 items, 1 with a gold label, rows)
    >>> dataset.test
    Traceback (most recent call last):
    wiesel.errors.DataError: The data set 'mails' has no split 'test'; it has 'train'.
    """

    name: str
    labels: LabelSpace
    splits: Mapping[str, Split]
    card: Mapping[str, Any] = field(default_factory=dict)
    """Information about the data set: provenance, license, statistics."""
    folder: Path | None = None
    """The folder it was read from."""

    @property
    def train(self) -> Split:
        """The split to learn from; data sets of crowd answers have only this one."""
        return self["train"]

    @property
    def valid(self) -> Split:
        """The small split with gold labels, for choosing epochs and thresholds."""
        return self["valid"]

    @property
    def test(self) -> Split:
        """The split to report results on."""
        return self["test"]

    def __getitem__(self, split: str) -> Split:
        if split not in self.splits:
            raise DataError(
                f"The data set {self.name!r} has no split {split!r}; it has {listed(self.splits)}."
            )
        return self.splits[split]

    def __repr__(self) -> str:
        lines = [f"  {name:<5}  {split!r}" for name, split in self.splits.items()]
        return "\n".join([f"Dataset({self.name!r}, {self.labels!r})", *lines])
