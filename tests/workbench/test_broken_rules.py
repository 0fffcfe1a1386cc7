"""A broken rule in a real browser: every page tells it, and the other rules vote on."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

RULE = """[[lf]]
kind = "{kind}"
label = "billing"
pattern = "{word}"
column = "text"
name = "{word}"
"""


def test_every_page_tells_a_broken_rule_until_it_is_mended(
    serve_once: Any, open_page: Any, empty_project: Path
):
    file = empty_project / "rules.toml"
    mended = RULE.format(kind="regex", word="invoice") + RULE.format(kind="regex", word="refund")
    file.write_text(mended.replace('kind = "regex"', 'kind = "<b>regexx</b>"', 1))
    server = serve_once(empty_project)
    page = open_page(server.address)
    for address in ("/", "/label", "/train", "/results", "/lfs"):
        page.goto(server.address + address)
        page.wait_for_selector(".w-problems >> text=unknown kind '<b>regexx</b>'")
    page.wait_for_selector(".lf-table >> text=refund")
    page.fill(".lf-words input", "charge")
    page.wait_for_selector(".lf-proposals.w-ready .lf-proposal")
    page.click(".lf-proposal >> text=Add")
    page.wait_for_selector(".lf-table >> text=billing_charge")
    file.write_text(file.read_text().replace("<b>regexx</b>", "regex"))
    page.wait_for_selector(".w-problems", state="hidden")
    page.wait_for_selector(".lf-table >> text=invoice")


def test_a_rule_that_cannot_be_written_is_not_told_as_added(
    serve_once: Any, open_page: Any, empty_project: Path
):
    file = empty_project / "rules.toml"
    file.write_text(RULE.format(kind="regex", word="invoice"))
    page = open_page(serve_once(empty_project).address + "/lfs")
    page.wait_for_selector(".lf-table >> text=invoice")
    page.fill(".lf-words input", "charge")
    page.wait_for_selector(".lf-proposals.w-ready .lf-proposal")
    before = file.read_text().replace('label = "billing"', 'label = "billing')
    file.write_text(before)
    page.click(".lf-proposal >> text=Add")
    page.wait_for_selector(".q-notification >> text=because it is not TOML")
    assert page.locator(".q-notification >> text=is in rules.toml").count() == 0
    assert file.read_text() == before
