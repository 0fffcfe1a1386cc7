"""Labeling in a real browser where rows have several labels, or parts of texts have them."""

import json
import re
import sqlite3

import pytest
from patience import PATIENCE

from wiesel.io import LabelStore

SETS = """\
classes = ["billing", "technical", "urgent"]
multi = true
[data]
train = "train.jsonl"
dev = "dev.jsonl"
[votes]
lfs = ["rules.toml"]
[features]
n_dimensions = 4
[end_model]
name = "linear"
[method]
name = "majority_vote"
baselines = []
[training]
epoch_size = 40
class_balance = {billing = 0.5, technical = 0.5, urgent = 0.5}
"""
RULES = """\
[[lf]]
name = "money"
kind = "keywords"
label = "billing"
keywords = ["invoice"]
column = "text"
[[lf]]
name = "trouble"
kind = "keywords"
label = "technical"
keywords = ["crashes"]
column = "text"
[[lf]]
name = "hurry"
kind = "keywords"
label = "urgent"
keywords = ["now"]
column = "text"
"""
SPANS = """\
classes = ["PERSON", "PLACE"]
spans = true
[data]
train = "train.jsonl"
dev = "dev.jsonl"
[votes]
lfs = ["rules.toml"]
[method]
name = "majority_vote"
baselines = []
[training]
epoch_size = 12
"""
# The first letter is one for which JavaScript counts two.
TEXT = "\U0001d538 Ada Byron met Bob <b>in</b> Paris."
NAMES = """\
[[lf]]
name = "names"
kind = "keywords"
label = "PERSON"
keywords = ["Ada"]
column = "text"
"""


def write(folder, settings, rules, rows, dev=()):
    folder.mkdir()
    (folder / "wiesel.toml").write_text(settings)
    (folder / "rules.toml").write_text(rules)
    for name, own in (("train", rows), ("dev", dev)):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in own]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def sets_project(tmp_path_factory):
    texts = ["an invoice, now", "the app crashes", "the invoice is wrong", "now it crashes"] * 5
    rows = [{"id": f"t{k}", "text": f"{text} {k}"} for k, text in enumerate(texts)]
    dev = [{"id": "d0", "text": "an invoice", "label": ["billing"]}]
    dev += [{"id": "d1", "text": "it crashes now", "label": ["technical", "urgent"]}]
    return write(tmp_path_factory.mktemp("sets") / "mails", SETS, RULES, rows, dev)


@pytest.fixture(scope="module")
def spans_project(tmp_path_factory):

    rows = [{"id": f"t{k}", "text": TEXT} for k in range(12)]
    dev = [{"id": "d0", "text": "Ada left Rome.", "label": [[0, 3, "PERSON"], [9, 13, "PLACE"]]}]
    return write(tmp_path_factory.mktemp("spans") / "news", SPANS, NAMES, rows, dev)


def begin(open_page, server, person):
    page = open_page(server.address)
    page.evaluate(f"localStorage.setItem('wiesel-person', '{person}')")
    page.goto(f"{server.address}/label")
    page.wait_for_selector(".label-reason", timeout=PATIENCE)
    page.wait_for_function("document.querySelector('.label-reason').innerText.startsWith('Row ')")
    return page


def answers(project, person):
    """Return what the file holds, as another process sees it."""
    with sqlite3.connect(project / "workbench" / "labels.sqlite", timeout=30) as connection:
        found = connection.execute(
            "SELECT item, label FROM labels WHERE person = ? AND withdrawn = 0 ORDER BY number",
            (person,),
        ).fetchall()
    connection.close()
    return {item: None if label is None else json.loads(label) for item, label in found}


def item_of(page):
    return page.inner_text(".label-reason").split(":")[0].removeprefix("Row ")


def next_row(page, item):
    page.wait_for_function(
        f"!document.querySelector('.label-reason').innerText.startsWith('Row {item}:')"
    )


