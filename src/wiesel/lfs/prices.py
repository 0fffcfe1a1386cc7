"""What language models cost: a price table that users write, and the tokens of a text."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from wiesel.errors import DataError, MissingExtraError, ParameterError, suggest
from wiesel.io.files import FilePath, parse_toml, read_text
from wiesel.lfs.rules import build
from wiesel.parameters import check_number

if TYPE_CHECKING:
    from wiesel.lfs.chat import ChatClient

__all__ = ["Price", "PriceTable", "count_tokens"]

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
        file = _default_file() if path is None else Path(path)
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
