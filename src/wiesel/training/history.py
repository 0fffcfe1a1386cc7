"""What happened in training, epoch by epoch, as plain data."""

from dataclasses import dataclass, field
from typing import Any

import polars as pl

__all__ = ["History"]


@dataclass
class History:
    """One record (a dict of numbers) for every epoch.

    >>> history = History([{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.6}])
    >>> history.column("loss"), history.last["epoch"], len(history)
    ([0.7, 0.6], 2, 2)
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int | None = None
    """The epoch whose weights were kept; None without a validation set."""
    interrupted: bool = False
    """Whether training was stopped by the user before its last epoch."""

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return self.records[position]

    @property
    def last(self) -> dict[str, Any]:
        """The record of the last epoch."""
        return self.records[-1]

    @property
    def kept(self) -> dict[str, Any]:
        """The record of the epoch whose weights were kept."""
        return self.last if self.best_epoch is None else self.records[self.best_epoch - 1]

    def column(self, name: str) -> list[Any]:
        """Return one quantity over all epochs."""
        return [record[name] for record in self.records]

    def to_frame(self) -> pl.DataFrame:
        """Return the records as a Polars frame, a row for every epoch."""
        return pl.DataFrame(self.records)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data that JSON can hold."""
        return {
            "records": self.records,
            "best_epoch": self.best_epoch,
            "interrupted": self.interrupted,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "History":
        """Return the history that `to_dict` described."""
        return cls(data["records"], data["best_epoch"], data["interrupted"])