def test_number_keys_choose_labels_and_enter_saves_them(serve_once, open_page, sets_project):
    page = begin(open_page, serve_once(sets_project), "ada")
    first = item_of(page)
    page.keyboard.press("1")
    page.keyboard.press("3")
    page.wait_for_function("document.querySelectorAll('[aria-pressed=true]').length === 2")
    assert "Save billing, urgent" in page.inner_text(".label-save")
    page.keyboard.press("Enter")
    next_row(page, first)
    second = item_of(page)
    assert page.locator("[aria-pressed=true]").count() == 0  # nothing is carried over
    page.click(".label-save")  # none of them
    next_row(page, second)
    assert answers(sets_project, "ada") == {first: ["billing", "urgent"], second: []}
    page.keyboard.press("u")
    page.wait_for_function(
        f"document.querySelector('.label-reason').innerText.startsWith('Row {second}:')"
    )
    assert answers(sets_project, "ada") == {first: ["billing", "urgent"]}
    page.wait_for_function(
        "document.querySelector('.label-counts').innerText.includes('1 row labeled')"
    )
    assert "urgent: 1" in page.inner_text(".label-counts")


def test_people_who_differ_about_labels_are_shown_and_resolved(serve_once, open_page, sets_project):
    server = serve_once(sets_project)
    store = LabelStore(sets_project / "workbench" / "labels.sqlite", "several labels")
    store.add("t7", '["technical"]', "bob")
    store.add("t7", '["technical", "urgent"]', "cem")
    page = begin(open_page, server, "dan")
    page.wait_for_selector(".settle")
    row = page.locator(".settle", has_text="bob: technical, cem: technical, urgent")
    row.get_by_role("button", name="technical, urgent").click()
    row.wait_for(state="detached")
    labels = {row["item"]: row["label"] for row in store.labels().to_dicts()}
    assert json.loads(labels["t7"]) == ["technical", "urgent"]


def test_a_rule_against_a_label_is_written_as_one(serve_once, open_page, sets_project):
    page = open_page(f"{serve_once(sets_project).address}/lfs")
    page.wait_for_selector(".lf-table .lf-name")
    page.get_by_role("button", name="not urgent").click()
    page.fill(".lf-words input", "wrong")
    page.wait_for_selector(".lf-proposals.w-ready[data-label='not urgent'] .lf-proposal")
    page.get_by_role("button", name="Add").first.click()
    page.wait_for_function(
        "[...document.querySelectorAll('.lf-table tr')].some(row => "
        "row.innerText.includes('not_urgent_wrong'))"
    )
    written = (sets_project / "rules.toml").read_text()
    assert 'label = "urgent"' in written
    assert "against = true" in written
    page.click(".lf-undo")
    page.wait_for_function("!document.querySelector('.lf-table').innerText.includes('_wrong')")
    assert "against" not in (sets_project / "rules.toml").read_text()


def test_filters_find_rows_by_one_of_their_labels(serve_once, open_page, sets_project):
    page = open_page(f"{serve_once(sets_project).address}/?vote=urgent&voter=hurry")
    page.wait_for_selector(".data-rows.w-ready")
    page.wait_for_function("document.querySelector('.data-count').innerText.startsWith('10 of')")
    assert "1 urgent" in page.inner_text(".data-rows")
    page.goto(f"{serve_once(sets_project).address}/?split=dev&gold=class+technical")
    page.wait_for_selector(".data-rows.w-ready")
    assert page.inner_text(".data-count").startswith("1 of 2 dev rows")
    assert "urgent" in page.inner_text(".data-rows td:nth-child(4)")


def test_words_are_marked_by_keys(serve_once, open_page, spans_project):
    page = begin(open_page, serve_once(spans_project), "ada")
    item = item_of(page)
    page.keyboard.press("ArrowRight")  # from the first word to Ada
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("1")
    assert page.inner_text("mark.marker-span").startswith("Ada Byron")
    for _ in range(3):  # from `met` over Bob and <
        page.keyboard.press("ArrowRight")
    page.keyboard.press("2")
    assert page.locator("mark.marker-span").count() == 2
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Backspace")  # the last one was wrong
    assert page.locator("mark.marker-span").count() == 1
    page.keyboard.press("Control+z")
    assert page.locator("mark.marker-span").count() == 2
    page.keyboard.press("Backspace")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")  # over the full stop
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    next_row(page, item)
    start = TEXT.index("Paris")
    expected = {item: [[2, 11, "PERSON"], [start, start + 5, "PLACE"]]}
    assert answers(spans_project, "ada") == expected
    page.keyboard.press("u")
    page.wait_for_function("document.querySelectorAll('mark.marker-span').length === 2")
    assert answers(spans_project, "ada") == {}


