"""The index of words and phrases has what scikit-learn's counting has."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from wiesel.guidance import TermIndex

TEXTS = [
    "Don't waste your time: don't!",
    "a waste of time, a WASTE of money",
    "",
    "Zeit \u2019s und Stra\u00dfe, stra\u00dfe 42 times",
    "time after time after time",
    "!!! ... ---",
    "dogs' toys and the dog's toy",
]


@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("phrases", [True, False])
def test_terms_and_texts_are_those_of_a_count_vectorizer(min_count: int, phrases: bool):
    peer = CountVectorizer(
        binary=True,
        ngram_range=(1, 2 if phrases else 1),
        min_df=min_count,
        token_pattern=r"(?u)\b\w[\w'\u2019]*\b",
        dtype=np.float32,
    )
    expected = peer.fit_transform(TEXTS)
    index = TermIndex.of(TEXTS, min_count, phrases=phrases)
    assert list(index.terms) == peer.get_feature_names_out().tolist()
    np.testing.assert_array_equal(index.matrix.toarray(), expected.toarray())


def test_texts_without_a_frequent_term_have_an_empty_index():
    for texts in ([], ["", "..."], ["one", "two", "three"]):
        index = TermIndex.of(texts, 2 if len(texts) > 1 else None)
        assert index.terms == ()
        assert index.matrix.shape == (len(texts), 0)
