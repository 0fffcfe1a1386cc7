"""The history of training, epoch by epoch, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

__all__ = ["History", "mean_record"]

_COMPARABLE = ("epoch", "validation_")
"""What members that minimize different losses have in common."""


@dataclass(repr=False)
class History:
    """One record (a dict of numbers) for every epoch.

    >>> History([{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.6}])
    History of 2 epochs: loss 0.7000 to 0.6000. All numbers: to_frame()
    >>> history = History([{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.6}])
    >>> history.column("loss"), history.last["epoch"], len(history)
    ([0.7, 0.6], 2, 2)
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int | None = None
    """The epoch whose weights were kept; None without a validation set."""
    interrupted: bool = False
    """Whether the user stopped training before its last epoch."""
    members: list["History"] = field(default_factory=list)
    """For an ensemble, the history of every member; `records` are then their means."""

    def __repr__(self) -> str:
        names = [name for name in (self.records[0] if self.records else {}) if "loss" in name]
        ends = [f"{n} {self[0][n]:.4f} to {self.last[n]:.4f}" for n in names if n in self.last]
        of_members = f", {len(self.members)} members" if self.members else ""
        losses = f": {', '.join(ends)}. All numbers: to_frame()" if ends else ""
        return f"History of {len(self)} epochs{of_members}{losses}"

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
        """Return the records as a Polars data frame with one row for every epoch."""
        return pl.DataFrame(self.records)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-compatible data."""
        data: dict[str, Any] = {
            "records": self.records,
            "best_epoch": self.best_epoch,
            "interrupted": self.interrupted,
        }
        return {**data, "members": [m.to_dict() for m in self.members]} if self.members else data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "History":
        """Return the history that `to_dict` described."""
        members = [cls.from_dict(member) for member in data.get("members", [])]
        return cls(data["records"], data["best_epoch"], data["interrupted"], members)

    @classmethod
    def of_members(
        cls, members: Sequence["History"], losses: Sequence[object] | None = None
    ) -> "History":
        """Return the history of an ensemble: its members' histories and their mean in each epoch.

        A member that ended earlier than others counts with its last record, so a curve does not
        jump where it ends. `losses` says what each member minimized: the means are over the members
        with the loss of the first one, except for validation scores, which compare for all. The
        ensemble as a whole has no best epoch.

        >>> first, second = History([{"loss": 0.2}, {"loss": 0.1}]), History([{"loss": 0.4}])
        >>> History.of_members([first, second]).column("loss")
        [0.30000000000000004, 0.25]
        >>> History.of_members([first, second], ["ce", "mig"]).column("loss")
        [0.2, 0.1]
        """
        averaged = list(members)
        if losses is not None:
            pairs = zip(members, losses, strict=True)
            averaged = [m if loss == losses[0] else m._comparable() for m, loss in pairs]
        n_epochs = max(map(len, averaged), default=0)
        records = [mean_record([m.at(k) for m in averaged if len(m)]) for k in range(n_epochs)]
        return cls(records, None, any(member.interrupted for member in members), list(members))

    def at(self, position: int) -> dict[str, Any]:
        """Return the record at a position, or the last one, if training ended earlier.

        >>> History([{"epoch": 1, "loss": 0.7}]).at(4)
        {'epoch': 5, 'loss': 0.7}
        """
        if position < len(self):
            return self.records[position]
        return {**self.last, "epoch": position + 1} if "epoch" in self.last else self.last

    def _comparable(self) -> "History":
        kept = [
            {name: value for name, value in record.items() if name.startswith(_COMPARABLE)}
            for record in self.records
        ]
        return History(kept if any(set(record) - {"epoch"} for record in kept) else [])


def mean_record(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of each quantity over the records that contain it.

    >>> mean_record([{"epoch": 1, "shares": [0.0, 1.0]}, {"epoch": 1, "shares": [1.0, 0.0]}])
    {'epoch': 1, 'shares': [0.5, 0.5]}
    """
    if len(records) == 1:
        return records[0]
    names = dict.fromkeys(name for record in records for name in record)
    return {name: _mean([r[name] for r in records if name in r]) for name in names}


def _mean(values: list[Any]) -> Any:
    if isinstance(values[0], list):
        return [_mean(list(column)) for column in zip(*values, strict=True)]
    return values[0] if len(set(values)) == 1 else sum(values) / len(values)
