"""Few files have to be read to follow a program, and few have to be edited to change something.

The limits are what was measured when the tests were written. Lower them when the figures fall;
`python tests/architecture/walks.py --list` shows which files a walk passes.
"""

import ast
from dataclasses import fields
from functools import cache

import pytest
from source_tree import sources
from walks import WALKS

from wiesel.catalog import METHODS
from wiesel.project import settings

WALK_LIMITS = {"fit": (24, 6), "run": (101, 26)}
"""How many files a walk passes, and how many pairs of them call each other."""

METHOD_LIMIT = 4
"""The file of a method, the registry, the front door, and one more that needs it."""
METHOD_LIMITS = {
    "committee": 10,
    "weasel": 15,
    "two_stage": 9,
    "supervised": 13,
    "majority_vote": 14,
    "hidden_markov": 7,
    "dawid_skene": 7,
    "feature_checked": 8,
    "feature_em": 6,
    "gold_weighted": 6,
    "one_coin": 5,
}
"""Methods that other code names, because they are a default, a start or a baseline."""

OPTION_LIMIT = 4
OPTION_LIMITS = {"multi": 10, "spans": 18, "timeout": 8, "on_error": 6}
GENERAL_WORDS = {
    *("classes", "column", "data", "dataset", "dev", "end_model", "features", "file", "id"),
    *("item", "kind", "label", "method", "module", "name", "options", "output", "test", "train"),
    *("training", "voter", "votes", "lfs", "answers", "seeds", "encoding", "ordered"),
}
"""Options whose names mean other things elsewhere, so that files cannot be counted by them."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n == "run" else ()) for n in WALKS]
)
@pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")
def test_a_walk_passes_few_files(name: str):
    walk = WALKS[name]()
    n_files, n_pairs = WALK_LIMITS[name]
    assert 15 < len(walk.files) <= n_files, "\n".join(walk.files)
    assert len(walk.mutual_pairs()) <= n_pairs, walk.mutual_pairs()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_few_files_name_a_method(name: str):
    """To add, rename or remove a method is to edit these files."""
    files = files_that_name(name, METHODS[name].cls.__name__)
    assert 3 <= len(files) <= METHOD_LIMITS.get(name, METHOD_LIMIT), files


def test_few_files_name_an_option_of_a_project():
    """To add an option of wiesel.toml is to edit these files: settings, use, report, page."""
    parts = [value for name, value in vars(settings).items() if name.endswith("Settings")]
    options = {field.name for part in (*parts, settings.Project) for field in fields(part)}
    assert len(options - GENERAL_WORDS) > 5
    wrong = {}
    for option in sorted(options - GENERAL_WORDS):
        files = files_that_name(option, rooms=("cli", "project", "report", "workbench"))
        if not 1 <= len(files) <= OPTION_LIMITS.get(option, OPTION_LIMIT):
            wrong[option] = files
    assert not wrong, wrong


def test_names_are_found_in_code_and_not_in_docstrings():
    tree = ast.parse('"""timeout"""\ndef f(seconds): return g(wait=h.limit, names="multi")')
    assert _names(tree) == {"f", "seconds", "g", "wait", "h", "limit", "names", "multi"}


def files_that_name(*names: str, rooms: tuple[str, ...] = ()) -> list[str]:
    """Return the files whose code has one of the names, as an identifier or as a string."""
    return [
        source.name
        for source in sources()
        if (not rooms or source.part in rooms) and not _names(source.tree).isdisjoint(names)
    ]


@cache
def _names(tree: ast.Module) -> frozenset[str]:
    nodes = list(ast.walk(tree))
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in documentation:
                found.add(node.value)
            continue
        for attribute in ("id", "attr", "arg", "name"):
            value = getattr(node, attribute, None)
            if isinstance(value, str):
                found.add(value)
    return frozenset(found)
