"""The changes that `make mutants` draws, and the tests that it runs for each."""

import tomllib
from typing import Any

from benchmarks.mutants import PACKAGE, REPOSITORY, changed_files, chosen_tests, summary
from benchmarks.mutations import drawn, mutations, mutations_of

SOURCE = """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LEVEL = 1

__all__ = ["a" + "b"]
Part = Votes | None
LEVEL: "int | None" = 2


class Model:
    \"\"\"Adds 1 + 1.\"\"\"

    kept: Array | None = field(init=False, repr=False)

    @cached(maxsize=1)
    def fit(self, x: "Array | None" = None, *, low: int = 0) -> "Array | None":
        if x < low:
            raise ValueError(f"{x + 1} is less than" + str(low + 1))

        def inner(y):
            return y.argmax(axis=-1) * 2.0 and not (y
                                                    <= 3)
        return max(inner(x), f"{x + 1}" + "ß", x[1:])  # 1 + 1
"""


def test_only_what_can_change_a_number_is_changed():
    found = [(one.function, one.line, one.old) for one in mutations_of(SOURCE, "nn/model.py")]
    assert found == [
        ("", 9, "2"),
        ("", 15, "False"),
        ("Model.fit", 18, "0"),
        ("Model.fit", 19, "<"),
        ("Model.fit", 23, "argmax"),
        ("Model.fit", 23, "-"),
        ("Model.fit", 23, "1"),
        ("Model.fit", 23, "*"),
        ("Model.fit", 23, "2.0"),
        ("Model.fit", 23, "and"),
        ("Model.fit", 24, "<="),
        ("Model.fit", 24, "3"),
        ("Model.fit", 25, "max"),
        ("Model.fit", 25, "1"),
    ]


def test_one_token_is_changed_and_nothing_else():
    for one in mutations_of(SOURCE, "nn/model.py"):
        before, after = SOURCE.splitlines(), one.apply(SOURCE).splitlines()
        changed = [k for k in range(len(before)) if before[k] != after[k]]
        assert changed == [one.line - 1]
        tail = len(before[changed[0]]) - one.column - len(one.old)
        assert after[changed[0]][one.column : len(after[changed[0]]) - tail] == one.new


def test_a_sample_is_decided_by_its_seed_and_stays_while_other_lines_change():
    every = list(mutations_of(SOURCE, "nn/model.py"))
    first = drawn(every, 1, 5)
    assert drawn(reversed(every), 1, 5) == first
    assert drawn(every, 2, 5) != first
    moved = drawn(mutations_of("\n\n" + SOURCE, "nn/model.py"), 1, 5)
    assert [one.key for one in moved] == [one.key for one in first]
    assert len({one.key for one in every}) == len(every)


def noted(calls: dict[str, list[str]]) -> dict[str, Any]:
    tests = {name: {"passed": True, "seconds": 1.0, "calls": own} for name, own in calls.items()}
    return {"tests": tests, "sums": {}}


def test_the_tests_that_call_the_function_are_run_those_of_its_file_first():
    change = next(one for one in mutations_of(SOURCE, "nn/model.py") if one.function)
    calls = ["nn/model.py|Model.fit"]
    tests = {
        "tests/contracts/test_methods.py": noted({"c::net": calls, "c::other": []}),
        "tests/unit/nn/test_layers.py": noted({"l::one": [], "l::two": calls, "l::three": []}),
        "tests/unit/nn/test_model.py": noted({"m::one": calls}),
        "tests/unit/nn/test_loss.py": noted({"x::one": ["nn/model.py|Model.predict"]}),
    }
    names, seconds = chosen_tests(change, tests)
    assert names == ["m::one", "l::two", "c::net", "l::one", "l::three"]
    assert seconds == 5
    # Tests of forty seconds at most: slow ones further away are left out.
    tests["tests/contracts/test_methods.py"]["tests"]["c::net"]["seconds"] = 38.0
    assert chosen_tests(change, tests) == (["m::one", "l::two", "c::net"], 40)
    outside = next(one for one in mutations_of(SOURCE, "nn/model.py") if not one.function)
    assert "x::one" in chosen_tests(outside, tests)[0]


def test_what_no_test_sees_is_printed_unless_it_is_listed():
    seen, unseen, listed, untried = list(mutations_of(SOURCE, "nn/model.py"))[:4]
    tried = [
        {"key": seen.key, "seen_by": "m::one", "n_tests": 4},
        {"key": unseen.key, "seen_by": None, "n_tests": 4},
        {"key": listed.key, "seen_by": None, "n_tests": 4},
    ]
    known = {f"nn/model.py|{listed.text}|0 -> 1"}
    text = summary([seen, unseen, listed, untried], tried, known)
    assert text.splitlines() == [
        f"nn/model.py:15: False -> True in `{unseen.text}` (4 tests)",
        "3 changes tried: 1 seen (33%), 2 not seen, of which 1 are listed as changing no result.",
    ]


def test_changes_that_are_listed_as_changing_no_result_exist():
    # A moved line is found here; which token takes the place of another depends on the file's name.
    listed = tomllib.loads((REPOSITORY / "benchmarks/mutants.toml").read_text(encoding="utf-8"))
    named = [(one["file"], one["line"], one["change"]) for one in listed["same_results"]]
    files = {file for file, *_ in named}
    gone = sorted(files - set(changed_files(REPOSITORY)))
    assert not gone, f"mutants.toml names files that do not exist (any more): {gone}"
    found = {(one.path, one.text, one.old) for one in mutations(REPOSITORY / PACKAGE, files)}
    gone = [one for one in named if (*one[:2], one[2].partition(" -> ")[0]) not in found]
    assert not gone, f"mutants.toml names lines that do not exist (any more): {gone}"
    assert len(named) > 10
    assert len(set(named)) == len(named)
    assert all(len(one["reason"]) > 10 for one in listed["same_results"])
