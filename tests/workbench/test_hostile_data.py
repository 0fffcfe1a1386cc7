"""Text from data is text: whatever it looks like, the page only shows it."""

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest

pytestmark = pytest.mark.slow

TEXTS = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'>",
    "{{ window.pwned = 3 }} ${window.pwned = 4}",
    "\u202egnp.evil\u202c right to left \u200f mark",
    "🦡 weasel 👩‍👩‍👧 emoji",
    "nul \x00 byte and \x1b[31m escape",
    "long " * 20_000,
    "javascript:window.pwned=5 [click](javascript:window.pwned=6)",
    "' onmouseover='window.pwned = 7' \"quoted\" </td></table>",
]


@pytest.fixture(scope="module")
def hostile_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place") / "hostile"
    folder.mkdir()
    rows = [{"id": f"<i>{k}</i>", "text": text, "n": k} for k, text in enumerate(TEXTS)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "wiesel.toml").write_text(
        'name = "<b>hostile</b>"\nclasses = ["<u>a</u>", "b"]\n[data]\ntrain = "train.jsonl"\n'
        '[votes]\nlfs = ["rules.toml"]\n[features]\nn_dimensions = 3\nmin_count = 1\n'
    )
    (folder / "rules.toml").write_text(
        '[[lf]]\nkind = "keywords"\nlabel = "<u>a</u>"\nkeywords = ["script", "img"]\n'
        'column = "text"\nname = "<s>lf</s>"\n'
    )
    return folder


def test_nothing_in_the_data_runs_or_becomes_markup(serve_once, open_page, hostile_project):
    server = serve_once(hostile_project)
    page = open_page(server.address)
    page.wait_for_function(
        f"document.querySelectorAll('.data-rows tbody tr').length == {len(TEXTS)}"
    )
    page.wait_for_selector(".data-rows.w-ready")  # until then votes may still be put in
    shown = page.inner_text(".data-rows")
    assert "<script>window.pwned = 1</script>" in shown
    assert "nul ␀ byte" in shown
    assert len(shown) < 4_000  # the long row is cut on the server
    for number in range(len(TEXTS)):
        page.click(f"tr.w-open >> nth={number}")
        page.wait_for_selector(".row-text")
        if number == 6:
            assert "more characters" in page.inner_text(".row-text")
        page.keyboard.press("Escape")
        page.wait_for_selector(".row-text", state="detached")
    for address in ("/lfs", "/label", "/train", "/results"):
        page.goto(server.address + address)
        page.wait_for_selector("main >> text=/./ >> nth=0")
    page.goto(f"{server.address}/lfs")
    page.wait_for_selector(".lf-table >> text=<s>lf</s>")
    assert page.evaluate("window.pwned") is None
    assert page.locator("main u, main s, main i:not(.q-icon), main b, header b").count() == 0
    assert page.locator("main img").count() == 0


def test_what_is_typed_as_a_rule_is_data_and_wrong_patterns_are_told(
    serve_once, open_page, hostile_project
):
    server = serve_once(hostile_project)
    page = open_page(f"{server.address}/lfs")
    page.wait_for_selector(".lf-table tbody tr")
    page.click("text=pattern")
    page.fill(".lf-words input", "(unclosed")
    page.wait_for_selector("text=The pattern '(unclosed' cannot be used")
    page.fill(".lf-words input", "__import__('os').system('touch pwned')")
    page.wait_for_selector("text=No row matches")
    assert not list(hostile_project.parent.rglob("pwned"))


def test_no_file_is_served_from_disk(serve_once, hostile_project):
    import urllib.error
    import urllib.request

    server = serve_once(hostile_project)
    for path in ("/wiesel.toml", "/../wiesel.toml", "/_nicegui/../../etc/passwd", "/openapi.json"):
        with pytest.raises(urllib.error.HTTPError) as answer:
            urllib.request.urlopen(server.address + path)
        assert answer.value.code in (403, 404)
        answer.value.close()


def test_an_address_that_names_no_selection_shows_all_rows(serve_once, hostile_project):
    import urllib.request
    from urllib.parse import quote

    server = serve_once(hostile_project)
    for number in ("²", "9" * 5_000, "-1", "0", "1e3", "\x00"):
        with urllib.request.urlopen(f"{server.address}/?selection={quote(number)}") as answer:
            assert answer.status == 200


