"""How answers of language models are read: a table of real-looking answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiesel.lfs.answer_reading import Unreadable, read_answer

TABLE = Path(__file__).with_name("answers.txt")


class Case(NamedTuple):
    labels: tuple[str, ...]
    expected: str
    answer: str
    finished: bool


def cases() -> Iterator[Case]:
    """`@ classes`, then lines of: expected, tab, answer. `~` marks an answer that was cut off."""
    labels: tuple[str, ...] = ()
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("@ "):
            labels = tuple(line[2:].split("|"))
        elif "\t" in line:
            expected, answer = line.split("\t", 1)
            text = answer.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")
            yield Case(labels, expected.removesuffix("~"), text, not expected.endswith("~"))


CASES = list(cases())


def reading(case: Case) -> str:
    try:
        found = read_answer(case.answer, case.labels, finished=case.finished)
    except Unreadable as problem:
        return f"!{problem.kind}"
    return "-" if found is None else found


@pytest.mark.parametrize("case", CASES, ids=[str(number) for number in range(len(CASES))])
def test_answer_is_read_as_a_person_would_read_it(case: Case) -> None:
    found = reading(case)
    assert found == case.expected or (case.expected == "!" and found.startswith("!"))


def test_table_has_300_answers_of_every_kind() -> None:
    assert len(CASES) >= 300
    assert len(set(CASES)) == len(CASES)
    kinds = {case.expected for case in CASES if case.expected.startswith("!")}
    assert kinds == {"!", "!negation", "!refusal", "!unfinished", "!several", "!nothing"}


NEGATORS = ("not", "never", "isn't", "hardly", "no", "neither", "it is not", "non-", "cannot be")
NEGATORS += ("kein", "nicht", "ce n'est pas", "ningún", "geen", "inte")


@pytest.mark.parametrize("negator", NEGATORS)
@pytest.mark.parametrize("case", [case for case in CASES if case.expected in case.labels][:120:5])
def test_a_negation_before_a_class_never_votes_for_it(negator: str, case: Case) -> None:
    if case.expected in ("yes", "no"):
        pytest.skip("these are negations themselves")
    space = "" if negator.endswith("-") else " "
    denied = Case(("ham", "spam"), "", f"{negator}{space}spam", True)
    assert reading(denied) != "spam"
    found = reading(Case(case.labels, "", f"The text is {negator}{space}{case.expected}.", True))
    assert found != case.expected


def is_known(case: Case) -> bool:
    found = reading(case)
    return found in {*case.labels, "-"} or found.startswith("!")


@settings(max_examples=300)
@given(st.text(max_size=60), st.sampled_from([("spam",), ("ham", "spam"), ("1", "2", "10")]))
def test_any_text_is_read_or_refused(text: str, labels: tuple[str, ...]) -> None:
    assert is_known(Case(labels, "", text, True))


@pytest.mark.parametrize("piece", ["<think>", "{", "[", "not ", "answer: ", "spam ", "yes ", "```"])
def test_long_hostile_answers_are_read_at_once(piece: str) -> None:
    """The patterns see a few thousand characters, however long the answer is."""
    assert is_known(Case(("ham", "spam"), "", piece * 500_000, True))
