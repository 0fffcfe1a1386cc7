r"""A simple tokenizer for all scripts: words with their marks, and every other sign separately.

Tokens are small on purpose: `New-York`, `it's` and `U.S.` are several tokens. So the spans of
labeling functions, which are given in characters, rarely end within a token.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

__all__ = ["Tokenizer", "tokenize"]

Tokenizer = Callable[[str], list[tuple[int, int]]]
"""Where the tokens of a text start and end, in characters, in order and without overlaps."""


def tokenize(text: str) -> list[tuple[int, int]]:
    """Return where the tokens of a text start and end.

    >>> text = "It's 5 €"
    >>> [text[start:end] for start, end in tokenize(text)]
    ['It', "'", 's', '5', '€']
    """
    return [match.span() for match in _token().finditer(text)]


@cache
def _token() -> re.Pattern[str]:
    # Python's \w excludes combining marks, which are parts of words in many scripts.
    marks = _character_class(_marks())
    return re.compile(rf"\w[\w{marks}]*|[^\w\s][{marks}]*")


def _marks() -> list[int]:
    # Once per process. The other planes have ideographs, private use, or nothing.
    codes = [*range(0x20000), *range(0xE0000, 0xF0000)]
    kinds = map(unicodedata.category, map(chr, codes))
    return [code for code, kind in zip(codes, kinds, strict=True) if kind[0] == "M"]


def _character_class(codes: list[int]) -> str:
    """The character class of a regular expression with these characters, as ranges."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
