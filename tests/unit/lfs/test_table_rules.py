"""Expressions, thresholds, look-ups and votes that already exist."""

from datetime import date

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest

from wiesel import VoteMatrix, apply_lfs, labeling_function
from wiesel.errors import DataError, ParameterError, VoteError
from wiesel.lfs import (
    ChatClient,
    expression,
    from_columns,
    keywords,
    lookup,
    prompt,
    regex,
    rule_from_dict,
    threshold,
)
from wiesel.lfs.engines.portable import pack_lfs, unpack_lfs
from wiesel.lfs.function import as_lfs

LABELS = ["ham", "spam"]


def votes_of(lfs: object, rows: object) -> list[list[int]]:
    return apply_lfs(lfs, rows, labels=LABELS).dense().tolist()


def test_an_expression_votes_where_it_is_true_and_not_where_it_is_unknown() -> None:
    rows = pl.DataFrame({"n": [1, 5, None], "text": ["a", "bb", "ccc"]})
    lfs = [
        expression("spam", pl.col("n") > 3),
        expression("ham", "length(text) >= 2 and n is not null"),
    ]
    assert votes_of(lfs, rows) == [[-1, -1], [1, 0], [-1, -1]]


@pytest.mark.parametrize(
    "condition",
    [
        pl.col("n") > 3,
        pl.col("text").is_in(["a", "b"]),
        pl.any_horizontal(cs.numeric() > 3),
        pl.col("text").str.contains("AnonymousFunction"),
        "n > 3",
    ],
)
def test_an_expression_travels_to_other_processes(condition: pl.Expr | str) -> None:
    rule = expression("spam", condition, name="x")
    (again,) = unpack_lfs(pack_lfs([rule]))
    assert again == rule
    assert again.fingerprint == rule.fingerprint
    rows = pl.DataFrame({"n": [1, 5], "text": ["a", "AnonymousFunction"]})
    assert votes_of(again, rows) == votes_of(rule, rows)


def test_a_condition_is_data_and_a_polars_expression_is_not() -> None:
    rule = expression("spam", "n > 3")
    assert rule_from_dict(rule.to_dict()) == rule
    assert repr(rule) == "expression(label='spam', condition='n > 3')"
    code = expression("spam", pl.col("n") > 3)
    assert code != expression("spam", pl.col("n") > 4)
    assert code == expression("spam", pl.col("n") > 3)
    with pytest.raises(ParameterError, match=r"'spam_n_expression' is a Polars expression.*text"):
        code.to_dict()


@pytest.mark.parametrize(
    "code",
    [
        pl.col("n").map_batches(lambda column: column > 3, return_dtype=pl.Boolean),
        pl.col("n").name.map(str.upper) > 3,
        pl.fold(pl.lit(0), lambda a, b: a + b, [pl.col("n")]) > 3,
        pl.reduce(lambda a, b: a + b, [pl.col("n"), pl.col("m")]) > 3,
    ],
)
def test_an_expression_with_python_code_is_refused(code: pl.Expr) -> None:
    with pytest.raises(ParameterError, match=r"Python or plug-in code.*vectorized=True"):
        expression("spam", code)


@pytest.mark.parametrize(
    "condition",
    [
        pl.col("n") > pl.col("n").mean(),
        pl.col("n").shift() > 1,
        pl.col("n").is_duplicated(),
        pl.when(pl.col("a") > 1).then(pl.col("n").sum()) > 3,
    ],
)
def test_an_expression_that_needs_other_rows_is_refused(condition: pl.Expr) -> None:
    with pytest.raises(ParameterError, match="depend on the batch"):
        expression("spam", condition)


def test_an_expression_that_is_no_condition_is_refused_with_its_type() -> None:
    with pytest.raises(ParameterError, match=r"'spam_n_expression' needs a condition.*Int64"):
        votes_of(expression("spam", pl.col("n") + 1), {"n": [1]})


@pytest.mark.parametrize("condition", ["n >", "", 3])
def test_bad_conditions_are_refused(condition: object) -> None:
    with pytest.raises(ParameterError):
        expression("spam", condition)  # type: ignore[arg-type]


