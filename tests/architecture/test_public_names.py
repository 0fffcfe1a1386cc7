"""What users can import: all there, documented with examples, and changed only on purpose."""

import ast
import inspect
import re
from typing import Any

import pytest
from source_tree import sources
from write_public_api import SNAPSHOT, public_api

import wiesel

DESIGNED = [
    "LabelSpace",
    "VoteMatrix",
    "ABSTAIN",
    "labeling_function",
    "keywords",
    "regex",
    "expression",
    "lookup",
    "threshold",
    "from_model",
    "prompt",
    "apply_lfs",
    "try_lfs",
    "summarize",
    "agreement",
    "findings",
    "MajorityVote",
    "WeightedVote",
    "DawidSkene",
    "OneCoin",
    "Snorkel",
    "Triplet",
    "DataProgramming",
    "estimate_class_balance",
    "WeaSEL",
    "TwoStage",
    "Supervised",
    "MaxMIG",
    "CrowdLayer",
    "DoctorNet",
    "MBEM",
    "AggNet",
    "Raykar",
    "TextFeatures",
    "evaluate",
    "compare",
    "load_model",
    "load_dataset",
    "suggest_lfs",
    "blame",
    "rows_to_label",
]
"""Design.md section 3, "Importable from `wiesel` itself"."""

LATER: dict[str, str] = {}
"""Designed names that a later issue brings; remove each with the change that adds it."""

# Whole words of a name: `process` is banned, `preprocessing` is not.
BANNED = re.compile(
    r"(?:^|_)(?:utils?|helpers?|misc|common|managers?|handlers?|process|data2)(?:_|$)|^_*(?:do|new)_"
)


def public_objects() -> list[tuple[str, Any]]:
    names = [name for name in wiesel.__all__ if name not in ("ABSTAIN", "__version__")]
    return [(name, getattr(wiesel, name)) for name in names]


def public_methods() -> list[tuple[str, Any]]:
    found = []
    for name, value in public_objects():
        for member, method in inspect.getmembers(value) if inspect.isclass(value) else ():
            if not member.startswith("_") and callable(method):
                found.append((f"{name}.{member}", method))
    return found


def test_everything_in_the_design_can_be_imported():
    assert len(DESIGNED) > 30
    missing = [name for name in DESIGNED if name not in wiesel.__all__ and name not in LATER]
    assert not missing, missing


def test_what_is_said_to_come_later_is_not_there_yet():
    assert not [name for name in LATER if name in wiesel.__all__]


def test_every_public_name_has_a_docstring_with_an_example():
    checked, bare = 0, []
    for name, value in public_objects():
        checked += 1
        if ">>>" not in (inspect.getdoc(value) or "") and not inspect.isabstract(value):
            bare.append(name)
    assert checked > 20
    assert not bare, bare


def test_every_public_name_and_method_says_what_it_does_in_one_line():
    checked, wrong = 0, []
    for name, value in [*public_objects(), *public_methods()]:
        checked += 1
        first = (inspect.getdoc(value) or "").split("\n", 1)[0]
        if not first.endswith((".", "?", "!", ":", "`")) or len(first) > 100:
            wrong.append(f"{name}: {first!r}")
    assert checked > 60
    assert not wrong, "\n".join(wrong)


def test_every_module_exports_only_what_it_has():
    checked, wrong = 0, []
    for source in sources():
        if source.path.name == "__main__.py":
            continue
        module = __import__(source.name.removesuffix(".py").replace("/", "."), fromlist=["_"])
        for name in getattr(module, "__all__", ()):
            checked += 1
            if not hasattr(module, name):
                wrong.append(f"{source.name}: {name}")
    assert checked > 150
    assert not wrong, "\n".join(wrong)


def test_the_public_names_are_those_of_the_snapshot():
    assert len(public_api().splitlines()) > 100
    assert public_api() == SNAPSHOT.read_text(), (
        "The public API differs from tests/architecture/public_api.txt. If that is what you want, "
        "run: python tests/architecture/write_public_api.py"
    )


def test_no_name_contains_a_word_that_says_nothing():
    checked, wrong = 0, []
    for source in sources():
        defined = [(source.path.stem, 1), *defined_names(source.tree)]
        checked += len(defined)
        wrong += [f"{source.name}:{line} {name}" for name, line in defined if banned(name)]
    assert checked > 1000
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "is_banned"),
    [
        ("vote_utils", True),
        ("VoteManager", True),
        ("do_fit", True),
        ("new_votes", True),
        ("preprocessing", False),
        ("renew_votes", False),
        ("__new__", False),
    ],
)
def test_banned_words_are_told_from_words_that_contain_them(name: str, is_banned: bool):
    assert banned(name) is is_banned


def banned(name: str) -> bool:
    if name.startswith("__") and name.endswith("__"):
        return False  # Python's own names
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return BANNED.search(words) is not None


def defined_names(tree: ast.AST) -> list[tuple[str, int]]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append((node.name, node.lineno))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.id, node.lineno))
        elif isinstance(node, ast.arg):
            names.append((node.arg, node.lineno))
    return names
