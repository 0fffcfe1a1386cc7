"""Which data defaults are chosen on, and which only confirm them: drawn once, by seed.

Sets with the same texts are one family (the embedded reviews are the training texts of imdb_136;
half of sst2 is in sentiment_crowd). A family belongs to one half with both its generated tasks and
its real votes. So the data for choosing and for confirming never overlap.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Half = Literal["choose", "confirm"]

SEED = 17
"""The seed of the draw: the number of the issue that requested it."""


@dataclass(frozen=True)
class Family:
    """Data sets of the same items."""

    kind: str
    """The kind of its items and, for text, whether its task is binary."""
    bases: tuple[str, ...]
    """The bases of generated tasks; empty if train has no gold or too few items."""
    binary_sets: tuple[str, ...] = ()
    """The real binary tasks, with their original votes."""
    multi_class_sets: tuple[str, ...] = ()

    @property
    def real_sets(self) -> tuple[str, ...]:
        """The real tasks, of either kind."""
        return (*self.binary_sets, *self.multi_class_sets)


FAMILIES = {
    "reviews": Family("binary text", ("imdb_136", "movie_reviews"), ("imdb_136", "imdb_12")),
    "amazon": Family("binary text", ("amazon_175", "amazon_domains"), ("amazon_175",)),
    "sentences": Family("binary text", ("sst2", "sentiment_crowd"), ("sst2", "sentiment_crowd")),
    "youtube": Family("binary text", ("youtube",), ("youtube",)),
    "sms": Family("binary text", ("sms",), ("sms",)),
    "spouse": Family("real only", (), ("spouse",)),
    "trec": Family("multi-class text", ("trec",), (), ("trec",)),
    "agnews": Family("multi-class text", ("agnews",), (), ("agnews",)),
    "hausa": Family("multi-class text", ("hausa",), (), ("hausa",)),
    "vader_tweets": Family("multi-class text", ("vader_tweets",), (), ("vader_tweets",)),
    "spambase": Family("table", ("spambase",), ("spambase",)),
    "music_genre": Family("table", ("music_genre",), (), ("music_genre",)),
    "income_crowd": Family("real only", (), ("income_crowd",)),
    "labelme": Family("image", ("labelme",), (), ("labelme",)),
    "digits": Family("image", ("digits",)),
}

CHOOSE = (
    "amazon",
    "sentences",
    "sms",
    "agnews",
    "hausa",
    "music_genre",
    "income_crowd",
    "digits",
)
"""The families that defaults are chosen on, as `drawn` returned once. The others confirm."""


def drawn(seed: int = SEED) -> tuple[str, ...]:
    """Return the families of the half to choose on: the first balanced random half."""
    generator = random.Random(seed)
    while True:
        half = {name for name in FAMILIES if generator.random() < 0.5}
        if is_balanced(half):
            return tuple(name for name in FAMILIES if name in half)


def is_balanced(half: set[str]) -> bool:
    """Whether the halves have equally many real sets and, within one, families of each kind."""
    chosen = [FAMILIES[name] for name in half]
    others = [family for name, family in FAMILIES.items() if name not in half]
    kinds = {family.kind for family in FAMILIES.values()}
    return (
        _n_sets(chosen, "binary_sets") == _n_sets(others, "binary_sets")
        and _n_sets(chosen, "multi_class_sets") == _n_sets(others, "multi_class_sets")
        and all(abs(_count(chosen, kind) - _count(others, kind)) <= 1 for kind in kinds)
    )


def _count(families: Iterable[Family], kind: str) -> int:
    return sum(family.kind == kind for family in families)


def _n_sets(families: Iterable[Family], of: str) -> int:
    return sum(len(getattr(family, of)) for family in families)


def _halves(of: str) -> dict[str, Half]:
    return {
        member: "choose" if name in CHOOSE else "confirm"
        for name, family in FAMILIES.items()
        for member in getattr(family, of)
    }


BASE_HALVES: dict[str, Half] = _halves("bases")
"""The half of every base; a generated task belongs to the half of its base."""

REAL_HALVES: dict[str, Half] = _halves("real_sets")
"""The half of each of the sixteen real sets."""
