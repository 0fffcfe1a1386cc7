"""One finding: a sentence, and its subject as data."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import polars as pl

__all__ = ["Finding", "as_text", "finding_frame", "most_serious_first"]

_NAMED = 3

_GRAVITY = (
    ("no_votes", "one_sided", "leak"),
    ("missing_class", "worse_than_chance", "uncovered_class"),
    ("contradicted", "contrary", "class_balance", "members_disagree", "unknown_balance"),
    ("catch_all", "duplicate"),
    ("near_duplicate", "uncovered_cluster", "conflict", "spammer", "high_conflict"),
    ("never_votes", "constant", "skewed", "low_coverage"),
    ("copies", "single_voter_class", "low_overlap", "never_alone", "few_votes"),
)
"""Kinds of findings, the most serious first: wrong results come before wasted votes."""
_TIER = {kind: tier for tier, kinds in enumerate(_GRAVITY) for kind in kinds}


class Finding(NamedTuple):
    """An actionable problem of the votes, with the evidence for it."""

    kind: str
    """The kind of finding, such as `duplicate` or `one_sided`."""
    sentence: str
    voters: Sequence[str] = ()
    classes: Sequence[str] = ()
    value: float | None = None
    """The number behind it: a share, a rate or a count."""
    words: Sequence[str] = ()
    """Words that distinguish the items it is about from all others."""
    rows: Sequence[int] = ()
    """The positions of the items to look at first."""


def finding_frame(found: Iterable[Finding]) -> pl.DataFrame:
    """Return findings as a table with one row each.

    >>> finding_frame([Finding("no_votes", "No voter votes on any item.")])["kind"].to_list()
    ['no_votes']
    """
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "kind": pl.String,
        "sentence": pl.String,
        "voters": pl.List(pl.String),
        "classes": pl.List(pl.String),
        "value": pl.Float64,
        "words": pl.List(pl.String),
        "rows": pl.List(pl.Int64),
    }
    records: list[dict[str, Any]] = [
        {name: list(v) if isinstance(v, (list, tuple)) else v for name, v in each._asdict().items()}
        for each in found
    ]
    return pl.DataFrame(records, schema=schema, orient="row")


def most_serious_first(found: Iterable[Finding]) -> list[Finding]:
    """Return findings ordered by how serious they are.

    >>> few, none = Finding("few_votes", "Few."), Finding("no_votes", "None.")
    >>> [each.kind for each in most_serious_first([few, none])]
    ['no_votes', 'few_votes']
    """
    return sorted(found, key=lambda each: _TIER.get(each.kind, len(_GRAVITY)))


def as_text(value: float | Sequence[str]) -> str:
    """Return a share or some voter names, formatted for a sentence.

    >>> as_text(0.123), as_text(["a", "b"]), as_text(["a", "b", "c", "d", "e"])
    ('12.3 %', "'a' and 'b'", "'a', 'b', 'c' and 2 more")
    >>> as_text(["a", "b", "c"]), as_text(["a", "b", "c", "d"])
    ("'a', 'b' and 'c'", "'a', 'b', 'c' and 'd'")
    """
    if not isinstance(value, Sequence):
        return f"{100 * value:.1f} %"
    names = [repr(name) for name in value]
    if len(names) > _NAMED + 1:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
