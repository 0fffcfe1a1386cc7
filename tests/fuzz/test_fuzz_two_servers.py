"""Two workbenches of one project, used at the same time: nothing is lost, mixed or unreachable."""

import json
import random
import re
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attacks import Tally, tries

from live_server import FLAGS, Server, chromium
from wiesel.io import LabelStore
from wiesel.project import write_starter
from wiesel.project.runs import read_run, run_folder
from wiesel.project.settings import read_project
from wiesel.project.starter import starter_messages

pytestmark = pytest.mark.slow

PATIENCE = 120.0
"""Seconds to wait for something on a page: a busy machine is slow, a hung page is hung."""
TRUTH = {row["text"]: row["label"] for row in starter_messages()["train"]}
"""What a person would say of the messages."""
EMPTY = -2
"""How many proposals are judged where there is none left."""
SETTINGS = """\
classes = ["billing", "technical"]

[data]
train = "train.csv"
test = "test.csv"

[votes]
lfs = ["rules.toml"]

[features]
n_dimensions = 20

[end_model]
name = "linear"

[method]
name = "majority_vote"
baselines = []
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_starter(tmp_path / "starter")
    folder = tmp_path / "mails"
    folder.mkdir()
    for name in ("train.csv", "test.csv"):
        shutil.copyfile(tmp_path / "starter" / name, folder / name)
    (folder / "wiesel.toml").write_text(SETTINGS)
    return folder


@pytest.fixture
def pages(project: Path) -> Iterator[list[tuple[str, Any]]]:
    """The address of each of two servers, and a page to open there."""
    pytest.importorskip("nicegui", reason="the extra 'workbench' is not installed")
    driver = pytest.importorskip("playwright.sync_api", reason="it is not installed")
    path, servers = chromium(), [Server(project), Server(project)]
    try:
        with driver.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            found = []
            for server in servers:
                page = browser.new_page()
                page.set_default_timeout(PATIENCE * 1000)
                found.append((server.address, page))
            yield found
            browser.close()
    finally:
        for server in servers:
            server.stop()


def test_two_servers(project: Path, pages: list[tuple[str, Any]]) -> None:
    tally, use = Tally("two servers"), [add_rules, label_rows, train]
    label_rows(project, pages, random.Random(0), 12)
    for number, rng in enumerate(tries("two servers", least=3)):
        what = use[number % len(use)]
        tally.counts[what.__name__.replace("_", " ")] += what(project, pages, rng)
    tally.report()


def wait(done: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def add_rules(project: Path, pages: list[tuple[str, Any]], rng: random.Random) -> int:
    """Accept and reject proposals on both; every accepted rule is in the file."""
    for address, page in pages:
        page.goto(f"{address}/lfs")
    before, n_judged, accepted = len(rules(project)), 0, 0
    for number in range(rng.randrange(1, 4)):
        for _, page in pages:
            wait(lambda own=page, n=number: queue_count(own) in (n, EMPTY), "no queue")
        judging = [page for _, page in pages if queue_count(page) == number]
        keys = [rng.choice("aar") for _ in judging]
        for page, key in zip(judging, keys, strict=True):
            page.keyboard.press(key)
        n_judged, accepted = n_judged + len(keys), accepted + keys.count("a")
        for page in judging:
            wait(lambda own=page, n=number: queue_count(own) in (n + 1, EMPTY), "not judged")
        if len(judging) < len(pages):
            break
    wait(lambda: len(rules(project)) >= before + accepted, "a rule is missing")
    assert len(rules(project)) == before + accepted
    return n_judged


def rules(project: Path) -> list[dict[str, Any]]:
    file = project / "rules.toml"
    return list(tomllib.loads(file.read_text()).get("lf", [])) if file.exists() else []


def queue_count(page: Any) -> int:
    if page.locator("text=No proposals yet").count():
        return EMPTY
    text = page.evaluate("document.querySelector('.queue-count')?.innerText || ''")
    found = re.match(r"(\d+) judged", text)
    return int(found[1]) if found else -1


def label_rows(project: Path, pages: list[tuple[str, Any]], rng: random.Random, n: int = 0) -> int:
    """Label as two people; every answer is in the store, with its person."""
    store = LabelStore(project / "workbench" / "labels.sqlite")
    people = [f"{name}{rng.randrange(10**9)}" for name in ("ada", "bob")]
    for (address, page), person in zip(pages, people, strict=True):
        page.goto(f"{address}/label")
        page.evaluate("localStorage.clear()")  # the name of the person before
        page.reload()
        page.wait_for_selector("text=Who are you?")
        page.fill(".label-person input", person)
        page.press(".label-person input", "Tab")
        page.wait_for_selector(".label-row .w-text")
        page.evaluate("document.activeElement.blur()")
    n = n or rng.randrange(2, 8)
    for number in range(n):
        for _, page in pages:
            wait(lambda own=page, k=number: label_count(own) == k, "the row is not ready")
        for _, page in pages:
            text = page.inner_text(".label-row .w-text")
            page.keyboard.press("1" if TRUTH[text] == "billing" else "2")
    for _, page in pages:
        wait(lambda own=page: label_count(own) == n, "it was not labeled")
    answers = store.answers()
    assert [answers.filter(answers["person"] == who).height for who in people] == [n, n]
    return 2 * n


def label_count(page: Any) -> int:
    text = page.evaluate("document.querySelector('.label-count')?.innerText || ''")
    found = re.match(r"(\d+) ", text)
    return int(found[1]) if found else -1


def train(project: Path, pages: list[tuple[str, Any]], rng: random.Random) -> int:
    """Train on both at once, and stop some: each run has its own request, results and end."""
    settings, before = read_project(project), names_of_runs(project)
    seeds, stopped = [rng.randrange(10**6) for _ in pages], [rng.random() < 0.3 for _ in pages]
    epochs = [rng.randrange(1, 6) if not stop else 5000 for stop in stopped]
    for (address, page), seed, n in zip(pages, seeds, epochs, strict=True):
        page.goto(f"{address}/train")
        page.wait_for_selector(".train-start:not([disabled])")
        page.fill("input[aria-label='Seed']", str(seed))
        page.fill("input[aria-label='Epochs']", str(n))
        page.press("input[aria-label='Epochs']", "Tab")
    for _, page in pages:
        page.click(".train-start")
    for (_, page), stop in zip(pages, stopped, strict=True):
        wait(lambda own=page: state(own)[0] not in {"", *before}, "no new run is shown")
        if stop:
            time.sleep(rng.uniform(0, 6))
            page.click(".train-stop:not([disabled])")
    for (_, page), seed, n, stop in zip(pages, seeds, epochs, stopped, strict=True):
        wait(lambda own=page: re.match("finished|failed|stopped", state(own)[1]), "it has no end")
        name, end = state(page)
        assert end.startswith("stopped" if stop else "finished"), (name, end)
        request = json.loads((run_folder(settings) / name / "request.json").read_bytes())
        assert (request["seeds"], request["training"]["epochs"]) == ([seed], n)
        if "before" not in end:
            kept = read_run(settings, name)
            assert kept.metrics["seeds"] == kept.about["request"]["seeds"] == [seed]
            rows = kept.predictions().filter(kept.predictions()["split"] == "train")
            assert len(rows) == 600
    assert len(names_of_runs(project)) == len(before) + len(pages)
    return len(pages)


def names_of_runs(project: Path) -> set[str]:
    folder = run_folder(read_project(project))
    return {each.name for each in folder.iterdir()} if folder.is_dir() else set()


def state(page: Any) -> tuple[str, str]:
    """The run that a page shows, and what it says of it."""
    text = page.evaluate("document.querySelector('.train-state')?.innerText || ''")
    found = re.match(r"Run (\S+): (.*)", text)
    return (found[1], found[2]) if found else ("", "")
