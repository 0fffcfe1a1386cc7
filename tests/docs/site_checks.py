"""What is looked for in a built site: links that lead nowhere, and anything from the network."""

import posixpath
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class SitePage:
    """The links, anchors and loaded files of one page."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    loaded: list[str] = field(default_factory=list)
    """Scripts, styles, pictures: what a browser fetches by itself."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = SitePage()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.page.anchors |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.page.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.page.loaded.append(given.get("href", ""))
        elif tag in ("script", "img", "iframe", "source", "video") and "src" in given:
            self.page.loaded.append(given["src"])


def read_site(folder: Path) -> dict[str, SitePage]:
    """Return every page by its path in the site."""
    pages = {}
    for file in sorted(folder.rglob("*.html")):
        reader = _Reader()
        reader.feed(file.read_text(encoding="utf-8"))
        pages[file.relative_to(folder).as_posix()] = reader.page
    return pages


def broken_links(folder: Path, pages: dict[str, SitePage]) -> list[str]:
    """Return the links, pictures and scripts of the site that lead nowhere."""
    return [
        f"{name}: {target}"
        for name, page in pages.items()
        if name != "404.html"  # written for the root of a server
        for target in [*page.links, *page.loaded]
        if not _leads_somewhere(folder, pages, name, target)
    ]


def _leads_somewhere(folder: Path, pages: dict[str, SitePage], page: str, target: str) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return True  # somebody else's
    path = unquote(parts.path)
    file = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    if not (folder / file).is_file():
        return file == "." or (folder / file / "index.html").is_file()
    anchors = pages[file].anchors if file in pages else set()
    return not parts.fragment or file not in pages or unquote(parts.fragment) in anchors


def from_the_network(pages: dict[str, SitePage]) -> list[str]:
    """Return what a page would fetch from elsewhere."""
    return [
        f"{name}: {target}"
        for name, page in pages.items()
        for target in page.loaded
        if urlsplit(target).scheme in ("http", "https") or target.startswith("//")
    ]
