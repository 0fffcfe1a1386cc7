"""What is committed: source and small results, no scratch files."""

import shutil
import subprocess

import pytest
from source_tree import ROOT

SCRATCH = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".pyc", ".log")


def committed() -> list[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git clone: nothing says which files are committed")
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_no_committed_file_is_larger_than_a_megabyte():
    files = committed()
    assert len(files) > 50
    assert not [name for name in files if (ROOT / name).stat().st_size > 2**20]


def test_no_pickle_checkpoint_or_log_is_committed():
    files = committed()
    assert len(files) > 50
    assert not [name for name in files if name.endswith(SCRATCH)]


def test_nothing_in_the_package_can_unpickle():
    """Loading a model must never run stored code, so nothing may even import the modules."""
    from source_tree import sources

    checked, wrong = 0, []
    for source in sources():
        for found in source.imports():
            checked += 1
            if found.module.split(".")[0] in ("pickle", "dill", "cloudpickle", "joblib", "shelve"):
                wrong.append(f"{source.name}:{found.line}")
    assert checked > 200
    assert not wrong, "\n".join(wrong)


def test_the_architecture_is_one_page_and_lists_every_decision():
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    assert len(page) <= 120
    assert max(map(len, page)) <= 120
    files = {file.name for file in (ROOT / "docs" / "decisions").glob("*.md")}
    index = (ROOT / "docs" / "decisions" / "index.md").read_text(encoding="utf-8")
    linked = [word.split(")")[0] for word in index.split("](")[1:]]
    assert len(files) > 20
    assert {name for name in linked if "/" not in name} == files - {"index.md"}


def test_the_files_that_the_architecture_names_exist():
    import re

    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+/[\w/]+\.py)`", page))
    assert len(named) > 20
    package = ROOT / "src" / "wiesel"
    assert not [file for file in named if not any((at / file).is_file() for at in (package, ROOT))]
