"""Splits a condition into words, numbers, texts and signs, each with its position."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wiesel.errors import ParameterError

__all__ = ["KEYWORDS", "Token", "problem", "tokens_of"]

KEYWORDS = ("and", "or", "not", "in", "is", "null", "between", "true", "false")

_LONGEST = 20_000
"""The maximum length of a condition in characters, which bounds parsing time."""
_KINDS = {
    "number": r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w)",
    "text": r"'(?:[^']|'')*'",
    "column": r'"(?:[^"]|"")+"|`[^`]+`',
    "word": r"[^\W\d]\w*",
    "sign": r"<>|!=|<=|>=|==|[-+*/%(),=<>]",
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
_OPEN = {"'": "text", '"': "column name", "`": "column name"}


@dataclass(frozen=True)
class Token:
    """One piece of a condition."""

    kind: str
    """`number`, `text`, `column`, `word`, `keyword`, `sign` or `end`."""
    text: str
    """As written in the condition; keywords in lower case."""
    place: int
    """The number of characters before it."""

    @property
    def value(self) -> str:
        """The text between the quotes."""
        mark = self.text[0]
        return self.text[1:-1].replace(mark * 2, mark)


def tokens_of(condition: str) -> list[Token]:
    """Return the tokens of a condition; the last one marks its end.

    >>> [token.text for token in tokens_of("length(text) < 20")]
    ['length', '(', 'text', ')', '<', '20', '']
    """
    if len(condition) > _LONGEST:
        raise ParameterError(
            f"The condition has {len(condition):,} characters; at most {_LONGEST:,} are allowed. "
            "Use several labeling functions, or keywords and lookup for long lists."
        )
    return list(_cut(condition))


def _cut(condition: str) -> Iterator[Token]:
    place = 0
    while place < len(condition):
        if condition[place].isspace():
            place += 1
            continue
        found = _TOKEN.match(condition, place)
        if found is None:
            raise problem(condition, place, _unreadable(condition[place]))
        text, kind = found.group(), str(found.lastgroup)
        if kind == "word" and text.lower() in KEYWORDS:
            kind, text = "keyword", text.lower()
        yield Token(kind, text, place)
        place = found.end()
    yield Token("end", "", len(condition))


def _unreadable(character: str) -> str:
    if character in _OPEN:
        return f"the {_OPEN[character]} that starts here has no closing {character}."
    if character.isdigit():
        return (
            "this is not a number. A column whose name starts with a digit is written in double "
            'quotes: "2nd text".'
        )
    return (
        f"the sign {character!r} has no meaning here. Texts are written in single quotes: 'free'."
    )


def problem(condition: str, place: int, what: str) -> ParameterError:
    """Return an error that describes what is wrong with a condition, and where."""
    before, after = condition[max(0, place - 25) : place], condition[place : place + 25]
    where = f"{before}>>>{after}" if after else f"{before}>>> (its end)"
    return ParameterError(f"The condition, character {place + 1} ({where}): {what}")
