"""The tokens, terms and functions that conditions are made of."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from wiesel.errors import ParameterError

__all__ = [
    "FUNCTIONS",
    "KEYWORDS",
    "Function",
    "Term",
    "Token",
    "check_alike",
    "need",
    "problem",
    "tokens_of",
]

_NAMES = {"text": "a text", "number": "a number", "truth": "true or false"}


@dataclass(frozen=True)
class Term:
    """A part of a condition."""

    expression: pl.Expr
    kind: str
    """`text`, `number`, `truth`, or `any` if it depends on the table."""
    place: int
    """Where it starts in the condition."""
    constant: bool = False
    value: Any = None
    """The value of a constant."""


def need(condition: str, term: Term, kind: str, who: str) -> None:
    """Raise an error for a part of the wrong kind."""
    if "any" not in (kind, term.kind) and term.kind != kind:
        raise problem(
            condition,
            term.place,
            f"{who} needs {_NAMES[kind]}, but this is {_NAMES[term.kind]}.{_advice(term, kind)}",
        )


def check_alike(condition: str, first: Term, second: Term) -> None:
    """Raise an error for a comparison of different kinds, such as a text and a number."""
    if "any" not in (first.kind, second.kind) and first.kind != second.kind:
        raise problem(
            condition,
            second.place,
            f"{_NAMES[first.kind]} is compared with {_NAMES[second.kind]}."
            f"{_advice(second, first.kind)}",
        )


def _advice(term: Term, kind: str) -> str:
    if kind == "text" and term.kind == "number":
        return " Write constants in quotes ('3'), or use to_text(...)."
    if kind == "number" and term.kind == "text":
        return " Write constants without quotes, or use to_number(...) or length(...)."
    return ""


Kind = str
"""`text`, `number`, `truth`, or `any` if it depends on the table."""


@dataclass(frozen=True)
class Function:
    """A function of conditions."""

    arguments: tuple[Kind, ...]
    """The kinds of the arguments; a trailing `constant ...` must be a literal in the condition."""
    gives: Kind
    make: Callable[..., pl.Expr]
    meaning: str
    """One line for the documentation."""
    n_required: int | None = None
    """The number of required arguments; None for all."""

    @property
    def least(self) -> int:
        """The minimum number of arguments."""
        return len(self.arguments) if self.n_required is None else self.n_required


def _round(number: pl.Expr, digits: int = 0) -> pl.Expr:
    return number.cast(pl.Float64).round(digits)


FUNCTIONS: Mapping[str, Function] = {
    "length": Function(
        ("text",), "number", lambda text: text.str.len_chars().cast(pl.Int64), "its characters"
    ),
    "word_count": Function(
        ("text",),
        "number",
        lambda text: text.str.count_matches(r"\S+").cast(pl.Int64),
        "its words, separated by white space",
    ),
    "count": Function(
        ("text", "constant text"),
        "number",
        lambda text, part: text.str.count_matches(part, literal=True).cast(pl.Int64),
        "how often a text occurs in it",
    ),
    "lower": Function(("text",), "text", lambda text: text.str.to_lowercase(), "it in lower case"),
    "upper": Function(("text",), "text", lambda text: text.str.to_uppercase(), "it in upper case"),
    "trim": Function(
        ("text",),
        "text",
        lambda text: text.str.strip_chars(),
        "it without white space at both ends",
    ),
    "contains": Function(
        ("text", "text"),
        "truth",
        lambda text, part: text.str.contains(part, literal=True),
        "whether the second text occurs in the first",
    ),
    "starts_with": Function(
        ("text", "text"),
        "truth",
        lambda text, part: text.str.starts_with(part),
        "whether the first text starts with the second",
    ),
    "ends_with": Function(
        ("text", "text"),
        "truth",
        lambda text, part: text.str.ends_with(part),
        "whether the first text ends with the second",
    ),
    "matches": Function(
        ("text", "constant pattern"),
        "truth",
        lambda text, pattern: text.str.contains(pattern),
        "whether a regular expression matches somewhere in it, as in `regex`",
    ),
    "abs": Function(("number",), "number", lambda number: number.abs(), "without its sign"),
    "round": Function(
        ("number", "constant digits"),
        "number",
        _round,
        "rounded to this many decimals",
        n_required=1,
    ),
    "floor": Function(
        ("number",),
        "number",
        lambda number: number.cast(pl.Float64).floor(),
        "the next whole number below",
    ),
    "ceil": Function(
        ("number",),
        "number",
        lambda number: number.cast(pl.Float64).ceil(),
        "the next whole number above",
    ),
    "to_number": Function(
        ("any",),
        "number",
        lambda value: value.cast(pl.Float64, strict=False).fill_nan(None),
        "as a number; null if it is not one",
    ),
    "to_text": Function(
        ("any",), "text", lambda value: value.cast(pl.String, strict=False), "as a text"
    ),
    "coalesce": Function(
        ("any", "any"),
        "any",
        lambda first, second: pl.coalesce(first, second),
        "the second if the first is null",
    ),
}
"""The functions of conditions, by name."""


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
