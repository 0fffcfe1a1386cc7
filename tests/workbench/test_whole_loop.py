"""The whole loop in a real browser; pages stay quick, readable and reachable by keyboard.

One file, because its tests share a server and a browser, which take seconds to start.
"""

import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from patience import PATIENCE

from wiesel.io import LabelStore
from wiesel.project.runs import kept_runs
from wiesel.project.settings import read_project
from wiesel.project.starter import starter_messages

pytestmark = pytest.mark.slow


def rules(project: Path) -> list[dict[str, Any]]:
    file = project / "rules.toml"
    return tomllib.loads(file.read_text()).get("lf", []) if file.exists() else []


def wait_for_rules(project: Path, n_rules: int) -> None:
    """Wait for the file: the message that a rule was added is gone after some seconds."""
    deadline = time.monotonic() + PATIENCE / 1000
    while len(rules(project)) != n_rules:
        assert time.monotonic() < deadline, rules(project)
        time.sleep(0.1)


def labels(project: Path) -> pl.DataFrame:
    return LabelStore(project / "workbench" / "labels.sqlite").labels()


TRUTH = {row["text"]: row["label"] for row in starter_messages()["train"]}
"""What a person would say of the messages."""


def label_rows(page: Any, n: int, person: str) -> None:
    """Label rows by keyboard, as a person who knows the answers would."""
    page.wait_for_selector("text=Who are you?")  # until then the page may still set the name
    page.fill(".label-person input", person)
    page.press(".label-person input", "Tab")
    page.wait_for_selector(".label-row .w-text")
    page.evaluate("document.activeElement.blur()")
    for number in range(n):
        page.wait_for_function(
            f"document.querySelector('.label-count')?.innerText.startsWith('{number} ')",
            timeout=PATIENCE,
        )
        text = page.inner_text(".label-row .w-text")
        # Rows that were made for this file, such as "message 601 about ...", are about nothing.
        page.keyboard.press("1" if TRUTH.get(text) == "billing" else "2")
    page.wait_for_function(
        f"document.querySelector('.label-count')?.innerText.startsWith('{n} ')", timeout=PATIENCE
    )


def judge(page: Any, n_accepted: int, n_refused: int) -> None:
    """Judge proposals by key: A accepts, R refuses."""
    keys = ["a"] * n_accepted + ["r"] * n_refused
    for number, key in enumerate(keys):
        page.wait_for_function(
            f"document.querySelector('.queue-count')?.innerText.startsWith('{number} judged')",
            timeout=PATIENCE,
        )
        page.keyboard.press(key)
    page.wait_for_function(
        f"document.querySelector('.queue-count')?.innerText.startsWith('{len(keys)} judged')",
        timeout=PATIENCE,
    )


def test_from_an_empty_project_to_a_trained_model(serve, open_page, empty_project):
    server = serve(empty_project)
    page = open_page(f"{server.address}/lfs")
    page.wait_for_selector("text=There is no labeling function yet")

    page.wait_for_selector(".first-step-now >> text=1 Look at rows")
    page.wait_for_selector(".first-steps-go")

    page.goto(f"{server.address}/label?way=random")
    label_rows(page, 20, "ada")
    assert labels(empty_project)["purpose"].to_list() == ["evaluate"] * 20
    page.wait_for_selector(".first-step-done >> text=Label 20 rows")

    page.goto(f"{server.address}/lfs")
    judge(page, 7, 3)
    page.wait_for_selector(".first-step-done >> text=Judge proposals")
    assert len(rules(empty_project)) == 7
    page.wait_for_function("document.querySelectorAll('.lf-table tbody tr').length == 7")

    lf_from_marked_words(page, server.address, empty_project)
    train(page, server.address, empty_project)
    results(page, server.address, empty_project)

    page.wait_for_selector(".first-steps-hint >> text=You have a classifier")
    page.click(".first-steps-close")
    page.wait_for_selector(".first-steps", state="hidden")

    server.kill()
    assert len(labels(empty_project)) == 20
    server.start()
    page.goto(f"{server.address}/lfs")
    page.wait_for_function("document.querySelectorAll('.lf-table tbody tr').length == 8")
    page.goto(f"{server.address}/train")
    page.wait_for_selector(".train-runs tbody tr")
    page.click("text=Label")
    page.wait_for_selector("text=20 rows labeled")
    page.wait_for_timeout(1000)  # closed for good, also after a restart
    assert not page.locator(".first-steps").is_visible()
    page.keyboard.press("?")
    page.click("text=Show the first steps")
    page.wait_for_selector(".first-steps-list")


