"""The tree of errors and the words they share."""

import inspect

import pytest

from wiesel import errors
from wiesel.errors import (
    CollapseWarning,
    DataError,
    FeatureError,
    MissingExtraError,
    NotFittedError,
    ParameterError,
    VoteError,
    WieselError,
    WieselWarning,
    listed,
    suggest,
)


def test_every_error_is_a_wiesel_error_and_every_warning_a_wiesel_warning() -> None:
    classes = [item for _, item in inspect.getmembers(errors, inspect.isclass)]
    raised = [
        item
        for item in classes
        if issubclass(item, Exception) and item.__module__ == errors.__name__
    ]
    assert len(raised) >= 12
    for item in raised:
        base = WieselWarning if issubclass(item, Warning) else WieselError
        assert issubclass(item, base), item
        assert item.__doc__, item
        assert item.__name__ in errors.__all__


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (DataError, (ValueError,)),
        (VoteError, (DataError, ValueError)),
        (FeatureError, (DataError,)),
        (ParameterError, (ValueError,)),
        (NotFittedError, (ValueError, AttributeError)),
        (MissingExtraError, (ImportError,)),
        (CollapseWarning, (UserWarning,)),
    ],
)
def test_errors_are_also_what_other_code_catches(
    error: type[BaseException], bases: tuple[type[BaseException], ...]
) -> None:
    assert all(issubclass(error, base) for base in bases)


def test_a_near_name_is_suggested() -> None:
    assert suggest("epoch", ["lr", "epochs"]) == "Did you mean 'epochs'?"


def test_without_a_near_name_the_options_are_listed() -> None:
    assert suggest("zzz", (name for name in ["lr", "epochs"])) == "Allowed: 'lr', 'epochs'."
    assert suggest(None, ["lr"]) == "Allowed: 'lr'."


def test_long_lists_are_cut() -> None:
    assert listed(range(20)).endswith("10, 11 and 8 more")
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([]) == ""
    assert listed(["a", "b", "c"], limit=2) == "'a', 'b' and 1 more"
