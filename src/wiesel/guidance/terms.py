"""Which words and short phrases occur in which texts: what new labeling functions are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

__all__ = ["TermIndex", "telling_terms"]

_MOST_TERMS = 40_000
_WORD = r"(?u)\b\w[\w'\u2019]*\b"


@dataclass(frozen=True, eq=False)
class TermIndex:
    """Texts by terms, 1 where a term occurs; terms are lower-case words and pairs of words.

    >>> index = TermIndex.of(["a good film", "a bad film", "so good"], min_count=1)
    >>> [index.terms[k] for k in index.matrix[2].indices]
    ['good', 'so', 'so good']
    """

    terms: tuple[str, ...]
    matrix: Any
    """(n_texts, n_terms), CSR, float32."""

    @classmethod
    def of(
        cls, texts: Sequence[str], longest: int = 2, min_count: int | None = None
    ) -> "TermIndex":
        """Return the index of texts; a term occurs in `min_count` of them or more."""
        least = max(3, len(texts) // 2000) if min_count is None else min_count
        vectorizer = CountVectorizer(
            binary=True,
            ngram_range=(1, longest),
            min_df=min(least, max(len(texts), 1)),
            max_features=_MOST_TERMS,
            token_pattern=_WORD,
            dtype=np.float32,
        )
        try:
            matrix = vectorizer.fit_transform(texts).tocsr()
        except ValueError:  # no term occurs often enough
            return cls.empty(len(texts))
        matrix.sort_indices()
        return cls(tuple(vectorizer.get_feature_names_out().tolist()), matrix)

    @classmethod
    def empty(cls, n_texts: int) -> "TermIndex":
        """Return the index of texts in which no term occurs."""
        return cls((), sp.csr_array(np.empty((n_texts, 0), dtype=np.float32)))

    @property
    def counts(self) -> npt.NDArray[np.float64]:
        """In how many texts each term occurs."""
        return np.asarray(self.matrix.sum(axis=0), dtype=np.float64).ravel()


def telling_terms(
    index: TermIndex,
    rows: npt.NDArray[Any],
    limit: int = 6,
    *,
    least_lift: float = 1.0,
    least_share: float = 0.0,
) -> list[str]:
    """Return the terms that tell some texts from all others, the most telling first.

    The score is the mean log-odds of a term in these texts against the rest, weighed by how much
    of them it covers. A phrase is left out where one of its words is named already. `least_lift`
    is how many times as often as elsewhere a term occurs, `least_share` in how many of the texts.

    >>> index = TermIndex.of(["red car", "red bus", "blue sky", "blue sea"], min_count=1)
    >>> telling_terms(index, np.array([0, 1]), limit=1)
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
