"""One finding: a sentence, and what it is about as data."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Finding", "said"]

_NAMED = 3


class Finding(NamedTuple):
    """Something odd about the votes, and the evidence for it."""

    kind: str
    """The sort of finding, such as `duplicate` or `one_sided`."""
    sentence: str
    voters: Sequence[str] = ()
    classes: Sequence[str] = ()
    value: float | None = None
    """The number behind it: a share, a rate or a count."""


def said(value: float | Sequence[str]) -> str:
    """Return a share or some voters as they read within a sentence.

    >>> said(0.123), said(["a", "b"]), said(["a", "b", "c", "d", "e"])
    ('12.3 %', "'a' and 'b'", "'a', 'b', 'c' and 2 more")
    """
    if not isinstance(value, Sequence):
        return f"{100 * value:.1f} %"
    names = [repr(name) for name in value]
    if len(names) > _NAMED + 1:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