def test_an_expression_that_fails_is_named_among_many() -> None:
    lfs = [
        expression("ham", pl.col("n") > 3),
        expression("spam", pl.col("n").str.contains("x"), name="wrong"),
    ]
    with pytest.raises(Exception, match=r"'wrong' failed on rows 0 to 1"):
        votes_of(lfs, {"n": [1, 5]})


DATES = {"sent": [date(2024, 1, 31), date(2024, 2, 1), None], "due": [date(2024, 2, 1)] * 3}


@pytest.mark.parametrize(
    "make",
    [
        lambda: threshold("spam", "sent", above=3),
        lambda: expression("spam", "sent > 20240201"),
        lambda: expression("spam", "sent > '2024-02-01'"),
    ],
)
def test_dates_are_not_compared_with_numbers_or_texts(make) -> None:
    with pytest.raises(DataError, match=r"'sent'.*to_text\(sent\) >= '2024"):
        votes_of([make()], DATES)


def test_dates_are_compared_as_texts_and_with_each_other() -> None:
    lfs = [
        expression("spam", "to_text(sent) >= '2024-02'"),
        expression("ham", "sent < due"),
        expression("ham", "sent is null", name="unsent"),
    ]
    assert votes_of(lfs, DATES) == [[-1, 0, -1], [1, -1, -1], [-1, -1, 0]]


def test_thresholds_vote_strictly_above_and_below_and_never_on_missing_numbers() -> None:
    rows = pl.DataFrame({"x": [1.0, 2.0, 3.0, None, np.nan]})
    lfs = [
        threshold("spam", "x", above=2),
        threshold("ham", "x", below=2),
        threshold("spam", "x", above=1, below=3),
    ]
    assert [lf.name for lf in lfs] == [
        "spam_x_above_2",
        "ham_x_below_2",
        "spam_x_above_1_below_3",
    ]
    none = [-1, -1, -1]
    assert votes_of(lfs, rows) == [[-1, 0, -1], [-1, -1, 1], [1, -1, -1], none, none]
    assert votes_of(threshold("spam", "x", above=2), {"x": [1, 3]}) == [[-1], [1]]


