"""Links from words that a newcomer may not know to the glossary, once on each page."""

import posixpath
import re
from functools import cache
from pathlib import Path

__all__ = ["GLOSSARY", "with_glossary_links"]

GLOSSARY = "understand/glossary.md"
_ENTRY = re.compile(r'^\| <a id="([\w-]+)"></a>([^|]+?) \|', re.MULTILINE)
_LINKED = ("how-to/", "tutorial/", "understand/", "index.md")
_NOT_TEXT = re.compile(
    r"(^```.*?^```|^~~~.*?^~~~|^#[^\n]*|^\|[^\n]*|^!!!.*?$|^\$\$.*?\$\$|`[^`\n]*`|\$[^$\n]+\$|"
    r"!?\[[^\]]*\]\([^)]*\)|<[^>\n]+>)",
    re.MULTILINE | re.DOTALL,
)
"""Code, headings, tables, formulas, links and HTML: nothing in them becomes a link."""


@cache
def glossary(page: Path) -> dict[str, str]:
    """Return the anchor of every word."""
    return {word: anchor for anchor, word in _ENTRY.findall(page.read_text(encoding="utf-8"))}


def with_glossary_links(markdown: str, uri: str, page: Path) -> str:
    """Return a page in which the first use of each word of the glossary is a link to it."""
    if uri == GLOSSARY or not uri.startswith(_LINKED):
        return markdown
    target = posixpath.relpath(GLOSSARY, posixpath.dirname(uri) or ".")
    parts = _NOT_TEXT.split(markdown)
    for word, anchor in sorted(glossary(page).items(), key=lambda pair: -len(pair[0])):
        pattern = re.compile(rf"\b({re.escape(word)}s?)\b(?![^\[]*\]\()", re.IGNORECASE)
        for place in range(0, len(parts), 2):  # text and what is no text take turns
            parts[place], n_found = pattern.subn(rf"[\1]({target}#{anchor})", parts[place], count=1)
            if n_found:
                # What has become a link is no text any more.
                split = _NOT_TEXT.split(parts[place])
                parts[place : place + 1] = split
                break
    return "".join(parts)
