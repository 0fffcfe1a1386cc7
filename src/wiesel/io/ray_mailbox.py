"""Messages from the workers of a training run on Ray.

An actor is a process that imports the module of its class. This one loads no torch, which would
take it longer than all its messages.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["Mailbox"]


class Mailbox:
    """An actor on the machine that started training; workers leave messages in it.

    Every epoch is reported once, in order, no matter how often training restarts.

    >>> mailbox = Mailbox()
    >>> mailbox.begin(0)
    0
    >>> mailbox.tell({"epoch": 1}), mailbox.tell({"epoch": 1})
    (False, False)
    >>> mailbox.take()
    [{'epoch': 1}]
    """

    def __init__(self) -> None:
        self._records: list[Mapping[str, Any]] = []
        self._n_sent: int | None = None
        self._stopped = False
        self._result: bytes | None = None
        self._refusal: Exception | None = None

    def begin(self, n_done: int) -> int:
        """Return how many epochs are known here; initially `n_done`, from an earlier training."""
        if self._n_sent is None:
            self._n_sent = n_done
        return self._n_sent

    def tell(self, record: Mapping[str, Any]) -> bool:
        """Keep the record of an epoch, and return whether training should stop."""
        if record["epoch"] > (self._n_sent or 0):
            self._records.append(record)
            self._n_sent = record["epoch"]
        return self._stopped

    def take(self) -> list[Mapping[str, Any]]:
        """Return the records since the last call."""
        new, self._records = self._records, []
        return new

    def stop(self) -> None:
        """Let training end after the current epoch."""
        self._stopped = True

    def keep(self, result: bytes) -> None:
        """Store the result of training, which only the process that started it can read."""
        self._result = result

    def result(self) -> bytes | None:
        """Return the result of training, or None if there is none yet."""
        return self._result

    def refuse(self, error: Exception) -> None:
        """Store the first error that would only occur again: another attempt is pointless."""
        self._refusal = self._refusal or error

    def refusal(self) -> Exception | None:
        """Return the error stored by `refuse`, or None."""
        return self._refusal
