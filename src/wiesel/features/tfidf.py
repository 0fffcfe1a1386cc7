"""TF-IDF and truncated SVD: the words of a text, compressed into a few hundred numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from wiesel.errors import FeatureError

__all__ = ["TfidfOptions", "TfidfWeights", "fit_tfidf", "transform_tfidf"]

_SMALLEST_SHARE = 0.01
"""The least singular value that is kept, as a share of the largest."""


@dataclass(frozen=True)
class TfidfOptions:
    """How texts are cut into terms, and how many dimensions are kept."""

    n_dimensions: int
    max_terms: int
    min_count: int
    longest_phrase: int
    seed: int


@dataclass(frozen=True, eq=False)
class TfidfWeights:
    """What was learned: the terms, how rare each is, and the main directions."""

    terms: tuple[str, ...]
    idf: npt.NDArray[np.float32]
    components: npt.NDArray[np.float32]
    """(n_dimensions, n_terms)."""


def fit_tfidf(
    texts: Sequence[str], options: TfidfOptions
) -> tuple[TfidfWeights, npt.NDArray[np.float32]]:
    """Return what was learned from texts, and their vectors.

    There are fewer dimensions than asked for where texts or terms are few, or much alike.

    >>> options = TfidfOptions(2, max_terms=10, min_count=1, longest_phrase=1, seed=0)
    >>> weights, vectors = fit_tfidf(["good film", "bad film", "good plot"], options)
    >>> weights.terms, vectors.shape
    (('bad', 'film', 'good', 'plot'), (3, 2))
    """
    vectorizer = _vectorizer(
        options.longest_phrase, min_df=options.min_count, max_features=options.max_terms
    )
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError as error:
        raise FeatureError(
            f"No term occurs in {options.min_count} or more of the {len(texts)} texts ({error}) "
            "Lower min_count, or look at the texts."
        ) from error
    components, vectors = _main_directions(counts, options)
    weights = TfidfWeights(
        tuple(vectorizer.get_feature_names_out().tolist()),
        vectorizer.idf_.astype(np.float32),
        components.astype(np.float32),
    )
    return weights, vectors.astype(np.float32)


def _main_directions(counts: Any, options: TfidfOptions) -> tuple[Any, Any]:
    """The directions (n_dimensions, n_terms) in which the texts differ most, and the vectors."""
    if counts.shape[1] == 1:  # one term is one direction; the SVD wants two terms or more
        return np.ones((1, 1)), counts.toarray()
    n_dimensions = min(options.n_dimensions, *counts.shape)
    svd = TruncatedSVD(n_dimensions, random_state=options.seed)
    vectors = svd.fit_transform(counts)
    # Directions in which the texts hardly differ are noise, which standardization blows up:
    # a new text would lie millions of deviations away.
    kept = svd.singular_values_ >= _SMALLEST_SHARE * svd.singular_values_[0]
    return svd.components_[kept], vectors[:, kept]


def transform_tfidf(
    texts: Sequence[str], weights: TfidfWeights, longest_phrase: int
) -> npt.NDArray[np.float32]:
    """Return the vectors of texts; terms that `fit_tfidf` did not see do not count."""
    vectorizer = _vectorizer(longest_phrase, vocabulary=weights.terms)
    vectorizer.idf_ = weights.idf
    vectors: npt.NDArray[np.float32] = vectorizer.transform(texts) @ weights.components.T
    return vectors


def _vectorizer(longest_phrase: int, **settings: Any) -> Any:
    return TfidfVectorizer(
        ngram_range=(1, longest_phrase), sublinear_tf=True, dtype=np.float32, **settings
    )
