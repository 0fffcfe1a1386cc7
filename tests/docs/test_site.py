"""The site is built without a warning, its links lead somewhere, and it needs no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_blocks import ROOT
from site_checks import SitePage, broken_links, from_the_network, read_site

import wiesel
import wiesel.spans


@pytest.mark.slow
def test_the_built_site_is_whole(tmp_path: Path):
    # One test, because several would build it several times when tests are shared among workers.
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = read_site(site)
    assert len(pages) > 30
    assert broken_links(site, pages) == []
    assert from_the_network(pages) == []
    assert undocumented_names(pages) == []
    assert not [name for name in pages if "arithmatex" in (site / name).read_text()]
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = {")
    assert "Dawid" in index


def undocumented_names(pages: dict[str, SitePage]) -> list[str]:
    """The public names that no page of the reference describes."""
    described = {anchor for page in pages.values() for anchor in page.anchors}
    names = [f"wiesel.{name}" for name in wiesel.__all__ if name != "__version__"]
    names += [f"wiesel.spans.{name}" for name in wiesel.spans.__all__]
    assert len(names) > 80
    return [name for name in names if name not in described]


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
