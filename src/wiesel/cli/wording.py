"""Rewords library messages for the command line: options and files, not arguments."""

import re

__all__ = ["in_command_words"]

_IN_FILE = "in [votes] of wiesel.toml, or --on-error abstain"
_REWRITES: tuple[tuple[str, str], ...] = (
    (r"\bnp\.(?:int|uint|float|bool|str)\d*_?\(([^()]*)\)", r"\1"),
    (r"(\d[\d,]*) more rows in \.frame", r"\1 more rows: --json has all of them"),
    (r"use on_error='abstain' to go on", f'set on_error = "abstain" {_IN_FILE}, to go on'),
    (r" ?Pass on_error=FailureLog\(\) to collect every failure\.", ""),
    (r"Use engine=LocalEngine\(workers=1\) to stay in one process\.", ""),
    (r"\bengine='(\w+)'", r"--engine \1"),
    (
        r"give labels=\[\.\.\.\], in order, and voters=\[\.\.\.\]\.",
        "give --labels with their names in order, separated by commas.",
    ),
    (r"need labels=\[\.\.\.\], the class names", "need --labels with the class names"),
    (r"Say which to keep: duplicates='first', 'last' or 'all'\.", "Keep one of them in the file."),
    (r"Name it by item=, worker=, label= ", "Name them by --item, --worker and --label "),
    (r"Name it by item=, worker= ", "Name them by --item and --worker "),
    (r"Name it by item=, label= ", "Name them by --item and --label "),
    (r"Name it by worker=, label= ", "Name them by --worker and --label "),
    (r"Name it by (item|worker|label)= ", r"Name it by --\1 "),
    (
        r"Say which column names the items: item=('[^']*') or item=('[^']*')",
        r"Say which column names the items: --item \1 or --item \2",
    ),
    (r"which to keep: repeated='first', 'last' or 'all'", "--repeated all, last or first"),
    (r"\brepeated must be one of", "--repeated must be one of"),
    (
        r"Give the class balance to fit\(\) if you know it\. MajorityVote never does that\.",
        "The method majority_vote never does that.",
    ),
    (r"say which question to read with question=(\S+)\.", r"say which to read: --question \1."),
    (
        r"[Nn]ame (?:all|the other) classes, labels=\[\.\.\.\]",
        "name all classes with --labels ham,spam",
    ),
    (r"\bids=\.\.\. is the name", "--id is the name"),
    (r"\(named by ids=\)", "(named by --id)"),
    (
        r"Without votes, say what the classes are: labels=\['ham', 'spam'\]\.",
        "Without votes, say what the classes are: --labels ham,spam.",
    ),
    (
        r"class_balance='validation' needs fit\(\.\.\., validation=\(X, y\)\)",
        'class_balance = "validation" needs dev rows in [data]',
    ),
    (
        r"fit\(votes, gold=\(votes, y\)\); in TwoStage and Committee give "
        r"fit\(\.\.\., validation=\(X, y, votes\)\)",
        "dev rows with gold labels in [data]",
    ),
    (r"\bclass_balance=\[\.\.\.\]", "class_balance = [...]"),
    (r"needs numeric=\[\.\.\.\] or categorical=\[\.\.\.\]", "needs numeric or categorical"),
    (r"under categorical=\[\.\.\.\]", "under categorical in [features]"),
)
_PATTERNS = tuple((re.compile(old), new) for old, new in _REWRITES)


def in_command_words(text: str) -> str:
    """Return a message in command-line terms.

    >>> in_command_words("The seed is np.int64(1). 12 more rows in .frame")
    'The seed is 1. 12 more rows: --json has all of them'
    """
    for pattern, new in _PATTERNS:
        text = pattern.sub(new, text)
    return text
