"""All errors and warnings of Wiesel, as one small class hierarchy.

A message says who, where, what was given, what is allowed and what to do. It is made of texts,
`Argument`s and `Advice`, so that the command line can say in its own words what to give.
"""

import difflib
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

__all__ = [
    "Advice",
    "Argument",
    "CollapseWarning",
    "DataError",
    "FeatureError",
    "ForkError",
    "LabelingFunctionError",
    "MissingExtraError",
    "NotFittedError",
    "ParameterError",
    "SavedModelError",
    "TrainingError",
    "VoteError",
    "WieselError",
    "WieselWarning",
    "as_list",
    "as_path",
    "listed",
    "suggest",
    "warn_user",
]

_PACKAGE = str(Path(__file__).parent)


@dataclass(frozen=True)
class Argument:
    """An argument that a message names; each interface writes it in its own way.

    >>> print(Argument("labels", ["ham", "spam"]), Argument("keep", ("first", "last", "all")))
    labels=['ham', 'spam'] keep='first', 'last' or 'all'
    >>> print(Argument("item"), Argument("class_balance", [...]))
    item=... class_balance=[...]
    """

    name: str
    value: object = ...
    """A value to give, or a tuple of values to choose from; dots if the user knows it."""

    def __str__(self) -> str:
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return f"{self.name}={either(repr(each) for each in values)}".replace("Ellipsis", "...")


class Advice(tuple[str | Argument, ...]):
    """Parts of a message that are left out where the arguments in it cannot be given.

    Advice without an `Argument` is for Python only.
    """

    __slots__ = ()

    def __new__(cls, *parts: str | Argument) -> Self:
        """Return advice made of texts and arguments."""
        return super().__new__(cls, parts)

    def __getnewargs__(self) -> tuple[str | Argument, ...]:
        return tuple(self)

    def __str__(self) -> str:
        return "".join(map(str, self))


