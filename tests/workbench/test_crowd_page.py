"""The page of a project whose votes are answers of people, in a real browser."""

from pathlib import Path

import polars as pl
import pytest

from wiesel.datasets.synthetic import make_votes

PROJECT = """\
classes = ["0", "1"]

[data]
train = "train.csv"

[votes]
answers = "answers.csv"
item = "item"
voter = "voter"

[features]
kind = "tabular"
numeric = ["size"]
"""


@pytest.fixture
def crowd_project(tmp_path: Path) -> Path:
    accuracies = [0.85] * 7 + [0.5]
    votes, _ = make_votes(120, 8, accuracies=accuracies, coverage=0.5)
    answers = votes.to_long().with_columns(label=pl.col("label").cast(pl.String))
    names = {name: str(place) for place, name in enumerate(votes.labels.names)}
    answers = answers.with_columns(label=pl.col("label").replace(names))
    answers.write_csv(tmp_path / "answers.csv")
    train = pl.DataFrame({"id": [str(item) for item in votes.ids.tolist()]})
    train.with_columns(size=pl.int_range(len(train))).write_csv(tmp_path / "train.csv")
    (tmp_path / "wiesel.toml").write_text(PROJECT)
    return tmp_path


def test_the_page_says_what_to_ask_next_and_who_is_good(serve, open_page, crowd_project):
    page = open_page(serve(crowd_project).address + "/lfs")
    page.wait_for_selector(".crowd-asked table")
    assert page.locator("a[aria-current]").inner_text() == "Crowd"
    asked = page.locator(".crowd-asked")
    assert "labels are wrong with a chance above 10 %" in asked.inner_text()
    assert "Ask for" in asked.inner_text()
    rows = page.locator(".crowd-asked tbody tr")
    assert 0 < rows.count() <= 20
    assert "voter_" in rows.first.inner_text()
    workers = page.locator(".crowd-workers")
    assert workers.locator("tbody tr").count() == 8
    assert "Krippendorff" in page.locator(".w-main").inner_text()
    page.get_by_label("Budget (optional)").fill("0")
    page.wait_for_function(
        "() => !document.querySelector('.crowd-asked').innerText.includes('Ask for')"
    )
    page.get_by_label("Budget (optional)").fill("")
    page.wait_for_selector(".crowd-asked >> text=Ask for")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download the list").click()
    content = pl.read_csv(waiting.value.path())
    assert {"item", "label", "wrong", "further", "ask"} <= set(content.columns)
    assert len(content) >= rows.count()
