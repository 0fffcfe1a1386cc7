"""The examples in docs/builder are true."""

import doctest
import sys
from importlib import import_module

import pytest
from markdown_blocks import ROOT

sys.path.insert(0, str(ROOT / "docs"))


@pytest.mark.parametrize("name", ["api_pages", "cards", "docstrings", "hooks", "result_titles"])
def test_the_examples_of_a_module_are_true(name: str):
    done = doctest.testmod(import_module(f"builder.{name}"))
    assert done.attempted > 0
    assert done.failed == 0


def test_sessions_of_docstrings_are_code_blocks():
    as_markdown = import_module("builder.docstrings").as_markdown
    plain = "Add.\n\n>>> 1 + 1\n2\n\n>>> 2 + 2\n4\n\nMore."
    assert as_markdown(plain) == "Add.\n\n```pycon\n>>> 1 + 1\n2\n>>> 2 + 2\n4\n```\n\nMore."
    sections = "Add.\n\nParameters\n----------\nx\n    A number.\n\n>>> 1 + 1\n2"
    assert as_markdown(sections).endswith("Examples\n--------\n>>> 1 + 1\n2")


def test_links_of_the_repository_lead_to_pages_of_the_site():
    hooks = import_module("builder.hooks")
    page = type("Page", (), {"file": type("File", (), {"src_uri": "how-to/methods.md"})})
    text = "[a](../../experiments/results/default.md#x) [b](ensembles.md) [c](https://e.org/d.md)"
    assert hooks.on_page_markdown(text, page) == (
        "[a](../experiments/results/default.md#x) [b](ensembles.md) [c](https://e.org/d.md)"
    )


def test_formulas_become_mathml():
    shown = import_module("builder.hooks").on_page_content(
        '<p><span class="arithmatex">\\(\\tau_1 &lt; 1\\)</span></p>'
    )
    assert shown.startswith("<p><math")
    assert "arithmatex" not in shown


def test_every_page_of_results_has_a_title():
    titles = import_module("builder.result_titles").RESULT_TITLES
    names = {path.stem for path in (ROOT / "experiments" / "results").glob("*.md")}
    assert len(names) > 20
    assert names == set(titles)
