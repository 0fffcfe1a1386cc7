"""Counts the words of texts with Polars; the words and counts are those of scikit-learn.

Words are defined as in scikit-learn's `CountVectorizer` by default: lower case, two or more
letters, digits and underscores in a row (letters and digits as in Python's `str.isalnum`). Phrases
of several words are counted by scikit-learn itself.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.forks import check_polars_threads, polars_threads_are_lost
from wiesel.threads import map_in_threads

__all__ = [
    "Counts",
    "added_up",
    "count_terms",
    "count_words",
    "frequent_words",
    "word_frequencies",
    "word_pattern",
]

Counts = sp.csr_array[np.float32, tuple[int, int]]
"""(n_texts, n_terms): how often each term occurs in each text."""

_BLOCK = 2_000
"""The number of texts that one thread counts at a time: their words must fit into memory."""
_FEW = 200
"""Up to this number of texts, Python counts known words as fast as Polars."""
_WORD = re.compile(r"\w\w+")
_SURROGATES = re.compile("[\ud800-\udfff]")


class _Block(NamedTuple):
    """The words of some texts."""

    words: pl.Series
    """Distinct, in alphabetical order."""
    counts: Counts


def count_words(
    texts: Sequence[str], min_count: int, max_terms: int
) -> tuple[tuple[str, ...], Counts]:
    """Return the words that occur in at least `min_count` texts, and their counts per text.

    Only the `max_terms` most frequent words are kept. They are in alphabetical order.

    >>> words, counts = count_words(["good film", "Bad film, bad!"], min_count=1, max_terms=9)
    >>> words, counts.toarray().tolist()
    (('bad', 'film', 'good'), [[0.0, 1.0, 1.0], [2.0, 1.0, 0.0]])
    """
    check_polars_threads("Learning the words of texts")
    blocks = list(map_in_threads(_counted, _blocks(texts)))
    every = pl.concat([block.words for block in blocks]).unique().sort()
    kind = pl.Enum(every)
    places = [_places(block.words, kind) for block in blocks]
    in_texts, in_all = np.zeros(len(every), np.int64), np.zeros(len(every), np.float32)
    for block, place in zip(blocks, places, strict=True):
        columns = place[block.counts.indices]
        in_texts += np.bincount(columns, minlength=len(every))
        in_all += np.bincount(columns, block.counts.data, minlength=len(every)).astype(np.float32)
    kept = _kept(in_texts, in_all, min_count, max_terms)
    column_of = np.full(len(every), -1, dtype=np.int32)
    column_of[kept] = np.arange(len(kept), dtype=np.int32)
    parts = [
        _renumbered(block.counts, column_of[place], len(kept))
        for block, place in zip(blocks, places, strict=True)
    ]
    return tuple(every.gather(kept).to_list()), _stacked(parts, len(kept))


def word_frequencies(texts: Sequence[str]) -> pl.DataFrame:
    """Return every word with the number of texts it occurs in (`n_texts`) and its count (`n_all`).

    >>> word_frequencies(["good film", "Bad film, bad!"]).rows()
    [('bad', 1, 2), ('film', 2, 2), ('good', 1, 1)]
    """
    blocks = []
    for block in map_in_threads(_counted, _blocks(texts)):
        columns, size = block.counts.indices, len(block.words)
        n_texts = np.bincount(columns, minlength=size)
        n_all = np.bincount(columns, block.counts.data, minlength=size).astype(np.int64)
        blocks.append(pl.DataFrame({"word": block.words, "n_texts": n_texts, "n_all": n_all}))
    return added_up(blocks)


def added_up(frequencies: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the summed word frequencies of several sets of texts, in alphabetical order."""
    return pl.concat(frequencies).group_by("word").agg(pl.all().sum()).sort("word")


def frequent_words(frequencies: pl.DataFrame, min_count: int, max_terms: int) -> pl.DataFrame:
    """Return the words that `count_words` would keep for all texts together.

    >>> frequent_words(word_frequencies(["good film", "bad film"]), 2, 9).rows()
    [('film', 2, 2)]
    """
    in_all = frequencies["n_all"].to_numpy().astype(np.float32)
    return frequencies[_kept(frequencies["n_texts"].to_numpy(), in_all, min_count, max_terms)]


def _kept(
    in_texts: npt.NDArray[np.int64], in_all: npt.NDArray[np.float32], min_count: int, max_terms: int
) -> npt.NDArray[np.int64]:
    kept = np.flatnonzero(in_texts >= min_count)
    if len(kept) > max_terms:
        # The same order as in scikit-learn, so that ties in frequency are broken the same way.
        kept = np.sort(kept[(-in_all[kept]).argsort()[:max_terms]])
    return kept


