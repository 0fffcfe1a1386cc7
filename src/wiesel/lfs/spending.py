"""What requests to language models use and cost, and a budget that stops them."""

import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from wiesel.errors import DataError, MissingExtraError, ParameterError, as_path, suggest
from wiesel.io.files import FilePath, parse_toml, read_text
from wiesel.lfs.function import build
from wiesel.lfs.sending import ChatError, Completion, Question
from wiesel.parameters import check_number

if TYPE_CHECKING:
    from wiesel.lfs.chat import ChatClient

__all__ = [
    "Budget",
    "BudgetReached",
    "Price",
    "PriceTable",
    "Spending",
    "count_tokens",
    "current_spending",
    "spending",
]


_MILLION = 1_000_000
_FRAME = 8
"""Tokens around a message: its role, its start and its end."""
_NAME = "prices.toml"
EXAMPLE = '[models."{model}"]\ninput = 0.15   # per million tokens\noutput = 0.60'


@dataclass(frozen=True)
class Price:
    """The price of a model, per million tokens.

    >>> Price(input=0.5, output=1.5).of(2_000_000, 1_000_000)
    2.5
    """

    input: float
    output: float
    batch: float = 0.5
    """The share of the price that a request in a batch file costs."""
    tokenizer: str = ""
    """A `tokenizer.json` that counts the model's tokens; empty to estimate them."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "batch"):
            check_number(self, name, getattr(self, name), low=0)

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """Return the price of so many tokens."""
        return (tokens_in * self.input + tokens_out * self.output) / _MILLION


@dataclass(frozen=True)
class PriceTable:
    """The prices of models, read from a file that looks like this:

        currency = "$"

        [models."gpt-4o*"]      # a name, or a pattern
        input = 2.50            # per million tokens
        output = 10.00

    >>> from wiesel.lfs import ChatClient
    >>> table = PriceTable({"tiny-*": Price(1, 2)})
    >>> table.of(ChatClient("https://models.example/v1", "tiny-3"))
    Price(input=1, output=2, batch=0.5, tokenizer='')
    """  # noqa: D400 - the first line leads to the example

    models: Mapping[str, Price] = field(default_factory=dict)
    currency: str = "$"
    path: str = ""
    """The file it was read from."""

    @classmethod
    def read(cls, path: FilePath | None = None) -> Self:
        """Return the table in a file; without a path, in the first file that is there.

        That is the one in `WIESEL_PRICES`, `prices.toml` in the current folder, or the one in the
        user's folder of settings.
        """
        file = _default_file() if path is None else as_path(path)
        if file is None:
            return cls()
        try:
            content = parse_toml(read_text(file))
        except ValueError as error:
            raise DataError(f"{file}: this is not TOML: {error}.") from None
        for name in content:
            if name not in ("models", "currency"):
                allowed = suggest(name, ["models", "currency"])
                raise DataError(f"{file}: there is no entry {name!r} in a price table. {allowed}")
        given = content.get("models", {})
        if not isinstance(given, dict) or not all(isinstance(own, dict) for own in given.values()):
            raise DataError(f"{file}: each model is a table, such as:\n{EXAMPLE.format(model='m')}")
        try:
            models = {
                name: build(Price, own, f"the price of {name}") for name, own in given.items()
            }
        except ParameterError as error:
            raise DataError(f"{file}: {error}") from None
        return cls(models, str(content.get("currency", "$")), str(file))

    def of(self, client: "ChatClient") -> Price | None:
        """Return the price of a client's model; None if unknown. This machine costs nothing."""
        patterns = [name for name in self.models if fnmatchcase(client.model, name)]
        if client.model in self.models:
            return self.models[client.model]
        if patterns:
            return self.models[max(patterns, key=len)]
        return Price(0, 0) if client.is_local else None

    def amount(self, value: float | None) -> str:
        """Return an amount as text; or that it is unknown."""
        if value is None:
            return "price unknown"
        decimals = 2 if value >= 0.1 or not value else min(6, 1 - math.floor(math.log10(value)))
        return f"{self.currency}{value:,.{decimals}f}"

    def missing(self, model: str) -> str:
        """Return what to add to the table for a model that is not in it."""
        return f"add it to {self.path or _NAME}:\n{EXAMPLE.format(model=model)}"


