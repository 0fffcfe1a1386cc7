"""Keywords and regular expressions in a column of text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy.typing as npt
import polars as pl
from polars.exceptions import PolarsError

from wiesel.errors import ParameterError
from wiesel.lfs.function import slug
from wiesel.lfs.keyword_pass import KeywordPass, KeywordQuery
from wiesel.lfs.rules import LabelRule, text_column, true_rows
from wiesel.parameters import check_number

__all__ = ["Keywords", "Regex", "keywords", "regex"]


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
        tuple([keywords] if isinstance(keywords, str) else keywords),
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
