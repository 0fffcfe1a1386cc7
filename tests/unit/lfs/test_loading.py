"""Labeling functions from files: what is found, and how mistakes are told."""

import os
import sys
from pathlib import Path

import polars as pl
import pytest

from wiesel import LabelSpace, apply_lfs
from wiesel.errors import DataError, LabelingFunctionError
from wiesel.lfs import load_lfs
from wiesel.lfs.rules_file import RULES

TOML = """
labels = ["ham", "spam"]

[[lf]]
kind = "keywords"
label = "spam"
keywords = ["free", "prize"]
column = "text"

[[lf]]
kind = "regex"
name = "link"
label = "spam"
pattern = 'https?://'
column = "text"

[[lf]]
kind = "threshold"
label = "ham"
column = "n"
below = 3

[[lf]]
kind = "expression"
label = "ham"
condition = "length(text) < 5"

[[lf]]
kind = "lookup"
label = "ham"
columns = ["a", "b"]
known = [["x", "y"], ["u", "v"]]

[[lf]]
kind = "lookup"
name = "from_file"
label = "ham"
columns = "name"
known_file = "friends.csv"

[[lf]]
kind = "column"
column = "worker"

[[lf]]
kind = "prompt"
labels = ["ham", "spam"]
template = "Spam? {text}"
client = { url = "http://127.0.0.1:9/v1", model = "tiny" }
"""