def lf_from_marked_words(page: Any, address: str, project: Path) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    page.fill("input[aria-label='Search']", "sign in page")
    page.wait_for_function(
        "document.querySelector('.data-count')?.innerText.startsWith('600 ') === false"
    )
    page.wait_for_selector(".data-rows.w-ready")  # until then votes may still be put in
    page.click("tr.w-open:has-text('sign in') >> nth=0")
    page.wait_for_selector(".row-text:has-text('sign in')")
    for step in ("after", "before"):  # three rows are looked at, as the first step says
        head = page.inner_text(".q-dialog h2")
        page.click(f".row-{step}")
        page.wait_for_function(f"document.querySelector('.q-dialog h2').innerText != '{head}'")
    dialog = page.locator(".q-dialog")
    words = dialog.locator(".lf-words input")
    until(lambda: mark_words(page), lambda: expect(words).to_have_value("sign in", timeout=30_000))
    # Until then the proposals are for the class before, and cannot be pressed.
    ready = dialog.locator(".lf-proposals.w-ready[data-label=technical]")
    choice = dialog.locator(".lf-label >> text=technical")
    until(choice.click, lambda: expect(ready).to_be_visible(timeout=30_000))
    dialog.locator(".lf-hits mark").first.wait_for()
    assert words.input_value() == "sign in"
    page.set_viewport_size({"width": 1280, "height": 400})
    text = dialog.locator(".row-text").bounding_box()
    assert text["height"] > 15  # the preview below leaves room for the text
    page.set_viewport_size({"width": 1280, "height": 900})
    dialog.locator(".lf-proposal >> nth=0 >> text=Add").click()
    wait_for_rules(project, 8)
    added = rules(project)[-1]
    assert added["keywords"] == ["sign in"]
    assert added["label"] == "technical"


def until(act: Callable[[], Any], done: Callable[[], Any]) -> None:
    """Act again, as a person would, where the page was not ready for it on a busy machine."""
    for _ in range(8):
        act()
        with suppress(AssertionError):
            return done()
    done()


def mark_words(page: Any) -> None:
    page.evaluate(
        """() => {
          const box = document.querySelector('.row-text');
          const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
          const nodes = []; while (walker.nextNode()) nodes.push(walker.currentNode);
          // Words that labeling functions found are highlighted, each in a node of its own.
          const at = (place) => {
            for (const node of nodes) {
              if (place <= node.data.length) return [node, place];
              place -= node.data.length;
            }
          };
          const start = nodes.map((node) => node.data).join('').indexOf('sign in');
          const range = document.createRange();
          range.setStart(...at(start)); range.setEnd(...at(start + 'sign in'.length));
          getSelection().removeAllRanges(); getSelection().addRange(range);
          box.dispatchEvent(new MouseEvent('mouseup', {bubbles: true}));
        }"""
    )


def train(page: Any, address: str, project: Path) -> None:
    page.goto(f"{address}/train")
    page.fill(".train-title input", "the first")
    page.click(".train-start:not([disabled])")
    page.wait_for_function(
        "/finished|failed/.test(document.querySelector('.train-state')?.innerText)",
        timeout=3 * PATIENCE,
    )
    assert "finished" in page.inner_text(".train-state")
    page.wait_for_selector(".train-runs tbody tr")
    page.wait_for_selector(".train-runs >> text=the first run")
    run = kept_runs(read_project(project))[0]
    assert run.title == "the first"
    assert run.about["request"]["n_labels"] == 20
    assert run.about["rows"][0]["accuracy"] > 0.6
    assert (run.folder / "model").is_dir()


