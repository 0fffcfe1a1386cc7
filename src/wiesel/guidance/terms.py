"""An index of words and short phrases by text, from which labeling functions are mined."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.errors import as_list

__all__ = ["TermIndex", "distinct_cells", "distinctive_terms"]

_MOST_TERMS = 40_000
_WORD = r"\b\w[\w'\x{2019}]*\b"

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TermIndex:
    """A texts x terms matrix: 1 where a term occurs. Terms are lower-case words and word pairs.

    >>> index = TermIndex.of(["a good film", "a bad film", "so good"], min_count=1)
    >>> [index.terms[k] for k in index.matrix[2].indices]
    ['good', 'so', 'so good']
    """

    terms: tuple[str, ...]
    matrix: Any
    """(n_texts, n_terms), CSR, float32."""

    @classmethod
    def of(
        cls, texts: Sequence[str], min_count: int | None = None, *, phrases: bool = True
    ) -> "TermIndex":
        """Return the index of texts; a term occurs in at least `min_count` of them.

        Without `phrases`, terms are single words.
        """
        texts = as_list(texts, "Texts", "['hello']")
        least = max(3, len(texts) // 2000) if min_count is None else min_count
        least = min(least, max(len(texts), 1))
        text, code, names = _words_of(pl.Series(texts, dtype=pl.String))
        word, where = distinct_cells(code, text, len(texts))
        frequent = np.bincount(word, minlength=len(names)) >= least
        if not frequent.any():
            return cls.empty(len(texts))
        number = np.where(frequent, np.cumsum(frequent) - 1, -1)
        words = [name for name, kept in zip(names, frequent, strict=True) if kept]
        follows = text[:-1] == text[1:] if phrases else np.zeros(max(len(text) - 1, 0), bool)
        pairs, pair, pair_where = _pairs(text, number[code], follows, len(texts), least)
        terms = [*words, *(f"{words[a]} {words[b]}" for a, b in pairs)]
        kept = frequent[word]
        term = np.concatenate([number[word[kept]], pair + len(words)])
        return cls._most_frequent(
            terms, term, np.concatenate([where[kept], pair_where]), len(texts)
        )

    @classmethod
    def _most_frequent(cls, terms: list[str], term: Codes, text: Codes, n: int) -> "TermIndex":
        """Return the index of the most frequent terms, in alphabetical order."""
        counts = np.bincount(term, minlength=len(terms))
        kept = np.argsort(-counts, kind="stable")[:_MOST_TERMS]
        ordered = sorted(kept.tolist(), key=terms.__getitem__)
        column = np.full(len(terms), -1)
        column[ordered] = np.arange(len(ordered))
        here = column[term] >= 0
        ones = np.ones(here.sum(), dtype=np.float32)
        cells = (ones, (text[here], column[term[here]]))
        matrix = sp.csr_matrix(cells, shape=(n, len(ordered)))
        matrix.sort_indices()
        return cls(tuple(terms[k] for k in ordered), matrix)

    @classmethod
    def empty(cls, n_texts: int) -> "TermIndex":
        """Return the index of texts in which no term occurs."""
        return cls((), sp.csr_array(np.empty((n_texts, 0), dtype=np.float32)))

    @property
    def counts(self) -> npt.NDArray[np.float64]:
        """The number of texts in which each term occurs."""
        return np.asarray(self.matrix.sum(axis=0), dtype=np.float64).ravel()


def _words_of(texts: pl.Series) -> tuple[Codes, Codes, list[str]]:
    """Return the text and the word index of every word in order, and the list of words."""
    words = texts.fill_null("").str.to_lowercase().str.extract_all(_WORD)
    lengths = words.list.len().to_numpy()
    text = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    flat = words.filter(pl.Series(lengths > 0)).explode().alias("word").to_frame()
    names = flat["word"].unique().sort()
    numbered = names.to_frame().with_row_index("code")
    codes = flat.join(numbered, on="word", how="left", maintain_order="left")["code"]
    return text, codes.cast(pl.Int64).to_numpy(), names.to_list()


def distinct_cells(term: Codes, text: Codes, n_texts: int) -> tuple[Codes, Codes]:
    """Return each term with each of its texts once, ordered by term.

    >>> distinct_cells(np.array([5, 0, 5, 5]), np.array([0, 1, 1, 1]), n_texts=2)
    (array([0, 5, 5]), array([1, 0, 1]))
    """
    keys = np.sort(term * n_texts + text)
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return keys // n_texts, keys % n_texts


def _pairs(
    text: Codes, code: Codes, follows: npt.NDArray[np.bool_], n_texts: int, least: int
) -> tuple[list[tuple[int, int]], Codes, Codes]:
    """Return pairs of frequent words that are adjacent in `least` texts, and where."""
    n_words = int(code.max()) + 1
    at = np.flatnonzero(follows & (code[:-1] >= 0) & (code[1:] >= 0))
    pair, where = distinct_cells(code[at] * n_words + code[at + 1], text[at], n_texts)
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    counts = np.diff(starts, append=len(pair))
    kept = counts >= least
    first, last = np.divmod(pair[starts[kept]], n_words)
    here = np.repeat(kept, counts)
    number = np.repeat(np.arange(kept.sum()), counts[kept])
    return list(zip(first.tolist(), last.tolist(), strict=True)), number, where[here]


def distinctive_terms(
    index: TermIndex,
    rows: npt.NDArray[Any],
    limit: int = 6,
    *,
    least_lift: float = 1.0,
    least_share: float = 0.0,
) -> list[str]:
    """Return the terms that distinguish some texts from all others, the most distinctive first.

    The score is the mean log-odds of a term in these texts against the rest, weighted by its
    coverage of these texts. A phrase is left out if one of its words is already listed.
    `least_lift` is the minimum ratio of a term's frequency here to its frequency elsewhere,
    `least_share` the minimum share of these texts that contain it.

    >>> index = TermIndex.of(["red car", "red bus", "blue sky", "blue sea"], min_count=1)
    >>> distinctive_terms(index, np.array([0, 1]), limit=1)
    ['red']
    """
    if not len(rows) or not index.terms:
        return []
    inside = np.asarray(index.matrix[rows].sum(axis=0), dtype=np.float64).ravel()
    outside = index.counts - inside
    share = (inside + 0.5) / (len(rows) + 1)
    rest = (outside + 0.5) / (index.matrix.shape[0] - len(rows) + 1)
    score = share * np.log(share / rest)
    order = np.argsort(-score, kind="stable")
    enough = (score > 0) & (share >= least_lift * rest) & (share >= least_share)
    order = order[enough[order]]
    return _distinct([index.terms[k] for k in order[: 10 * limit]], limit)


def _distinct(terms: Sequence[str], limit: int) -> list[str]:
    chosen: list[str] = []
    words: set[str] = set()
    for term in terms:
        if not words & set(term.split()):
            chosen.append(term)
            words |= set(term.split())
        if len(chosen) == limit:
            break
    return chosen