PYTHON = """
from wiesel import LabelSpace, keywords, labeling_function
from words import GREETINGS

LABELS = LabelSpace("ham", "spam")

greeting = keywords("ham", GREETINGS, column="text", name="greeting")
_hidden = keywords("ham", ["x"], column="text", name="hidden")


@labeling_function
def short(row, limit=4):
    return "ham" if len(row["text"]) < limit else None


several = [keywords("spam", [word], column="text") for word in ("free", "prize")]
again = [short]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "words.py").write_text("GREETINGS = ['hi', 'hello']\n")
    (tmp_path / "friends.csv").write_text("name,since\nAda,1840\nMary,1833\n")
    (tmp_path / "rules.toml").write_text(TOML)
    (tmp_path / "lfs.py").write_text(PYTHON)
    return tmp_path


def check_told(file: Path, line: str, wrong: str, words: str) -> None:
    """Put a mistake into a good file and look for the useful words of the message."""
    good = file.read_text()
    assert line in good
    file.write_text(good.replace(line, wrong, 1))
    with pytest.raises(LabelingFunctionError, match=words):
        load_lfs(file)


def test_every_kind_of_rule_is_read_from_a_rules_file(folder: Path) -> None:
    loaded = load_lfs(folder / "rules.toml")
    assert {lf.kind for lf in loaded} == set(RULES)
    assert loaded.labels == LabelSpace("ham", "spam")
    assert [lf.name for lf in loaded][1] == "link"
    row = {"text": "free", "n": 1, "a": "x", "b": "y", "name": "Ada", "worker": "spam"}
    votes = apply_lfs(list(loaded)[:-1], [row], labels=loaded.labels)
    assert votes.dense().tolist() == [[1, -1, 0, 0, 0, 0, 1]]


def test_a_python_file_gives_functions_builders_and_lists_in_order(folder: Path) -> None:
    loaded = load_lfs(folder / "lfs.py")
    assert [lf.name for lf in loaded] == ["greeting", "short", "spam_free", "spam_prize"]
    assert loaded.labels == LabelSpace("ham", "spam")


def test_python_and_toml_mix(folder: Path) -> None:
    assert len(load_lfs(folder / "lfs.py", folder / "rules.toml")) == 12


def test_an_edit_of_the_same_second_and_length_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "quick.py"
    source = "from wiesel import labeling_function\n@labeling_function\ndef f(row): return 'ham'\n"
    for label in ("ham", "egg"):
        file.write_text(source.replace("ham", label))
        os.utime(file, (1, 1))
        (lf,) = load_lfs(file)
        assert lf({}) == label
    assert [entry.name for entry in tmp_path.iterdir()] == ["quick.py"]


def test_an_edited_file_is_read_anew(folder: Path) -> None:
    before = list(load_lfs(folder / "lfs.py"))
    (folder / "lfs.py").write_text(PYTHON.replace("< limit", "<= limit"))
    after = list(load_lfs(folder / "lfs.py"))
    changed = [a.name for a, b in zip(after, before, strict=True) if a.fingerprint != b.fingerprint]
    assert changed == ["short"]


@pytest.mark.parametrize(
    ("line", "wrong", "words"),
    [
        ('kind = "regex"', 'kind = "regexp"', r"rules.toml, line 11: .*'regexp'.*'regex'"),
        ("pattern = 'https?://'", "pattern = '('", r"rules.toml, line 14: .*'\('.*unclosed group"),
        (
            "pattern = 'https?://'",
            "patern = 'x'",
            r"line 14: regex has no option 'patern'.*'pattern'",
        ),
        ("below = 3", "", r"rules.toml, line 17: threshold needs above"),
        ('condition = "length(text) < 5"', 'condition = "length("', r"line 26: .*is missing"),
        ('condition = "length(text) < 5"', 'json = "{}"', r"line 26: .*can run any code"),
        ('condition = "length(text) < 5"', 'sql = "n > 3"', r"line 26: .*condition = "),
        ('keywords = ["free", "prize"]', "keywords = []", r"line 7: keywords needs at least one"),
        ("friends.csv", "nobody.csv", r"line \d+: .*nobody.csv"),
        ('labels = ["ham", "spam"]\n\n', 'label = ["ham"]\n\n', "no entry 'label'.*'labels'"),
        ('labels = ["ham", "spam"]\n\n', 'labels = ["ham"]\n\n', "labels: .*two classes"),
        ('column = "n"', 'column = ["n"]', r"line 20: column of threshold is a text; got \['n'\]"),
        ('column = "worker"', 'column = ""', r"line \d+: column of column is the name of a column"),
        ('columns = ["a", "b"]', "columns = [1, 2]", r"line \d+: columns is the name of a column"),
        ('columns = "name"', "columns = 3", r"line \d+: columns is the name of a column"),
        ("known = [[", "known = 3 #", r"line \d+: known is a list of known cases"),
        ("below = 3", f"below = {10**400}", r"line 21: .*'below' option .*must be a number"),
        ('name = "link"', "name = 3", r"line 12: name of regex is a text; got 3"),
        ('template = "Spam? {text}"', "template = 3", r"line \d+: The template is a text"),
        ("below = 3", "below = = 3", r"not TOML.*line 21"),
        ("below = 3", f"below = {'9' * 5000}", r"not TOML.*4300 digits"),
        ("below = 3", f"below = 0x{'f' * 5000}", r"not TOML.*4300 digits"),
        ("below = 3", f"below = {'[' * 5000}{']' * 5000}", r"not TOML.*nested"),
    ],
)
def test_mistakes_in_a_rules_file_are_told_with_their_line(
    folder: Path, line: str, wrong: str, words: str
) -> None:
    check_told(folder / "rules.toml", line, wrong, words)


@pytest.mark.parametrize(
    ("line", "wrong", "words"),
    [
        ("def short(row", "def short(row:", r"lfs.py, line 12: SyntaxError"),
        ('"greeting")', '"greeting", colum=1)', r"lfs.py, line 7: TypeError"),
        ("from words", "from wordz", r"lfs.py, line 3: ModuleNotFoundError"),
        ("GREETINGS, column", "[], column", r"lfs.py, line 7: keywords needs at least one"),
        ("limit=4", "limit", r"lfs.py, line 11: The parameter 'limit' of 'short' has no default"),
    ],
)
def test_mistakes_in_a_python_file_are_told_with_their_line(
    folder: Path, line: str, wrong: str, words: str
) -> None:
    check_told(folder / "lfs.py", line, wrong, words)


def test_files_without_labeling_functions_are_told(folder: Path) -> None:
    (folder / "empty.py").write_text("x = 1\n")
    (folder / "empty.toml").write_text("# nothing yet\n")
    with pytest.raises(LabelingFunctionError, match="Put @labeling_function"):
        load_lfs(folder / "empty.py")
    with pytest.raises(LabelingFunctionError, match=r"starts with a line \[\[lf\]\]"):
        load_lfs(folder / "empty.toml")
    with pytest.raises(LabelingFunctionError, match=r"\.py and \.toml"):
        load_lfs(folder / "friends.csv")
    with pytest.raises(DataError, match=r"missing\.py"):
        load_lfs(folder / "missing.py")


def test_files_that_disagree_on_the_classes_are_refused(folder: Path) -> None:
    (folder / "other.toml").write_text(TOML.replace('["ham", "spam"]', '["no", "yes"]', 1))
    with pytest.raises(LabelingFunctionError, match="different classes"):
        load_lfs(folder / "lfs.py", folder / "other.toml")


def test_a_text_that_looks_like_a_head_does_not_lead_to_a_wrong_line(folder: Path) -> None:
    tricky = TOML.replace("template = ", 'name = """\n[[lf]]\n"""\ntemplate = ')
    (folder / "rules.toml").write_text(tricky.replace("below = 3", ""))
    with pytest.raises(LabelingFunctionError, match=r"labeling function number 3: threshold"):
        load_lfs(folder / "rules.toml")


def test_a_lookup_file_is_a_table_of_any_format(folder: Path) -> None:
    pl.DataFrame({"name": ["Eve"]}).write_parquet(folder / "friends.parquet")
    (folder / "rules.toml").write_text(TOML.replace("friends.csv", "friends.parquet"))
    (known,) = [lf for lf in load_lfs(folder / "rules.toml") if lf.name == "from_file"]
    assert known({"name": "Eve"}) == "ham"


def test_a_rules_file_of_a_windows_editor_is_read(folder: Path) -> None:
    file = folder / "rules.toml"
    expected = [lf.name for lf in load_lfs(file)]
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert [lf.name for lf in load_lfs(file)] == expected
