"""Fingerprints: equal for what votes alike, different for what may not."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from wiesel import labeling_function
from wiesel.lfs import preprocessor
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.loading import load_module

LIMIT = 3
WORDS = {"free", "prize", "winner"}
PATTERN = re.compile("x+")


def above(value):
    return value > LIMIT


def uses_helper(row):
    return "spam" if above(row["n"]) else None


def uses_words(row):
    return "spam" if WORDS & set(row["text"].split()) else None


def uses_pattern(row):
    return "spam" if PATTERN.search(row["text"]) else None


def recursive(row):
    return recursive(row[1:]) if row else None


def uses_comprehension(row):
    return "spam" if [word for word in row["text"].split() if word in WORDS] else None


class Limits:
    """A class of the user's own."""

    def high(self):
        return 3


def uses_class(row):
    return "spam" if row["n"] > Limits().high() else None


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [
        (uses_helper, "LIMIT", 4),
        (uses_helper, "above", lambda value: value >= 3),
        (uses_words, "WORDS", {"free"}),
        (uses_comprehension, "WORDS", {"free"}),
        (uses_pattern, "PATTERN", re.compile("x+", re.IGNORECASE)),
        (uses_class, "Limits", type("Limits", (), {"high": lambda self: 4})),
    ],
)
def test_what_a_function_refers_to_is_part_of_it(
    monkeypatch: pytest.MonkeyPatch, function: object, name: str, value: object
) -> None:
    before = digest(function)  # type: ignore[arg-type]
    assert before == digest(function)  # type: ignore[arg-type]
    monkeypatch.setitem(globals(), name, value)
    assert digest(function) != before  # type: ignore[arg-type]


def test_a_name_that_is_not_used_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(uses_words)
    monkeypatch.setitem(globals(), "LIMIT", 99)
    assert digest(uses_words) == before


def compiled(source: str) -> object:
    names: dict[str, object] = {}
    exec(compile(source, "lfs.py", "exec"), names)
    return names["f"]


def test_comments_and_blank_lines_do_not_count_but_code_does() -> None:
    plain = compiled("def f(row):\n    return 'a' if row['n'] > 3 else None\n")
    spaced = compiled("\n\n# why\ndef f(row):\n\n    # how\n    return 'a' if row['n']>3 else None")
    other = compiled("def f(row):\n    return 'a' if row['n'] > 4 else None\n")
    assert digest(plain) == digest(spaced)
    assert digest(plain) != digest(other)


def test_closures_and_defaults_count() -> None:
    def above_limit(limit):
        return lambda row, factor=2: row["n"] > limit * factor

    assert digest(above_limit(1)) == digest(above_limit(1))
    assert digest(above_limit(1)) != digest(above_limit(2))
    assert digest(partial(above, 1)) != digest(partial(above, 2))


def test_a_function_that_calls_itself_has_a_fingerprint() -> None:
    assert digest(recursive) == digest(recursive)


def test_parameters_and_preprocessors_count_and_the_name_does_not() -> None:
    @labeling_function
    def lf(row, limit=3):
        return "spam" if row["n"] > limit else None

    assert lf.with_params(limit=3).fingerprint == lf.fingerprint
    assert lf.with_params(limit=4).fingerprint != lf.fingerprint
    assert lf.renamed("other").fingerprint == lf.fingerprint

    words = preprocessor(name="words")(lambda row: row["text"].split())
    lower = preprocessor(name="words")(lambda row: row["text"].lower().split())
    users = [labeling_function(uses=use)(uses_helper) for use in (words, lower)]
    assert len({uses.fingerprint for uses in users}) == 2


def test_containers_that_contain_themselves_have_a_digest() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    assert digest(loop) == digest(loop)
    cycle: dict[str, object] = {"a": 1}
    cycle["self"] = cycle
    assert digest(cycle) != digest({"a": 1})


def test_arrays_count_by_value_type_and_shape() -> None:
    values = np.arange(6)
    assert digest(values) == digest(np.arange(6))
    assert digest(values) != digest(values.astype(np.float64))
    assert digest(values) != digest(values.reshape(2, 3))


def test_values_of_different_kinds_differ() -> None:
    values = [1, 1.0, "1", True, b"1", (1,), [1], {1}, frozenset({1}), {1: 1}, None]
    assert len({digest(value) for value in values}) == len(values)


def test_fingerprints_are_the_same_in_another_process() -> None:
    # Sets of strings are ordered differently in every process; the digest must not notice.
    program = (
        "from wiesel.lfs.fingerprints import digest\n"
        "WORDS = {'free', 'prize', 'winner'}\n"
        "f = lambda row: row['a'] in {'x', 'y', 'z'} and WORDS\n"
        "print(digest(f))"
    )
    run = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert run[0] == run[1] != ""


def test_the_source_of_a_module_counts_where_it_is_named_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "limits.py").write_text("LIMIT = 3\n")
    module = load_module(tmp_path / "limits.py")
    lf = labeling_function(name="lf")(lambda row: "spam" if row["n"] > module.LIMIT else None)
    before = digest(lf.function)
    assert digest(lf.function) == before
    (tmp_path / "limits.py").write_text("LIMIT = 4\n")
    assert digest(lf.function) != before
