"""The LFs page in a real browser: conflicts lead to their rows, from the list and the matrix."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytestmark = pytest.mark.slow

RULE = """[[lf]]
kind = "regex"
label = "{label}"
pattern = "{word}"
column = "text"
name = "{word}"
"""


def test_conflicts_lead_to_their_rows(serve_once: Any, open_page: Any, empty_project: Path):
    rules = (("for", "billing"), ("app", "technical"), ("the", "technical"))
    text = "".join(RULE.format(label=label, word=word) for word, label in rules)
    (empty_project / "rules.toml").write_text(text)
    texts = pl.read_csv(empty_project / "train.csv")["text"]
    has_for, has_app, has_the = (texts.str.contains(word) for word, _ in rules)
    with_the, with_app = (has_for & has_the).sum(), (has_for & has_app).sum()
    assert 0 < with_app < with_the
    server = serve_once(empty_project)
    page = open_page(f"{server.address}/lfs")
    page.wait_for_selector(".conflict-pair >> nth=1")
    assert page.locator(".conflict-pair").count() == 2  # app and the vote for the same class
    first = page.locator(".conflict-pair >> nth=0").inner_text()
    assert "for" in first
    assert f"{with_the:,}" in first.split()
    page.focus(".conflict-pair >> nth=1 >> button")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"text={with_app:,} of 600 train rows")
    page.wait_for_selector("text=disagree")
    page.go_back()
    page.wait_for_selector(".conflict-matrix canvas")
    chart = page.locator(".conflict-matrix canvas >> nth=0")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    # The first cell of the first row is that of `for` with itself, so the second is clicked.
    cell = (box["width"] - 140) / 3
    page.wait_for_timeout(500)  # the chart answers clicks once it was drawn
    row = (box["height"] - 130) / 3
    page.mouse.click(box["x"] + 130 + 1.5 * cell, box["y"] + 10 + row / 2)
    page.wait_for_selector(f"text={with_the:,} of 600 train rows")
