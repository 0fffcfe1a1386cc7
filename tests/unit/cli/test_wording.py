"""What a person at the command line reads is about options and files, not about Python."""

import re

import pytest

from wiesel.cli.wording import in_command_words
from wiesel.lfs.failures import Failure, FailureLog

PYTHON = re.compile(
    r"np\.\w+\(|\.frame\b|on_error=|\$tuple|FailureLog|engine='|labels=\[|ids=|worker=|repeated=|fit\("
)


def failed() -> FailureLog:
    log = FailureLog()
    log.add([Failure("broken", "row 0", "KeyError: 'txt'")])
    return log


@pytest.mark.parametrize(
    "message",
    [
        str(Failure("broken", "row 0", "KeyError: 'txt'").error()),
        str(failed().warning()),
        "The class is np.int64(1), its share np.float64(0.5), np.str_('ham').",
        "60 more rows in .frame",
        "or use engine='local'.",
        "This table does not say what the classes are: give labels=[...], in order, and "
        "voters=[...]. The cells hold 1.",
        "ids=... is the name of a column; got 3.",
        "Name it by item=, worker=, label= (one row for each answer is needed).",
        "Name it by worker= (one row for each answer is needed).",
        "Say which to keep: repeated='first', 'last' or 'all'.",
        "All answers in the column 'x' are 'y': name all classes, labels=[...].",
        "outweighs all votes. Give the class balance to fit() if you know it. MajorityVote never "
        "does that.",
    ],
)
def test_no_message_speaks_python(message: str) -> None:
    assert PYTHON.search(message), "the example itself is in the words of Python"
    assert not PYTHON.search(in_command_words(message))


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
