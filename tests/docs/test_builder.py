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
    page = type(
        "Page", (), {"file": type("File", (), {"src_uri": "how-to/methods.md"}), "meta": {}}
    )
    text = "[a](../../experiments/results/default.md#x) [b](ensembles.md) [c](https://e.org/d.md)"
    assert hooks.on_page_markdown(text, page) == (
        "[a](../experiments/results/default.md#x) [b](ensembles.md) [c](https://e.org/d.md)"
    )


def test_the_first_use_of_a_word_links_to_the_glossary():
    link = import_module("builder.glossary").with_glossary_links
    page = ROOT / "docs" / "understand" / "glossary.md"
    text = "# A voter\n`voter` and [a voter](x.md): voters vote, every voter\n| voter |\n"
    assert link(text, "how-to/a.md", page) == (
        "# A voter\n`voter` and [a voter](x.md): "
        "[voters](../understand/glossary.md#voter) vote, every voter\n| voter |\n"
    )
    assert "[soft labels](" in link("Soft labels: soft labels", "index.md", page).lower()
    assert link(text, "understand/glossary.md", page) == text
    assert link(text, "reference/api/votes.md", page) == text


def test_records_of_the_past_are_not_searched():
    options = import_module("builder.hooks")._search_options
    assert options("experiments/results/tasks.md") == options("CHANGELOG.md") == {"exclude": True}
    assert options("how-to/llm.md")["boost"] > options("reference/options.md")["boost"]


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
