"""An unchanged project is not run again, and whatever changes makes it run."""

import os
import subprocess
import sys

import pytest

from wiesel.project.settings import read_project
from wiesel.project.unchanged import keep_answer, known_answer, run_inputs

ANSWER = {"data": {"n": 1}, "text": "fine", "next_step": ""}


@pytest.fixture
def kept(tiny):
    """The tiny project after a run that wrote a report, with its answer kept."""
    (tiny / "out/.cache").mkdir(parents=True)
    (tiny / "out/report.html").write_text("<p>fine")
    keep(tiny)
    return tiny


def keep(folder):
    project = read_project(folder)
    keep_answer(project, None, run_inputs(project, None), ANSWER)


def known(folder, methods=None):
    project = read_project(folder)
    return known_answer(project, run_inputs(project, methods))


def test_nothing_changed_gives_the_same_answer(kept):
    assert known(kept) == ANSWER
    os.utime(kept / "out/.cache/answer.json")
    assert known(kept) == ANSWER


def edit(file):
    file.write_text(file.read_text() + "\n# more\n")


@pytest.mark.parametrize(
    "name", ["wiesel.toml", "lfs.py", "train.csv", "dev.csv", "out/report.html"]
)
def test_a_changed_file_makes_it_run(kept, name):
    edit(kept / name)
    assert known(kept) is None


@pytest.mark.parametrize("name", ["wiesel.toml", "lfs.py", "train.csv", "words.txt"])
def test_a_file_that_changes_during_a_run_makes_it_run_again(kept, name):
    project = read_project(kept)
    before = run_inputs(project, None)
    (kept / name).touch()
    edit(kept / name)
    keep_answer(project, None, before, ANSWER)
    assert known(kept) is None


def test_files_that_labeling_functions_may_read_count_too(kept):
    (kept / "words.txt").write_text("refund")
    assert known(kept) is None


def test_a_missing_output_or_data_file_makes_it_run(kept):
    (kept / "out/report.html").unlink()
    assert known(kept) is None


def test_other_methods_are_another_run(kept):
    assert known(kept, ["snorkel"]) is None


def test_a_helper_module_elsewhere_counts(tiny, tmp_path, monkeypatch):
    helper = tmp_path / "helper_of_test_unchanged.py"
    helper.write_text("LIMIT = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import importlib

    importlib.import_module("helper_of_test_unchanged")
    (tiny / "out/.cache").mkdir(parents=True)
    keep(tiny)
    assert known(tiny) == ANSWER
    helper.write_text("LIMIT = 4\n")
    assert known(tiny) is None
    sys.modules.pop("helper_of_test_unchanged")


def test_rows_of_a_python_function_are_never_taken_for_known(tiny):
    (tiny / "out/.cache").mkdir(parents=True)
    file = tiny / "wiesel.toml"
    file.write_text(file.read_text().replace('train = "train.csv"', 'module = "lfs.py"'))
    keep(tiny)
    assert known(tiny) is None


def test_a_damaged_note_makes_it_run(kept):
    (kept / "out/.cache/answer.json").write_text("{")
    assert known(kept) is None


def test_it_is_found_without_torch():
    code = (
        "import sys, wiesel.project.unchanged, wiesel.cli.run; "
        "print([name for name in ('torch', 'sklearn', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
