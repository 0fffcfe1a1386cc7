"""From a file to a project in a real browser, and what the page says of files that do not fit."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from patience import PATIENCE

from wiesel.project.settings import read_project

pytestmark = pytest.mark.slow

REVIEWS = pl.DataFrame(
    {
        "nr": range(60),
        "review": [f"a good film number {k}" if k % 3 else f"boring, {k}" for k in range(60)],
        "stars": [None if k > 20 else ("bad" if k % 3 == 0 else "good") for k in range(60)],
    }
)


def answered(page: Any, classes: str) -> None:
    page.fill(".entrance-classes input", classes)
    page.wait_for_selector(".entrance-shares input >> nth=1")


def test_a_table_becomes_a_project_by_four_answers(serve: Any, open_page: Any, tmp_path: Path):
    file = tmp_path / "reviews.csv"
    REVIEWS.write_csv(file)
    server = serve(file)
    page = open_page(server.address)
    page.wait_for_selector("text=reviews.csv: 60 rows")
    page.wait_for_selector("td >> text=a good film number 1")
    # A file without classes is refused in a line, and the answers stay.
    page.click(".entrance-make")
    page.wait_for_selector(".entrance-problem >> text=class")
    answered(page, "good, bad")
    page.fill(".entrance-shares input >> nth=0", "60")
    page.press(".entrance-shares input >> nth=0", "Tab")
    page.click(".entrance-make")
    page.wait_for_selector(".entrance-problem >> text='bad' lacks a share")
    page.fill(".entrance-shares input >> nth=1", "20")
    page.press(".entrance-shares input >> nth=1", "Tab")
    page.click(".entrance-make")
    page.wait_for_selector("text=60 of 60 train rows")
    made = read_project(tmp_path / "reviews")
    assert made.classes == ("good", "bad")
    assert made.features.column == "review"
    assert made.class_balance == {"good": 0.75, "bad": 0.25}
    server.stop()
    # The same command opens the project that it made.
    server.start()
    page.goto(server.address)
    page.wait_for_selector("text=60 of 60 train rows")
    assert [each.name for each in tmp_path.glob("*/wiesel.toml")] == ["wiesel.toml"]


def test_a_dropped_file_and_one_that_does_not_fit(serve: Any, open_page: Any, tmp_path: Path):
    place, source = tmp_path / "empty", tmp_path / "source"
    place.mkdir()
    source.mkdir()
    page = open_page(serve(place).address)
    odd = {
        "numbers.csv": b"a,b\n1,2\n3,4\n",
        "broken.parquet": b"no parquet at all",
        "binary.csv": b"text,b\n\x00\x81\x8d\xff\x00,\x00\n",
    }
    for name, content in odd.items():
        (source / name).write_bytes(content)
        page.set_input_files(".entrance-drop input[type=file]", source / name)
        page.wait_for_selector(f".w-card:has-text('{name}') .entrance-problem", timeout=PATIENCE)
        assert "Traceback" not in page.inner_text(".entrance-problem")
    (source / "mails.jsonl").write_text(
        '{"text": "hi", "label": "a"}\n' * 3 + '{"text": "x", "label": "b"}\n'
    )
    page.set_input_files(".entrance-drop input[type=file]", source / "mails.jsonl")
    page.wait_for_selector("text=mails.jsonl: 4 rows")
    assert page.input_value(".entrance-classes input") == "a, b"  # from the column `label`
    page.click(".entrance-make")
    page.wait_for_selector("text=4 of 4 train rows")
    assert read_project(place / "mails").data.label == "label"
    # Another tab that still asks does not make a second one.
    assert (place / "mails.jsonl").read_bytes() == (source / "mails.jsonl").read_bytes()
