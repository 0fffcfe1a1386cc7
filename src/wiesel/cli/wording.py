"""Messages of the library for the command line: options and files, not arguments."""

import inspect
import shlex
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from typer.models import OptionInfo

from wiesel.errors import Argument, either, message_for

__all__ = ["in_command_words", "option_names"]

_OPTIONS = {"ids": "--id"}
"""Options with another name than the argument."""


def option_names(command: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the options of a command, such as `--labels`."""
    names: list[str] = []
    for name, parameter in inspect.signature(command).parameters.items():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                names += info.param_decls or [f"--{name.replace('_', '-')}"]
    return frozenset(names)


def in_command_words(message: object, options: Collection[str] = ()) -> str:
    """Return a message with options of a command, or else with keys of wiesel.toml.

    >>> from wiesel.errors import VoteError
    >>> error = VoteError("Name the classes: ", Argument("labels", ["ham", "spam"]))
    >>> in_command_words(error, ["--labels"])
    'Name the classes: --labels ham,spam'
    """
    return message_for(message, partial(_in_command, options))


def _in_command(options: Collection[str], argument: Argument) -> str | None:
    option = _OPTIONS.get(argument.name, f"--{argument.name.replace('_', '-')}")
    if option not in options:
        # Commands that read a project have no option for what it says.
        from wiesel.project.settings import in_project_words

        return in_project_words(argument)
    if argument.value in (..., [...]):
        return option
    values = argument.value if isinstance(argument.value, tuple) else (argument.value,)
    words = [
        ",".join(value) if isinstance(value, list) else shlex.quote(str(value)) for value in values
    ]
    return f"{option} {either(words)}"
