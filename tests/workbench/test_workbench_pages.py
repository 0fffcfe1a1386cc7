"""Pages stay quick, readable and reachable by keyboard."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(serve_once, open_page, read_project, scheme):
    server = serve_once(read_project)
    page = open_page(server.address, color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    for address in ("/", "/lfs", "/label", "/train", "/results"):
        page.goto(server.address + address)
        page.wait_for_selector("main >> text=/./ >> nth=0")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, address
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(23, 27, 31)")


def test_a_row_opens_by_keyboard_and_pages_turn(serve_once, open_page, read_project):
    server = serve_once(read_project)
    page = open_page(server.address)
    page.wait_for_selector("text=page 1 of 24")
    page.wait_for_selector(".data-rows.w-ready")
    page.focus("tr.w-open >> nth=2")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Row train-2")
    page.keyboard.press("Escape")
    page.click("text=Next")
    page.wait_for_selector("text=page 2 of 24")


def test_of_100_000_rows_the_browser_gets_one_page(serve, open_page, tmp_path: Path):
    folder = tmp_path / "large"
    folder.mkdir()
    with (folder / "train.jsonl").open("w") as file:
        for number in range(100_000):
            file.write(json.dumps({"id": number, "text": f"message {number} about " * 4}) + "\n")
    (folder / "wiesel.toml").write_text(
        'classes = ["a", "b"]\n[data]\ntrain = "train.jsonl"\n[votes]\nlfs = ["rules.toml"]\n'
        "[features]\nn_dimensions = 2\n"
    )
    server = serve(folder)
    sizes: list[int] = []
    page = open_page(server.address)
    page.on("websocket", lambda socket: socket.on("framereceived", lambda f: sizes.append(len(f))))
    page.reload()
    page.wait_for_selector("text=page 1 of 4,000")
    for number in range(2, 12):
        page.click("text=Next")
        page.wait_for_selector(f"text=page {number} of 4,000")
    assert page.locator("tr.w-open").count() == 25
    assert sizes
    assert max(sizes) < 200_000
    # What the server tells the browser about one page does not grow with the pages seen.
    assert sum(sizes) < 2_000_000
