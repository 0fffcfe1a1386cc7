"""The tutorial is one story in three forms: a page, a script and a notebook with the same code."""

import ast
import json
from pathlib import Path

import pytest
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
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert ["".join(cell["source"]).strip() for cell in cells] == code_of_page()
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


@pytest.mark.slow
def test_the_notebook_runs_in_jupyter(tmp_path: Path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    # The page runs the same code to its end; here it is Jupyter that is tried, without training.
    sources = [cell.source for cell in notebook.cells]
    training = next(k for k, source in enumerate(sources) if "Committee(" in source)
    notebook.cells = notebook.cells[:training]
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=1200, resources=resources).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in shown)
    assert "coverage" in printed
    assert not [output for output in shown if output["output_type"] == "error"]
