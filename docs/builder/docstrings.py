"""Docstrings as Markdown: sessions and formulas of the source become code blocks of a page."""

import re
import textwrap
from typing import Any

import griffe

_EXAMPLES = "Examples\n--------\n"


class DocstringsAsMarkdown(griffe.Extension):
    """Rewrite every docstring when it has been read from the source."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the text in place."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """What `fit` learns has no value before: leave out how the source declares that."""
        if str(attr.value).startswith("field("):
            attr.value = None


def as_markdown(text: str) -> str:
    """Return a docstring with its sessions fenced, and without reStructuredText's double colon.

    >>> as_markdown("The formula::")
    'The formula:'
    """
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    parts = _joined(re.split(r"\n\s*\n", text))
    if re.search(r"^\s*-{3,}$", text, flags=re.MULTILINE):
        # After a section such as Parameters, an example needs a heading of its own.
        return "\n\n".join(f"{_EXAMPLES}{part}" if _is_session(part) else part for part in parts)
    return "\n\n".join(_fenced(part) for part in parts)


def _joined(parts: list[str]) -> list[str]:
    """Sessions that only an empty line separates are one."""
    joined: list[str] = []
    for part in parts:
        if joined and _is_session(part) and _is_session(joined[-1]):
            joined[-1] += f"\n{part}"
        else:
            joined.append(part)
    return joined


def _is_session(part: str) -> bool:
    return part.lstrip().startswith(">>>")


def _fenced(part: str) -> str:
    if not _is_session(part):
        return part
    session = textwrap.dedent(part).replace("<BLANKLINE>", "")
    return f"```pycon\n{session}\n```"