def test_words_are_marked_by_mouse(serve_once, open_page, spans_project):
    page = begin(open_page, serve_once(spans_project), "bob")
    item = item_of(page)
    words = page.locator(".marker-word")
    first, last = words.nth(1).bounding_box(), words.nth(2).bounding_box()
    page.mouse.move(first["x"] + 3, first["y"] + 5)
    page.mouse.down()
    page.mouse.move(last["x"] + 3, last["y"] + 5, steps=4)
    page.mouse.up()
    page.locator(".marker-button", has_text="PLACE").click()
    assert page.inner_text("mark.marker-span").startswith("Ada Byron")
    page.locator(".marker-span .marker-word").first.click()  # chooses all of the span
    page.locator(".marker-button", has_text="PERSON").click()
    assert page.locator("mark.marker-span").count() == 1
    page.locator(".marker-save").click()
    next_row(page, item)
    assert answers(spans_project, "bob") == {item: [[2, 11, "PERSON"]]}


def test_what_voters_mark_can_be_taken_over(serve_once, open_page, spans_project):
    page = begin(open_page, serve_once(spans_project), "cem")
    page.wait_for_selector(".marker-button:has-text('take 1 proposed')")
    item = item_of(page)
    page.keyboard.press("p")
    page.keyboard.press("Enter")
    next_row(page, item)
    assert answers(spans_project, "cem") == {item: [[2, 5, "PERSON"]]}


def test_enter_after_a_name_is_no_answer(serve_once, open_page, sets_project):
    page = open_page(f"{serve_once(sets_project).address}/label")
    page.fill(".label-person input", "eva")
    page.wait_for_function("document.querySelector('.label-reason')?.innerText.startsWith('Row ')")
    page.press(".label-person input", "Enter")
    page.keyboard.press("2")  # keys are answered one after the other
    page.wait_for_selector("[aria-pressed=true]")
    assert page.inner_text(".label-count").startswith("0 labeled")
    assert answers(sets_project, "eva") == {}


@pytest.mark.parametrize("kind", ["sets_project", "spans_project"])
def test_a_number_key_in_an_open_row_saves_no_half_answer(serve_once, open_page, request, kind):
    # One label is not an answer where there may be several, nor where parts of texts have them.
    project = request.getfixturevalue(kind)
    page = open_page(serve_once(project).address)
    page.evaluate("localStorage.setItem('wiesel-person', 'fay')")
    page.wait_for_selector(".data-rows.w-ready")
    page.click("tr.w-open >> nth=0")
    page.wait_for_selector(".q-dialog .row-text")
    assert page.locator(".row-labels").count() == 0
    before = page.inner_text(".q-dialog h2")
    page.keyboard.press("1")
    page.keyboard.press("ArrowRight")  # keys are answered one after the other
    page.wait_for_function(f"document.querySelector('.q-dialog h2').innerText !== '{before}'")
    assert answers(project, "fay") == {}


def test_a_text_of_markup_is_shown_as_text(serve_once, open_page, spans_project):
    page = begin(open_page, serve_once(spans_project), "dan")
    assert page.inner_text(".marker-text") == TEXT
    assert page.locator(".marker-text b").count() == 0


def train(page, server):
    page.goto(f"{server.address}/train")
    page.wait_for_selector(".train-start:not([disabled])")
    page.get_by_label("Epochs").fill("1")
    page.click(".train-start")
    page.wait_for_function("document.querySelector('.train-state').innerText.includes('finished')")
    page.wait_for_selector(".run-notes")
    page.goto(f"{server.address}/results")
    page.wait_for_selector(".label-figures")


