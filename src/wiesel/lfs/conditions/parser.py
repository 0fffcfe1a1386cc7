r"""The grammar of conditions, parsed by recursive descent into a Polars expression.

or          = and ("or" and)*
and         = not ("and" not)*
not         = "not" not | comparison
comparison  = sum [ sign sum | ["not"] "in" "(" constant, ... ")"
                  | ["not"] "between" sum "and" sum | "is" ["not"] "null" ]
sum         = product (("+" | "-") product)*
product     = minus (("*" | "/" | "%") minus)*
minus       = "-" minus | "(" or ")" | constant | column | function "(" or, ... ")"
"""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl

from wiesel.errors import ParameterError, suggest
from wiesel.lfs.conditions.terms import (
    FUNCTIONS,
    Function,
    Term,
    Token,
    check_alike,
    need,
    problem,
    tokens_of,
)

__all__ = ["parse_condition"]

_DEEPEST = 40
"""The maximum nesting of brackets and signs; each level takes some of Python's call stack."""
_MOST_TOKENS = 1_000
"""The maximum size: Polars takes time quadratic in the size of an expression."""
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INSTEAD = {
    "like": "contains(text, 'free'), starts_with, ends_with or matches",
    "ilike": "contains(lower(text), 'free') or matches(text, '(?i)free')",
    "case": "and, or and brackets",
    "select": "columns of the row itself",
    "xor": "and, or and not",
}
_LARGEST_WHOLE = 2**63 - 1


def parse_condition(condition: str, check_pattern: Callable[[str], None]) -> pl.Expr:
    """Return the Polars expression of a condition. Errors show the position.

    `check_pattern` rejects regular expressions that cannot be used.

    >>> condition = parse_condition("n > 3 and lower(text) = 'free'", lambda pattern: None)
    >>> pl.DataFrame({"n": [4, 4], "text": ["Free", "see you"]}).select(x=condition)["x"].to_list()
    [True, False]
    """
    if not isinstance(condition, str) or not condition.strip():
        raise ParameterError(
            f"The condition is a text such as length(text) < 20 and n > 3; got {condition!r:.60}."
        )
    return _Parser(condition, check_pattern).parse().expression


