"""Text from data reaches the browser as text: never as attributes, as markup or as code."""

import ast
from collections.abc import Iterator

import pytest
from source_tree import PACKAGE, sources

READ_AS_CODE = {
    "add_body_html",
    "add_css",
    "add_head_html",
    "add_sass",
    "add_scss",
    "html",
    "markdown",
    "mermaid",
    "props",
    "run_javascript",
    "style",
    "tooltip",
}
"""Methods of NiceGUI that read attributes, style, markup or code from a text."""
SAFE_CALLS = {"dumps", "shade"}
"""A value as JSON, which is JavaScript, too; a color from a list."""
MARKUP_FROM_TEXT = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "v-html")


def is_fixed(node: ast.expr) -> bool:
    """Whether the source decides the text: nothing from data is in it unquoted."""
    if isinstance(node, ast.JoinedStr):
        values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return all(_called(value) in SAFE_CALLS for value in values)
    if isinstance(node, ast.IfExp):
        return is_fixed(node.body) and is_fixed(node.orelse)
    if isinstance(node, ast.Name):
        return node.id.isupper()
    return isinstance(node, ast.Constant)


def _called(node: ast.expr) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def calls_with_other_text(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            texts = [*node.args, *(each.value for each in node.keywords if each.arg != "timeout")]
            if node.func.attr in READ_AS_CODE and not all(map(is_fixed, texts)):
                yield node


def test_no_text_from_data_is_read_as_attributes_markup_or_code():
    pages = [source for source in sources() if source.part == "workbench"]
    assert len(pages) > 10
    found = [
        f"{source.name}, line {call.lineno}: {ast.unparse(call)[:80]}"
        for source in pages
        for call in calls_with_other_text(source.tree)
    ]
    assert found == [], 'Set `element.props["name"] = value`, or show it with `words` or `link`.'


def test_no_script_makes_markup_of_a_text():
    files = [file for file in PACKAGE.rglob("*") if file.suffix in {".py", ".js", ".html", ".css"}]
    assert len(files) > 100
    found = [
        (file.relative_to(PACKAGE).as_posix(), word)
        for file in files
        for word in MARKUP_FROM_TEXT
        if word in file.read_text(encoding="utf-8")
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("""link.props(f'href="/results?run={run.name}"')""", True),
        ("""ui.html("<b>" + name)""", True),
        ("""box.style(f"color: {name}")""", True),
        ("""ui.run_javascript(f"use({name})")""", True),
        ("""ui.run_javascript(f"use({json.dumps(name)})")""", False),
        ("""box.props("dense").style("color: red" if bad else "")""", False),
    ],
)
def test_what_the_test_finds(code: str, is_found: bool):
    assert bool(list(calls_with_other_text(ast.parse(code)))) == is_found
