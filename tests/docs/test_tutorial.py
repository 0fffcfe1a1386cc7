"""The tutorial is one story in three forms: a page, a script and a notebook with the same code."""

import ast
import json

import nbformat
from markdown_blocks import ROOT, blocks_of

TUTORIAL = ROOT / "docs" / "tutorial"
PAGE, SCRIPT, NOTEBOOK = (TUTORIAL / f"tutorial.{ending}" for ending in ("md", "py", "ipynb"))


def code_of_page() -> list[str]:
    blocks = [block.code for block in blocks_of(PAGE) if block.language == "python"]
    assert len(blocks) > 8
    return [code.strip() for code in blocks]


def test_the_script_is_the_code_of_the_page():
    script = ast.unparse(ast.parse(SCRIPT.read_text(encoding="utf-8")))
    assert script == ast.unparse(ast.parse("\n".join(code_of_page())))


def test_the_notebook_has_the_code_of_the_page_in_its_cells():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    nbformat.validate(notebook)  # what Jupyter checks when it opens one
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert ["".join(cell["source"]).strip() for cell in cells] == code_of_page()
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
