"""All pages that are made when the site is built, from the program itself."""

from collections.abc import Callable

from builder.api_pages import api_pages
from builder.errors_page import errors_page
from builder.options_page import options_page
from builder.settings_page import settings_page

__all__ = ["WRITERS", "generated_pages"]

WRITERS: dict[str, Callable[[], str]] = {
    "reference/errors.md": errors_page,
    "reference/options.md": options_page,
    "reference/wiesel-toml.md": settings_page,
}
"""Single pages, by where they are on the site."""


def generated_pages() -> dict[str, str]:
    """Return the Markdown of every generated page by its place."""
    written = {uri: write() for uri, write in WRITERS.items()}
    return written | {uri: text for _, uri, text in api_pages()}
