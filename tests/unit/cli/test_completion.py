"""Completion: the scripts of three shells, and what they offer after a tab."""

import os
import shutil
import subprocess
import sys
from functools import cache

import pytest
from typer.testing import CliRunner

from wiesel.catalog import METHODS
from wiesel.cli.main import app
from wiesel.cli.project_options import end_model_name, method_list, project_or_methods


@cache
def program(*words: str, **variables: str) -> str:
    """What the program prints in a process of its own, under the name that shells know."""
    # Typer reads this variable when it is imported.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", **variables}
    code = "import sys; sys.argv[0] = 'wiesel'; from wiesel.cli.main import main; main()"
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def offered(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    place = str(len(words) - 1)
    variables = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": place}
    variables["_WIESEL_COMPLETE"] = "complete_bash"
    done = CliRunner().invoke(app, [], prog_name="wiesel", env=variables)
    assert done.exit_code == 0, done.output
    return done.stdout.split("\n")


@pytest.mark.parametrize(
    ("shell", "words"),
    [("bash", "complete -o"), ("zsh", "#compdef wiesel"), ("fish", "complete --command wiesel")],
)
def test_every_shell_gets_a_script(shell, words):
    assert words in program("--show-completion", shell)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_for_bash_is_one_that_bash_reads():
    script = program("--show-completion", "bash")
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("wiesel ex", "explain"),
        ("wiesel run --me", "--method"),
        ("wiesel fit dawid", "dawid_skene"),
        ("wiesel run demo --method weasel,snor", "weasel,snorkel"),
        ("wiesel compare demo majority_vote,we", "majority_vote,weasel"),
        ("wiesel fit weasel v.parquet --end-model tran", "transformer:"),
    ],
)
def test_a_tab_completes_verbs_options_methods_and_end_models(line, expected):
    assert expected in offered(line)


def test_a_method_is_not_offered_twice_in_one_list():
    names = [name for name, _ in method_list("weasel,")]
    assert len(names) == len(METHODS) - 1
    assert "weasel,weasel" not in names


def test_folders_and_methods_may_come_after_compare(tmp_path, monkeypatch):
    (tmp_path / "projects/mails").mkdir(parents=True)
    (tmp_path / "projects/models.csv").write_text("")
    monkeypatch.chdir(tmp_path)
    assert [word for word, _ in project_or_methods("projects/m")] == ["projects/mails"]
    assert [word for word, _ in project_or_methods("snor")] == ["snorkel"]
    assert project_or_methods("no/such/folder/") == []


def test_every_kind_of_end_model_is_offered():
    assert [name for name, _ in end_model_name("")][:2] == ["mlp", "linear"]
    assert "module:" in dict(end_model_name(""))


def test_installing_writes_into_the_home_folder_only(tmp_path):
    program("--install-completion", "bash", HOME=str(tmp_path))
    written = {
        file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()
    }
    assert written == {".bashrc", ".bash_completions/wiesel.sh"}
