"""Patterns with blanks, mined from the texts: two words with up to three others between them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.guidance.terms import distinct_cells

__all__ = ["BlankPairs", "blank_pattern", "mined_pairs", "pair_of"]

_WORD = r"\w+"
_GAPS = (1, 2, 3)
"""The number of words in between; adjacent words form a phrase, which is mined separately."""
_BLANK = rf"\W+(?:{_WORD}\W+){{{_GAPS[0]},{_GAPS[-1]}}}"
_MOST_WORDS, _MOST_PAIRS = 2_000, 2_000
"""Only the most frequent words and pairs are considered; rare ones make no useful rule."""

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BlankPairs:
    """Word pairs, and the texts in which one to three words separate the first from the second."""

    pairs: tuple[tuple[str, str], ...]
    rows: Any
    """(n_texts, n_pairs), CSC, float32."""


def blank_pattern(first: str, last: str) -> str:
    r"""Return the regular expression for two words with one to three others between them.

    >>> blank_pattern("check", "channel")
    '(?i)\\bcheck\\W+(?:\\w+\\W+){1,3}channel\\b'
    """
    begin, end = pl.escape_regex(first), pl.escape_regex(last)
    return rf"(?i)\b{begin}{_BLANK}{end}\b"


def pair_of(pattern: str) -> tuple[str, str] | None:
    """Return the two words of a `blank_pattern`; None for any other expression.

    >>> pair_of(blank_pattern("check", "channel")), pair_of("!!+")
    (('check', 'channel'), None)
    """
    begin, _, end = pattern.removeprefix(r"(?i)\b").removesuffix(r"\b").partition(_BLANK)
    words = (begin, end)
    return words if pattern == blank_pattern(*words) else None


def mined_pairs(texts: pl.Series, least: int, usable: Callable[[str], bool]) -> BlankPairs:
    """Return pairs of `usable` words that occur in at least `least` texts.

    >>> texts = pl.Series(["check out my channel", "check this channel", "my channel"])
    >>> mined_pairs(texts, 2, lambda word: len(word) > 2).pairs
    (('check', 'channel'),)
    """
    words = texts.fill_null("").str.to_lowercase().str.extract_all(_WORD)
    lengths = words.list.len().to_numpy()
    text = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    flat = words.filter(pl.Series(lengths > 0)).explode().alias("word")
    names, codes = _frequent(flat, least, usable)
    if len(names) < 2:
        return BlankPairs((), sp.csc_matrix((len(texts), 0), dtype=np.float32))
    found = [_following(codes, text, gap, len(names)) for gap in _GAPS]
    every, place = (np.concatenate(part) for part in zip(*found, strict=True))
    pair, where = distinct_cells(every, place, len(texts))
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    counts = np.diff(starts, append=len(pair))
    most = np.argsort(-counts, kind="stable")[:_MOST_PAIRS]
    kept = np.zeros(len(starts), dtype=bool)
    kept[most[counts[most] >= least]] = True
    column = np.repeat(np.arange(kept.sum()), counts[kept])
    cells = (np.ones(len(column), np.float32), (where[np.repeat(kept, counts)], column))
    first, last = np.divmod(pair[starts[kept]], len(names))
    return BlankPairs(
        tuple((names[a], names[b]) for a, b in zip(first, last, strict=True)),
        sp.csc_matrix(cells, shape=(len(texts), int(kept.sum()))),
    )


def _frequent(
    flat: pl.Series, least: int, usable: Callable[[str], bool]
) -> tuple[list[str], Codes]:
    """Return the frequent usable words, and the index (or -1) of every word in the texts."""
    counts = flat.value_counts(name="count").filter(pl.col("count") >= least)
    ordered = counts.sort(["count", "word"], descending=[True, False])["word"].to_list()
    names = [word for word in ordered if usable(word)][:_MOST_WORDS]
    numbered = pl.DataFrame({"word": names}, schema={"word": pl.String}).with_row_index("code")
    codes = flat.to_frame().join(numbered, on="word", how="left", maintain_order="left")["code"]
    return names, codes.cast(pl.Int64).fill_null(-1).to_numpy()


def _following(codes: Codes, text: Codes, gap: int, n_words: int) -> tuple[Codes, Codes]:
    """Return all pairs at a distance: both words encoded as one number, and the text."""
    first, last = codes[: -gap - 1], codes[gap + 1 :]
    fits = (first >= 0) & (last >= 0) & (first != last) & (text[: -gap - 1] == text[gap + 1 :])
    at = np.flatnonzero(fits)
    return first[at] * n_words + last[at], text[at]
