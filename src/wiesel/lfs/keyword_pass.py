"""All keywords of a column in one pass over its texts, however many there are.

google-re2 compiles the keywords of all labeling functions into one automaton and reports, for
every text, which of them occur. Time grows with the length of the text and hardly with the number
of keywords: a hundred times as many take about three times as long, because the automaton outgrows
the processor's cache and more is found. `python -m benchmarks lfs` compares it with Polars'
Aho-Corasick and regex engines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import re2

__all__ = ["KeywordPass", "KeywordQuery"]

_MEMORY = 1 << 27
"""Bytes an automaton may use; RE2 drops and rebuilds states beyond that."""

_FOREIGN_WORD = r"[\w&&[^\x00-\x7F]]+"
"""Letters, digits and marks of non-ASCII scripts, for Polars."""
_FOREIGN = r"[^\x00-\x{a9}\x{ab}-\x{b4}\x{b6}-\x{b9}\x{bb}-\x{bf}\x{2010}-\x{203e}]"
"""A superset of them for RE2, which cannot subtract classes; common symbols are left out."""
_FILLING = "_q0z_"
_SPACE = r"[\s\v\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
_BLOCK = 256
"""The number of texts copied out of the column at once, so that they stay in the cache."""
_FEW = 1_000
"""The most keywords that are also searched next to letters of other scripts."""
_DOUBT = -1
"""The owner of patterns that mark texts to be searched again."""


@dataclass(frozen=True)
class KeywordQuery:
    """A query for the texts that contain at least `min_matches` different keywords."""

    keywords: tuple[str, ...]
    whole_words: bool = True
    case_sensitive: bool = False
    min_matches: int = 1


class KeywordPass:
    """Answers many keyword queries about a column of texts at once.

    >>> queries = [KeywordQuery(("free", "prize")), KeywordQuery(("free", "win"), min_matches=2)]
    >>> KeywordPass(queries).matching_rows(pl.Series(["FREE!", "freedom", "free: win"]))
    [array([0, 2]), array([2])]
    """

    def __init__(self, queries: Sequence[KeywordQuery]) -> None:
        self.queries = tuple(queries)
        whole = [number for number, query in enumerate(queries) if query.whole_words]
        parts = [number for number, query in enumerate(queries) if not query.whole_words]
        self._automata = [_Automaton.of(self.queries, each) for each in (whole, parts) if each]

    def matching_rows(self, texts: pl.Series) -> list[npt.NDArray[np.int64]]:
        """Return for every query the positions of the matching texts."""
        present = texts.is_not_null().arg_true().to_numpy() if texts.null_count() else None
        texts = texts.drop_nulls()
        found = [np.empty(0, np.int64)] * len(self.queries)
        for automaton in self._automata:
            for number, rows in automaton.matching_rows(texts):
                found[number] = rows if present is None else present[rows].astype(np.int64)
        return found


@dataclass(frozen=True)
class _Automaton:
    r"""Compiled patterns and the query that each belongs to.

    `\b` of RE2 knows the letters a-z only, so it may see the end of a word within `café`. Separate
    patterns find the texts in which this can matter; these are searched again after
    `_with_ascii_boundaries`.
    """

    sets: tuple[tuple[re2.Set, npt.NDArray[np.int64]], ...]
    numbers: tuple[int, ...]
    min_matches: npt.NDArray[np.int64]

    @classmethod
    def of(cls, queries: Sequence[KeywordQuery], numbers: Sequence[int]) -> "_Automaton":
        chosen = [queries[number] for number in numbers]
        patterns: list[str] = []
        owners: list[int] = []
        keywords = _keywords(chosen)
        for place, (query, literals) in enumerate(zip(chosen, keywords, strict=True)):
            own = _patterns(query, literals)
            patterns += own
            owners += [place] * len(own)
        whole_words = chosen[0].whole_words
        doubts = (
            _ambiguous_boundaries([word for each in keywords for word in each])
            if whole_words
            else []
        )
        patterns += doubts
        owners += [_DOUBT] * len(doubts)
        sets = _compiled(patterns, np.array(owners, dtype=np.int64))
        needed = np.array([query.min_matches for query in chosen])
        return cls(tuple(sets), tuple(numbers), needed)

    def matching_rows(self, texts: pl.Series) -> list[tuple[int, npt.NDArray[np.int64]]]:
        owners, rows = self._hits(texts)
        doubtful = np.unique(rows[owners == _DOUBT])
        if len(doubtful):
            sure = ~np.isin(rows, doubtful)
            more, places = self._hits(_with_ascii_boundaries(texts.gather(doubtful)))
            certain = more != _DOUBT
            owners = np.concatenate([owners[sure], more[certain]])
            rows = np.concatenate([rows[sure], doubtful[places[certain]]])
            in_order = np.argsort(rows, kind="stable")
            owners, rows = owners[in_order], rows[in_order]
        # A stable sort of small integers takes linear time, and keeps the texts in order.
        small = np.int16 if len(self.numbers) < 2**15 else np.int64
        order = np.argsort(owners.astype(small), kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=len(self.numbers)))
        by_query = np.split(rows[order], ends[:-1])
        return [
            (number, _enough(own, needed))
            for number, own, needed in zip(self.numbers, by_query, self.min_matches, strict=True)
        ]

    def _hits(self, texts: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The owner of every pattern that is found, and the text it is found in."""
        found = [_search(patterns, owner, texts) for patterns, owner in self.sets]
        owners, rows = zip(*found, strict=True)
        return np.concatenate(owners), np.concatenate(rows)


