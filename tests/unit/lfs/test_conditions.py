"""The language of conditions: what it means, how mistakes are told, and what it cannot do."""

import json
import math
import os
from pathlib import Path

import polars as pl
import pytest

from wiesel import expression
from wiesel.errors import LabelingFunctionError, ParameterError, WieselError
from wiesel.lfs import load_lfs, rule_from_dict
from wiesel.lfs.conditions import FUNCTIONS

ROWS = pl.DataFrame(
    {
        "text": ["Win a FREE prize", "see you", None],
        "n": [1, 5, None],
        "x": [0.5, math.nan, None],
        "ok": [True, False, None],
        "two words": ["a", "b", "c"],
    }
)


def true_rows(condition: str) -> list[int]:
    rule = expression("spam", condition)
    return [int(row) for row in rule.matching_rows([rule], ROWS)[0]]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("n > 3", [1]),
        ("n <= 5 and not n = 1", [1]),
        ("NOT (n = 1 OR n = 7)", [1]),
        ("n != 1", [1]),
        ("n <> 1", [1]),
        ("3 < n", [1]),
        ("text is null", [2]),
        ("text IS NOT NULL", [0, 1]),
        ("ok", [0]),
        ("not ok", [1]),
        ("ok = false", [1]),
        ("ok or text is null", [0, 2]),
        ("n in (1, 2.0, -3)", [0]),
        ("n in (1, 2)", [0]),
        ("x in (0.5, 2)", [0]),
        ("x in (5, 2)", []),
        ("text not in ('see you')", [0]),
        ("n between 2 and 5", [1]),
        ("n not between 2 and 5", [0]),
        ("x > 0.2", [0]),  # NaN is unknown, not the largest number
        ("x = x", [0]),
        ("n / 0 > 1 or n % 0 = 0", []),
        ("n + 2 * 3 = 7", [0]),
        ("(n + 2) * 3 = 9", [0]),
        ("n - -1 = 6", [1]),
        ("-n < -2", [1]),
        ("n / 2 = 0.5", [0]),
        ("n % 2 = 1", [0, 1]),
        ("abs(-n) = 5", [1]),
        ("round(n / 3, 1) = 0.3", [0]),
        ("floor(n / 2) = 2 and ceil(n / 2) = 3", [1]),
        ("length(text) < 10", [1]),
        ("word_count(text) = 4", [0]),
        ("count(text, 'e') = 2", [1]),
        ("contains(lower(text), 'free')", [0]),
        ("contains(text, '.')", []),
        ("starts_with(text, 'Win') and ends_with(text, 'prize')", [0]),
        ("matches(text, '(?i)free|you$')", [0, 1]),
        ("upper(trim(text)) = 'SEE YOU'", [1]),
        ("to_number(to_text(n)) = 5", [1]),
        ("coalesce(n, 9) = 9", [2]),
        ("\"two words\" = 'b'", [1]),
        ("`two words` = 'b'", [1]),
        ("text = 'it''s'", []),
        ("true", [0, 1, 2]),
        ("1 = 2", []),
        (" or ".join(f"n = {k}" for k in range(2, 200)), [1]),
    ],
)
def test_conditions_mean_what_they_say(condition: str, rows: list[int]) -> None:
    assert true_rows(condition) == rows


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("lenght(text) < 5", r"character 1 .*no function 'lenght'. Did you mean 'length'"),
        ("n > avg(n)", r"character 5 .*no function 'avg'"),
        ("n >", r"\(n >>>> \(its end\)\): a column, a constant or a function is missing"),
        ("n > 3 and", "missing"),
        ("(n > 3", r"\) is missing"),
        ("n > 3)", "should end here"),
        ("n 3", "should end here"),
        ("text like '%x%'", r"Use contains\(text"),
        ("text = 'free", "closing '"),
        ('"two words = 3', 'closing "'),
        ("n & 3", "sign '&' has no meaning"),
        ("n = 3x", "this is not a number"),
        ("n + 1", "condition needs true or false, but this is a number"),
        ("'free'", "condition needs true or false, but this is a text"),
        ("n > 3 and lower(text)", "and needs true or false, but this is a text"),
        ("not 3", "not needs true or false"),
        ("length(text) = 'a'", "a number is compared with a text.*to_number"),
        ("lower(text) > 3", "a text is compared with a number.*'3'"),
        ("lower(text) in (3)", "a text is compared with a number"),
        ("length(3) = 1", "length needs a text, but this is a number"),
        ("length(text, 2) = 1", "length takes 1 arguments; got 2"),
        ("round() = 1", "round takes 1 to 2 arguments; got 0"),
        ("round(n, 99) = 1", "from 0 to 15"),
        ("matches(text, text)", "needs a text in quotes"),
        ("matches(text, '(')", "unclosed group"),
        ("matches(text, '(?=x)')", "look-around"),
        ("n = null", "is null"),
        ("n in (null)", "none is null"),
        ("n in (text)", "constant"),
        ("1 < n < 3", "chains"),
        ("n = 1e999", "too large"),
        ('"^.*$" = 1', "cannot be named"),
        ("(" * 200 + "n" + ")" * 200, "nested more than"),
        ("not " * 500 + "ok", "nested more than"),
        ("- " * 500 + "n > 1", "nested more than"),
        ("n = 1 or " * 1000 + "n = 2", "at most 1,000"),
        ("x" * 30_000, "at most 20,000"),
    ],
)
def test_mistakes_are_told_with_their_place(condition: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        expression("spam", condition)


def test_a_column_that_is_not_there_is_told() -> None:
    with pytest.raises(WieselError, match=r"column 'txt', which is not there. Did you mean 'text'"):
        true_rows("length(txt) > 3")


class Attack:
    """Unpickling it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)

    def __call__(self, *_: object) -> str:
        return "x"


@pytest.mark.parametrize("kind", ["name.map", "map_fields", "fold", "reduce", "rolling_map"])
def test_no_serialized_expression_is_read_from_a_file(tmp_path: Path, kind: str) -> None:
    attack, number = Attack(tmp_path / "executed"), pl.col("n")
    made = {
        "name.map": lambda: number.name.map(attack),
        "map_fields": lambda: pl.struct("n").name.map_fields(attack),
        "fold": lambda: pl.fold(pl.lit(0), attack, [number]),
        "reduce": lambda: pl.reduce(attack, [number, number]),
        "rolling_map": lambda: number.rolling_map(attack, 3),
    }[kind]()
    text = made.meta.serialize(format="json")
    assert "rmdir" not in text
    data = {"kind": "expression", "label": "spam", "json": text}
    file = tmp_path / "rules.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in data.items()]
    file.write_text("\n".join(["[[lf]]", *lines]))
    with pytest.raises(LabelingFunctionError, match="can run any code"):
        load_lfs(file)
    with pytest.raises(ParameterError, match="can run any code"):
        rule_from_dict(data)
    for option in ("condition", "sql"):
        with pytest.raises(ParameterError):
            rule_from_dict({"kind": "expression", "label": "spam", option: text})
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "condition",
    [
        "n in (select a from read_csv('http://127.0.0.1:9/x.csv'))",
        "(select count(*) from read_parquet('/etc/passwd')) > 0",
        "exists (select 1)",
    ],
)
def test_conditions_open_neither_files_nor_addresses(condition: str) -> None:
    with pytest.raises(ParameterError, match="The condition, character"):
        expression("spam", condition)


def test_every_function_is_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "conditions.md").read_text()
    missing = [name for name in FUNCTIONS if f"`{name}(" not in page]
    assert len(FUNCTIONS) > 10
    assert not missing
