"""Every option, key and error of the program is in the reference, with a sentence."""

import sys
from dataclasses import fields
from pathlib import Path

import typer.main

from wiesel import errors
from wiesel.catalog import METHODS
from wiesel.cli.main import app
from wiesel.project import settings

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path.insert(0, str(DOCS))

from builder.errors_page import errors_page  # noqa: E402  (the path has to be there first)
from builder.options_page import SYMBOLS, options_page  # noqa: E402
from builder.settings_page import settings_page  # noqa: E402


def rows_of(page: str) -> dict[str, list[str]]:
    """The rows of all tables by their first cell, as the other cells."""
    rows = {}
    for line in page.splitlines():
        if line.startswith("| "):
            first, *rest = line.replace("\\|", "/").strip("| ").split(" | ")
            rows.setdefault(first.partition("</span>")[2] or first, rest)
    return rows


def test_every_option_of_every_method_has_a_row_with_a_meaning():
    page = options_page()
    rows = rows_of(page)
    checked = 0
    for method in METHODS.values():
        assert f"### {method.cls.__name__}\n" in page
        for option in (each for each in fields(method.cls) if each.init):
            kind, default, meaning, *_ = rows[f"`{option.name}`"]
            assert all((kind, default)), f"{method.name}: {option.name}"
            assert len(meaning) > 10, f"{method.name}: {option.name}"
            checked += 1
    assert checked > 150


def test_every_option_stands_in_the_section_of_its_own_method():
    page = options_page()
    weasel = page.split("### WeaSEL\n")[1].split("\n### ")[0]
    assert "| `tau_2` |" in weasel
    assert r"$\tau_2$" in weasel
    assert "| `tau_2` |" not in page.split("### TwoStage\n")[1].split("\n### ")[0]


def test_every_symbol_belongs_to_an_option_of_its_class():
    page = options_page()
    assert len(SYMBOLS) > 25
    for name, symbols in SYMBOLS.items():
        section = page.split(f"### {name}\n")[1].split("\n### ")[0]
        missing = [option for option in symbols if f"| `{option}` |" not in section]
        assert not missing, f"{name} has no option {missing}"


def test_every_key_of_the_project_file_has_a_row_with_a_meaning():
    page = settings_page()
    keys = [
        f"{table}.{each.name}"
        for table, cls in settings._SECTIONS.items()
        for each in fields(cls)
        if each.name != "options"
    ]
    keys += list(settings._TOP)
    assert len(keys) > 20
    for key in keys:
        row = next((line for line in page.splitlines() if f"<span id='{key}'>" in line), "")
        assert row, f"{key} is not in the reference"
        meaning = row.rstrip(" |").rpartition(" | ")[2]
        assert len(meaning) > 10, f"{key} has no sentence: write one below its field"
    assert all(f"## `[{name}" in page for name in settings._FREE)


def test_every_error_and_warning_is_in_the_tree():
    page = errors_page()
    members = {name: getattr(errors, name) for name in errors.__all__}
    classes = [
        name
        for name, each in members.items()
        if isinstance(each, type) and issubclass(each, Exception)
    ]
    assert len(classes) > 10
    assert not [name for name in classes if f"`{name}`" not in page]


def test_every_option_of_every_verb_is_in_the_reference():
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    checked = 0
    for name, command in typer.main.get_command(app).commands.items():
        for verb, own in {name: command, **_grouped(name, command)}.items():
            section = page.split(f"## `wiesel {verb}`\n")[1].split("\n## ")[0]
            for parameter in own.params:
                shown = [each for each in parameter.opts if each.startswith("--")]
                shown = shown or [str(parameter.metavar or parameter.name)]
                assert any(each.lower() in section.lower() for each in shown), f"{verb}: {shown}"
                checked += 1
    assert checked > 60


def _grouped(name, command):
    return {f"{name} {own}": verb for own, verb in getattr(command, "commands", {}).items()}
