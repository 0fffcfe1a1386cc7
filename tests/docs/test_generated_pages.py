"""Pages that are made from the program say what the program says."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date():
    pages = generator().PAGES
    assert "cli.md" in pages
    for name, write in pages.items():
        written = (DOCS / name).read_text(encoding="utf-8")
        assert written == write(), f"docs/{name} is out of date: run python docs/generate.py"


def test_every_verb_is_in_the_reference():
    verbs = generator().verbs()
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert len(verbs) >= 13
    assert not [verb for verb in verbs if f"## `wiesel {verb}`" not in page]
