"""Values that are computed on first use and kept until something changes, for several threads."""

import threading
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

__all__ = ["KeptValues"]

Made = TypeVar("Made")


class KeptValues:
    """Keeps computed values by name.

    A thread that needs a value under computation waits for that value and for nothing else.
    """

    unchanging: ClassVar[tuple[str, ...]] = ()
    """The values that stay valid whatever is forgotten while they are computed."""

    def _start(self) -> None:
        """Begin without derived values."""
        self._kept: dict[str, Any] = {}
        self._changes = 0
        self._lock = threading.Lock()
        self._making: dict[str, threading.RLock] = {}

    def has(self, *names: str) -> bool:
        """Whether the named properties are computed, so that a request need not wait for them."""
        return all(name in self._kept for name in names)

    def _keep(self, name: str, make: Callable[[], Made]) -> Made:
        with self._lock:
            making = self._making.setdefault(name, threading.RLock())
        with making:
            with self._lock:
                if name in self._kept:
                    found: Made = self._kept[name]
                    return found
                changes = self._changes
            made = make()
            with self._lock:
                # Something changed in the meantime, so the next request computes it again.
                if changes == self._changes or name in self.unchanging:
                    self._kept[name] = made
            return made

    def _forget(self, *names: str) -> None:
        with self._lock:
            self._changes += 1
            for name in names:
                self._kept.pop(name, None)
