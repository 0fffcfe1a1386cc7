"""The data page in a real browser: filters that last, rows one after the other, labels of many."""

from pathlib import Path
from typing import Any

import pytest

from wiesel.io import LabelStore

pytestmark = pytest.mark.slow


def count(page: Any, text: str) -> None:
    page.wait_for_function(
        f"document.querySelector('.data-count')?.innerText.startsWith('{text} of')"
    )


def test_filters_last_and_rows_are_labeled_one_by_one_and_together(
    serve_once: Any, open_page: Any, empty_project: Path
):
    server = serve_once(empty_project)
    store = LabelStore(empty_project / "workbench" / "labels.sqlite")
    page = open_page(server.address)
    page.wait_for_selector(".data-rows.w-ready")
    page.fill("input[aria-label='Search']", "sign in page")
    page.wait_for_function("/search=sign/.test(location.search)")
    page.wait_for_function("!/^600 /.test(document.querySelector('.data-count').innerText)")
    found = page.inner_text(".data-count").split()[0]
    page.reload()
    count(page, found)
    assert page.input_value("input[aria-label='Search']") == "sign in page"
    page.click("header >> text=Train")
    page.wait_for_selector(".train-start")
    page.go_back()
    count(page, found)
    page.wait_for_selector(".data-rows.w-ready")
    # Without a name, nothing is labeled.
    page.click(".label-all")
    page.wait_for_selector(".q-notification >> text=under which name")
    page.evaluate("localStorage.setItem('wiesel-person', 'ada')")
    page.click("tr.w-open >> nth=0")
    page.wait_for_selector(".row-labels")
    first = page.inner_text(".q-dialog h2")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"document.querySelector('.q-dialog h2').innerText != '{first}'")
    second = page.inner_text(".q-dialog h2").removeprefix("Row ")
    page.keyboard.press("2")
    page.wait_for_selector(".q-dialog >> text=gold: technical")
    # A rule from words of this row most likely votes for its class.
    page.wait_for_selector(".q-dialog .lf-label [aria-pressed=true] >> text=technical")
    assert store.labels().to_dicts() == [
        {"item": second, "label": "technical", "purpose": "learn", "people": 1, "agreed": True}
    ]
    page.keyboard.press("Escape")
    page.wait_for_selector(".q-dialog", state="detached")
    page.click(".label-all")
    page.click(".q-dialog .label-all-class")
    page.click(".q-menu >> text=billing")
    page.click("text=Label them")
    page.wait_for_selector(".label-all-done")
    assert store.labels()["label"].to_list() == ["billing"] * int(found)
    page.click(".q-dialog >> text=Undo")
    page.wait_for_selector(".q-dialog", state="detached")
    page.wait_for_function("document.querySelectorAll('.data-rows .w-chip').length == 1")
    assert store.labels()["label"].to_list() == ["technical"]
