"""Where keys stand in a TOML file, for messages; the parser of the standard library forgets."""

import re

__all__ = ["key_lines", "line_of"]

_HEADER = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+")
_QUOTED = re.compile(r"'([^']+)'")
_KEY = re.compile(r"""\s*(["']?)([\w.\- ]+?)\1\s*=""")


def key_lines(text: str) -> dict[str, int]:
    r"""Return the line (from 1) of every table and key, by its dotted path.

    >>> key_lines('name = "spam"\n\n[data]\ntrain = "mails.csv"\n')
    {'name': 1, 'data': 3, 'data.train': 4}
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = header[1]
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{table}.{key[2]}" if table else key[2], number)
    return lines


def line_of(problem: str, text: str) -> int | None:
    r"""Return the line of a file that a message is about: the first key or value that it quotes.

    >>> line_of("There is no option 'epoch'.", '[training]\nepoch = 3\n')
    2
    >>> line_of("There is no method 'wesel'.", '[method]\nname = "wesel"\n')
    2
    """
    keys = {path.rpartition(".")[2]: line for path, line in reversed(key_lines(text).items())}
    for word in _QUOTED.findall(problem):
        if word in keys:
            return keys[word]
        for number, line in enumerate(text.splitlines(), start=1):
            if f'"{word}"' in line.partition("#")[0]:
                return number
    return None