def test_a_run_on_sets_shows_figures_of_labels_and_their_errors(
    serve_once, open_page, sets_project
):
    server = serve_once(sets_project)
    page = open_page(server.address)
    train(page, server)
    assert page.locator(".label-figures").count() == 3
    assert "micro F1" in page.inner_text(".results")
    page.wait_for_selector(".label-error")
    ask = page.locator(".ask-why").first
    name = ask.inner_text().removeprefix("why ").removesuffix("?")
    ask.click()
    page.wait_for_selector(".blame-effect")
    assert page.locator(".q-dialog").count() == 0  # the row is not opened
    assert re.search(rf"gives (not )?{name} \d+ %", page.inner_text(".blame"))
    page.locator(".blame-switch").first.click()
    page.wait_for_selector(".blame-effect >> text=nothing left to learn from")  # it has one voter
    send(page, "Prodigy", "prodigy")
    written = next((sets_project / "out" / "sent").glob("prodigy-dev-predicted.jsonl"))
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    assert len(rows) == 2
    assert all(set(row["accept"]) <= {"billing", "technical", "urgent"} for row in rows)
    page.locator(".label-figures button:not([disabled])").first.click()
    page.wait_for_selector(".data-rows.w-ready")
    assert "dev rows" in page.inner_text(".data-count")
    assert "predicted by the model of run" in page.inner_text(".w-main")


def send(page, title, tool):
    page.click(".send-rows")
    page.click(".send-tool")
    page.click(f".q-menu >> text={title}")
    page.wait_for_selector(".q-menu", state="detached")
    page.click(".send-go")
    page.wait_for_selector(f".send-done >> text={tool}-")
    page.keyboard.press("Escape")
    page.wait_for_selector(".q-dialog", state="detached")


def test_a_run_on_spans_shows_predicted_beside_gold_spans(serve_once, open_page, spans_project):
    server = serve_once(spans_project)
    page = open_page(server.address)
    train(page, server)
    assert page.locator(".label-figures").count() == 2
    error = page.locator(".label-error").first
    lines = [line.inner_text() for line in error.locator(".span-line").all()]
    assert lines[1].replace("\n", " ") == "right: AdaPERSON left RomePLACE."
    error.locator(".ask-why").click()
    # Which spans a tagger learns in two epochs is its own affair; no function marks a place.
    page.wait_for_selector(
        ".blame-span >> text=/“.+” as (PERSON|PLACE): (missed|predicted)/ >> nth=0"
    )
    blame = page.inner_text(".blame")
    assert "“Rome” as PLACE: missed" not in blame or "a rule is missing" in blame
    send(page, "Argilla", "argilla")
    written = next((spans_project / "out" / "sent").glob("argilla-dev-predicted.json"))
    (record,) = json.loads(written.read_text())
    assert record["fields"] == {"text": "Ada left Rome."}
    assert isinstance(record["suggestions"]["label"]["value"], list)
    error.click()
    page.wait_for_selector(".q-dialog .span-line")
    told = page.inner_text(".q-dialog")
    assert "voters: " in told
    assert "gold: " in told


@pytest.mark.parametrize("kind", ["sets_project", "spans_project"])
def test_rows_with_several_labels_and_texts_with_spans_have_a_map(
    serve_once, open_page, request, kind
):
    page = open_page(f"{serve_once(request.getfixturevalue(kind)).address}/map?color=votes")
    page.wait_for_selector(".map-chart canvas")
    assert "its rarest label" in page.inner_text(".map-note")
    page.locator(".map-part").first.click()
    page.wait_for_selector(".map-count")
    names = {chip.split()[-1] for chip in page.locator(".map-selected .w-chip").all_inner_texts()}
    assert names
    assert names <= {"billing", "technical", "urgent", "PERSON"}


def test_marks_that_were_not_saved_are_there_in_the_next_page(serve_once, open_page, spans_project):
    server = serve_once(spans_project)
    page = begin(open_page, server, "zoe")
    item = item_of(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("1")
    page.wait_for_selector("mark.marker-span")
    drafts = spans_project / "workbench" / "unsaved_marks.json"
    while not drafts.exists() or "zoe" not in drafts.read_text():
        page.wait_for_timeout(50)
    page.close()
    page = begin(open_page, server, "zoe")
    assert item_of(page) == item
    assert "not saved" in page.inner_text(".label-reason")
    page.wait_for_selector("mark.marker-span")
    page.keyboard.press("Enter")
    next_row(page, item)
    assert list(answers(spans_project, "zoe")) == [item]
    assert "zoe" not in json.loads(drafts.read_text())
