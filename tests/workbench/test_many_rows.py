"""Very many rows in a real browser: labeling waits for no votes; pages say what they know."""

import sqlite3

import polars as pl
import pytest
from patience import PATIENCE

N = 100_001
"""From so many on, some rows stand for all."""
LFS = """\
import time
from pathlib import Path

from wiesel import labeling_function

GO = Path(__file__).with_name("go")
went = False


@labeling_function
def time_of_day(row):
    global went
    while not went:
        time.sleep(0.02)
        went = GO.exists()
    return "early" if "morning" in row["text"] else "late"
"""
PROJECT = """\
classes = ["early", "late"]
[data]
train = "train.parquet"
[votes]
lfs = ["lfs.py"]
[features]
n_dimensions = 4
"""


def write(folder):
    folder.mkdir()
    texts = [f"{('good morning', 'nice evening')[k % 2]} number {k}" for k in range(N)]
    rows = pl.DataFrame({"id": [f"r{k}" for k in range(N)], "text": texts})
    rows.write_parquet(folder / "train.parquet")
    (folder / "wiesel.toml").write_text(PROJECT)
    (folder / "lfs.py").write_text(LFS)
    return folder


@pytest.mark.xfail(run=False, reason="a page did not finish loading in one of two full runs")
def test_rows_are_there_and_are_labeled_while_votes_are_still_cast(serve, open_page, tmp_path):
    project = write(tmp_path / "many")
    server = serve(project)
    pages = [open_page(server.address) for _ in range(4)]
    for page in pages:  # each of them has threads that wait for the votes
        page.wait_for_selector("tr.w-open >> nth=24")
    page = open_page(server.address)
    page.evaluate("localStorage.setItem('wiesel-person', 'ada')")
    page.goto(f"{server.address}/label")
    page.wait_for_selector(".label-row .w-text")
    page.keyboard.press("1")
    page.keyboard.press("2")
    page.wait_for_selector(".label-count >> text=2 labeled")
    with sqlite3.connect(project / "workbench" / "labels.sqlite") as connection:
        found = connection.execute("SELECT label, purpose FROM labels ORDER BY number").fetchall()
    connection.close()
    # Drawn at random, so they are good to evaluate on.
    assert found == [("early", "evaluate"), ("late", "evaluate")]

    # Whoever leaves a page that still loads leaves no trace in the log.
    for address in ("/", "/map", "/lfs", "/label", "/train", "/results"):
        left = open_page("about:blank")
        left.goto(server.address + address, wait_until="commit")
        left.close()
    pages.pop().close()
    first = pages[0]
    assert "being computed" in first.inner_text("main")
    (project / "go").touch()
    first.wait_for_selector("tr.w-open .w-chip", timeout=PATIENCE)
    first.wait_for_selector("text=predicted by the preview")
    chips = first.locator("tr.w-open >> nth=0").locator(".w-chip").all_inner_texts()
    assert chips[0] == "1 early"
    assert chips[1].endswith("% early")  # of any row that is shown, also if it was not drawn
    # Filters by what the model says know the rows that it was asked about.
    first.goto(f"{server.address}/?predicted=late")
    first.wait_for_selector(".data-rows.w-ready")
    first.wait_for_selector("text=of 20,000 rows drawn at random")
    first.close()
    server.stop()
    assert "Traceback" not in server.log.read_text()
