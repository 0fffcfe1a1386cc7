"""Makes text safe for a terminal: control characters in data are shown, never executed."""

import json
import re
from typing import Any

__all__ = ["json_text", "plain_text", "print_rich"]

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
