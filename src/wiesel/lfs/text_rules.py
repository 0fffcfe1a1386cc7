"""Keywords and regular expressions in a column of text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import re2
from polars.exceptions import PolarsError

from wiesel.errors import ParameterError, as_list
from wiesel.lfs.function import LabelRule, slug, text_column, true_rows
from wiesel.parameters import check_number

__all__ = ["KeywordPass", "KeywordQuery", "Keywords", "Regex", "keywords", "regex"]

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


@dataclass(frozen=True, repr=False)
class Keywords(LabelRule):
    """Votes where enough of the keywords occur in a column of text; made by `keywords`."""

    kind: ClassVar[str] = "keywords"
    keywords: tuple[str, ...]
    column: str
    whole_words: bool = True
    case_sensitive: bool = False
    min_matches: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "keywords", _checked_keywords(self.keywords))
        super().__post_init__()
        check_number(self, "min_matches", self.min_matches, low=1, whole=True)
        if self.min_matches > len(set(self.keywords)):
            raise ParameterError(
                f"{self.name!r} asks for {self.min_matches} different keywords, "
                f"but has only {len(set(self.keywords))}: it would never vote."
            )

    @property
    def divisible(self) -> bool:
        """Whether it may vote on pieces of a batch: yes."""
        return True

    def default_name(self) -> str:
        """Return the class and the first keywords."""
        return "_".join([slug(self.label), *map(slug, self.keywords[:2])]).rstrip("_")

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of text."""
        return (self.column,)

    @property
    def query(self) -> KeywordQuery:
        """The query, without the name and the class."""
        return KeywordQuery(self.keywords, self.whole_words, self.case_sensitive, self.min_matches)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The regular expression that finds each keyword."""
        return tuple(self._pattern(keyword) for keyword in self.keywords)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where keywords start and end in a text."""
        return sorted(span for pattern in self.patterns for span in pattern_spans(pattern, text))

    def _pattern(self, keyword: str) -> str:
        flag = "" if self.case_sensitive else "(?i)"
        if not self.whole_words:
            return flag + pl.escape_regex(keyword)
        words = keyword.split()
        ends = [r"\b" if _is_word(end) else "" for end in (words[0][0], words[-1][-1])]
        phrase = r"\s+".join(map(pl.escape_regex, words))
        return flag + ends[0] + phrase + ends[1]

    @classmethod
    def matching_rows(cls, rules: Sequence[Self], frame: pl.DataFrame) -> list[npt.NDArray[Any]]:
        """Return the rows of every rule; the rules of one column share one pass over it."""
        found: dict[int, npt.NDArray[Any]] = {}
        for column in dict.fromkeys(rule.column for rule in rules):
            own = [number for number, rule in enumerate(rules) if rule.column == column]
            texts = text_column(frame, rules[own[0]], column)
            shared = _keyword_pass(tuple(rules[number].query for number in own))
            found.update(zip(own, shared.matching_rows(texts), strict=True))
        return [found[number] for number in range(len(rules))]


@dataclass(frozen=True, repr=False)
class Regex(LabelRule):
    """Votes where a regular expression matches a column of text; made by `regex`."""

    kind: ClassVar[str] = "regex"
    pattern: str
    column: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pattern(self.pattern)

    def default_name(self) -> str:
        """Return the class and the words of the pattern."""
        return f"{slug(self.label)}_{slug(str(self.pattern)) or 'regex'}"

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of text."""
        return (self.column,)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where matches start and end in a text."""
        return pattern_spans(self.pattern, text)

    @classmethod
    def matching_rows(cls, rules: Sequence[Self], frame: pl.DataFrame) -> list[npt.NDArray[Any]]:
        """Return the rows of every rule, all patterns at once on all cores."""
        texts = {rule.column: text_column(frame, rule, rule.column) for rule in rules}
        masks = pl.DataFrame(texts).select(
            pl.col(rule.column).str.contains(rule.pattern).alias(str(number))
            for number, rule in enumerate(rules)
        )
        return [true_rows(mask) for mask in masks]