def results(page: Any, address: str, project: Path) -> None:
    page.goto(f"{address}/results")
    page.wait_for_selector(".confusion-cell")
    page.wait_for_selector(".run-baseline >> nth=1")
    page.click(".class-figures th >> text=recall")
    page.wait_for_selector(".class-figures th >> text=recall ↑")
    cells = page.locator(".confusion-cell")
    counts = [int(text.replace(",", "")) for text in cells.all_inner_texts()]
    assert sum(counts) == 300
    biggest = counts.index(max(counts))
    cells.nth(biggest).click()
    page.wait_for_selector(f"text={counts[biggest]} of 300 test rows")
    page.go_back()
    # The dev rows of the run are training rows that were labeled here.
    page.wait_for_selector(".confusion-cell")
    page.click("main label:has-text('Rows')")
    page.click(".q-menu >> text=dev")
    page.wait_for_selector("text=20 rows with gold")
    cells = page.locator(".confusion-cell")
    of_dev = [int(text) for text in cells.all_inner_texts()]
    assert sum(of_dev) == 20
    cells.nth(of_dev.index(max(of_dev))).click()
    page.wait_for_selector(f"text={max(of_dev)} of 600 train rows")
    page.go_back()
    page.wait_for_selector("text=300 rows with gold")
    if sum(counts) > counts[0] + counts[3]:
        page.click(".ask-why >> nth=0")
        page.wait_for_selector(".blame-switch")
        page.click(".blame-switch >> nth=0")
        page.wait_for_function(
            "document.querySelector('.blame-effect')?.innerText.startsWith('Without')"
        )
        page.wait_for_selector(".error-bucket >> text=predicted as")
        n_on = len([each for each in rules(project) if each])
        page.click(".blame-mend >> nth=0")
        page.click(".q-menu >> text=Switch it off")
        page.wait_for_selector(".blame-replayed >> text=errors of this kind")
        assert "off" in (project / "rules.toml").read_text()
        assert len(rules(project)) == n_on
        page.reload()
        page.wait_for_selector(".next-step >> text=the labeling functions are others")


def test_two_people_at_once_see_their_agreement_and_settle(serve_once, open_page, read_project):
    server = serve_once(read_project)
    store = LabelStore(read_project / "workbench" / "labels.sqlite")
    for person, label in (("ada", "billing"), ("bob", "technical")):
        store.add("train-0", label, person)
        store.add("train-1", "billing", person)
    first = open_page(f"{server.address}/label")
    second = open_page(f"{server.address}/label")
    label_rows(first, 2, "cleo")
    label_rows(second, 2, "dana")
    people = set(store.answers()["person"])
    assert people == {"ada", "bob", "cleo", "dana"}
    second.wait_for_selector("text=1 row to resolve")
    second.click(".settle button:has-text('technical')")
    second.wait_for_selector(".settle", state="detached")
    settled = store.labels().filter(pl.col("item") == "train-0").to_dicts()[0]
    assert settled["label"] == "technical"


def test_a_rule_added_in_one_browser_appears_in_the_other_and_undo_removes_it(
    serve_once, open_page, read_project
):
    server = serve_once(read_project)
    first = open_page(f"{server.address}/lfs")
    second = open_page(f"{server.address}/lfs")
    first.wait_for_selector("text=There is no labeling function yet")
    first.fill(".lf-words input", "invoice, refund")
    first.wait_for_selector(".lf-proposals.w-ready .lf-proposal")
    first.click(".lf-proposal >> text=Add")
    second.wait_for_selector(".lf-table >> text=billing_invoice_refund")
    second.click(".lf-undo:not([disabled])")
    first.wait_for_selector("text=There is no labeling function yet")
    assert rules(read_project) == []


def test_what_to_look_at_next_follows_the_labeling_functions(serve_once, open_page, empty_project):
    server = serve_once(empty_project)
    page = open_page(server.address, viewport={"width": 1280, "height": 900})
    page.wait_for_selector("text=Write a labeling function or label some rows")
    page.fill(".lf-words input", "invoice, refund")
    page.wait_for_selector(".lf-proposals.w-ready .lf-proposal")
    button = page.locator(".lf-proposal button").bounding_box()
    card = page.locator(".lf-proposals").bounding_box()
    assert button["x"] + button["width"] <= card["x"] + card["width"]
    assert button["height"] < 40  # one line
    page.click(".lf-proposal >> text=Add")
    page.wait_for_selector(".next-item")
    assert rules(empty_project)[-1]["keywords"] == ["invoice", "refund"]
    page.click(".lf-maker >> text=pattern")
    page.wait_for_selector(".lf-maker >> text=A regular expression")


