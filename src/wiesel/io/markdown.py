"""Text from data in Markdown files, which may hold HTML: shown as it is, never interpreted."""

import re

__all__ = ["code_block", "code_span"]


def code_span(text: str) -> str:
    """Return a name as inline code, whatever is in it.

    >>> print(code_span("ham"), code_span("a`<b>"))
    `ham` `` a`<b> ``
    """
    line = " ".join(text.split())
    fence = "`" * (_longest_run(line) + 1)
    gap = " " if "`" in line else ""
    return f"{fence}{gap}{line}{gap}{fence}"


def code_block(text: str) -> str:
    """Return lines as a code block, whatever is in them.

    >>> print(code_block("a = 1"))
    ```
    a = 1
    ```
    """
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