class _Parser:
    """Parses a condition from left to right; each method parses one line of the grammar."""

    def __init__(self, condition: str, check_pattern: Callable[[str], None]) -> None:
        self.condition = condition
        self.check_pattern = check_pattern
        self.tokens = tokens_of(condition)
        self.position = 0
        self.depth = 0
        if len(self.tokens) > _MOST_TOKENS:
            raise ParameterError(
                f"The condition has {len(self.tokens):,} parts; at most {_MOST_TOKENS:,} are "
                "allowed. Use several labeling functions, or keywords and lookup for long lists."
            )

    def parse(self) -> Term:
        """Return the whole condition."""
        term = self.any_of()
        if self.next.kind != "end":
            raise self.unexpected("the condition should end here, or go on with and, or or a sign")
        need(self.condition, term, "truth", "A condition")
        return term

    def any_of(self) -> Term:
        """Read `or`."""
        with self.deeper():
            terms = [self.all_of()]
            while self.take("or"):
                terms.append(self.all_of())
        return self.joined(terms, pl.any_horizontal, "or")

    def all_of(self) -> Term:
        """Read `and`."""
        terms = [self.negation()]
        while self.take("and"):
            terms.append(self.negation())
        return self.joined(terms, pl.all_horizontal, "and")

    def negation(self) -> Term:
        """Read `not`."""
        start = self.next
        if not self.take("not"):
            return self.comparison()
        with self.deeper():
            term = self.negation()
        need(self.condition, term, "truth", "not")
        return Term(~term.expression, "truth", start.place)

    def comparison(self) -> Term:
        """Read `=`, `in`, `between`, `is null` and the like."""
        left = self.total()
        if self.next.text in _COMPARED and self.next.kind == "sign":
            return self.compared(left, self.advance().text)
        if self.take("is"):
            inverted = self.take("not")
            self.expect("null")
            missing = left.expression.is_null()
            return Term(~missing if inverted else missing, "truth", left.place)
        inverted = self.following.text in ("in", "between") and self.take("not")
        if self.take("in"):
            return self.member(left, inverted)
        if self.take("between"):
            return self.between(left, inverted)
        return left

    def compared(self, left: Term, sign: str) -> Term:
        right = self.total()
        for term in (left, right):
            if term.constant and term.value is None:
                raise problem(
                    self.condition, term.place, "nothing equals null; write is null or is not null."
                )
        check_alike(self.condition, left, right)
        if self.next.text in _COMPARED and self.next.kind == "sign":
            raise self.unexpected("comparisons do not form chains; write a < b and b < c")
        return Term(_COMPARED[sign](left.expression, right.expression), "truth", left.place)

    def member(self, left: Term, inverted: bool) -> Term:
        self.expect("(")
        values = [self.constant(left)]
        while self.take(","):
            values.append(self.constant(left))
            check_alike(self.condition, values[0], values[-1])
        self.expect(")")
        constants = [value.value for value in values]
        if values[0].kind == "number":  # `is_in` does not compare whole numbers with fractions
            found = pl.any_horizontal([left.expression == number for number in constants])
        else:
            found = left.expression.is_in(constants)
        return Term(~found if inverted else found, "truth", left.place)

    def between(self, left: Term, inverted: bool) -> Term:
        low = self.total()
        self.expect("and")
        high = self.total()
        for term in (low, high):
            check_alike(self.condition, left, term)
        inside = (left.expression >= low.expression) & (left.expression <= high.expression)
        return Term(~inside if inverted else inside, "truth", left.place)

    def total(self) -> Term:
        """Read `+` and `-`."""
        term = self.product()
        while self.next.kind == "sign" and self.next.text in "+-":
            sign = self.advance().text
            term = self.number(term, self.product(), sign)
        return term

    def product(self) -> Term:
        """Read `*`, `/` and `%`."""
        term = self.atom()
        while self.next.kind == "sign" and self.next.text in "*/%":
            sign = self.advance().text
            term = self.number(term, self.atom(), sign)
        return term

    def number(self, left: Term, right: Term, sign: str) -> Term:
        for term in (left, right):
            need(self.condition, term, "number", sign)
        one, two = left.expression, right.expression
        made = {"+": one + two, "-": one - two, "*": one * two}
        if sign in "/%":  # division by zero gives null, not infinity or NaN
            made |= {sign: pl.when(two != 0).then(one / two if sign == "/" else one % two)}
        return Term(made[sign], "number", left.place)

    def atom(self) -> Term:
        """Read a constant, a column, a function, brackets, or a minus before one of them."""
        token = self.next
        if self.take("-"):
            return self.minus(token)
        if self.take("("):
            term = self.any_of()
            self.expect(")")
            return term
        if token.kind == "word" and self.following.text == "(":
            return self.call(self.advance())
        if token.kind in ("word", "column"):
            if token.text.lower() in _INSTEAD and self.following.kind not in ("sign", "end"):
                raise self.unexpected(f"there is no {token.text}")
            return self.column(self.advance())
        return self.literal()

    def column(self, token: Token) -> Term:
        name = token.text if token.kind == "word" else token.value
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            # Polars would select all columns, or those that match.
            what = f"a column cannot be named {name!r} here. Rename it in the table."
            raise problem(self.condition, token.place, what)
        return Term(pl.col(name), "any", token.place)

    def minus(self, token: Token) -> Term:
        with self.deeper():
            term = self.atom()
        need(self.condition, term, "number", "-")
        if term.constant and term.value is not None:
            return Term(pl.lit(-term.value), "number", token.place, True, -term.value)
        return Term(-term.expression, "number", token.place)

    def literal(self) -> Term:
        """Read a constant."""
        token = self.next
        kinds = {"true": "truth", "false": "truth", "null": "any"}
        if token.kind == "number":
            value: Any = self.checked_number(token)
            kind = "number"
        elif token.kind == "text":
            value, kind = token.value, "text"
        elif token.kind == "keyword" and token.text in kinds:
            value, kind = (
                {"true": True, "false": False, "null": None}[token.text],
                kinds[token.text],
            )
        else:
            raise self.unexpected("a column, a constant or a function is missing")
        self.advance()
        return Term(pl.lit(value), kind, token.place, True, value)

    def checked_number(self, token: Token) -> float:
        value = float(token.text)
        if value in (float("inf"), float("-inf")):
            raise problem(self.condition, token.place, "this number is too large.")
        if token.text.isdecimal() and int(token.text) <= _LARGEST_WHOLE:
            return int(token.text)
        return value

    def constant(self, like: Term) -> Term:
        """Read a constant of the same kind as `like`."""
        token = self.next
        term = self.atom() if self.next.text == "-" else self.literal()
        if not term.constant or term.value is None:
            raise problem(self.condition, token.place, "a list holds constants, and none is null.")
        check_alike(self.condition, like, term)
        return term

    def call(self, name: Token) -> Term:
        """Read the arguments of a function."""
        function = FUNCTIONS.get(name.text.lower())
        if function is None:
            what = f"there is no function {name.text!r}. {suggest(name.text.lower(), FUNCTIONS)}"
            raise problem(self.condition, name.place, what)
        self.expect("(")
        arguments: list[Term] = []
        while self.next.text != ")" or arguments:
            arguments.append(self.any_of())
            if not self.take(","):
                break
        self.expect(")")
        made = self.made(name, function, arguments)
        return Term(made, function.gives, name.place)

    def made(self, name: Token, function: Function, arguments: list[Term]) -> pl.Expr:
        most = len(function.arguments)
        if not function.least <= len(arguments) <= most:
            wanted = f"{most}" if function.least == most else f"{function.least} to {most}"
            what = f"{name.text} takes {wanted} arguments; got {len(arguments)}."
            raise problem(self.condition, name.place, what)
        given: list[Any] = []
        for term, wanted in zip(arguments, function.arguments, strict=False):
            if wanted.startswith("constant"):
                given.append(self.fixed(term, wanted.removeprefix("constant "), name.text))
            else:
                need(self.condition, term, wanted, name.text)
                given.append(term.expression)
        return function.make(*given)

    def fixed(self, term: Term, what: str, who: str) -> Any:
        """Return the value of an argument that must be a literal."""
        if what == "digits":
            if term.constant and type(term.value) is int and 0 <= term.value <= 15:
                return term.value
            raise problem(self.condition, term.place, f"{who} needs a whole number from 0 to 15.")
        if not term.constant or not isinstance(term.value, str) or not term.value:
            raise problem(
                self.condition, term.place, f"{who} needs a text in quotes here, such as 'free'."
            )
        if what == "pattern":
            try:
                self.check_pattern(term.value)
            except ParameterError as error:
                raise problem(self.condition, term.place, str(error)) from None
        return term.value

    def joined(self, terms: list[Term], join: Callable[..., pl.Expr], word: str) -> Term:
        if len(terms) == 1:
            return terms[0]
        for term in terms:
            need(self.condition, term, "truth", word)
        # A single node for all of them, because Polars recurses into nested ones.
        expression = join([term.expression for term in terms])
        return Term(expression, "truth", terms[0].place)

    @property
    def next(self) -> Token:
        """The token to read next."""
        return self.tokens[self.position]

    @property
    def following(self) -> Token:
        """The token after `next`."""
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def advance(self) -> Token:
        token = self.next
        self.position += 1
        return token

    def take(self, text: str) -> bool:
        """Consume the next token if it is this sign or keyword; return whether it was."""
        found = self.next.kind in ("sign", "keyword") and self.next.text == text
        self.position += found
        return found

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.unexpected(f"{text} is missing")

    def unexpected(self, what: str) -> ParameterError:
        text = self.next.text
        cure = f" Use {_INSTEAD[text.lower()]} instead." if text.lower() in _INSTEAD else ""
        return problem(self.condition, self.next.place, f"{what}.{cure}")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.unexpected(f"brackets and signs are nested more than {_DEEPEST} deep")
        yield
        self.depth -= 1
