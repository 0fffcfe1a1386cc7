"""Shared by all contract checks: their error, and `require`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from wiesel.errors import WieselError

__all__ = ["ContractError", "require", "require_equal", "require_error"]


class ContractError(AssertionError):
    """A method violates the contract."""


def require(condition: object, message: str) -> None:
    """Raise `ContractError` unless the condition holds.

    >>> require(1 + 1 == 2, "arithmetic is broken")
    """
    if not condition:
        raise ContractError(message)


def require_equal(first: Any, second: Any, message: str) -> None:
    """Raise `ContractError` unless two arrays are exactly equal."""
    first, second = np.asarray(first), np.asarray(second)
    # Printing an array takes longer than comparing it, so it is printed only where it differs.
    if first.shape != second.shape or not np.array_equal(first, second):
        raise ContractError(f"{message}: {first!r:.200} against {second!r:.200}")


def require_error(kind: type[WieselError], *words: str, doing: Callable[[], Any]) -> None:
    """Raise `ContractError` unless `doing` raises an error whose message contains these words."""
    try:
        doing()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        require(not missing, f"the message must say {missing}; it is: {error}")
        return
    except Exception as error:  # any other kind violates the contract
        raise ContractError(f"expected {kind.__name__}, got {type(error).__name__}: {error}") from (
            error
        )
    raise ContractError(f"expected {kind.__name__} ({', '.join(words)}), and nothing was raised")