def _enough(rows: npt.NDArray[np.int64], needed: int) -> npt.NDArray[np.int64]:
    """The texts in which this many patterns of a query were found."""
    if needed == 1:
        return rows
    texts, counts = np.unique(rows, return_counts=True)
    return texts[counts >= needed]


def _search(
    patterns: re2.Set, owner: npt.NDArray[np.int64], texts: pl.Series
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    match, encoded = patterns.Match, texts.cast(pl.Binary)
    which: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
    counts = which.copy()
    for first in range(0, len(texts), _BLOCK):
        hits = [match(text) or () for text in encoded.slice(first, _BLOCK).to_list()]
        counts.append(np.fromiter(map(len, hits), dtype=np.int64, count=len(hits)))
        which.append(np.fromiter(chain.from_iterable(hits), dtype=np.int64))
    rows = np.repeat(np.arange(len(texts)), np.concatenate(counts))
    return owner[np.concatenate(which)], rows


class _Keyword(NamedTuple):
    """A keyword as a pattern, and which of its ends must be a word boundary."""

    pattern: str
    start: bool = False
    end: bool = False


def _keywords(queries: Sequence[KeywordQuery]) -> list[list[_Keyword]]:
    """The keywords of every query; the queries agree on `whole_words`."""
    own = [list(dict.fromkeys(query.keywords)) for query in queries]
    texts = pl.Series(list(chain.from_iterable(own)), dtype=pl.String)
    if queries[0].whole_words:
        keywords = _whole_words(texts)
    else:
        keywords = (_Keyword(re2.escape(text)) for text in texts)
    return [list(islice(keywords, len(each))) for each in own]


def _whole_words(texts: pl.Series) -> Iterator[_Keyword]:
    """Keywords that neither continue a word nor are continued by one.

    Any white space matches between the words of a phrase.
    """
    texts = texts.str.strip_chars()
    starts, ends = texts.str.contains(r"^\w"), texts.str.contains(r"\w$")
    rewritten = _with_ascii_boundaries(texts)
    for text, start, end in zip(rewritten, starts, ends, strict=True):
        pattern = _SPACE.join(map(re2.escape, text.split()))
        yield _Keyword(pattern, start, end)


def _patterns(query: KeywordQuery, keywords: list[_Keyword]) -> list[str]:
    """One pattern for all keywords if one match is enough, else one for each."""
    flag = "" if query.case_sensitive else "(?i)"
    groups = [keywords] if query.min_matches == 1 else [[keyword] for keyword in keywords]
    return [flag + _any_of(group) for group in groups]


def _any_of(keywords: list[_Keyword]) -> str:
    """A pattern of several keywords; boundaries are outside, so that RE2 can merge prefixes."""
    ends: dict[tuple[bool, bool], list[str]] = {}
    for keyword in keywords:
        ends.setdefault((keyword.start, keyword.end), []).append(keyword.pattern)
    groups = [
        (r"\b" if start else "") + f"(?:{'|'.join(own)})" + (r"\b" if end else "")
        for (start, end), own in ends.items()
    ]
    return f"(?:{'|'.join(groups)})"


def _ambiguous_boundaries(keywords: list[_Keyword]) -> list[str]:
    """Patterns of texts in which RE2 may see a word boundary where there is none.

    For few keywords, these are texts with a keyword next to a letter of another script. For many,
    they are texts with such a letter next to any other, because the automaton would get too large.
    A keyword of another script can only be found in the rewritten text.
    """
    if not all(keyword.pattern.isascii() for keyword in keywords):
        return [r"[^\x00-\x7f]"]
    starts, ends = ([k for k in keywords if k.start], [k for k in keywords if k.end])
    if not starts and not ends:
        return []
    if len(keywords) > _FEW:
        return [rf"[0-9A-Za-z_]{_FOREIGN}|{_FOREIGN}[0-9A-Za-z_]"]
    before = [_FOREIGN + _any_of([k._replace(start=False) for k in starts])] if starts else []
    after = [_any_of([k._replace(end=False) for k in ends]) + _FOREIGN] if ends else []
    return [f"(?i)(?:{'|'.join(before + after)})"]


def _with_ascii_boundaries(texts: pl.Series) -> pl.Series:
    r"""Texts in which `\b` of RE2, which knows the letters a-z only, is right for every script.

    Runs of other letters are enclosed in letters that RE2 knows: there is no boundary after `caf`
    in `caf_q0z_é_q0z_`. Keywords are rewritten the same way, so `café` is still found. No keyword
    starts or ends like the inserted letters.
    """
    return texts.str.replace_all(_FOREIGN_WORD, f"{_FILLING}${{0}}{_FILLING}")


def _compiled(
    patterns: list[str], owners: npt.NDArray[np.int64]
) -> list[tuple[re2.Set, npt.NDArray[np.int64]]]:
    """One automaton, or several if the patterns do not fit into the memory of one."""
    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY, False
    automaton = re2.Set.SearchSet(options)
    for pattern in patterns:
        automaton.Add(pattern)
    try:
        automaton.Compile()
    except re2.error:
        if len(patterns) == 1:
            raise
        half = len(patterns) // 2
        return _compiled(patterns[:half], owners[:half]) + _compiled(patterns[half:], owners[half:])
    return [(automaton, owners)]
