"""report.html: one file, safe against what is in it, complete, and quiet about what is missing."""

import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser

import numpy as np
import pytest

from wiesel import LabelSpace
from wiesel.evaluation import evaluate_proba, threshold_curve
from wiesel.report import (
    BalanceRow,
    Curve,
    Disagreement,
    ErrorItem,
    ReportData,
    SliceRow,
    VoterRow,
    report_html,
    write_report,
)
from wiesel.report.charts import Axis, Line, chart, confusion, coverage, heat_map, ticks
from wiesel.report.sections import highlighted

LABELS = LabelSpace("ham", "spam")
PROBA = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9]])
GOLD = np.array([0, 1, 1, 1])
REPORT = evaluate_proba(PROBA, GOLD, LABELS, n_resamples=50)
VOID = {"meta", "br", "input"}


def full() -> ReportData:
    return ReportData(
        title="Mails",
        labels=LABELS,
        story=["Two voters voted."],
        figures=[("4", "items")],
        voters=[
            VoterRow("link", ["spam"], 0.5, 0.1, 0.75, 0.3, 0.95, 4, weight=1.5),
            VoterRow("silent", [], 0.0, 0.0),
        ],
        voter_caption="On the training items.",
        findings=["'silent' never votes."],
        agreement_names=["link", "silent"],
        agreement=np.array([[np.nan, 0.25], [0.25, np.nan]]),
        losses=[Curve("end model", [0.7, 0.5]), Curve("encoder", [0.6, 0.4])],
        scores=[Curve("agreement", [0.5, 0.9])],
        kept_epoch=2,
        methods={"weasel": REPORT, "majority_vote": REPORT},
        judged_on="test",
        report=REPORT,
        paired="Both are equal.",
        curve=threshold_curve(PROBA, GOLD),
        threshold=0.4,
        references={"always 'spam'": REPORT},
        seconds={"weasel": 2.5},
        thresholds=[(0.3, 3, 1, 0, 0), (0.5, 2, 0, 1, 1)],
        balance=[BalanceRow("ham", 0.25, 0.5, 0.4), BalanceRow("spam", 0.75, 0.5, 0.6)],
        slices=[SliceRow("length", "up to 4 words", 3, 2 / 3, 0.2, 0.9)],
        errors=[ErrorItem("t1", "a free prize", "ham", "spam", 0.9, [(2, 6)], [("link", "spam")])],
        n_errors=1,
        disagreements=[Disagreement("m1", "win www", "ham", 0.9, "spam", 0.8, [("link", "spam")])],
        reproduce=["wiesel run ."],
        settings='classes = ["ham", "spam"]',
    )


