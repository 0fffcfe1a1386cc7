"""Changing rules files as text: what was there stays, what is written can be read."""

import pytest

from wiesel import keywords, regex, threshold
from wiesel.errors import LabelingFunctionError
from wiesel.lfs import load_lfs
from wiesel.lfs.rules_file import read_off, read_rules, rule_text, with_off, with_rule, without_rule

FILE = """# my rules
labels = ["ham", "spam"]

# gifts are spam
[[lf]]
kind = "keywords"
label = "spam"
keywords = ["free"]
column = "text"
name = "gifts"

[[lf]] # links
kind = "regex"
label = "spam"
pattern = "www"
column = "text"
name = "link"
"""


def read(tmp_path, text):
    path = tmp_path / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return read_rules(path)[0]


@pytest.mark.parametrize(
    "rule",
    [
        keywords("spam", ['say "hi"', "back\\slash", "tab\there", "emoji 🎁", "\x7f"], column="t"),
        regex("spam", r"\bfree\b|https?://", column="text", name="a]]\n[[lf"),
        threshold("spam", "n", above=3, below=7.5),
        keywords("spam", ["a", "b"], column="text", whole_words=False, min_matches=2),
    ],
)
def test_every_rule_is_read_back_as_it_was_written(tmp_path, rule):
    assert read(tmp_path, with_rule(FILE, rule))[2] == rule
    assert read(tmp_path, rule_text(rule)) == [rule]


def test_comments_and_other_rules_stay(tmp_path):
    changed = with_rule(FILE, regex("ham", "hello", column="text", name="hi"), place=0)
    assert "# my rules" in changed
    assert "[[lf]] # links" in changed
    assert [rule.name for rule in read(tmp_path, changed)] == ["hi", "link"]


def test_a_rule_is_taken_out_and_the_last_one_leaves_an_empty_list(tmp_path):
    once = without_rule(FILE, 0)
    assert [rule.name for rule in read(tmp_path, once)] == ["link"]
    none = without_rule(once, 0)
    assert read(tmp_path, none) == []
    again = with_rule(none, keywords("spam", ["x"], column="text"))
    assert len(read(tmp_path, again)) == 1


def test_the_first_rule_may_be_written_to_nothing(tmp_path):
    assert len(read(tmp_path, with_rule("", keywords("spam", ["x"], column="text")))) == 1


def test_a_file_that_is_written_in_another_way_is_left_alone():
    odd = 'lf = [{kind = "regex", label = "spam", pattern = "w", column = "text"}]\n'
    with pytest.raises(LabelingFunctionError, match="Change it with an editor"):
        without_rule(odd, 0)


def test_switched_off_functions_do_not_vote_and_are_named(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(with_off(FILE, ["gifts"]))
    assert read_off(path) == ("gifts",)
    loaded = load_lfs(path)
    assert [lf.name for lf in loaded] == ["link"]
    assert [lf.name for lf in loaded.off] == ["gifts"]
    assert with_off(with_off(FILE, ["gifts"]), []) == FILE


def test_a_rules_file_switches_off_a_python_function_beside_it(tmp_path):
    (tmp_path / "lfs.py").write_text(
        "from wiesel import labeling_function\n\n"
        "@labeling_function\ndef short(row):\n    return None\n"
    )
    (tmp_path / "rules.toml").write_text(with_off(FILE, ["short"]))
    names = [lf.name for lf in load_lfs(tmp_path / "lfs.py", tmp_path / "rules.toml")]
    assert names == ["gifts", "link"]


@pytest.mark.parametrize(
    ("off", "message"),
    [
        ('["gfts"]', "Did you mean 'gifts'"),
        ('"gifts"', "off is a list of names"),
        ('["gifts", "link"]', "All 2 labeling functions are switched off"),
    ],
)
def test_what_cannot_be_switched_off_is_told(tmp_path, off, message):
    path = tmp_path / "rules.toml"
    path.write_text(f"off = {off}\n{FILE}")
    with pytest.raises(LabelingFunctionError, match=message):
        load_lfs(path)