def count_terms(
    texts: Sequence[str], terms: Sequence[str], places: Mapping[str, int] | None = None
) -> Counts:
    """Return how often each of these words occurs in each text; other words are ignored.

    `places` is the column of every word, if it is known: for one text it takes most of the time.

    >>> count_terms(["good film", "Bad film, bad!"], ["bad", "film"]).toarray().tolist()
    [[0.0, 1.0], [2.0, 1.0]]
    """
    if len(texts) <= _FEW or polars_threads_are_lost():
        if places is None:
            places = {term: place for place, term in enumerate(terms)}
        return _count_in_python(texts, places)
    kind = pl.Enum(list(terms))
    count = partial(_count_known, kind=kind, n_terms=len(terms))
    return _stacked(list(map_in_threads(count, _blocks(texts))), len(terms))


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), _BLOCK):
        yield texts[start : start + _BLOCK]


def _counted(texts: Sequence[str]) -> _Block:
    rows, tokens = _tokens(texts)
    words = tokens.unique().sort()
    codes = _places(tokens, pl.Enum(words))
    return _Block(words, _table(rows, codes, (len(texts), len(words))))


def _count_in_python(texts: Sequence[str], places: Mapping[str, int]) -> Counts:
    """The same counts without Polars, whose threads do not survive a fork."""
    words = [_WORD.findall(text.lower()) for text in texts]
    lengths = np.array([len(found) for found in words], dtype=np.int64)
    rows = np.repeat(np.arange(len(texts)), lengths)
    codes = np.array([places.get(word, -1) for found in words for word in found], dtype=np.int64)
    known = codes >= 0
    return _table(rows[known], codes[known], (len(texts), len(places)))


def _count_known(texts: Sequence[str], kind: pl.Enum, n_terms: int) -> Counts:
    rows, tokens = _tokens(texts)
    codes = tokens.cast(kind, strict=False)
    known = codes.is_not_null().to_numpy()
    return _table(rows[known], _physical(codes.drop_nulls()), (len(texts), n_terms))


def _tokens(texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], pl.Series]:
    """The words of all texts in sequence, and the text that each word is from."""
    lower = [text.lower() for text in texts]
    try:
        column = pl.Series(lower, dtype=pl.String)
    except UnicodeEncodeError:  # a lone surrogate, which is not part of a word
        column = pl.Series([_SURROGATES.sub(" ", text) for text in lower], dtype=pl.String)
    lists = column.str.extract_all(word_pattern())
    lengths = lists.list.len().to_numpy()
    tokens = lists.filter(pl.Series(lengths > 0)).explode()
    return np.repeat(np.arange(len(lower)), lengths), tokens.cast(pl.String)


def _places(words: pl.Series, kind: pl.Enum) -> npt.NDArray[np.int64]:
    return _physical(words.cast(kind))


def _physical(codes: pl.Series) -> npt.NDArray[np.int64]:
    return codes.to_physical().to_numpy().astype(np.int64)


def _table(
    rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], shape: tuple[int, int]
) -> Counts:
    ones = np.ones(len(rows), np.float32)
    ends = np.searchsorted(rows, np.arange(shape[0] + 1))
    counts: Any = sp.csr_array((ones, columns.astype(np.int32), ends), shape=shape)
    counts.sum_duplicates()
    return counts


def _renumbered(counts: Counts, column_of: npt.NDArray[np.int32], width: int) -> Counts:
    """The counts with renumbered columns; columns with the number -1 are dropped."""
    columns = column_of[counts.indices]
    kept = columns >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[counts.indptr]
    return sp.csr_array((counts.data[kept], columns[kept], ends), shape=(counts.shape[0], width))


def _stacked(parts: Sequence[Counts], width: int) -> Counts:
    if not parts:
        return sp.csr_array(np.zeros((0, width), np.float32))
    return sp.vstack(parts, format="csr", dtype=np.float32)


@lru_cache(maxsize=1)
def word_pattern() -> str:
    r"""Two or more of the characters that `\w` matches in Python; `\w` in Polars differs."""
    # In the text of all characters, the position of a character is its number.
    numbers = np.arange(sys.maxunicode + 1, dtype="<u4").tobytes()
    runs = re.finditer(r"\w+", numbers.decode("utf-32-le", "surrogatepass"))
    ranges = "".join(rf"\x{{{run.start():x}}}-\x{{{run.end() - 1:x}}}" for run in runs)
    return f"[{ranges}]{{2,}}"
