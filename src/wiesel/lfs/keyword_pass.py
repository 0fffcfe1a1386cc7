"""All keywords of a column in one pass over its texts, however many there are.

google-re2 compiles the keywords of all labeling functions into one automaton and reports, for
every text, which of them occur; time grows with the length of the text, not with the number of
keywords. `python -m benchmarks lfs` compares it with Polars' Aho-Corasick and regex engines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import polars as pl
import re2

__all__ = ["KeywordPass", "KeywordQuery"]

_MEMORY = 1 << 27
"""Bytes an automaton may use; RE2 drops and rebuilds states beyond that."""

_FOREIGN_WORD = r"[\w&&[^\x00-\x7F]]+"
_FOREIGN_SPACE = r"[\s&&[^\x00-\x7F]]"


@dataclass(frozen=True)
class KeywordQuery:
    """Asks which texts contain at least `min_matches` different ones of these keywords."""

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
        # Whole words are looked up in texts rewritten by `_with_ascii_boundaries`, parts of words
        # in the texts as they are, so the two are two passes.
        self._passes = [
            (rewrite, _Automaton.of(self.queries, numbers))
            for rewrite, numbers in ((True, whole), (False, parts))
            if numbers
        ]

    def matching_rows(self, texts: pl.Series) -> list[npt.NDArray[np.int64]]:
        """Return for every query the positions of the texts that fulfil it."""
        present = texts.is_not_null().arg_true().to_numpy()
        texts = texts.drop_nulls()
        found = [np.empty(0, np.int64)] * len(self.queries)
        for rewrite, automaton in self._passes:
            searched = _with_ascii_boundaries(texts) if rewrite else texts
            for number, rows in automaton.matching_rows(searched):
                found[number] = present[rows].astype(np.int64)
        return found


@dataclass(frozen=True)
class _Automaton:
    """Compiled patterns and the query that each belongs to."""

    sets: tuple[tuple[re2.Set, npt.NDArray[np.int64]], ...]
    numbers: tuple[int, ...]
    min_matches: npt.NDArray[np.int64]

    @classmethod
    def of(cls, queries: Sequence[KeywordQuery], numbers: Sequence[int]) -> "_Automaton":
        chosen = [queries[number] for number in numbers]
        patterns: list[str] = []
        owners: list[int] = []
        for place, (query, literals) in enumerate(zip(chosen, _literals(chosen), strict=True)):
            own = _patterns(query, literals)
            patterns += own
            owners += [place] * len(own)
        sets = _compiled(patterns, np.array(owners, dtype=np.int64))
        needed = np.array([query.min_matches for query in chosen])
        return cls(tuple(sets), tuple(numbers), needed)

    def matching_rows(self, texts: pl.Series) -> list[tuple[int, npt.NDArray[np.int64]]]:
        encoded = texts.cast(pl.Binary).to_list()
        # One number per (query, text): sorted, the texts of a query lie together.
        found = np.concatenate([_search(each, owner, encoded) for each, owner in self.sets])
        cells, counts = np.unique(found, return_counts=True)
        n_texts = max(len(encoded), 1)
        cells = cells[counts >= self.min_matches[cells // n_texts]]
        ends = np.searchsorted(cells, np.arange(len(self.numbers) + 1) * n_texts)
        return [
            (number, cells[ends[place] : ends[place + 1]] - place * n_texts)
            for place, number in enumerate(self.numbers)
        ]


def _search(
    patterns: re2.Set, owner: npt.NDArray[np.int64], encoded: list[bytes]
) -> npt.NDArray[np.int64]:
    match = patterns.Match
    hits = [match(text) or () for text in encoded]
    counts = np.fromiter(map(len, hits), dtype=np.int64, count=len(hits))
    which = np.fromiter(chain.from_iterable(hits), dtype=np.int64, count=int(counts.sum()))
    return owner[which] * len(encoded) + np.repeat(np.arange(len(encoded)), counts)


def _literals(queries: Sequence[KeywordQuery]) -> list[list[str]]:
    """The pattern of every keyword of every query; the queries agree on `whole_words`."""
    own = [list(dict.fromkeys(query.keywords)) for query in queries]
    texts = pl.Series(list(chain.from_iterable(own)), dtype=pl.String)
    literals = _whole_words(texts) if queries[0].whole_words else map(re2.escape, texts)
    remaining = iter(literals)
    return [list(islice(remaining, len(keywords))) for keywords in own]


def _patterns(query: KeywordQuery, literals: list[str]) -> list[str]:
    """One pattern for all keywords where one of them is enough, else one for each."""
    flag = "" if query.case_sensitive else "(?i)"
    if query.min_matches == 1:
        return [f"{flag}(?:{'|'.join(literals)})"]
    return [flag + literal for literal in literals]


def _whole_words(keywords: pl.Series) -> Iterator[str]:
    """Patterns of keywords that neither continue a word nor are continued by one.

    Any white space matches between the words of a phrase.
    """
    texts = _with_ascii_boundaries(keywords.str.strip_chars())
    starts, ends = texts.str.contains(r"^\w"), texts.str.contains(r"\w$")
    for text, start, end in zip(texts, starts, ends, strict=True):
        phrase = r"\s+".join(map(re2.escape, text.split()))
        yield (r"\b" if start else "") + phrase + (r"\b" if end else "")


def _with_ascii_boundaries(texts: pl.Series) -> pl.Series:
    r"""Texts in which `\b` of RE2, which knows the letters a-z only, is right for every script.

    Runs of other letters are put between underscores, which count as letters: in `caf_é_` there is
    no boundary after `caf`. Keywords are rewritten alike, so `café` is found as before.
    """
    foreign = texts.str.len_bytes() != texts.str.len_chars()
    if not foreign.any():
        return texts
    rewritten = (
        texts.filter(foreign)
        .str.replace_all(_FOREIGN_WORD, "_${0}_")
        .str.replace_all(_FOREIGN_SPACE, " ")
    )
    return texts.scatter(foreign.arg_true(), rewritten)


def _compiled(
    patterns: list[str], owners: npt.NDArray[np.int64]
) -> list[tuple[re2.Set, npt.NDArray[np.int64]]]:
    """One automaton, or several where the patterns do not fit into the memory of one."""
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
