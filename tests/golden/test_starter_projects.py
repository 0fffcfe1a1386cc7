"""The starter project of each kind shows what it showed at commit 055702e, apart from figures."""

import json
from pathlib import Path

import pytest
from starter_projects import EXPECTED, KINDS, headings, masked, seen, structure


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_starter_project_shows_what_it_showed(kind: str, tmp_path: Path):
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))[kind]
    found = seen(kind, tmp_path)
    for part in ("files", "report", "metrics.json", "json"):
        assert found[part] == expected[part], part
    for command, lines in expected["commands"].items():
        assert found["commands"][command] == lines, command


def test_figures_are_masked_and_words_are_not():
    text = "accuracy  0.9 (0.8-1.0)\n ───\n  money  spam  1.57  +1.5 ++++\ntest-1\tham\t0.2"
    assert masked(text, Path("/tmp/x")) == [
        "accuracy # (##)",
        " ─",
        " money spam # # BAR",
        "test#\tPREDICTION\t#",
    ]


def test_the_structure_of_data_is_its_keys_and_types():
    assert structure({"a": [1, 2], "b": "x", "c": None}) == {
        "a": ["number"],
        "b": "str",
        "c": "number",
    }
    assert headings("<h1>A</h1><p>B</p><h2 class='x'>C</h2><h3>D</h3>") == ["A", "C"]
