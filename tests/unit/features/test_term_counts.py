"""Words and counts are scikit-learn's; so are the main directions, up to what is left open."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from wiesel.features import tfidf
from wiesel.features.tfidf import count_terms, count_words, main_directions

# A final sigma, a dotted capital I, combining marks, fractions, other joiners, half a character.
STRANGE = [
    "ΟΔΟΣ ὈΔΥΣΣΕΎΣ İstanbul İİ",
    "naïve naïve ½½ x² ²² _a __ a‿b हिन्दी नमस्ते",
    "a bb ccc bb\x00dd 漢字 汉字, \ud800zz don't",
    "",
    "ccc Straße STRASSE ﬁne",
]


def expected(texts: list[str], **options: int) -> tuple[tuple[str, ...], np.ndarray]:
    vectorizer = CountVectorizer(dtype=np.float32, **options)
    counts = vectorizer.fit_transform(texts).toarray()
    return tuple(vectorizer.get_feature_names_out()), counts


@pytest.mark.parametrize(("min_count", "max_terms"), [(1, 99), (2, 99), (1, 3)])
def test_words_of_all_alphabets_are_scikit_learns(min_count: int, max_terms: int) -> None:
    words, counts = expected(STRANGE, min_df=min_count, max_features=max_terms)
    ours, our_counts = count_words(STRANGE, min_count, max_terms)
    assert ours == words
    assert our_counts.toarray().tolist() == counts.tolist()
    assert count_terms(STRANGE, words).toarray().tolist() == counts.tolist()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_any_texts_have_scikit_learns_words(texts: list[str]) -> None:
    ours, counts = count_words([*texts, "last word"], 1, 1000)
    words, sklearns = expected([*texts, "last word"])
    assert ours == words
    assert counts.toarray().tolist() == sklearns.tolist()


def test_blocks_of_texts_are_counted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"w{k % 7} w{k % 5} w{k % 3} w{k % 3}" for k in range(50)]
    words, counts = count_words(texts, 8, 4)
    known = count_terms(texts, words)
    monkeypatch.setattr(tfidf, "_BLOCK", 8)
    in_blocks, block_counts = count_words(texts, 8, 4)
    assert in_blocks == words
    assert (block_counts != counts).nnz == 0
    assert (count_terms(texts, words) != known).nnz == 0
    assert (known != counts).nnz == 0


def test_texts_without_words_have_empty_rows() -> None:
    words, counts = count_words(["", "!", "a"], 1, 9)
    assert words == ()
    assert counts.shape == (3, 0)
    assert count_terms([], ["word"]).shape == (0, 1)


@pytest.mark.parametrize("shape", [(200, 90), (150, 130), (60, 150), (40, 1), (1, 40)])
def test_directions_are_those_of_the_singular_value_decomposition(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfidf, "_PIECE", 50)  # several pieces, even of a small table
    rng = np.random.default_rng(0)
    dense = np.where(rng.random(shape) < 0.3, rng.random(shape) + 1, 0).astype(np.float32)
    dense[0, 0] = 2.0
    table = sp.csr_array(dense)
    found, vectors = main_directions(table, 10, seed=0)
    left, sizes, exact = np.linalg.svd(dense, full_matrices=False)
    n = min(10, *shape)
    assert found.shape == (n, shape[1])
    assert np.linalg.norm(vectors, axis=0) == pytest.approx(sizes[:n], rel=1e-3)
    assert np.abs((found * exact[:n]).sum(axis=1)) == pytest.approx(np.ones(n), abs=1e-2)
    assert np.abs((vectors * left[:, :n]).sum(axis=0)) == pytest.approx(sizes[:n], rel=1e-2)


@pytest.mark.parametrize("n_dimensions", [50, 10])  # from all rows, and from a Krylov space
def test_directions_of_a_table_of_low_rank_are_as_many_as_its_rank(n_dimensions: int) -> None:
    rng = np.random.default_rng(0)
    table = sp.csr_array((rng.random((300, 3)) @ rng.random((3, 120))).astype(np.float32))
    found, vectors = main_directions(table, n_dimensions, seed=0)
    assert len(found) == 3
    assert found @ found.T == pytest.approx(np.eye(3), abs=1e-4)
    assert vectors @ found == pytest.approx(table.toarray(), abs=1e-4)
