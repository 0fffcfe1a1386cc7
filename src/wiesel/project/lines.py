"""Where keys stand in a TOML file, for messages; the parser of the standard library forgets."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wiesel.errors import ParameterError, WieselError

__all__ = ["Problems", "key_lines"]


def key_lines(text: str) -> dict[str, int]:
    r"""Return the line (from 1) of every table and key, by its dotted path.

    >>> key_lines('name = "spam"\n\n[data]\ntrain = "mails.csv"\n')
    {'name': 1, 'data': 3, 'data.train': 4}
    """
    lines: dict[str, int] = {}
    table, statement, start = "", "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        start = start if statement else number
        statement += line + "\n"
        try:
            content = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:  # a value of several lines
            continue
        paths = list(_paths(content))
        if statement.lstrip().startswith("["):
            table = paths[-1]
        else:
            paths = [f"{table}.{path}" if table else path for path in paths]
        for path in paths:
            lines.setdefault(path, start)
        statement = ""
    return lines


def _paths(content: Any) -> Iterator[str]:
    """The dotted paths of all keys, tables before what is in them."""
    if isinstance(content, list):
        content = content[-1] if content and isinstance(content[-1], dict) else {}
    for key, value in content.items():
        yield key
        if isinstance(value, (dict, list)):
            yield from (f"{key}.{path}" for path in _paths(value))


class Problems:
    """The problems of a project file, with line numbers, reported in one message."""

    def __init__(self, file: Path, text: str) -> None:
        self.file, self.text, self.lines = file, text.splitlines(), key_lines(text)
        self.found: list[tuple[int, Sequence[object]]] = []

    def line(self, key: str, tables: Sequence[str] = (), option: str = "", value: str = "") -> int:
        """Return the line of an option in the first table that has it, or else of a key.

        `value` is one of the values in a list, which may have a line of its own.
        """
        above = [key.rsplit(".", n)[0] for n in range(key.count(".") + 1)]
        places = [f"{table}.{option}" for table in tables] + above
        line = next((self.lines[place] for place in places if place in self.lines), 1)
        end = min((each for each in self.lines.values() if each > line), default=len(self.text) + 1)
        quoted = (json.dumps(value, ensure_ascii=False), f"'{value}'")
        own = [n for n in range(line, end) if any(word in self.text[n - 1] for word in quoted)]
        return own[0] if value and own else line

    def add(self, key: str, *problem: object, value: str = "") -> None:
        """Record a problem with a key, or with one of the values in its list."""
        self.found.append((self.line(key, value=value), problem))

    def add_error(
        self, error: WieselError, key: str, tables: Sequence[str] = (), value: str = ""
    ) -> None:
        """Record an error with an option of these tables, or else with a key.

        An option that several methods share is reported once.
        """
        line = self.line(key, tables, error.option, value)
        if not error.option or line not in [known for known, _ in self.found]:
            self.found.append((line, error.args))

    def raise_if_any(self) -> None:
        """Raise one error that lists all problems, in the order of the lines."""
        if not self.found:
            return
        parts: list[object] = [self.file, ", "]
        for line, problem in sorted(self.found, key=lambda each: each[0]):
            said = "".join(map(str, problem))
            end = "" if said.endswith((".", "?", "!")) else "."
            parts += [] if len(parts) == 2 else [" And "]
            parts += [f"line {line}: ", *problem, end]
        raise ParameterError(*parts)
