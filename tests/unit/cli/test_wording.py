"""What a person at the command line reads is about options and files, not about Python."""

import pickle
import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from wiesel import VoteMatrix, WeaSEL, aggregate
from wiesel.analysis.table import Table, number, telling_rest
from wiesel.cli.verb import in_command_words
from wiesel.errors import WieselError
from wiesel.io.vote_files import votes_of_table
from wiesel.lfs.batch import RowSource
from wiesel.lfs.failures import Failure, FailureLog
from wiesel.tasks.one_label import chosen_class_balance

PYTHON = re.compile(
    r"np\.\w+\(|\.frame\b|on_error=|\$tuple|FailureLog|engine='|labels=\[|ids=|worker=|repeated=|duplicates=|fit\("
)


def failed() -> FailureLog:
    log = FailureLog()
    log.add([Failure("broken", "row 0", "KeyError: 'txt'")])
    return log


def raised(function: Callable[..., Any], *arguments: Any, **options: Any) -> WieselError:
    with pytest.raises(WieselError) as caught:
        function(*arguments, **options)
    return caught.value


def answers(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(columns)


OPTIONS = tuple(
    f"--{o}" for o in ("labels", "id", "on-error", "item", "worker", "label", "repeated")
)
TWICE = answers(item=["1", "1", "2"], voter=["a", "a", "a"], label=["x", "y", "x"])
MESSAGES: dict[str, tuple[Callable[[], BaseException], str]] = {
    "failure": (failed().failures[0].error, "use --on-error abstain to go on"),
    "failures": (failed().warning, "They abstain there."),
    "classes of a table": (
        lambda: raised(votes_of_table, answers(id=[1], a=["x"]), None, "id", None),
        "their names in order, --labels. The cells hold 'x'.",
    ),
    "ids": (lambda: raised(RowSource, [], 3), "--id is the name of a column; got 3."),
    "columns": (
        lambda: raised(aggregate, answers(a=["1", "2"], b=["x", "y"])),
        "Name it by --item, --worker, --label (one row",
    ),
    "one class": (
        lambda: raised(aggregate, answers(task=["1"], worker=["a"], label=["x"])),
        "name all classes, --labels.",
    ),
    "repeated": (
        lambda: raised(aggregate, TWICE, repeated="refuse"),
        "Keep one of them, or say which to keep: --repeated first, last or all.",
    ),
    "duplicates": (
        lambda: raised(VoteMatrix.from_long, TWICE, item="item", voter="voter", label="label"),
        "1 such answers in all). Keep one of them.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_no_message_speaks_python(name: str) -> None:
    make, expected = MESSAGES[name]
    message = make()
    assert PYTHON.search(str(message)), "the example itself is in the words of Python"
    told = in_command_words(message, OPTIONS)
    assert expected in told
    assert not PYTHON.search(told)


def test_options_that_a_command_does_not_have_are_keys_of_the_project() -> None:
    error = failed().failures[0].error()
    assert 'use on_error = "abstain" in [votes] of wiesel.toml to go on' in in_command_words(error)
    votes = VoteMatrix.from_dense([[0]], ["a", "b"])
    missing = raised(chosen_class_balance, "validation", votes.labels, votes, None)
    assert in_command_words(missing) == (
        'class_balance = "validation" in [training] of wiesel.toml needs gold labels: give dev '
        "rows in [data] of wiesel.toml."
    )


def test_an_error_is_the_same_after_it_was_sent_to_another_process() -> None:
    error = failed().failures[0].error()
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert in_command_words(back, OPTIONS) == in_command_words(error, OPTIONS)
    wrong = pickle.loads(pickle.dumps(raised(WeaSEL, epoch=3)))  # noqa: S301
    assert wrong.option == "epoch"


def test_a_table_says_where_its_other_rows_are() -> None:
    table = Table(pl.DataFrame({"n": range(100)}), (number("n"),), limit=40)
    assert str(table).endswith("60 more rows in .frame")
    with telling_rest(": --json has all of them"):
        assert str(table).endswith("60 more rows: --json has all of them")


def test_plain_sentences_stay_as_they_are() -> None:
    said = "There is no method 'wesel'. Did you mean 'weasel'?"
    assert in_command_words(said) == said


def test_a_failing_function_is_answered_with_the_option(folder, wiesel) -> None:
    (folder / "broken.py").write_text(
        "from wiesel import labeling_function\n"
        "@labeling_function\ndef broken(row):\n    return row['txt']\n"
    )
    done = wiesel("apply", "mails.csv", "--lfs", "broken.py", "--labels", "ham,spam")
    assert done.exit_code == 1
    assert "--on-error abstain" in done.stderr
    assert not PYTHON.search(done.stderr)
    kept = wiesel(
        "apply", "mails.csv", "--lfs", "broken.py", "--labels", "ham,spam", "--on-error", "abstain"
    )
    assert not PYTHON.search(kept.stderr)
    assert "They abstain there." in kept.stderr