class Tags(HTMLParser):
    """Checks that tags are closed in order, and notes them with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_a_full_report_shows_every_section_and_is_well_formed():
    page = report_html(full())
    tags = parsed(page)
    ids = [attrs["id"] for tag, attrs in tags.seen if tag == "section"]
    assert len(ids) == 10
    assert [attrs["href"] for tag, attrs in tags.seen if tag == "a"] == [f"#{name}" for name in ids]
    assert len([tag for tag, _ in tags.seen if tag == "svg"]) == 4
    for words in (
        "link",
        "75 %",
        "1.50",
        "&#x27;silent&#x27; never votes.",
        "win www",
        "kept: epoch 2",
        "always &#x27;spam&#x27;",
        "a <mark>free</mark> prize",
        "\N{MULTIPLICATION SIGN} link: spam",
        "up to 4 words",
        'data-points="[[0.3000,3,1,0,0],[0.5000,2,0,1,1]]"',
    ):
        assert words in page


def test_the_verdict_and_the_day_stand_above_everything_else():
    page = report_html(replace(full(), verdict="Your votes <beat> your labels."))
    first, _, rest = page.partition("<nav")
    assert '<p class="verdict">Your votes &lt;beat&gt; your labels.</p>' in first
    assert f'<time datetime="{date.today().isoformat()}">' in first
    assert 'class="verdict"' not in rest
    assert 'class="verdict"' not in report_html(full())


def test_cells_say_what_they_are_where_rows_become_cards():
    row = (
        report_html(full()).partition('<th scope="row" class="name">link')[2].partition("</tr>")[0]
    )
    assert 'data-title="coverage"' in row


def test_the_page_needs_nothing_from_elsewhere():
    page = report_html(full())
    assert page.count("<script") == 1
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page)
    assert not re.findall(r"url\(|@import|https?://", page)
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def test_names_and_texts_cannot_become_markup():
    evil = "<script>alert(1)</script>\"'&"
    base = full()
    page = report_html(
        replace(
            base,
            title=evil,
            labels=LabelSpace("ham", evil),
            voters=[VoterRow(evil, [evil], 0.1, 0.1, weight=0.1)],
            findings=[evil],
            agreement_names=[evil, evil],
            report=evaluate_proba(PROBA, GOLD, ["ham", evil], n_resamples=0),
            methods={evil: REPORT, "other": REPORT},
            disagreements=[Disagreement(evil, evil, evil, 0.5, evil, 0.5, [(evil, evil)])],
            settings=evil,
            losses=[Curve(evil, [1.0, 2.0])],
            references={evil: REPORT},
            balance=[BalanceRow(evil, 0.5, 0.5, 0.5)],
            slices=[SliceRow(evil, evil, 9, 0.5, 0.2, 0.8)],
            errors=[ErrorItem(evil, evil, evil, evil, 0.5, [(0, 8)], [(evil, evil)])],
            judged_on=evil,
        )
    )
    parsed(page)
    assert page.count("<script") == 1
    assert page.count("&lt;script&gt;") > 10


def test_what_is_missing_is_left_out():
    bare = ReportData(
        title="Mails",
        labels=LABELS,
        story=["Nothing to judge by."],
        figures=[],
        voters=[],
        voter_caption="",
        findings=[],
        agreement_names=[],
        agreement=None,
    )
    page = report_html(bare)
    parsed(page)
    assert "there are no gold labels" in page
    assert "No problems were found" in page
    assert "<svg" not in page


def test_unknown_precision_and_weight_are_dashes():
    page = report_html(replace(full(), voters=[VoterRow("silent", [], 0.0, 0.0)]))
    row = page[page.index('<th scope="row" class="name">silent') :].partition("</tr>")[0]
    assert row.count("\N{EN DASH}") == 2
    assert "learned weight" not in page, "nobody has one"


def test_every_header_says_what_it_is_the_header_of():
    tags = parsed(report_html(full()))
    headers = [attrs for tag, attrs in tags.seen if tag == "th"]
    assert len(headers) > 20
    assert all(attrs.get("scope") in ("row", "col") for attrs in headers)


def test_many_errors_are_folded():
    error = full().errors[0]
    page = report_html(replace(full(), errors=[error] * 12, n_errors=40))
    assert "12 of 40" in page
    assert "<summary>4 more</summary>" in page


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], "a &lt;b&gt; c"),
        ([(2, 5)], "a <mark>&lt;b&gt;</mark> c"),
        ([(0, 3), (1, 5)], "<mark>a &lt;</mark>b&gt; c"),
        ([(4, 99)], "a &lt;b&gt; c"),
    ],
)
def test_marked_words_are_escaped_and_never_overlap(spans, expected):
    assert highlighted("a <b> c", spans) == expected


def test_a_long_text_is_cut_around_its_first_mark():
    text = "x" * 2000 + " prize " + "y" * 2000
    shown = highlighted(text, [(2001, 2006)])
    assert "<mark>prize</mark>" in shown
    assert len(shown) < 700


def test_the_file_is_written(tmp_path):
    write_report(full(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report_html(full())


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5], [float("nan"), 0.4], [-3.0, 1e6]])
def test_odd_curves_are_drawn_without_a_fall(values):
    page = report_html(replace(full(), losses=[Curve("end model", values)], kept_epoch=None))
    parsed(page)
    assert "nan" not in page.partition("<main>")[2].lower().replace("name", "")


def test_points_lie_where_they_should():
    # 440 x 260 with margins 44, 14, 24 and 40: the corners are (44, 220) and (426, 24).
    svg = chart(Axis("x", 0, 1), Axis("y", 0, 1), [Line("line", [(0, 0), (1, 1)], "one")])
    assert 'd="M44.0 220.0 L426.0 24.0"' in svg


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0.5, 1, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]), (3, 3, [3.0])],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert ticks(low, high) == expected


def test_items_with_and_without_votes_stand_side_by_side():
    proba, gold = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], [0, 1, 1, 1]
    both = evaluate_proba(proba, gold, LABELS, covered=[True, True, False, False], n_resamples=0)
    shown = coverage(both)
    assert "with a vote (2)" in shown
    assert "without a vote (2)" in shown
    assert ">1.000<" in shown, "both covered items are right"
    assert ">0.500<" in shown, "one of the two others is"
    assert coverage(evaluate_proba(proba, gold, LABELS, n_resamples=0)) == ""


def test_a_large_heat_map_numbers_every_fifth_voter():
    names = [f"voter {place}" for place in range(22)]
    head = heat_map(names, np.full((22, 22), 0.5)).partition("</thead>")[0]
    assert re.findall(r'<th scope="col">(\d+)</th>', head) == ["1", "5", "10", "15", "20"]


def test_many_classes_have_a_compact_confusion_matrix_of_their_own_width():
    names = [f"class {place}" for place in range(6)]
    gold = [0, 1, 2, 3, 4, 5, 5, 5]
    proba = np.eye(6)[[0, 1, 2, 3, 4, 5, 5, 0]]
    many = confusion(evaluate_proba(proba, gold, LabelSpace(*names), n_resamples=0))
    assert many.startswith('<figure class="wide">')
    # Class 5: two of three right, one taken for class 0; the other cells are empty.
    cells = re.findall(r'title="(\d+) %">(\d*)</td>', many)
    assert len(cells) == 36
    assert cells[30:] == [("33", "1"), *[("0", "")] * 4, ("67", "2")]
    digits = confusion(evaluate_proba(proba, gold, LabelSpace(*"012345"), n_resamples=0))
    assert "compact" in digits
    assert "wide" not in digits, "short names leave room for a neighbor"
    few = confusion(REPORT)
    assert "wide" not in few
    assert "<small>" in few
