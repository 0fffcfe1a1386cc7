"""Shows text from data as plain text, never as HTML."""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from wiesel.labels import LabelSpace

if TYPE_CHECKING:  # the plain texts need no NiceGUI, which takes a second to load
    from nicegui import ui
    from nicegui.elements.mixins.text_element import TextElement

__all__ = ["cut", "figure_name", "link", "marked", "percent", "shade", "shown", "words"]

_SHORT = 160
_LONG = 5_000
_MOST_MARKS = 300
_DASH = "\N{EN DASH}"
_COLORS = ("#3b6ea5", "#b4542d", "#35794f", "#8a5ba8", "#8a6b00", "#2f7781", "#a3466b", "#6b7280")
"""White text on each is readable: a contrast of at least 4.5."""


_FIGURES = {"f1": "F1", "macro_f1": "macro F1", "micro_f1": "micro F1", "span_f1": "F1"}
_FIGURES |= {"auc": "AUC", "brier": "Brier score", "cell_accuracy": "right cells"}


def figure_name(name: str) -> str:
    """Return the name of a metric as people write it.

    >>> figure_name("macro_f1"), figure_name("log_loss")
    ('macro F1', 'log loss')
    """
    return _FIGURES.get(name, name.replace("_", " "))


def shown(text: object) -> str:
    r"""Return text with invisible characters replaced by visible symbols.

    >>> shown("a\x00b")
    'a␀b'
    """
    plain = text if isinstance(text, str) else str(text)
    return "".join(_sign(c) if c < " " and c not in "\n\t" else c for c in plain)


def cut(text: object, length: int = _SHORT) -> str:
    """Return the beginning of a text, on one line; a dash if there is none.

    >>> cut("many  words", 6), cut(None)
    ('many …', '–')
    """
    if text is None:
        return _DASH
    plain = " ".join(shown(text if isinstance(text, str) else str(text))[: 4 * length].split())
    return plain if len(plain) <= length else plain[: length - 1] + "…"


def words(text: str, *classes: str, tag: str = "span") -> "TextElement":
    """Show text; it is sent to the browser as text, never as HTML."""
    from nicegui.elements.mixins.text_element import TextElement

    element = TextElement(tag=tag, text=text)
    if classes:
        element.classes(" ".join(classes))
    return element


def link(text: str, page: str, *classes: str, **query: str) -> "TextElement":
    """Show a link to a page of the workbench; `query` may hold any text."""
    element = words(text, *classes, tag="a")
    # `.props("...")` would read attributes, even code to run, out of the text.
    element.props["href"] = f"{page}?{urlencode(query)}" if query else page
    return element


def marked(text: str, spans: Iterable[tuple[int, int]], limit: int = _LONG) -> "ui.element":
    """Show a text with some parts highlighted; a long text is cut to `limit` characters."""
    from nicegui import ui

    plain = shown(text)
    with ui.element("div").classes("w-text").props('dir="auto"') as box:
        place = 0
        for start, end in list(spans)[:_MOST_MARKS]:
            if start < place or start >= limit:
                continue
            words(plain[place:start])
            words(plain[start:end], tag="mark")
            place = end
        words(plain[place : max(limit, place)])
        if len(plain) > limit:
            words(f" … {len(plain) - limit:,} more characters", "w-faint")
    return box


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share in percent; a dash if unknown.

    >>> percent(0.256), percent(None), percent(float("nan"))
    ('26 %', '–', '–')
    """
    if share is None or share != share:
        return _DASH
    return f"{100 * share:.{digits}f} %"


def shade(labels: LabelSpace, name: str) -> str:
    """Return the color of a class."""
    return _COLORS[labels.index(name) % len(_COLORS)] if name in labels else _COLORS[-1]


def _sign(character: str) -> str:
    return chr(0x2400 + ord(character))
