"""The map in a real browser: draw around rows, look at them, label them, make a rule of them."""

from pathlib import Path
from typing import Any

import pytest

from wiesel.io import LabelStore

pytestmark = pytest.mark.slow


def draw(page: Any, corners: list[tuple[float, float]]) -> None:
    """Draw an outline by mouse; corners are shares of the width and height of the map."""
    box = page.locator(".map-chart canvas").bounding_box()
    x = [box["x"] + share * box["width"] for share, _ in corners]
    y = [box["y"] + share * box["height"] for _, share in corners]
    page.mouse.move(x[0], y[0])
    page.mouse.down()
    for place in zip(x[1:], y[1:], strict=True):
        page.mouse.move(*place, steps=3)
    page.mouse.up()


def test_rows_are_selected_on_the_map_to_look_label_and_write_a_rule(
    serve_once: Any, open_page: Any, empty_project: Path
):
    server = serve_once(empty_project)
    page = open_page(f"{server.address}/map", viewport={"width": 1400, "height": 1000})
    page.wait_for_selector(".map-part >> nth=5")
    page.wait_for_selector(".map-note:has-text('600 rows. Draw around points')")
    page.wait_for_selector(".map-chart canvas")
    page.wait_for_function("document.querySelector('.map-chart canvas').height > 100")
    everything = [(0.01, 0.08), (0.99, 0.08), (0.99, 0.99), (0.01, 0.99), (0.01, 0.1)]
    for _ in range(20):  # the lasso is there a moment after the chart
        draw(page, everything)
        page.wait_for_timeout(500)
        if page.locator(".map-count").count():
            break
    page.wait_for_selector(".map-count >> text=600 rows")
    draw(page, [(0.01, 0.08), (0.5, 0.08), (0.5, 0.99), (0.01, 0.99)])
    page.wait_for_function("!/^600/.test(document.querySelector('.map-count')?.innerText ?? '600')")
    # All by keyboard: a neighborhood, and a rule of its first typical word.
    page.focus(".map-part >> nth=0")
    page.keyboard.press("Enter")
    n_rows = page.inner_text(".map-part >> nth=0").rpartition("(")[2].rstrip(")")
    page.wait_for_selector(f".map-count >> text={n_rows} rows")
    page.evaluate("localStorage.setItem('wiesel-person', 'ada')")
    page.click(".map-label")
    page.click(".q-dialog .label-all-class")
    page.click(".q-menu >> text=technical")
    page.click(".q-dialog >> text=Label them")
    page.wait_for_selector(".label-all-done")
    store = LabelStore(empty_project / "workbench" / "labels.sqlite")
    assert len(store.labels()) == int(n_rows)
    page.click(".q-dialog >> text=Good")
    page.wait_for_selector(".q-dialog", state="detached")
    page.click(".map-color >> text=the label")
    page.wait_for_function("location.search === '?color=gold'")
    page.wait_for_selector(f".map-selected .w-chip >> text={n_rows} technical")
    word = page.inner_text(".map-word >> nth=0")
    page.click(".map-word >> nth=0")
    page.wait_for_selector(".lf-proposals.w-ready[data-label=technical] .lf-proposal")
    assert page.input_value(".lf-words input") == word
    page.click(".map-look")
    page.wait_for_selector(f"text={n_rows} of 600 train rows")
    page.wait_for_selector("text=selected on the map")
