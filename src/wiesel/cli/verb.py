"""Common behavior of all verbs: --json, --debug, one-line errors, safe text, the next step."""

import inspect
import json
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Annotated, Any, TextIO

import typer
from typer.models import OptionInfo

from wiesel.errors import Argument, WieselError, WieselWarning, either, message_for

__all__ = [
    "Answer",
    "command_line",
    "given_options",
    "in_command_words",
    "json_text",
    "option_names",
    "plain_text",
    "print_rich",
    "split_names",
    "tell",
    "verb",
]

_JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_DEBUG = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
_INTERRUPTED = 130
_Words = Callable[[object], str]
"""Returns a message in the words of the command that runs."""
_OPTIONS = {"ids": "--id"}
"""Options with another name than the argument."""
# All terminal control characters except line ends and tabs, and the characters that change text
# direction, which can make one name look like another.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain_text(text: str) -> str:
    r"""Return text with every control character replaced by its code.

    >>> plain_text("red: \x1b[31m, a bell: \a")
    'red: \\x1b[31m, a bell: \\x07'
    """
    return _STEERING.sub(_as_number, text.replace("\r\n", "\n"))


def json_text(value: Any, indent: int | None = None) -> str:
    r"""Return plain data as JSON; control characters are escaped as in JSON.

    >>> print(json_text({"name": "caf\xe9 \x9b31m"}))
    {"name": "café \u009b31m"}
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    # Control characters that JSON leaves unescaped are inside strings; outside are only line ends.
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_rich(value: Any) -> None:
    """Print a Rich object; keep its colors, but escape control characters in the data."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    console = Console()
    clean = [
        part if part.control else Segment(plain_text(part.text), part.style)
        for part in console.render(value)
    ]
    console.print(Segments(clean), end="")


def _as_number(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


@dataclass(frozen=True)
class Answer:
    """The result of a verb: data for programs, text for people, and the next command.

    >>> Answer({"n": 1}, "One item.", "wiesel inspect votes.parquet").data
    {'n': 1}
    """

    data: Mapping[str, Any]
    """The output of `--json`, in addition to `ok` and `next`."""
    text: Any = ""
    """The output without `--json`: a string, or an object that Rich can print."""
    next_step: str = ""
    """The command to run next, as it can be run. A word in capitals is for the user to fill in."""
    exit_code: int = 0
    """What schedulers see; above 2 if the work is done, but a person should look at the result."""
    quiet: bool = False
    """Whether all output has been written already."""


def verb(function: Callable[..., Answer | None]) -> Callable[..., None]:
    """Turn a function that returns an `Answer` into a command with --json and --debug."""
    words = partial(in_command_words, options=option_names(function))

    @wraps(function)
    def command(*arguments: Any, as_json: bool, debug: bool, **options: Any) -> None:
        from wiesel.analysis.table import telling_rest

        rest = telling_rest(": --json has all of them")
        with _errors_in_one_line(as_json, debug, words), _plain_warnings(words), rest:
            answer = function(*arguments, **options)
        if answer is not None:
            if not answer.quiet:
                _print(answer, as_json)
            if answer.exit_code:
                raise typer.Exit(answer.exit_code)

    signature = inspect.signature(function)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("as_json", _JSON), ("debug", _DEBUG))
    ]
    parameters = [*signature.parameters.values(), *added]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {**function.__annotations__, "as_json": _JSON, "debug": _DEBUG}
    return command


def tell(text: str) -> None:
    """Show the user a message that is not part of the result."""
    typer.echo(plain_text(text), err=True)


def split_names(text: str | None) -> list[str] | None:
    """Return the names of a comma-separated list.

    >>> split_names("ham, spam"), split_names(None)
    (['ham', 'spam'], None)
    """
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def command_line(*words: object) -> str:
    """Return words as a shell command, quoted as needed.

    >>> command_line("wiesel", "run", "my project")
    "wiesel run 'my project'"
    """
    import shlex

    return shlex.join(str(word) for word in words)


def given_options(**options: object) -> list[str]:
    """Return the options that were given, for a command that repeats them.

    >>> given_options(labels="ham,spam", item=None, lfs=["a.py", "b.toml"])
    ['--labels', 'ham,spam', '--lfs', 'a.py', '--lfs', 'b.toml']
    """
    words: list[str] = []
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            words += [] if each in (None, False) else [f"--{name.replace('_', '-')}"]
            words += [] if each is None or isinstance(each, bool) else [str(each)]
    return words


@contextmanager
def _errors_in_one_line(as_json: bool, debug: bool, words: _Words) -> Iterator[None]:
    """Exit with 1 and one line instead of a traceback, unless --debug is given."""
    try:
        yield
    except KeyboardInterrupt:
        tell("Interrupted. Finished work is kept; run the same command to continue.")
        raise typer.Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        # The reader closed the pipe, as in `wiesel methods | head`.
        sys.stderr.close()
        raise typer.Exit(0) from None
    except (typer.Exit, typer.Abort):
        raise
    # A panic inside Polars or another Rust library is not an `Exception`.
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if debug:
            tell(traceback.format_exc())
        is_ours = isinstance(error, (WieselError, OSError))
        message = _one_line(error, words) if is_ours else _unexpected(error, words)
        _print_error(message, as_json)
        raise typer.Exit(1) from error


@contextmanager
def _plain_warnings(words: _Words) -> Iterator[None]:
    """Show Wiesel's own warnings as one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", WieselWarning)

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, WieselWarning):
                tell(f"Warning: {words(message)}")
            else:
                tell(warnings.formatwarning(message, category, filename, lineno, line).rstrip())

        warnings.showwarning = show
        yield


def _print(answer: Answer, as_json: bool) -> None:
    if as_json:
        data = {"ok": True, **answer.data}
        typer.echo(_json({**data, "next": answer.next_step} if answer.next_step else data))
        return
    if isinstance(answer.text, str):
        if answer.text:
            typer.echo(plain_text(answer.text))
    else:
        print_rich(answer.text)
    if answer.next_step:
        tell(f"Next: {answer.next_step}")


def _print_error(text: str, as_json: bool) -> None:
    if as_json:
        typer.echo(_json({"ok": False, "error": text}))
    tell(f"Error: {text}")


def _unexpected(error: BaseException, words: _Words) -> str:
    if isinstance(error, MemoryError):
        return "There is not enough memory: try fewer or smaller rows."
    return f"Unexpected {type(error).__name__}: {_one_line(error, words)} (--debug shows where)"


def _one_line(error: BaseException, words: _Words) -> str:
    """Return an error as one line; Python's messages about files are reworded."""
    if isinstance(error, OSError) and not isinstance(error, WieselError) and error.filename:
        return f"{error.filename}: {error.strerror}."
    return " ".join(words(error).split())


def _json(value: Mapping[str, Any]) -> str:
    from wiesel.saving import plain_data

    return json_text(plain_data(value), indent=2)


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