@pytest.mark.parametrize(
    ("limits", "words"),
    [({}, "above"), ({"above": 3, "below": 3}, "never vote"), ({"above": "3"}, "must be a number")],
)
def test_bad_limits_are_refused(limits: dict[str, float], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        threshold("spam", "x", **limits)


def test_a_lookup_knows_tuples_sets_values_and_tables() -> None:
    rows = pl.DataFrame({"a": ["x", "y", "z", None], "b": ["y", "x", "z", "y"]})
    pairs = [("x", "y"), ("u", "v")]
    table = pl.DataFrame({"a": ["x"], "b": ["y"], "year": [1903]})
    assert votes_of(lookup("spam", pairs, columns=["a", "b"]), rows) == [[1], [-1], [-1], [-1]]
    assert votes_of(lookup("spam", set(pairs), columns=["a", "b"], symmetric=True), rows) == [
        [1],
        [1],
        [-1],
        [-1],
    ]
    assert votes_of(lookup("spam", table, columns=["a", "b"]), rows)[0] == [1]
    assert votes_of(lookup("spam", ["Z"], columns="a", case_sensitive=False), rows)[2] == [1]


def test_a_lookup_of_numbers_fits_the_type_of_the_column() -> None:
    rows = pl.DataFrame({"n": pl.Series([1, 2], dtype=pl.UInt8)})
    assert votes_of(lookup("spam", [2, 3], columns="n"), rows) == [[-1], [1]]


def test_a_lookup_is_made_again_from_its_data_and_prints_shortly() -> None:
    rule = lookup("spam", {("a", "b"), ("c", "d"), ("e", "f")}, columns=["x", "y"], symmetric=True)
    again = rule_from_dict(rule.to_dict())
    assert again == rule
    assert again.fingerprint == rule.fingerprint
    assert repr(rule) == (
        "lookup(label='spam', columns=['x', 'y'], 3 known: ('a', 'b'), ('c', 'd') and 1 more)"
    )


@pytest.mark.parametrize(
    ("known", "columns", "words"),
    [
        ([], ["a"], "at least one known case"),
        ([("x",)], ["a", "b"], "one value for each of the 2 columns"),
        ("names.csv", ["a"], "table or a set"),
        (pl.DataFrame({"a": ["x"]}), ["a", "b"], "no column 'b'"),
    ],
)
def test_bad_known_cases_are_refused(known: object, columns: list[str], words: str) -> None:
    with pytest.raises((ParameterError, DataError), match=words):
        lookup("spam", known, columns=columns)


def test_a_symmetric_lookup_needs_pairs() -> None:
    with pytest.raises(ParameterError, match="for pairs"):
        lookup("spam", ["x"], columns="a", symmetric=True)


def test_existing_votes_may_be_names_indices_or_distributions() -> None:
    rows = pl.DataFrame({"a": ["ham", None], "b": [-1, 1], "c": [[0.5, 0.5], [0.0, 0.0]]})
    votes = apply_lfs(from_columns(["a", "b", "c"]), rows, labels=LABELS)
    assert votes.voters == ("a", "b", "c")
    assert votes.dense().tolist() == [[0, -1, 0], [-1, 1, -1]]
    assert votes.distribution.tolist() == [[1, 0], [0.5, 0.5], [0, 1]]


@pytest.mark.parametrize("column", [[0, 7], ["ham", "eggs"], [-2, 0]])
def test_existing_votes_outside_the_classes_are_refused(column: list[object]) -> None:
    with pytest.raises(VoteError, match=r"'a' (holds|voted) .*'ham', 'spam'"):
        apply_lfs(from_columns("a"), {"a": column}, labels=LABELS)


def test_from_columns_needs_a_column() -> None:
    with pytest.raises(ParameterError, match="names of the columns"):
        from_columns()


def test_a_lookup_may_read_any_column() -> None:
    """Also one that is named like the positions of the rows."""
    rows = {"position": ["goal", "left"], "position_": [1, 2]}
    seen = lookup("keeper", [("goal", 1)], columns=["position", "position_"])
    votes = apply_lfs(seen, rows, labels=["keeper", "other"])
    assert votes.dense().tolist() == [[0], [-1]]


HALF = "\ud800"  # half of a character: JSON and Python allow it, tables and files do not


@pytest.mark.parametrize(
    "make",
    [
        lambda: keywords("spam", [HALF], column="text"),
        lambda: keywords(HALF, ["free"], column="text"),
        lambda: keywords("spam", ["free"], column=HALF),
        lambda: keywords("spam", ["free"], column="text", name=HALF),
        lambda: regex("spam", HALF, column="text"),
        lambda: expression("spam", f"text = '{HALF}'"),
        lambda: expression("spam", f'"{HALF}" = 1'),
        lambda: lookup("spam", [("x", HALF)], columns=["a", "b"]),
        lambda: lookup("spam", ["x"], columns=HALF),
        lambda: threshold("spam", HALF, above=1),
        lambda: prompt("spam", HALF + " {text}", client=ChatClient("http://127.0.0.1:1/v1", "m")),
        lambda: ChatClient("http://127.0.0.1:1/v1", HALF),
        lambda: from_columns([HALF]),
        lambda: as_lfs([labeling_function(name=HALF)(lambda row: None)]),
    ],
    ids=range(14),
)
def test_half_of_a_character_is_refused_in_every_part_of_a_rule(make):
    with pytest.raises(ParameterError, match=r"half of a character|name of a labeling function"):
        make()


def test_a_rule_says_which_text_has_half_of_a_character():
    with pytest.raises(DataError, match="half of a character"):
        keywords("spam", ["free"], column="text")({"text": HALF})
    with pytest.raises(VoteError, match="row 1"):
        VoteMatrix.from_dense([[0], [1]], labels=["ham", "spam"], ids=["a", HALF])
