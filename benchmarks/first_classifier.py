"""From a file to a classifier as a person clicks: minutes, and how good it is.

`wiesel workbench reviews.csv` with 5,000 movie reviews; headless Chromium follows the first steps
of the page, from the four questions to the results. Before every click the script waits as a person
would who reads and decides: `READING` seconds for a row to label, `DECIDING` for anything else, and
every key takes `KEY`. Answers come from the labels of the data set, which the workbench never sees;
it also says how many reviews the classifier gets right.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    arguments,
    markdown_table,
    merge_results,
    read_results,
    run_module,
    setting,
)
from benchmarks.workbench import PATIENCE, served

MODULE = "benchmarks.first_classifier"
ROWS, QUICK_ROWS = 5_000, 1_000
READING, DECIDING, KEY = 5.0, 2.0, 0.15
"""Seconds; a review is skimmed, not read."""
SAYING = {"negative": ("boring", "waste"), "positive": ("wonderful", "excellent")}
"""Words that a person would mark in the first rows."""


class Person:
    """Who clicks and types in the page."""

    def __init__(self, page: Any, truth: dict[str, str]) -> None:
        self.page, self.truth = page, truth
        self.seconds = 0.0
        """What the person took; the rest of the time is the machine's."""

    def think(self, seconds: float = DECIDING) -> None:
        """Read and decide."""
        time.sleep(seconds)
        self.seconds += seconds

    def click(self, selector: str) -> None:
        """Click as soon as it is there, after some thought."""
        self.page.wait_for_selector(selector)
        self.think()
        self.page.click(selector)

    def type(self, selector: str, text: str) -> None:
        """Type a text into a field."""
        self.click(selector)
        self.page.keyboard.type(text, delay=1000 * KEY)
        self.seconds += KEY * len(text)

    def label_of(self, text: str) -> str:
        """Return what a person would say of a text; long texts are cut on the page."""
        return self.truth[_beginning(text)]


def _beginning(text: str) -> str:
    return "".join(text.split())[:400]


def first_classifier(n_rows: int) -> dict[str, Any]:
    """Make a project of a file, follow its first steps, and return the seconds of each."""
    with tempfile.TemporaryDirectory() as place:
        file, gold, truth = reviews_file(Path(place), n_rows)
        seconds = {}
        with served(file) as (server, page):
            person = Person(page, truth)
            start = time.monotonic()
            page.goto(server.address)
            for name, step in STEPS.items():
                began = time.monotonic()
                step(person, page, server.address)
                seconds[name] = time.monotonic() - began
            total = time.monotonic() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = {"total_seconds": total, "person_seconds": person.seconds} | {
            "cpu_seconds": used.ru_utime + used.ru_stime
        }
        return {"seconds": seconds, **spent, **_how_good(file, gold)}


def reviews_file(place: Path, n_rows: int) -> tuple[Path, list[str], dict[str, str]]:
    """Write texts into a file of their own folder; return it, their labels, and labels by text."""
    import polars as pl

    from wiesel.datasets import load_movie_reviews

    reviews = load_movie_reviews()
    texts = reviews.train.texts[:n_rows]
    gold = [reviews.labels.names[k] for k in reviews.train.gold[:n_rows]]
    file = place / "data" / "reviews.csv"
    file.parent.mkdir()
    pl.DataFrame({"text": texts}).write_csv(file)
    return file, gold, dict(zip(map(_beginning, texts), gold, strict=True))


def questions(person: Person, page: Any, address: str) -> None:
    """Answer the four questions."""
    person.type(".entrance-classes input", "negative, positive")
    person.click(".entrance-make")
    page.wait_for_selector(".first-steps")


def look_and_mark(person: Person, page: Any, address: str) -> None:
    """Look at rows that hold a telling word, mark it, and add the labeling function."""
    for label, words in SAYING.items():
        for word in words:
            page.wait_for_selector(".data-rows.w-ready")
            page.fill("input[aria-label='Search']", "")
            person.type("input[aria-label='Search']", word)
            everything = f"{len(person.truth):,} of"
            page.wait_for_function(
                f"!document.querySelector('.data-count').innerText.startsWith('{everything}')"
            )
            page.wait_for_selector(".data-rows.w-ready")
            person.click("tr.w-open >> nth=0")
            if not page.locator(".q-dialog .row-text").is_visible():
                page.wait_for_timeout(3_000)
            if not page.locator(".q-dialog .row-text").is_visible():  # the table was drawn anew
                page.click("tr.w-open >> nth=0")
            page.wait_for_selector(".q-dialog .row-text")
            person.think(READING)
            page.evaluate(MARK_WORD, word)
            person.click(f".q-dialog .lf-label >> text={label}")
            page.wait_for_selector(f".q-dialog .lf-proposals.w-ready[data-label={label}]")
            person.click(".q-dialog .lf-proposal >> nth=0 >> text=Add")
            page.wait_for_selector(".q-notification >> text=is in rules.toml")
            page.keyboard.press("Escape")
            page.wait_for_selector(".q-dialog", state="detached")


