"""Rows go to annotation tools from the page, and come back from their files."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from wiesel.io import LabelStore, read_annotations

pytestmark = pytest.mark.slow


def choose(page: Any, box: str, text: str) -> None:
    page.click(box)
    page.click(f".q-menu >> text={text}")
    page.wait_for_selector(".q-menu", state="detached")


def test_rows_with_labels_are_written_for_each_tool(
    serve_once: Any, open_page: Any, empty_project: Path
):
    texts = pl.read_csv(empty_project / "train.csv")
    mine = texts.filter(pl.col("text").str.contains("sign in page"))["id"].to_list()[:12]
    store = LabelStore(empty_project / "workbench" / "labels.sqlite")
    for number, item in enumerate(mine):
        store.add(item, "billing" if number % 3 == 0 else "technical", "ada")
    server = serve_once(empty_project)
    page = open_page(f"{server.address}/?search=sign+in+page")
    page.wait_for_selector(".data-rows.w-ready")
    page.click(".send-rows")
    # Nobody votes yet, which is said, and no file is written.
    choose(page, ".send-what", "what the votes say")
    page.click(".send-go")
    page.wait_for_selector(".q-notification >> text=what the votes say")
    assert not (empty_project / "out" / "sent").exists()
    choose(page, ".send-what", "the labels that people gave")
    for title, tool in (
        ("Label Studio", "label_studio"),
        ("doccano", "doccano"),
        ("Prodigy", "prodigy"),
        ("Argilla", "argilla"),
    ):
        if tool != "label_studio":
            choose(page, ".send-tool", title)
        with page.expect_download() as download:
            page.click(".send-go")
        assert download.value.suggested_filename.startswith(f"{tool}-train-labels")
        page.wait_for_selector(f".send-done >> text={tool}-train-labels")
        assert "12 rows are in" in page.inner_text(".send-done")
        written = next((empty_project / "out" / "sent").glob(f"{tool}-*"))
        assert Path(download.value.path()).read_bytes() == written.read_bytes()
        found = read_annotations(written, labels=["billing", "technical"])
        assert found.tool == tool
        named = [found.votes.labels.names[k] for k in found.votes.class_index]
        assert sorted(named) == ["billing"] * 4 + ["technical"] * 8
        assert set(found.rows["text"]) <= set(texts["text"])
