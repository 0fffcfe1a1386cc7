"""Hostile rules files: whatever stands there is read or refused with a message, never run."""

import random
from pathlib import Path

import polars as pl
import pytest
from attacks import Tally, tries

from wiesel import expression
from wiesel.lfs import load_lfs, try_lfs
from wiesel.lfs.conditions import FUNCTIONS

ROWS = pl.DataFrame(
    {"text": ["free prize", None], "n": [1, 5], "x": [0.5, None], "ok": [True, None]}
)
RULES = b"""labels = ["ham", "spam"]
[[lf]]
kind = "keywords"
label = "spam"
keywords = ["free", "prize"]
column = "text"
min_matches = 1
[[lf]]
kind = "regex"
label = "spam"
pattern = '(?i)free|www'
column = "text"
[[lf]]
kind = "threshold"
label = "ham"
column = "n"
below = 3
[[lf]]
kind = "expression"
label = "ham"
condition = "length(text) < 5 and n in (1, 2) or x / 2 > 0.1"
[[lf]]
kind = "lookup"
label = "ham"
columns = ["n"]
known = [[1], [2]]
[[lf]]
kind = "lookup"
label = "ham"
columns = "n"
known_file = "known.csv"
[[lf]]
kind = "prompt"
labels = ["ham", "spam"]
template = "Spam? {text}"
client = { url = "http://127.0.0.1:9/v1", model = "tiny", retries = 0, cache = "a.sqlite" }
"""
VALUES = [
    b"3", b"-1", b"1e308", b"nan", b"[]", b"{}", b'""', b'["text"]', b"true", b'"x"', b"[[1], 2]",
    b"1979-05-27", b"9" * 400, b'"../../x"', b'"/etc/passwd"', b'"\\u0000"', b"[{a = 1}]",
    b'"http://evil.example/v1"', b'"expression"', b'"lookup"', b'"prompt"', b'"("', b'"^.*$"',
]  # fmt: skip
WORDS = [
    *FUNCTIONS, "text", "n", "x", "ok", "and", "or", "not", "in", "is", "null", "between", "true",
    "'free'", "''", "'('", "3", "0", "1e9", "-", "(", ")", "(", ")", ",", "=", "<", "!=", "+", "*",
    "/", "%", '"x"', "`n`", "select", "*", ";", "\x00", "é", "'", "[",
]  # fmt: skip


def changed_bytes(rng: random.Random) -> bytes:
    content = bytearray(RULES)
    for _ in range(rng.randint(1, 8)):
        place = rng.randrange(len(content))
        content[place : place + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
    return bytes(content)


def changed_values(rng: random.Random) -> bytes:
    lines = RULES.splitlines()
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(len(lines))
        name, sign, _ = lines[number].partition(b" = ")
        lines[number] = name + sign + rng.choice(VALUES) if sign else rng.choice(lines)
    return b"\n".join(lines)


def read_and_tried(file: Path) -> None:
    lfs = [lf for lf in load_lfs(file) if lf.kind != "prompt"]
    if lfs:  # nothing is asked of a network here
        try_lfs(lfs, ROWS)


def test_rules_files_are_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home, tally = tmp_path / "project", Tally("rules")
    home.mkdir()
    (home / "known.csv").write_text("n\n1\n")
    for rng in tries("rules", least=40):
        content = rng.choice((changed_bytes, changed_values))(rng)
        (home / "rules.toml").write_bytes(content)
        tally.attempt(content, read_and_tried, home / "rules.toml")
    tally.report()
    assert tally.counts["worked"]
    assert tally.counts["refused"]
    assert {file.name for file in home.iterdir()} <= {"known.csv", "rules.toml"}


def test_conditions_are_read_or_refused() -> None:
    tally = Tally("conditions")
    for rng in tries("conditions", least=200):
        condition = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 9)))
        tally.attempt(condition, lambda words: try_lfs(expression("spam", words), ROWS), condition)
    tally.report()
    assert tally.counts["worked"]
    assert tally.counts["refused"]
