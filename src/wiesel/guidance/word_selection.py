"""Turns words that a person marks in a text into labeling functions that find them."""

import re

import polars as pl

from wiesel.errors import ParameterError
from wiesel.lfs.rules import LabelRule
from wiesel.lfs.text_rules import keywords, regex

__all__ = ["lfs_from_selection"]

_LONGEST = 200
_MOST_WORDS = 12
_WORD = re.compile(r"\w[\w'\u2019]*|[^\w\s]+")
_NUMBER = re.compile(r"\d+")


def lfs_from_selection(selected: str, label: str, *, column: str) -> list[LabelRule]:
    r"""Return labeling functions for marked words: the exact phrase, single words, and blanks.

    The first rule is the word or phrase itself. Further rules replace a number with any number, or
    the inner words of a phrase with any words. Each long word of a phrase is also a separate rule.

    >>> for lf in lfs_from_selection("won 500 pounds", "spam", column="text"):
    ...     print(lf)
    keywords(label='spam', keywords=['won 500 pounds'], column='text')
    regex(label='spam', pattern='(?i)\\bwon\\s+\\d+\\s+pounds\\b', column='text')
    regex(label='spam', pattern='(?i)\\bwon\\s+(\\S+\\s+){0,2}pounds\\b', column='text')
    keywords(label='spam', keywords=['won'], column='text')
    keywords(label='spam', keywords=['pounds'], column='text')
    """
    phrase = " ".join(selected.split())
    words = _WORD.findall(phrase)
    if not words or len(phrase) > _LONGEST or len(words) > _MOST_WORDS:
        raise ParameterError(
            f"Mark one to {_MOST_WORDS} words, up to {_LONGEST} characters; got {phrase[:60]!r}."
        )
    found: list[LabelRule] = [keywords(label, [phrase], column=column)]
    if _NUMBER.search(phrase):
        found.append(regex(label, _any_number(phrase), column=column))
    ends = phrase.split()
    if len(ends) > 2:
        found.append(regex(label, _with_blank(ends), column=column))
    singles = [word for word in words if len(word) > 2 and re.fullmatch(r"[^\W\d]+", word)]
    if len(words) > 1:
        found += [keywords(label, [word], column=column) for word in dict.fromkeys(singles)]
    return list({repr(lf): lf for lf in found}.values())


def _any_number(phrase: str) -> str:
    parts = [
        r"\d+" if part.isdigit() else pl.escape_regex(part)
        for part in re.split(r"(\d+|\s+)", phrase)
        if part and not part.isspace()
    ]
    spaced = re.split(r"\s+", phrase)
    if len(spaced) > 1:
        parts = ["".join(_number_or_text(word)) for word in spaced]
        return rf"(?i){_edge(phrase[0])}" + r"\s+".join(parts) + _edge(phrase[-1])
    return rf"(?i){_edge(phrase[0])}" + "".join(parts) + _edge(phrase[-1])


def _number_or_text(word: str) -> list[str]:
    pieces = [piece for piece in re.split(r"(\d+)", word) if piece]
    return [r"\d+" if piece.isdigit() else pl.escape_regex(piece) for piece in pieces]


def _with_blank(words: list[str]) -> str:
    first, last = pl.escape_regex(words[0]), pl.escape_regex(words[-1])
    gap = max(2, len(words) - 2)
    begin, end = _edge(words[0][0]), _edge(words[-1][-1])
    return rf"(?i){begin}{first}\s+(\S+\s+){{0,{gap}}}{last}{end}"


def _edge(character: str) -> str:
    return r"\b" if re.match(r"\w", character) else ""
