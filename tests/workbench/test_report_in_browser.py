"""Reports and tables, opened in a real browser: they sort, filter, fit a phone and print."""

import numpy as np
import polars as pl
import pytest

from wiesel import LabelSpace, aggregate
from wiesel.analysis.table import Table, count, percent, text
from wiesel.evaluation import evaluate_proba, threshold_curve
from wiesel.report import BalanceRow, ErrorItem, ReportData, SliceRow, VoterRow, write_report
from wiesel.report.crowd import write_crowd_report

LABELS = LabelSpace("ham", "spam")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with three voters, two methods and a threshold to choose."""
    place = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 200)
    second = np.clip(0.3 * gold + 0.7 * rng.random(200), 0.01, 0.99)
    proba = np.column_stack([1 - second, second])
    found = evaluate_proba(proba, gold, LABELS, n_resamples=20)
    points = [
        (float(level), *(int(n) for n in _counts(second >= level, gold == 1)))
        for level in np.linspace(0.05, 0.95, 19)
    ]
    long_name = "a_voter_with_a_name_that_is_much_longer_than_a_phone_is_wide"
    data = ReportData(
        title="Mails",
        labels=LABELS,
        story=["Three voters voted."],
        figures=[("200", "items")],
        voters=[
            VoterRow("link", ["spam"], 0.5, 0.1, 0.75, 0.3, 0.95, 4, weight=1.5),
            VoterRow("greeting", ["ham"], 0.2, 0.3, None, weight=0.5),
            VoterRow(long_name, ["ham", "spam"], 0.9, 0.0, 0.9, 0.8, 0.95, 40, weight=2.5),
        ],
        voter_caption="On the training items.",
        findings=["'greeting' never votes."],
        agreement_names=[],
        agreement=None,
        methods={"committee": found, "majority_vote": found},
        references={"always 'ham'": found},
        judged_on="test",
        report=found,
        curve=threshold_curve(proba, gold),
        threshold=0.5,
        thresholds=points,
        balance=[BalanceRow("ham", 0.5, 0.4, 0.6), BalanceRow("spam", 0.5, 0.6, 0.4)],
        slices=[SliceRow("length", "up to 4 words", 30, 0.6, 0.4, 0.8)],
        errors=[ErrorItem("t1", "a free prize", "ham", "spam", 0.9, [(2, 6)], [("link", "spam")])],
        n_errors=1,
    )
    write_report(data, place / "report.html")
    return f"file://{place / 'report.html'}"


def _counts(taken, positive):
    return (
        np.sum(taken & positive),
        np.sum(taken & ~positive),
        np.sum(~taken & positive),
        np.sum(~taken & ~positive),
    )


def names(page, table="voter-table"):
    cells = page.locator(f"#{table} tbody tr:not([hidden]) th").all_text_contents()
    return [cell[:8] for cell in cells]


def test_voters_sort_both_ways_and_unknown_values_stay_last(report, open_page):
    page = open_page(report)
    head = page.locator("#voter-table").get_by_role("button", name="coverage")
    head.click()
    assert names(page) == ["greeting", "link", "a_voter_"]
    head.click()
    assert names(page) == ["a_voter_", "link", "greeting"]
    precision = page.locator("#voter-table").get_by_role("button", name="precision")
    precision.click()
    assert names(page)[-1] == "greeting"
    precision.click()
    assert names(page)[-1] == "greeting"
    assert page.locator("#voter-table th[aria-sort]").count() == 1


def test_the_filter_shows_matching_voters_and_counts_them(report, open_page):
    page = open_page(report)
    field = page.get_by_label("Filter a voter or a class")
    field.fill("spam")
    assert names(page) == ["link", "a_voter_"]
    assert page.locator('output[data-counts="voter-table"]').text_content() == "2 of 3"
    field.fill("")
    assert len(names(page)) == 3


def test_the_slider_and_the_costs_change_the_figures(report, open_page):
    page = open_page(report)
    tool = page.locator(".threshold-tool")

    def shown(name):
        return tool.locator(f'[data-shows="{name}"]').text_content()

    assert shown("threshold") == "0.50"
    before = int(shown("misses"))
    tool.locator("input[type=range]").fill("18")
    assert shown("threshold") == "0.95"
    assert int(shown("misses")) > before
    tool.locator("input[type=number]").nth(1).fill("50")
    tool.get_by_role("button").click()
    assert shown("misses") == "0", "where misses cost much, none is taken"
    tool.locator("input[type=number]").nth(0).fill("500")
    tool.get_by_role("button").click()
    assert int(shown("alarms")) <= 1


def test_a_phone_shows_the_page_without_sideways_scrolling_and_reaches_every_column(
    report, open_page
):
    page = open_page(report)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    last = page.locator("#voter-table thead th").last
    last.scroll_into_view_if_needed()
    box = last.bounding_box()
    assert 0 <= box["x"] < 360


def test_print_cuts_off_no_column(report, open_page):
    page = open_page(report)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 690, "height": 970})  # A4 without its margins
    wide = page.evaluate(
        "[...document.querySelectorAll('table')].filter("
        "t => t.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"
    )
    assert wide == 0
    assert not page.locator("nav").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_dark_mode_is_dark(report, open_page):
    page = open_page(report, color_scheme="dark")
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert color == "rgb(17, 17, 16)"


def test_the_report_for_crowds_sorts_filters_and_prints(tmp_path, open_page):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    rows = [
        {
            "task": item,
            "worker": f"w{worker}",
            "label": "ny"[_answer(worker, int(truth[item]), rng)],
        }
        for worker in range(6)
        for item in range(60)
    ]
    found = aggregate(pl.DataFrame(rows))
    write_crowd_report(found, tmp_path / "crowd.html", "Answers")
    page = open_page(f"file://{tmp_path / 'crowd.html'}")
    assert names(page, "worker-table")[0] == "w5", "who is flagged comes first"
    page.locator("#worker-table").get_by_role("button", name="worker").click()
    assert names(page, "worker-table") == [f"w{k}" for k in range(6)]
    page.get_by_label("Filter a name or a flag").fill("w3")
    assert names(page, "worker-table") == ["w3"]
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def _answer(worker, truth, rng):
    if worker == 5:  # an adversary
        return 1 - truth
    return truth if rng.random() < 0.9 else 1 - truth


@pytest.mark.slow
def test_a_press_on_a_header_sorts_and_unknown_values_stay_last(open_page):
    frame = pl.DataFrame(
        {"voter": ["b", "a", "C", "d"], "n": [9, 1000, 30, 4], "p": [0.5, None, 0.25, 0.125]}
    )
    shown = Table(frame, (text("voter"), count("n"), percent("p")))
    page = open_page("about:blank")
    # Set as notebooks do it, which does not run script elements.
    page.set_content("<main></main>")
    page.evaluate("html => { document.querySelector('main').innerHTML = html }", shown.to_html())

    def pressed(column: int) -> str:
        page.locator("thead button").nth(column).click()
        return "".join(page.locator("tbody tr td:first-child").all_inner_texts())

    assert [pressed(1), pressed(1)] == ["dbCa", "aCbd"]
    assert [pressed(2), pressed(2)] == ["dCba", "bCda"]
    assert [pressed(0), pressed(0)] == ["abCd", "dCba"]
    assert page.locator("th[aria-sort]").count() == 1
