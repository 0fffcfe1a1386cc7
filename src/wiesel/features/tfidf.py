"""TF-IDF and truncated SVD: compresses the words of a text into a few hundred numbers."""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.errors import FeatureError
from wiesel.threads import check_polars_threads, map_in_threads, one_thread, polars_threads_are_lost

__all__ = [
    "SAMPLE",
    "Counts",
    "TfidfOptions",
    "TfidfWeights",
    "added_up",
    "count_terms",
    "count_words",
    "fit_sample",
    "fit_tfidf",
    "frequent_words",
    "main_directions",
    "transform_tfidf",
    "word_frequencies",
    "word_pattern",
]

SAMPLE = 50_000
"""The most texts that the main directions are learned from: all of a million took 12 GB."""
_AT_ONCE = 20_000
"""How many of more texts are counted together."""
_MERGED = 16
"""The number of pieces whose word counts are summed at a time."""
Array = npt.NDArray[np.float32]
Table = sp.csr_array[np.float32, tuple[int, int]]

_SMALLEST_SHARE = 0.01
"""The smallest singular value that is kept, relative to the largest."""
_EXTRA = 64
"""Extra directions of the space, in addition to twice the requested number."""
_BLOCKS = (4, 32)
"""The minimum and maximum number of vectors that are multiplied by the table at a time."""
_PIECE = 2**18
"""The number of table entries that one thread multiplies at a time."""
Counts = sp.csr_array[np.float32, tuple[int, int]]
"""(n_texts, n_terms): how often each term occurs in each text."""

_BLOCK = 2_000
"""The number of texts that one thread counts at a time: their words must fit into memory."""
_FEW = 200
"""Up to this number of texts, Python counts known words as fast as Polars."""
_WORD = re.compile(r"\w\w+")
_SURROGATES = re.compile("[\ud800-\udfff]")


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


def main_directions(table: Table, n_dimensions: int, seed: int) -> tuple[Array, Array]:
    """Return the directions (n_dimensions, columns) in which rows differ most, and the vectors.

    There are fewer directions if there are few rows or columns, or if further directions would be
    noise. Standardization would inflate a direction in which the rows hardly differ, and a new row
    could then be millions of standard deviations away.

    >>> table = sp.csr_array(np.diag([3.0, 2.0, 0.001]).astype(np.float32))
    >>> directions, vectors = main_directions(table, 3, seed=0)
    >>> directions.round(3) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.]], dtype=float32)
    >>> vectors.shape
    (3, 2)
    """
    # Loaded first: in `one_thread`, its BLAS library would be limited only after its first product.

    n_dimensions = min(n_dimensions, *table.shape)
    with one_thread():
        return _directions(table, n_dimensions, seed)


def _directions(table: Table, n_dimensions: int, seed: int) -> tuple[Array, Array]:
    # With a bit more than twice the directions, the result is as good as five power iterations.
    size = 2 * n_dimensions + _EXTRA
    if size >= min(table.shape):
        basis, projected = _row_space(table)
    else:
        block = int(np.clip(n_dimensions // 8, *_BLOCKS))
        basis, projected = _krylov(table, size, block, seed)
    # Use double precision, because squaring the singular values halves their digits.
    doubled = projected.astype(np.float64)
    squares, rotation = np.linalg.eigh(doubled.T @ doubled)
    sizes = np.sqrt(np.maximum(squares[::-1], 0.0))[:n_dimensions]
    kept = sizes >= _SMALLEST_SHARE * sizes[0]
    rotation = rotation[:, ::-1][:, :n_dimensions][:, kept].astype(np.float32)
    directions, vectors = basis @ rotation, projected @ rotation
    # The sign of a direction is arbitrary, so make its largest entry positive.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])])
    # By columns in memory: a table of texts is multiplied by the transpose, which SciPy would copy.
    return (directions * signs).T, vectors * signs


def _row_space(table: Table) -> tuple[Array, Array]:
    """Orthonormal columns that span all rows of a small table, and the table times them."""
    _, _, directions = np.linalg.svd(table.toarray(), full_matrices=False)
    basis = np.ascontiguousarray(directions.T)
    return basis, np.asarray(table @ basis)


def _krylov(table: Table, size: int, width: int, seed: int) -> tuple[Array, Array]:
    """Orthonormal columns (columns, size) that span a Krylov space, and the table times them."""
    pieces, transposed = _pieces(table), _pieces(table.T.tocsr())
    basis = np.zeros((table.shape[1], size), np.float32, order="F")
    projected = np.zeros((table.shape[0], size), np.float32, order="F")
    rng = np.random.default_rng(seed)
    block = rng.standard_normal((table.shape[1], width), dtype=np.float32)
    for start in range(0, size, width):
        columns = slice(start, min(start + width, size))
        block = _orthonormal(block[:, : columns.stop - start], basis[:, :start], width)
        basis[:, columns] = block
        projected[:, columns] = _product(pieces, block)
        block = _product(transposed, np.ascontiguousarray(projected[:, columns]))
    return basis, projected


def _orthonormal(block: Array, basis: Array, width: int) -> Array:
    """Orthonormal columns that span what the block adds to a basis.

    Apart from rounding, a block of a Krylov space has only the last two blocks of the basis in it.
    They are subtracted first, and then what rounding left of all blocks.
    """
    from scipy.linalg import qr

    last = basis[:, -2 * width :]
    block = block - last @ (last.T @ block)
    block = qr(block, mode="economic", overwrite_a=True, check_finite=False)[0]
    return np.ascontiguousarray(block - basis @ (basis.T @ block))


def _pieces(table: Table) -> list[Table]:
    """The rows of the table in pieces with about the same number of entries."""
    n_pieces = max(1, min(table.shape[0], table.nnz // _PIECE))
    edges = np.linspace(0, table.shape[0], n_pieces + 1).astype(int)
    return [table[start:end] for start, end in pairwise(edges)]


def _product(pieces: Sequence[Table], columns: Array) -> Array:
    """The table times a narrow dense matrix."""
    return np.concatenate(list(map_in_threads(lambda piece: piece @ columns, pieces)))


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