def test_number_keys_label_as_fast_as_they_are_pressed(serve_once, open_page, empty_project):
    server = serve_once(empty_project)
    page = open_page(f"{server.address}/label")
    page.wait_for_selector("text=Who are you?")
    page.fill(".label-person input", "Zoë")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=0 labeled in this session")
    # Keys that are faster than the page label rows in order: none is lost, none counts twice.
    for key in "12211212":
        page.keyboard.press(key)
    page.wait_for_selector("text=8 labeled in this session")
    assert page.input_value(".label-person input") == "Zoë"
    known = labels(empty_project)["label"].to_list()
    assert known == ["billing" if key == "1" else "technical" for key in "12211212"]
    page.keyboard.press("u")
    page.keyboard.press("?")
    page.wait_for_selector(".q-dialog >> text=undo the last label")
    page.keyboard.press("Escape")
    page.wait_for_selector(".q-dialog", state="detached")
    assert len(labels(empty_project)) == 7
    page.click("text=Change the guidelines")
    page.fill(".q-dialog textarea", "Money is in it")
    page.click(".q-dialog >> text=Save")
    page.wait_for_selector(".label-guidelines >> text=Money is in it")


FAINT = """() => {
  const numbers = (color) => color.match(/[0-9.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = color.map((c) => c / 255).map(
      (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(at).backgroundColor);
      if (a > 0.5) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const seen = [...document.querySelectorAll('main *, header *')].filter((node) =>
    node.checkVisibility({opacityProperty: true}) && !node.closest('[disabled], .disabled')
    && [...node.childNodes].some((part) => part.nodeType === 3 && part.data.trim()));
  if (seen.length < 10) return ['there is hardly any text'];
  return seen.map((node) => {
    const a = light(numbers(getComputedStyle(node).color)), b = light(behind(node));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return contrast < 4.5 ? `${contrast.toFixed(1)}: ${node.innerText.slice(0, 40)}` : '';
  }).filter(Boolean);
}"""
"""The texts of a page that are hard to read: WCAG asks for a contrast of 4.5."""


def test_no_page_is_wider_than_a_phone_by_day_and_by_night(serve_once, open_page, read_project):
    server = serve_once(read_project)
    phone = {"width": 390, "height": 844}
    page = open_page(server.address, color_scheme="dark", viewport=phone)
    night, day = "rgb(23, 27, 31)", "rgb(255, 255, 255)"
    for address in ("/", "/map", "/lfs", "/label", "/train", "/results"):
        if address != "/":
            page.goto(server.address + address)
        page.wait_for_selector("main >> text=/./ >> nth=0")
        page.evaluate("localStorage.setItem('wiesel-person', 'ada')")
        if address == "/label":
            page.wait_for_selector(".label-buttons >> text=billing")
        for scheme, background in (("dark", night), ("light", day), ("dark", night)):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(
                f"getComputedStyle(document.body).backgroundColor === '{background}'"
            )
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, (address, scheme)
            assert page.evaluate(FAINT) == [], (address, scheme)


def test_a_row_opens_by_keyboard_and_pages_turn(serve_once, open_page, read_project):
    server = serve_once(read_project)
    page = open_page(server.address)
    page.wait_for_selector("text=page 1 of 400")
    page.wait_for_selector(".data-rows.w-ready")
    page.focus("tr.w-open >> nth=2")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Row train-2")
    page.keyboard.press("Escape")
    page.click(".data-next")
    page.wait_for_selector("text=page 2 of 400")


def test_of_10_000_rows_the_browser_gets_one_page(serve_once, open_page, read_project):
    server = serve_once(read_project)
    sizes: list[int] = []
    page = open_page(server.address)
    page.on("websocket", lambda socket: socket.on("framereceived", lambda f: sizes.append(len(f))))
    page.reload()
    page.wait_for_selector("text=page 1 of 400")
    for number in range(2, 12):
        page.click(".data-next")
        page.wait_for_selector(f"text=page {number} of 400")
    assert page.locator("tr.w-open").count() == 25
    assert sizes
    # All rows together are several times as large.
    assert (read_project / "train.csv").stat().st_size > 600_000
    assert max(sizes) < 200_000
    # What the server tells the browser about one page does not grow with the pages seen.
    assert sum(sizes) < 2_000_000
