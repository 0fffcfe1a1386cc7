import re
import sys

import polars as pl
import pytest

from wiesel.analysis.table import UNKNOWN, Column, Table, count, interval, number, percent, text
from wiesel.errors import MissingExtraError


def table(**columns):
    frame = pl.DataFrame(columns)
    return Table(frame, tuple(text(name) for name in columns))


def test_unknown_values_are_a_dash_in_print_and_null_in_the_frame():
    shown = Table(pl.DataFrame({"p": [0.5, None]}), (percent("p"),))
    assert [line.strip() for line in str(shown).splitlines()[2:]] == ["50.0 %", UNKNOWN]
    assert shown.to_records() == [{"p": 0.5}, {"p": None}]


def test_every_kind_of_column_prints_unknown_as_a_dash():
    row = {"x": None, "low": None, "high": None}
    columns = [text("x"), count("x"), number("x"), percent("x"), interval("x", "low", "high")]
    assert [column.cell(row) for column in columns] == [UNKNOWN] * 5


def test_values_read_as_people_write_them():
    row = {"x": 0.1234, "low": 0.05, "high": 0.25, "n": 1234567, "names": ["a", "b", "c", "d"]}
    assert percent("x").cell(row) == "12.3 %"
    assert interval("x", "low", "high").cell(row) == f"12.3 % (5{UNKNOWN}25)"
    assert number("x").cell(row) == "0.12"
    assert count("n").cell(row) == "1,234,567"
    assert text("names").cell(row) == "a, b, c and 1 more"


def test_html_escapes_names_headers_and_the_caption():
    frame = pl.DataFrame({"voter": ["<script>alert('x')</script>"]})
    html = Table(frame, (text("voter", "<b>"),), caption="a < b").to_html()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;b&gt;" in html
    assert "a &lt; b" in html
    assert html == Table(frame, (text("voter", "<b>"),), caption="a < b")._repr_html_()


def test_square_brackets_in_a_name_are_printed_not_taken_for_markup():
    assert "[bold]x[/bold]" in str(table(voter=["[bold]x[/bold]"]))


def test_lines_stay_within_the_width():
    wide = table(voter=["a_very_long_name_of_a_voter" * 5], sentence=["many words " * 30])
    lines = wide.to_text(width=80).splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [70, 80, 120])
def test_names_and_numbers_are_whole_in_a_narrow_terminal(width: int):
    frame = pl.DataFrame({"method": ["majority_vote"], "score": [0.6125], "seconds": [0.35]})
    interval = [Column(h, lambda row: f"{row['score']} (0.5335 to 0.6935)") for h in "abc"]
    shown = Table(frame, (text("method"), *interval, number("seconds"))).to_text(width)
    assert shown.count("majority_vote") == 1
    assert [shown.split().count(word) for word in ("0.6125", "(0.5335", "0.6935)")] == [3, 3, 3]
    assert "0.35" in shown.split()


@pytest.mark.parametrize("width", range(60, 110, 5))
def test_short_names_below_a_long_header_do_not_push_a_column_out(width: int):
    frame = pl.DataFrame({"label": ["a"], "n": [12], "threshold": [0.25]})
    columns = [number("threshold", f"number{k}") for k in range(7)]
    shown = Table(frame, (text("label"), count("n"), *columns, number("threshold"))).to_text(width)
    assert "threshold" in shown.split()
    assert shown.split().count("0.25") == 8


def test_printing_stops_after_the_limit_and_says_what_is_left():
    frame = pl.DataFrame({"n": range(50)})
    shown = Table(frame, (count("n"),), limit=10)
    assert "40 more rows in .frame" in str(shown)
    assert len(str(shown).splitlines()) == 2 + 10 + 1
    assert len(shown) == 50


def test_html_has_more_rows_than_print_because_they_sort_and_scroll():
    shown = Table(pl.DataFrame({"n": range(700)}), (count("n"),), limit=10)
    assert shown.to_html().count("<tr>") == 1 + 500
    assert "200 more rows in .frame" in shown.to_html()


def test_html_sorts_numbers_by_what_is_shown_and_unknown_ones_have_no_key():
    frame = pl.DataFrame({"n": [1234, None], "p": [0.5, None], "low": [0.1, None]})
    columns = (count("n"), percent("p"), interval("p", "low", "p"))
    keys = re.findall('data-key="(.*?)"', Table(frame, columns).to_html())
    assert keys == ["1234", "50.0", "50.0", "", "", ""]


def test_html_draws_shares_as_bars_of_their_length():
    frame = pl.DataFrame({"p": [0.25, None, 1.5]})
    html = Table(frame, (percent("p", color="orange"),)).to_html()
    ends = re.findall(r"linear-gradient\(90deg,rgba\(217,84,30,.28\) (\S+),transparent", html)
    assert ends == ["25.0%", "100.0%"]


def test_the_script_of_html_stays_within_its_attribute():
    script = Table(pl.DataFrame({"n": [1]}), (count("n"),)).to_html().split('onclick="')[1]
    assert script.split('"')[0].rstrip().endswith("}")


def test_a_table_as_pandas_has_every_value():
    frame = pl.DataFrame({"voter": ["a", "b"], "p": [0.5, None], "names": [["x"], []]})
    found = Table(frame, (text("voter"),), limit=1).to_pandas()
    assert found["voter"].tolist() == ["a", "b"]
    assert found["p"].isna().tolist() == [False, True]
    assert found["names"].tolist() == [["x"], []]


def test_without_pandas_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install pandas.*\.frame"):
        table(voter=["a"]).to_pandas()


def test_an_empty_table_prints_its_caption_only():
    assert str(Table(pl.DataFrame({"n": []}), (count("n"),), caption="Nothing.")) == "Nothing."


@pytest.mark.parametrize(("terminal", "width"), [(20, 60), (90, 90), (500, 120)])
def test_a_table_fits_the_terminal_between_sixty_and_a_hundred_and_twenty(
    terminal: int, width: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", str(terminal))
    shown = str(table(words=["word " * 100]))
    assert width - 10 < max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize(
    ("n_rows", "rest"), [(40, ""), (41, "1 more row in .frame"), (43, "3 more rows in .frame")]
)
def test_the_rows_that_are_not_shown_are_counted(n_rows: int, rest: str):
    last = str(table(name=[f"row {k}" for k in range(n_rows)])).splitlines()[-1]
    assert last.strip() == (rest or "row 39")
