"""The inline script of tables, in a real browser."""

import polars as pl
import pytest

from wiesel.analysis.table import Table, count, percent, text

pytestmark = pytest.mark.slow


def test_a_press_on_a_header_sorts_and_unknown_values_stay_last(open_page):
    frame = pl.DataFrame(
        {"voter": ["b", "a", "C", "d"], "n": [9, 1000, 30, 4], "p": [0.5, None, 0.25, 0.125]}
    )
    shown = Table(frame, (text("voter"), count("n"), percent("p")))
    page = open_page("about:blank")
    # Set as notebooks do it, which does not run script elements.
    page.set_content("<main></main>")
    page.evaluate("html => { document.querySelector('main').innerHTML = html }", shown.to_html())

    def pressed(column: int) -> str:
        page.locator("thead button").nth(column).click()
        return "".join(page.locator("tbody tr td:first-child").all_inner_texts())

    assert [pressed(1), pressed(1)] == ["dbCa", "aCbd"]
    assert [pressed(2), pressed(2)] == ["dCba", "bCda"]
    assert [pressed(0), pressed(0)] == ["abCd", "dCba"]
    assert page.locator("th[aria-sort]").count() == 1