def keywords(
    label: str,
    keywords: Iterable[str],
    *,
    column: str,
    whole_words: bool = True,
    case_sensitive: bool = False,
    min_matches: int = 1,
    name: str = "",
) -> Keywords:
    """Return a labeling function that votes `label` where keywords occur in a column of text.

    Phrases of several words are keywords too; any white space matches between their words. With
    `whole_words`, "free" is not found in "freedom" or "caffè-free2"; only an end that is a letter,
    digit or underscore is checked, so "http://" is found in "http://x.org". `min_matches` is the
    number of *different* keywords required.

    >>> lf = keywords("spam", ["free", "click here"], column="text")
    >>> lf({"text": "CLICK  here"}), lf({"text": "freedom"})
    ('spam', None)
    """
    return Keywords(
        label,
        tuple(
            [keywords]
            if isinstance(keywords, str)
            else as_list(keywords, "Keywords", "['free', 'prize']", ParameterError)
        ),
        column,
        whole_words,
        case_sensitive,
        min_matches,
        name=name,
    )


def regex(label: str, pattern: str, *, column: str, name: str = "") -> Regex:
    r"""Return a labeling function that votes `label` where a pattern matches a column of text.

    Patterns are those of Rust's regex engine, which Polars uses: matching time is linear in the
    text, and look-around and backreferences are not available. Start with `(?i)` to ignore case.

    >>> link = regex("spam", r"https?://|www\.", column="text")
    >>> link({"text": "see www.example.org"}), link({"text": "see you"})
    ('spam', None)
    """
    return Regex(label, pattern, column, name=name)


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that the linear-time engine cannot run, with advice."""
    if not isinstance(pattern, str) or not pattern:
        raise ParameterError(f"A pattern is a non-empty string; got {pattern!r}.")
    try:
        pl.Series([""]).str.contains(pattern)
    except PolarsError as error:
        raise ParameterError(
            f"The pattern {pattern!r:.80} cannot be used: {_advice(str(error))}"
        ) from None


def pattern_spans(pattern: str, text: str) -> list[tuple[int, int]]:
    r"""Return where a pattern matches in a text, by the same engine that votes.

    >>> pattern_spans(r"\bfree\b", "freedom is free")
    [(11, 15)]
    """
    # Polars returns what matched, not where. So mark matches with two characters not in the text.
    # Rows may hold any characters, so the first two that are free are looked for among all.
    free = (mark for mark in map(chr, range(0xE000, 0x110000)) if mark not in text)
    begin, end = next(free), next(free)
    marked = pl.Series([text]).str.replace_all(pattern, f"{begin}${{0}}{end}")[0]
    before, *parts = marked.split(begin)
    spans, place = [], len(before)
    for part in parts:
        matched, _, rest = part.partition(end)
        spans.append((place, place + len(matched)))
        place += len(matched) + len(rest)
    return [span for span in spans if span[0] < span[1]]


def _is_word(character: str) -> bool:
    return bool(pl.Series([character]).str.contains(r"\w")[0])


def _advice(problem: str) -> str:
    if "look-around" in problem or "backreference" in problem:
        return (
            "look-around and backreferences are not available, because they can make matching "
            "take forever. Write it without them, or as a Python @labeling_function with re."
        )
    lines = [line.strip() for line in problem.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return f"{(errors or lines)[0].rstrip('.')}."


def _checked_keywords(keywords: Iterable[str]) -> tuple[str, ...]:
    if isinstance(keywords, (str, Mapping)) or not isinstance(keywords, Iterable):
        raise ParameterError(f"keywords is a list of texts; got {keywords!r:.60}.")
    checked = tuple(keywords)
    if not checked:
        raise ParameterError("keywords needs at least one keyword; the list is empty.")
    for keyword in checked:
        if not isinstance(keyword, str) or not keyword.strip():
            raise ParameterError(f"Keywords are non-empty strings; got {keyword!r}.")
    return checked


@lru_cache(maxsize=16)
def _keyword_pass(queries: tuple[KeywordQuery, ...]) -> KeywordPass:
    """The compiled pass, cached for the batches of one table and for the next run."""
    return KeywordPass(queries)


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