RUN = """x" :innerHTML="window.pwned=8" :onVnodeMounted="()=>{window.pwned=9}" y='<b>&run=z#"""
EVIL = """:x="window.pwned=10" <b>' onclick='window.pwned=11' <img src=x onerror=window.pwned=12>"""


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained project of a stranger: every name in it, and the folder of its run, is hostile."""
    from wiesel.project.pipeline import run_project
    from wiesel.project.runs import keep_run
    from wiesel.project.settings import read_project

    folder = tmp_path_factory.mktemp("stranger") / "hostile"
    folder.mkdir()
    names = [f"{EVIL} a", f"{EVIL} b"]
    texts = ["free prize now", "see you at eight", "a prize", "you and me"] * 5
    for split in ("train", "dev"):
        rows = [
            {f"{EVIL} id": f"{split}{k} {EVIL}", "text": text, EVIL: EVIL, "label": names[k % 2]}
            for k, text in enumerate(texts)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rules = [(names[0], "prize"), (names[1], "you")]
    (folder / "rules.toml").write_text(
        "".join(
            f'[[lf]]\nkind = "keywords"\nlabel = {json.dumps(label)}\nkeywords = ["{word}"]\n'
            f'column = "text"\nname = {json.dumps(f"{EVIL} {word}")}\n'
            for label, word in rules
        )
    )
    (folder / "wiesel.toml").write_text(
        f"name = {json.dumps(EVIL)}\nclasses = {json.dumps(names)}\n"
        '[data]\ntrain = "train.jsonl"\ndev = "dev.jsonl"\nlabel = "label"\n'
        f"id = {json.dumps(f'{EVIL} id')}\n"
        '[votes]\nlfs = ["rules.toml"]\n[features]\nn_dimensions = 3\nmin_count = 1\n'
        '[end_model]\nname = "linear"\n[method]\nname = "majority_vote"\nbaselines = []\n'
        "[training]\nepochs = 2\nepoch_size = 40\n"
    )
    project = read_project(folder)
    for name in ("plain", "other"):
        kept = keep_run(run_project(project), name)
    about = json.loads((kept.folder / "run.json").read_bytes())
    about["rows"][0]["method"], about["methods"] = EVIL, [EVIL]
    (kept.folder / "run.json").write_text(json.dumps(about))
    kept.folder.rename(kept.folder.with_name(RUN))
    return folder


def test_no_name_of_a_strangers_run_runs_or_becomes_markup(serve_once, open_page, hostile_run):
    server = serve_once(hostile_run)
    page = open_page(f"{server.address}/train")
    page.wait_for_selector(".train-runs tbody tr")
    links = page.locator(".train-runs a")
    targets = [links.nth(k).get_attribute("href") for k in range(links.count())]
    assert sorted(targets) == sorted(["/results?run=plain", "/results?" + urlencode({"run": RUN})])
    page.wait_for_selector(".train-state >> text=finished")
    page.click(".train-runs a:has-text('innerHTML')")
    page.wait_for_selector(".results >> text=rows with gold")
    assert page.locator(".q-select >> nth=0").inner_text().count("innerHTML")
    for address, shown in (
        ("/", ".data-rows.w-ready .w-chip"),
        ("/lfs", ".lf-table .w-chip"),
        ("/label", ".label-row .q-btn"),
        ("/results", ".results td"),
        ("/train", ".train-runs td"),
    ):
        page.goto(server.address + address)
        if address == "/label":
            page.wait_for_selector(".label-row >> text=Who are you?")
            page.fill(".label-person input", EVIL)
        page.wait_for_selector(shown)
        assert page.evaluate("window.pwned") is None, address
        assert page.locator("main b, main img, header b, header img").count() == 0
        assert page.evaluate("document.querySelectorAll('[onclick], [onerror]').length") == 0
    page.goto(server.address)
    page.wait_for_selector(".data-rows.w-ready")
    page.click("tr.w-open >> nth=0")
    page.wait_for_selector(".row-text")
    assert page.evaluate("window.pwned") is None
    assert page.locator(".q-dialog b, .q-dialog img").count() == 0
