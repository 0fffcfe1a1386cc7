"""What MkDocs does beside mkdocs.yml: pages outside of docs/, links to them, and formulas."""

import html
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

BUILDER = Path(__file__).resolve().parent
ROOT = BUILDER.parents[1]
DOCS = BUILDER.parent
sys.path.insert(0, str(DOCS))

from builder.api_pages import api_pages  # noqa: E402  (the path has to be there first)
from builder.cards import with_cards  # noqa: E402
from builder.glossary import GLOSSARY, with_glossary_links  # noqa: E402
from builder.pages import generated_pages  # noqa: E402
from builder.result_titles import RESULT_TITLES, with_result_title  # noqa: E402

_ALSO = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "experiments/*.md",
    "experiments/results/*.md",
    "experiments/results/*.png",
    "experiments/results/tasks_listing.txt",
    "benchmarks/results/README.md",
    "benchmarks/results/*.json",
    "benchmarks/results/*.svg",
)
"""What the site has of the repository, beside docs/."""
_RESULTS = "experiments/results/"
_ALONE = ("index.md", "tutorial/tutorial.md")
"""Pages that are the only one of their tab: they need no navigation beside them."""
_RECORDS = ("CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
_CARDS = ("reference/options.md", "reference/wiesel-toml.md")
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(?P<tex>.*?)\\[)\]]</\1>', re.DOTALL
)


def on_config(config: Any) -> Any:
    """Put pages where the navigation has the words `api`, `results`, `decisions`, `unlisted`."""
    _replace_entry(config.nav, "api", [{title: uri} for title, uri, _ in api_pages()])
    names = [path.stem for path in sorted(ROOT.glob("experiments/results/*.md"))]
    ordered = [*(name for name in RESULT_TITLES if name in names), *(set(names) - {*RESULT_TITLES})]
    results = [{RESULT_TITLES.get(name, name): f"{_RESULTS}{name}.md"} for name in ordered]
    _replace_entry(config.nav, "results", results)
    decisions = sorted(f"decisions/{path.name}" for path in DOCS.glob("decisions/*.md"))
    _replace_entry(config.nav, "decisions", sorted(decisions, key=lambda uri: "/index." not in uri))
    _replace_entry(config.nav, "unlisted", _unlisted(config.nav))
    return config


def _unlisted(entries: list[Any]) -> list[str]:
    """The how-to pages that mkdocs.yml has no place for yet: a new page is never lost."""
    listed = set(re.findall(r"how-to/[\w-]+\.md", str(entries)))
    pages = (path.relative_to(DOCS).as_posix() for path in sorted(DOCS.glob("how-to/*.md")))
    return [page for page in pages if page not in listed]


def _replace_entry(entries: list[Any], word: str, pages: list[Any]) -> None:
    for entry in entries:
        for key, value in list(entry.items()) if isinstance(entry, dict) else ():
            if value == word and not pages:
                del entry[key]
            elif value == word:
                entry[key] = pages
            elif isinstance(value, list):
                _replace_entry(value, word, pages)
                value[:] = [each for each in value if each != {}]


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and what lies outside of docs/."""
    for pattern in _ALSO:
        for path in sorted(ROOT.glob(pattern)):
            uri = site_uri(path.relative_to(ROOT).as_posix())
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    for uri, text in generated_pages().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make links that fit the repository fit the site; give pages of results their title."""
    uri = page.file.src_uri
    here = repository_path(uri)
    if uri in _ALONE:
        page.meta["hide"] = ["navigation"]
    if uri.startswith(_RESULTS):
        markdown = with_result_title(markdown, Path(uri).stem)
    page.meta["search"] = _search_options(uri)
    markdown = _LINK.sub(lambda match: _relinked(match, here), markdown)
    return with_glossary_links(markdown, uri, DOCS / GLOSSARY)


def _search_options(uri: str) -> dict[str, Any]:
    """How a page counts in the search: how-to pages first, records of the past not at all."""
    if uri.startswith((_RESULTS, "decisions/", "experiments/", "benchmarks/")) or uri in _RECORDS:
        return {"exclude": True}
    return {"boost": 4 if uri.startswith("how-to/") else 1 if uri.startswith("tutorial/") else 0.5}


def _relinked(match: re.Match[str], here: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(here), match[2]))
    uri = posixpath.relpath(site_uri(target), posixpath.dirname(site_uri(here)) or ".")
    return f"{match[1]}{uri}{match[3] or ''}{match[4]}"


def site_uri(path: str) -> str:
    """Return where a file of the repository is on the site.

    >>> site_uri("docs/cli.md"), site_uri("README.md"), site_uri("experiments/README.md")
    ('cli.md', 'index.md', 'experiments/README.md')
    """
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def repository_path(uri: str) -> str:
    """Return which file of the repository a page of the site is.

    >>> repository_path("cli.md"), repository_path("index.md")
    ('docs/cli.md', 'README.md')
    """
    if uri == "index.md":
        return "README.md"
    return uri if (ROOT / uri).exists() else f"docs/{uri}"


def on_page_content(content: str, page: Any = None, **_: Any) -> str:
    """Turn every formula into MathML, which browsers show without a script."""
    content = _FORMULA.sub(_mathml, content)
    return with_cards(content) if page is not None and page.file.src_uri in _CARDS else content


def _mathml(match: re.Match[str]) -> str:
    display = "inline" if match[2] == "(" else "block"
    return convert(html.unescape(match["tex"]).strip(), display=display)


def on_post_build(config: Any) -> None:
    """Write the index of the search as a script, which a page from the disk may read."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")
