"""The site is built without a warning, its links lead somewhere, and it needs no network."""

import ast
import os
import shutil
import sys
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import pytest
from markdown_blocks import ROOT, blocks_of
from site_checks import SitePage, broken_links, from_the_network, read_site

import wiesel

PACKAGES = (
    *("analysis", "datasets", "end_to_end", "evaluation", "features", "guidance", "io"),
    *("label_models", "lfs", "multilabel", "nn", "plots", "project", "spans", "testing"),
    "training",
)
"""The packages that the pages import from; each has a page of the reference."""


ASKED = {
    "export label studio": "how-to/import-export.html",
    "keyboard shortcuts": "how-to/workbench.html",
    "stop training": "how-to/networks.html",
    "gpu": "how-to/networks.html",
    "class balance": "how-to/imbalance.html",
}
"""What readers search for, and the page that should come first."""


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Python: those of MkDocs are errors
def test_the_built_site_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # One test, because several would build it several times when tests are shared among workers.
    site = tmp_path / "site"
    build(site, monkeypatch)
    pages = read_site(site)
    assert len(pages) > 30
    assert broken_links(site, pages) == []
    assert from_the_network(pages) == []
    assert undocumented_names(pages) == []
    assert not [name for name in pages if "arithmatex" in (site / name).read_text()]
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = {")
    assert "Dawid" in index
    found = {question: first_found(site, question) for question in ASKED}
    assert found == ASKED


def first_found(site: Path, question: str) -> str:
    """Return the page that the search of the site lists first."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = os.environ.get("WIESEL_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{(site / 'index.html').as_uri()}?q={quote(question)}")
        first = page.locator("a.md-search-result__link").first
        first.wait_for(state="attached", timeout=120_000)
        address = first.get_attribute("href") or ""
        browser.close()
    return address.partition("?")[0].partition("#")[0].removeprefix(site.as_uri()).strip("/")


def build(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do as `mkdocs build --strict` does, here: a new process would first import torch again."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])  # the hooks of the site extend it
    config = load_config("mkdocs.yml", strict=True, site_dir=str(site))
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build_site(config)
    finally:
        config.plugins.on_shutdown()


def undocumented_names(pages: dict[str, SitePage]) -> list[str]:
    """The public names, and what the pages import, that no page of the reference describes."""
    described = {anchor for page in pages.values() for anchor in page.anchors}
    names = {f"wiesel.{name}" for name in wiesel.__all__ if name != "__version__"}
    for package in PACKAGES:
        own = import_module(f"wiesel.{package}").__all__
        # A name of the top level is described there.
        names |= {f"wiesel.{package}.{name}" for name in own if name not in wiesel.__all__}
    names |= {name for name in imported_names() if name.rpartition(".")[2] not in wiesel.__all__}
    assert len(names) > 250
    return sorted(names - described)


def imported_names() -> set[str]:
    """What the Python of all pages imports from Wiesel, apart from whole modules."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    code = [block.code for page in pages for block in blocks_of(page) if block.language == "python"]
    found = {
        f"{node.module}.{alias.name}"
        for text in code
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("wiesel")
        for alias in node.names
    }
    assert len(found) > 50
    return found - {"wiesel.plots"}


def test_a_link_to_nowhere_and_a_script_from_elsewhere_are_found(tmp_path: Path):
    text = (
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
        '<a href="https://example.org">4</a><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "a.html").write_text(text)
    (tmp_path / "b.html").write_text('<h2 id="there">There</h2>')
    pages = read_site(tmp_path)
    assert broken_links(tmp_path, pages) == ["a.html: b.html#gone", "a.html: c.html"]
    assert from_the_network(pages) == ["a.html: https://example.org/x.js"]