def count_tokens(text: str, tokenizer: str = "") -> int:
    """Return the tokens of a question: counted by a tokenizer, or estimated from its characters.

    An estimate counts a quarter of a token for a character of ASCII and two thirds for others.

    >>> count_tokens("Is this an advertisement?")
    15
    """
    if tokenizer:
        return len(_tokenizer(tokenizer).encode(text).ids) + _FRAME
    n_ascii = len(text.encode("ascii", "ignore"))
    return math.ceil(n_ascii / 4 + (len(text) - n_ascii) * 2 / 3) + _FRAME


@lru_cache(maxsize=8)
def _tokenizer(path: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError(
            "A price table names a tokenizer, which needs the package tokenizers: pip install "
            "tokenizers, or leave `tokenizer` out to estimate the tokens."
        ) from error
    if not Path(path).is_file():
        raise DataError(f"There is no tokenizer {path}. It is the file tokenizer.json of a model.")
    return Tokenizer.from_file(path)


def _default_file() -> Path | None:
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    named = os.environ.get("WIESEL_PRICES")
    places = [Path(named)] if named else [Path(_NAME), settings / "wiesel" / _NAME]
    return next((place for place in places if named or place.is_file()), None)


Unit = Literal["money", "tokens", "requests"]
_POLL_SECONDS = 0.1
_CURRENT: ContextVar["Spending | None"] = ContextVar("spending", default=None)


class BudgetReached(ChatError):
    """A question was not asked because the budget is spent."""


@dataclass(frozen=True)
class Budget:
    """How much may be spent: an amount of money, or a number of tokens or requests.

    >>> Budget.of("2.50"), Budget.of("500 requests")
    (Budget(limit=2.5, unit='money'), Budget(limit=500.0, unit='requests'))
    """

    limit: float
    unit: Unit = "money"

    @classmethod
    def of(cls, given: "Budget | float | str") -> "Budget":
        """Return a budget written as `2.50`, `500 requests` or `200000 tokens`."""
        if isinstance(given, Budget):
            return given
        found = re.fullmatch(r"[$€£¥]?\s*(\d+(?:\.\d+)?|\.\d+)\s*(tokens?|requests?|)", str(given))
        if not found:
            raise ParameterError(
                f"A budget is an amount such as 2.50, or '500 requests', or '200000 tokens'; got "
                f"{given!r:.40}."
            )
        units: dict[str, Unit] = {"": "money", "t": "tokens", "r": "requests"}
        return cls(float(found[1]), units[found[2][:1]])


@dataclass(eq=False)
class Spending:
    """What was spent so far; safe to use from several threads.

    >>> with spending(budget="500 requests") as spent:
    ...     pass  # apply_lfs(...)
    >>> print(spent)
    0 requests
    """

    budget: Budget | None = None
    prices: PriceTable = field(default_factory=PriceTable)
    requests: int = 0
    """Requests that were answered."""
    cached: int = 0
    """Questions whose answer was in the cache."""
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    unpriced: set[str] = field(default_factory=set)
    """Models whose price is unknown."""
    estimated: bool = False
    """Whether a server did not say how many tokens it used, so that they are estimated."""
    _reserved: float = 0.0
    _under_way: int = 0
    """The requests for which something is set aside."""
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def check(self, client: "ChatClient") -> None:
        """Refuse a budget that cannot be kept, before anything is sent."""
        if self.budget is None:
            return
        if client.cache is None:
            raise ParameterError(
                "A budget needs a cache, so that answers are not paid for twice: "
                "ChatClient(cache='answers.sqlite')."
            )
        if self.budget.unit == "money" and self.prices.of(client) is None:
            raise ParameterError(
                f"The price of {client.model!r} is unknown, so a budget in money cannot be kept. "
                f"Give it as '500 requests' or '200000 tokens', or "
                f"{self.prices.missing(client.model)}"
            )

    def reserve(self, client: "ChatClient", question: Question, stopped: threading.Event) -> float:
        """Set aside what a request costs at most; raise `BudgetReached` if that is too much."""
        if self.budget is None:
            return 0.0
        most = self._amount(*self._at_most(client, question), client)
        with self._changed:
            while self._spent + self._reserved + most > self.budget.limit * (1 + 1e-9):
                if not self._under_way or stopped.is_set():
                    raise BudgetReached(f"the budget is spent ({self})")
                self._changed.wait(_POLL_SECONDS)  # requests under way may cost less than set aside
            self._reserved += most
            self._under_way += 1
        return most

    def settle(
        self, reserved: float, client: "ChatClient", question: Question, answer: Completion | None
    ) -> None:
        """Count a request as done; `answer` is None if it failed."""
        with self._changed:
            self._under_way -= self.budget is not None
            # Rounding must not leave something set aside when nothing is under way.
            self._reserved = max(0.0, self._reserved - reserved) if self._under_way else 0.0
            if answer is not None:
                used = self._at_most(client, question)
                tokens_in = used[0] if answer.tokens_in is None else answer.tokens_in
                tokens_out = used[1] if answer.tokens_out is None else answer.tokens_out
                self.estimated |= None in (answer.tokens_in, answer.tokens_out)
                self.requests += 1
                self.tokens_in += tokens_in
                self.tokens_out += tokens_out
                price = self.prices.of(client)
                if price is None:
                    self.unpriced.add(client.model)
                else:
                    self.cost += price.of(tokens_in, tokens_out)
            self._changed.notify_all()

    def retried(self) -> None:
        """Count an attempt that failed and was repeated."""
        with self._changed:
            self.retries += 1

    def note(self, done: int, total: int, started: float) -> str:
        """Return what was spent and the time left, for a progress report."""
        left = (time.monotonic() - started) / max(done, 1) * (total - done)
        return f"{self}, {_duration(left)} left"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        names = ("requests", "cached", "retries", "tokens_in", "tokens_out", "cost", "estimated")
        cost = None if self.unpriced else self.cost
        return {**{name: getattr(self, name) for name in names}, "cost": cost}

    def __str__(self) -> str:
        parts = [f"{self.requests:,} request{'s' * (self.requests != 1)}"]
        if self.requests:
            about = "about " * self.estimated
            parts.append(f"{about}{self.tokens_in + self.tokens_out:,} tokens")
            parts.append(self.prices.amount(None if self.unpriced else self.cost))
        parts += [f"{self.cached:,} from the cache"] if self.cached else []
        parts += [f"{self.retries:,} retries"] if self.retries else []
        return ", ".join(parts)

    @property
    def _spent(self) -> float:
        unit = self.budget.unit if self.budget else "money"
        amounts = {"money": self.cost, "tokens": self.tokens_in + self.tokens_out}
        return float(amounts.get(unit, self.requests))

    def _at_most(self, client: "ChatClient", question: Question) -> tuple[int, int]:
        price = self.prices.of(client)
        tokens_in = count_tokens(question.text + question.schema, price.tokenizer if price else "")
        return tokens_in, client.max_tokens * question.samples

    def _amount(self, tokens_in: int, tokens_out: int, client: "ChatClient") -> float:
        unit = self.budget.unit if self.budget else "money"
        if unit == "requests":
            return 1.0
        price = self.prices.of(client)
        return (
            tokens_in + tokens_out
            if unit == "tokens" or not price
            else price.of(tokens_in, tokens_out)
        )


@contextmanager
def spending(
    budget: Budget | float | str | None = None, prices: PriceTable | None = None
) -> Iterator[Spending]:
    """Count what the prompts inside use, and stop them when the budget is spent.

    `budget` is an amount such as 2.5, or `"500 requests"`, or `"200000 tokens"`. `prices` is by
    default `PriceTable.read()`. When the budget is spent, `apply_lfs` raises an error, or abstains
    on the remaining rows with `on_error="abstain"`. All answers are in the cache: the same call
    with a higher budget asks only for the rest.

    >>> with spending(budget="500 requests") as spent:
    ...     spent.budget
    Budget(limit=500.0, unit='requests')
    """
    table = PriceTable.read() if prices is None else prices
    spent = Spending(None if budget is None else Budget.of(budget), table)
    token = _CURRENT.set(spent)
    try:
        yield spent
    finally:
        _CURRENT.reset(token)


def current_spending() -> Spending:
    """Return the count of the surrounding `spending`; a new one if there is none."""
    return _CURRENT.get() or Spending()


def _duration(seconds: float) -> str:
    """A time in words.

    >>> _duration(42), _duration(600), _duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
