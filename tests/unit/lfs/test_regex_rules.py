"""Regular expressions: linear time, clear refusals."""

import pytest

from wiesel import apply_lfs, regex
from wiesel.errors import ParameterError

LABELS = ["ham", "spam"]


@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+$", r"(a|aa)+$", r"(a|a?)+$", r"(.*a){20}$", r"([a-zA-Z]+)*$", r"^(([a-z])+.)+[A-Z]$"],
)
def test_catastrophic_patterns_finish(pattern: str) -> None:
    # A backtracking engine needs about 2 ** 5000 steps for these; the test's timeout would fire.
    rows = [{"text": "a" * 5_000 + "!"}, {"text": "x" * 5_000}]
    votes = apply_lfs(regex("spam", pattern, column="text"), rows, labels=LABELS)
    assert votes.n_items == 2


def test_the_pattern_decides_about_case() -> None:
    assert regex("spam", "free", column="t")({"t": "FREE"}) is None
    assert regex("spam", "(?i)free", column="t")({"t": "FREE"}) == "spam"


@pytest.mark.parametrize("pattern", [r"(?=free)", r"(?<!not )free", r"(a)\1"])
def test_look_around_and_backreferences_are_refused_at_construction(pattern: str) -> None:
    with pytest.raises(ParameterError, match=r"look-around and backreferences.*labeling_function"):
        regex("spam", pattern, column="text")


def test_a_broken_pattern_is_refused_with_the_reason() -> None:
    with pytest.raises(ParameterError, match="unclosed group"):
        regex("spam", "(free", column="text")


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(ParameterError, match="non-empty string"):
        regex("spam", "", column="text")


def test_several_patterns_on_several_columns_vote_together() -> None:
    lfs = [regex("spam", "fre+", column="text"), regex("ham", "^re:", column="subject")]
    rows = [{"text": "free", "subject": None}, {"text": None, "subject": "re: x"}]
    assert apply_lfs(lfs, rows, labels=LABELS).dense().tolist() == [[1, -1], [-1, 0]]


def test_a_regex_rule_is_made_again_from_its_data() -> None:
    rule = regex("spam", r"www\.", column="text", name="link")
    assert type(rule).from_dict(rule.to_dict()) == rule
    assert rule.to_dict()["name"] == "link"


def test_an_unknown_option_in_the_data_is_refused_with_a_suggestion() -> None:
    rule = regex("spam", "x", column="text")
    with pytest.raises(ParameterError, match="Did you mean 'pattern'"):
        type(rule).from_dict({"label": "spam", "patern": "x", "column": "text"})
    with pytest.raises(ParameterError, match="needs 'column'"):
        type(rule).from_dict({"label": "spam", "pattern": "x"})
