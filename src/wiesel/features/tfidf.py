"""TF-IDF and truncated SVD: compresses the words of a text into a few hundred numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.errors import FeatureError
from wiesel.features.main_directions import main_directions
from wiesel.features.term_counts import (
    Counts,
    added_up,
    count_terms,
    count_words,
    frequent_words,
    word_frequencies,
)

__all__ = ["SAMPLE", "TfidfOptions", "TfidfWeights", "fit_sample", "fit_tfidf", "transform_tfidf"]

SAMPLE = 50_000
"""The most texts that the main directions are learned from: all of a million took 12 GB."""
_AT_ONCE = 20_000
"""How many of more texts are counted together."""
_MERGED = 16
"""The number of pieces whose word counts are summed at a time."""


@dataclass(frozen=True)
class TfidfOptions:
    """How texts are split into terms, and how many dimensions are kept."""

    n_dimensions: int
    max_terms: int
    min_count: int
    longest_phrase: int
    seed: int


@dataclass(frozen=True, eq=False)
class TfidfWeights:
    """The fitted values: the terms, their IDF weights, and the main directions."""

    terms: tuple[str, ...]
    idf: npt.NDArray[np.float32]
    components: npt.NDArray[np.float32]
    """(n_dimensions, n_terms), by columns in memory."""

    @cached_property
    def places(self) -> dict[str, int]:
        """The column of every term."""
        return {term: place for place, term in enumerate(self.terms)}


def fit_tfidf(
    texts: Sequence[str], options: TfidfOptions
) -> tuple[TfidfWeights, npt.NDArray[np.float32]]:
    """Return the weights learned from texts, and the vectors of the texts.

    There are fewer than `n_dimensions` dimensions if texts or terms are few or very similar. Of
    more than 50,000 texts, evenly spaced ones teach the main directions, and their vectors are
    returned; terms and their IDF weights come from all texts.

    >>> options = TfidfOptions(2, max_terms=10, min_count=1, longest_phrase=1, seed=0)
    >>> weights, vectors = fit_tfidf(["good film", "bad film", "good plot"], options)
    >>> weights.terms, vectors.shape
    (('bad', 'film', 'good', 'plot'), (3, 2))
    """
    step = math.ceil(len(texts) / SAMPLE)
    if step > 1 and options.longest_phrase == 1:
        words = frequent_words(_frequencies(texts), options.min_count, options.max_terms)
        if len(words):
            in_texts = words["n_texts"].to_numpy()
            sample = list(texts[::step])
            return fit_sample(words["word"].to_list(), in_texts, len(texts), sample, options)
        terms: tuple[str, ...] = ()
    else:
        terms, counts = _count(texts, options)
    if not terms:
        raise FeatureError(
            f"No term occurs in {options.min_count} or more of the {len(texts)} texts. "
            "Lower min_count, or check the texts."
        )
    in_texts = np.bincount(counts.indices, minlength=len(terms))
    idf = _inverse_frequencies(in_texts, len(texts))
    table = _weighted(counts[::step] if step > 1 else counts, idf)
    components, vectors = main_directions(table, options.n_dimensions, options.seed)
    return TfidfWeights(terms, idf, components), vectors


def fit_sample(
    terms: Sequence[str],
    in_texts: npt.NDArray[np.int64],
    n_texts: int,
    sample: Sequence[str],
    options: TfidfOptions,
) -> tuple[TfidfWeights, npt.NDArray[np.float32]]:
    """Return the weights learned from the term frequencies of all texts and a sample of them.

    The IDF weights come from all texts, the main directions from the sample, whose vectors are
    returned too. If the sample is all texts, the result is the same as that of `fit_tfidf`.
    """
    idf = _inverse_frequencies(in_texts, n_texts)
    table = _weighted(count_terms(sample, terms), idf)
    components, vectors = main_directions(table, options.n_dimensions, options.seed)
    return TfidfWeights(tuple(terms), idf, components), vectors


def _frequencies(texts: Sequence[str]) -> pl.DataFrame:
    """The frequencies of all words, counted piece by piece."""
    found: list[pl.DataFrame] = []
    for start in range(0, len(texts), _AT_ONCE):
        found.append(word_frequencies(texts[start : start + _AT_ONCE]))
        if len(found) >= _MERGED:
            found = [added_up(found)]
    return added_up(found)


def _count(texts: Sequence[str], options: TfidfOptions) -> tuple[tuple[str, ...], Counts]:
    if options.longest_phrase == 1:
        return count_words(texts, options.min_count, options.max_terms)
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(
        ngram_range=(1, options.longest_phrase),
        min_df=options.min_count,
        max_features=options.max_terms,
        dtype=np.float32,
    )
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # there are no words, or none are left
        return (), sp.csr_array(np.zeros((len(texts), 0), np.float32))
    return tuple(vectorizer.get_feature_names_out().tolist()), sp.csr_array(counts)


def transform_tfidf(
    texts: Sequence[str], weights: TfidfWeights, longest_phrase: int
) -> npt.NDArray[np.float32]:
    """Return the vectors of texts; terms that `fit_tfidf` did not see are ignored."""
    if longest_phrase == 1:
        counts = count_terms(texts, weights.terms, weights.places)
    else:
        from sklearn.feature_extraction.text import CountVectorizer

        vectorizer = CountVectorizer(
            ngram_range=(1, longest_phrase), vocabulary=weights.terms, dtype=np.float32
        )
        counts = sp.csr_array(vectorizer.transform(texts))
    vectors: npt.NDArray[np.float32] = _weighted(counts, weights.idf) @ weights.components.T
    return vectors


def _inverse_frequencies(in_texts: npt.NDArray[np.int64], n_texts: int) -> npt.NDArray[np.float32]:
    """The IDF weights, smoothed as in scikit-learn: as if one more text contained every term."""
    return (np.log((n_texts + 1) / (in_texts + 1)) + 1).astype(np.float32)


def _weighted(counts: Counts, idf: npt.NDArray[np.float32]) -> Counts:
    """The table of TF-IDF: (1 + log count) times IDF, every row with the length 1.

    What scikit-learn's TfidfTransformer(sublinear_tf=True) gives. Importing that takes longer than
    most predictions.
    """
    values = (np.log(counts.data) + 1) * idf[counts.indices]
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(row, np.square(values, dtype=np.float64)))
    values /= lengths[row]
    return sp.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
