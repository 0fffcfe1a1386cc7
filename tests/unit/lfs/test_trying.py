"""try_lfs: votes, failures and highlighted matches on a few rows."""

from pathlib import Path

import polars as pl
import pytest

from wiesel import keywords, labeling_function, regex, try_lfs
from wiesel.errors import ParameterError
from wiesel.lfs.text_rules import pattern_spans

ROWS = [
    {"text": "Free prize, freedom!", "n": 3},
    {"text": "see <b>you</b>", "n": 0},
    {"text": None, "n": 1},
]


@labeling_function
def ratio(row):
    return {"ham": 0.5, "spam": 0.5} if 6 / row["n"] > 1 else None


LFS = [
    keywords("spam", ["free", "prize"], column="text", name="gifts"),
    regex("ham", "you", column="text", name="you"),
    ratio,
]


def test_votes_errors_and_spans_are_told_for_each_row() -> None:
    first, second, third = try_lfs(LFS, ROWS)
    assert first.votes == {"gifts": "spam", "ratio": {"ham": 0.5, "spam": 0.5}}
    assert first.spans == {"text": [(0, 4), (5, 10)]}
    assert second.votes == {"you": "ham"}
    assert second.errors == {"ratio": "ZeroDivisionError: division by zero"}
    assert third.votes.keys() == {"ratio"}
    assert first.to_dict()["spans"] == {"text": [[0, 4], [5, 10]]}


def test_the_terminal_shows_matches_in_brackets() -> None:
    shown = str(try_lfs(LFS, ROWS))
    assert "text: [Free] [prize], freedom!" in shown
    assert "ham: you" in shown
    assert "failed: ratio (ZeroDivisionError: division by zero)" in shown
    assert "text: None" in shown


def test_the_notebook_gets_marked_and_escaped_html() -> None:
    html = try_lfs(LFS, ROWS)._repr_html_()
    assert "<mark>Free</mark> <mark>prize</mark>" in html
    assert "&lt;b&gt;<mark>you</mark>" in html
    assert "<b>you" not in html


def test_only_n_rows_are_looked_at(tmp_path: Path) -> None:
    calls = []
    counting = labeling_function(name="counting")(lambda row: calls.append(1))
    pl.DataFrame(ROWS).write_parquet(tmp_path / "rows.parquet")
    assert len(try_lfs(counting, ROWS, n=2)) == 2
    assert len(try_lfs(counting, tmp_path / "rows.parquet", n=2)) == 2
    assert len(calls) == 4
    with pytest.raises(ParameterError, match="at least 1"):
        try_lfs(counting, ROWS, n=0)


def test_long_texts_are_shown_around_the_matches() -> None:
    rows = [{"text": "x " * 2_000 + "free" + " y" * 2_000}]
    shown = str(try_lfs(keywords("spam", ["free"], column="text"), rows))
    assert "[free]" in shown
    assert len(shown) < 1_000


@pytest.mark.parametrize(
    ("pattern", "text", "spans"),
    [
        (r"\bfree\b", "freedom is free, free", [(11, 15), (17, 21)]),
        ("a*", "baab", [(1, 3)]),
        ("é+", "\ue000caféé", [(4, 6)]),
        ("x", "abc", []),
    ],
)
def test_spans_are_those_of_the_engine_that_votes(
    pattern: str, text: str, spans: list[tuple[int, int]]
) -> None:
    assert pattern_spans(pattern, text) == spans


def test_a_text_of_all_private_characters_has_spans_too():
    text = "".join(map(chr, range(0xE000, 0xF900)))
    assert pattern_spans("free", f"{text}free") == [(6400, 6404)]


@pytest.mark.parametrize(
    ("keyword", "text", "spans"),
    [
        ("click here", "CLICK\n here, clickhere", [(0, 11)]),
        ("c++", "c++11 is c++", [(0, 3), (9, 12)]),
        ("café", "cafés, CAFÉ", [(7, 11)]),
    ],
)
def test_spans_of_keywords_are_whole_words(
    keyword: str, text: str, spans: list[tuple[int, int]]
) -> None:
    assert keywords("spam", [keyword], column="text").spans(text) == spans


def test_a_function_of_frames_is_tried_on_all_rows_at_once() -> None:
    @labeling_function(vectorized=True)
    def long(frame):
        length = pl.col("text").str.len_chars()
        return frame.select(vote=pl.when(length > length.mean()).then(pl.lit("spam")))["vote"]

    rows = pl.DataFrame({"text": ["a", "a long text"]})
    assert [row.votes for row in try_lfs(long, rows)] == [{}, {"long": "spam"}]


def test_an_error_lists_the_columns_of_the_row_not_only_those_that_the_rule_reads():
    shown = str(try_lfs(keywords("spam", ["free"], column="text"), [{"item": "a", "voter": "b"}]))
    assert "reads the column 'text'" in shown
    assert "The table has 'item', 'voter'." in " ".join(shown.split())


def test_an_empty_list_of_functions_is_refused_with_the_way_to_one():
    with pytest.raises(ParameterError, match=r"list is empty\. Write one, .*keywords.*suggest"):
        try_lfs([], [{"text": "a"}])