MARK_WORD = """(word) => {
  const box = document.querySelector('.q-dialog .row-text');
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  let node = null;
  while ((node = walker.nextNode())) {
    const start = node.data.toLowerCase().indexOf(word);
    if (start < 0) continue;
    const range = document.createRange();
    range.setStart(node, start); range.setEnd(node, start + word.length);
    getSelection().removeAllRanges(); getSelection().addRange(range);
    box.dispatchEvent(new MouseEvent('mouseup', {bubbles: true}));
    return;
  }
  throw new Error(`there is no ${word} in this row`);
}"""


def judge(person: Person, page: Any, address: str) -> None:
    """Accept or reject five proposals; a person knows what their words mean."""
    person.click("header >> text=LFs")
    for number in range(5):
        page.wait_for_function(
            f"document.querySelector('.queue-count')?.innerText.startsWith('{number} judged')"
        )
        person.think(READING)
        rule = page.inner_text(".queue-rule").lower()
        label = page.inner_text(".lf-queue .w-chip").split()[-1]
        word = rule.split(",")[0].strip().strip("“”\"'")
        own = [said for text, said in person.truth.items() if "".join(word.split()) in text.lower()]
        right = sum(said == label for said in own) > 0.6 * len(own)
        page.keyboard.press("a" if right else "r")


def label_rows(person: Person, page: Any, address: str) -> None:
    """Label twenty rows that are drawn at random."""
    person.click(".first-steps-list >> text=Label 20 rows")
    page.wait_for_selector("text=Who are you?")
    person.type(".label-person input", "ada")
    page.keyboard.press("Enter")
    for number in range(20):
        page.wait_for_function(
            f"document.querySelector('.label-count')?.innerText.startsWith('{number} ')"
        )
        person.think(READING)
        label = person.label_of(page.inner_text(".label-row .w-text"))
        page.keyboard.press("1" if label == "negative" else "2")


def train(person: Person, page: Any, address: str) -> None:
    """Train with the default method, and wait."""
    person.click("header >> text=Train")
    person.click(".train-start:not([disabled])")
    page.wait_for_function(
        "/finished|failed/.test(document.querySelector('.train-state')?.innerText)",
        timeout=3 * PATIENCE,
    )
    if "finished" not in page.inner_text(".train-state"):
        raise RuntimeError(page.inner_text(".train-state"))


def see_results(person: Person, page: Any, address: str) -> None:
    """Look at what to do now."""
    person.click("header >> text=Results")
    page.wait_for_selector(".next-step, .results .w-card")
    page.wait_for_selector(".first-steps-hint >> text=You have a classifier")


STEPS = {
    "four questions": questions,
    "four rules from marked words": look_and_mark,
    "five proposals judged": judge,
    "twenty rows labeled": label_rows,
    "training": train,
    "results": see_results,
}


def _how_good(file: Path, gold: list[str]) -> dict[str, float]:
    """Return the share of all rows that the run gets right; it saw twenty of the labels."""
    import polars as pl

    found = next(file.with_suffix("").glob("out/runs/*/predictions.parquet"))
    frame = pl.read_parquet(found).filter(pl.col("split") == "train")
    return {"accuracy": float((frame["prediction"] == pl.Series(gold)).mean() or 0.0)}


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """Measure in this process."""
    return first_classifier(job["n_rows"])


def main(argv: Sequence[str] = ()) -> None:
    """Run the measurement; store the result unless `--quick`."""
    options = arguments(argv)
    rows = read_results("first_classifier")
    if not options.show:
        n_rows = QUICK_ROWS if options.quick else ROWS
        found = run_module(MODULE, "wiesel", {"n_rows": n_rows}, False)
        about = {"case": "first classifier", "n_rows": n_rows, "load": os.getloadavg()[0]}
        rows = [{**about, **found, **setting(), "threads": "as a user has them"}]
        if not options.quick:
            merge_results("first_classifier", rows)
    print(results_table(rows))


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table: the seconds of each step, and the accuracy in the end."""
    lines = []
    for row in rows:
        lines += [(name, f"{seconds:.0f} s") for name, seconds in row["seconds"].items()]
        whole = f"{row['total_seconds'] / 60:.1f} min at a load of {row['load']:.0f}"
        lines.append(("all, from the address to the results", whole))
        lines.append(("of these: reading, deciding and typing", f"{row['person_seconds']:.0f} s"))
        used = f"{row['cpu_seconds']:.0f} s"
        lines.append(("processor time of server, training and browser", used))
        lines.append((f"{row['n_rows']:,} reviews that it gets right", f"{row['accuracy']:.1%}"))
    return markdown_table(("step", "found"), lines)


if __name__ == "__main__":
    print(json.dumps(measured(json.loads(sys.stdin.read()))))