class _Message:
    """A message made of parts: texts, arguments and advice; its text is in the words of Python."""

    args: tuple[object, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class WieselError(_Message, Exception):
    """Base class of all errors that Wiesel raises on purpose."""

    option: str = ""
    """The name of the option that the error is about, if it is about one."""

    def __init__(self, *parts: object, option: str = "") -> None:
        super().__init__(*parts)
        self.option = option

    def renamed(self, **names: str) -> Self:
        """Return the error with other names for arguments, those of a function that called.

        >>> error = VoteError("Say which: ", Argument("duplicates", "all"))
        >>> print(error.renamed(duplicates="repeated"))
        Say which: repeated='all'
        """

        def new(part: object) -> object:
            if isinstance(part, Advice):
                return Advice(*map(new, part))  # type: ignore[arg-type]
            if isinstance(part, Argument):
                return Argument(names.get(part.name, part.name), part.value)
            return part

        return type(self)(*map(new, self.args), option=self.option)


class DataError(WieselError, ValueError):
    """The user's data cannot be used as given."""


class VoteError(DataError):
    """A vote, a voter name or an item id is not allowed."""


class FeatureError(DataError):
    """The features or gold labels do not fit the votes or the end model."""


class ParameterError(WieselError, ValueError):
    """An option has a value that is not allowed, or does not exist."""


class LabelingFunctionError(WieselError):
    """A labeling function failed on a row, or could not be loaded."""

    failure: object = None
    """The `wiesel.lfs.failures.Failure`, if it failed on a row."""


class NotFittedError(WieselError, ValueError, AttributeError):
    """The model was used before `fit`."""


class TrainingError(WieselError):
    """Training cannot continue, for instance because a loss is not finite."""


class SavedModelError(WieselError):
    """A saved model is incomplete, altered, or from an unknown format."""


class MissingExtraError(WieselError, ImportError):
    """An optional package is missing; the message has the install command."""


class ForkError(WieselError, RuntimeError):
    """A forked process lacks the threads that this work needs."""


class WieselWarning(_Message, UserWarning):
    """Base class of all warnings."""


class CollapseWarning(WieselWarning):
    """Training ended in a degenerate solution; the message suggests what to try."""


def suggest(name: object, options: Iterable[str]) -> str:
    """Return the sentence that helps after a misspelled name.

    >>> suggest("epoch", ["epochs", "lr"])
    "Did you mean 'epochs'?"
    >>> suggest("zzz", ["epochs", "lr"])
    "Allowed: 'epochs', 'lr'."
    """
    options = list(options)
    alike = {option.casefold(): option for option in reversed(options)}
    close = difflib.get_close_matches(str(name).strip().casefold(), alike, n=1)
    if close:
        return f"Did you mean {alike[close[0]]!r}?"
    return f"Allowed: {listed(options)}."


def other_spelling(value: object, names: Iterable[str]) -> str:
    """Return a sentence with the name that a value is in other letters or with blanks; or nothing.

    >>> other_spelling(" Spam", ["ham", "spam"])
    " ' Spam' is 'spam' in another spelling: write it like the class."
    >>> other_spelling("eggs", ["ham", "spam"])
    ''
    """
    plain = str(value).strip().casefold()
    alike = [name for name in names if name.strip().casefold() == plain]
    if not isinstance(value, str) or not alike:
        return ""
    return f" {value!r:.80} is {alike[0]!r} in another spelling: write it like the class."


def listed(values: Iterable[object], limit: int = 12) -> str:
    """Return values as a short readable list.

    >>> listed(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    values = list(values)
    # A NumPy number is shown as a number.
    plain: list[Any] = values[:limit]
    plain = [value.item() if hasattr(value, "dtype") else value for value in plain]
    shown = ", ".join(f"{value!r:.200}" for value in plain)
    return shown if len(values) <= limit else f"{shown} and {len(values) - limit} more"


def as_list(values: Any, what: str, example: str, kind: type[WieselError] = DataError) -> list[Any]:
    """Return the elements of a list, array, column or other collection; refuse what is none.

    >>> as_list(["a", "b"], "Names", "['a', 'b']")
    ['a', 'b']
    >>> as_list(None, "Names", "['a', 'b']")
    Traceback (most recent call last):
    wiesel.errors.DataError: Names are given as a list, such as ['a', 'b']; got NoneType.
    """
    if not isinstance(values, (str, bytes)):
        try:
            return list(values)
        except TypeError:
            pass
    raise kind(f"{what} are given as a list, such as {example}; got {type(values).__name__}.")


def as_path(path: Any) -> Path:
    """Return the path of a file or folder; refuse what is none."""
    try:
        return Path(path)
    except TypeError:
        raise ParameterError(
            f"A file or folder is named by a str or a Path; got {type(path).__name__}."
        ) from None


def message_for(message: object, words: Callable[[Argument], str | None]) -> str:
    """Return a message with its arguments in other words; None if an argument cannot be given.

    >>> error = VoteError("No classes", Advice(": give ", Argument("labels"), "."))
    >>> message_for(error, lambda argument: f"--{argument.name}")
    'No classes: give --labels.'
    >>> message_for(error, lambda argument: None)
    'No classes'
    """
    said = ""
    for part in message.args if isinstance(message, _Message) else (message,):
        inside = part if isinstance(part, Advice) else (part,)
        found = [words(each) if isinstance(each, Argument) else str(each) for each in inside]
        if isinstance(part, Advice) and (None in found or all(isinstance(e, str) for e in part)):
            continue
        said += "".join(str(e) if f is None else f for e, f in zip(inside, found, strict=True))
    return said


def either(words: Iterable[str]) -> str:
    """Return words as a choice.

    >>> either(["first", "last", "all"])
    'first, last or all'
    """
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def warn_user(message: str | WieselWarning, category: type[WieselWarning] = WieselWarning) -> None:
    """Warn with the line outside of Wiesel that led here, no matter how deep the call stack is.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("Few items.", WieselWarning)
    >>> str(caught[0].message)
    'Few items.'
    """
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
