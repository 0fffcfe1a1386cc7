"""What holds for every verb: help, --json, exit codes, one line for an error."""

import json
import re
import subprocess
import sys

import polars as pl
import pytest
import typer.main

from wiesel.catalog import METHODS
from wiesel.cli.main import app
from wiesel.cli.verb import Answer, verb
from wiesel.errors import CollapseWarning
from wiesel.version import __version__

VERBS = sorted(typer.main.get_command(app).commands)


def test_the_help_fits_a_screen_and_names_every_verb(wiesel):
    shown = wiesel("--help").stdout
    assert len(shown.splitlines()) <= 38
    assert max(map(len, shown.splitlines())) <= 80
    assert not [verb for verb in VERBS if not re.search(rf"^  {verb} ", shown, re.MULTILINE)]
    assert "..." not in shown.partition("Commands:")[2], "a summary is cut off"


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_json_and_debug(wiesel, name):
    group = typer.main.get_command(app).commands[name]
    words = [name, *list(getattr(group, "commands", {}))[:1]]  # of several, as of one
    shown = wiesel(*words, "--help").stdout
    assert "--json" in shown
    assert "--debug" in shown


def test_the_version_is_printed(wiesel):
    assert wiesel("--version").stdout == f"wiesel {__version__}\n"


def test_methods_lists_every_method_once(wiesel, wiesel_json):
    assert [method["name"] for method in wiesel_json("methods")["methods"]] == list(METHODS)
    shown = wiesel("methods").stdout
    assert not [name for name in METHODS if not re.search(rf"^ {name} ", shown, re.MULTILINE)]
    assert "Dawid and Skene 1979" in wiesel("methods", "--papers").stdout


def test_a_method_is_shown_with_every_option(wiesel, wiesel_json):
    shown = wiesel("methods", "weasel").stdout
    options = METHODS["weasel"].cls.option_names()
    assert not [name for name in options if not re.search(rf"^  {name}: .", shown, re.MULTILINE)]
    assert "  warm_up: int = 6" in shown
    assert "learns from  features and votes" in shown
    answer = wiesel_json("methods", "weasel")["method"]
    assert answer["class"] == "wiesel.end_to_end.weasel.model.WeaSEL"
    assert {option["name"] for option in answer["options"]} == set(options)
    assert {"name", "type", "default", "meaning"} == set(answer["options"][0])


def test_label_models_with_and_without_features_are_shown_too(wiesel):
    assert "wiesel methods two_stage" in wiesel("methods", "majority_vote").stdout
    assert "  shrinkage: float = 10.0" in wiesel("methods", "gold_weighted").stdout
    assert "  rounds: int = 3" in wiesel("methods", "feature_checked").stdout
    assert "Did you mean 'weasel'" in wiesel("methods", "weazel").stderr


def test_doctor_shows_versions_and_what_to_install(wiesel, wiesel_json):
    answer = wiesel_json("doctor")
    assert answer["wiesel"] == __version__
    assert all(answer["required"].values())
    missing = [name for name, parts in answer["extras"].items() if None in parts.values()]
    shown = wiesel("doctor").stdout
    assert [f"wiesel[{name}]" in shown for name in answer["extras"]] == [
        name in missing for name in answer["extras"]
    ]


def test_a_wrong_option_is_a_usage_error(wiesel):
    assert wiesel("apply", "--lsf", "lfs.py").exit_code == 2
    assert wiesel("aply").exit_code == 2


def test_an_error_is_one_line_and_exit_1(folder, wiesel):
    result = wiesel("apply", "mials.csv", "--lfs", "lfs.py")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: There is no file mials.csv. Did you mean 'mails.csv'?\n"


def test_an_error_as_json_has_one_shape(folder, wiesel_json):
    answer = wiesel_json("apply", "mials.csv", "--lfs", "lfs.py", exit_code=1)
    assert answer.keys() == {"ok", "error"}
    assert answer["ok"] is False


def test_debug_shows_the_traceback(folder, wiesel):
    result = wiesel("apply", "mials.csv", "--lfs", "lfs.py", "--debug")
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "wiesel.errors.DataError: There is no file mials.csv" in result.stderr


def run_alone(function, *words):
    """Run a verb of the test's own."""
    from typer.testing import CliRunner

    own = typer.Typer()
    own.command()(verb(function))
    return CliRunner().invoke(own, list(words))


def test_an_interruption_says_how_to_go_on():
    def interrupted() -> Answer:
        raise KeyboardInterrupt

    result = run_alone(interrupted)
    assert result.exit_code == 130
    assert "run the same command to continue" in result.stderr


def test_a_bug_is_one_line_too():
    def buggy() -> Answer:
        raise ZeroDivisionError("division\nby zero")

    result = run_alone(buggy)
    assert result.exit_code == 1
    assert "Unexpected ZeroDivisionError: division by zero" in result.stderr
    assert "--debug" in result.stderr


def test_a_failure_inside_polars_is_one_line_too():
    def panicking() -> Answer:
        raise pl.exceptions.PanicException("index out of bounds")

    result = run_alone(panicking)
    assert result.exit_code == 1
    assert "Unexpected PanicException: index out of bounds" in result.stderr


def test_a_file_that_may_not_be_read_is_named():
    def forbidden() -> Answer:
        raise PermissionError(13, "Permission denied", "votes.parquet")

    assert run_alone(forbidden).stderr == "Error: votes.parquet: Permission denied.\n"


def test_a_warning_of_wiesel_is_one_line_on_stderr():
    def warned() -> Answer:
        import warnings

        warnings.warn("One class took everything.", CollapseWarning, stacklevel=1)
        return Answer({"fine": float("nan")}, "done")

    result = run_alone(warned)
    assert result.stderr == "Warning: One class took everything.\n"
    assert result.stdout == "done\n"
    assert json.loads(run_alone(warned, "--json").stdout) == {"ok": True, "fine": None}


def test_the_command_line_starts_without_the_heavy_libraries():
    code = "import sys, wiesel.cli.main; print([m for m in sys.modules if '.' not in m])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert "typer" in loaded
    assert not [name for name in ("torch", "polars", "sklearn", "numpy") if f"'{name}'" in loaded]


def test_inspect_describes_rows_before_there_are_votes(tmp_path, wiesel, wiesel_json):
    file = tmp_path / "mails.csv"
    file.write_text(
        "id;text;label\n1;win a prize;spam\n2;see you;ham\n3;lunch at one;ham\n4;;ham\n"
    )
    shown = wiesel("inspect", file)
    assert "4 rows, 3 columns" in shown.stdout
    assert "--labels ham,spam" in shown.stdout
    assert shown.stderr == "Next: wiesel init my-project\n"
    columns = wiesel_json("inspect", file)["columns"]
    assert columns[1] == {
        "column": "text",
        "type": "text",
        "missing": 1,
        "different": 3,
        "frequent": "win a prize",
    }
    assert columns[2]["frequent"] == "ham (3), spam (1)"


def test_inspect_of_a_label_model_names_its_voters_and_soft_labels(
    tmp_path, votes, wiesel, wiesel_json
):
    from wiesel import DawidSkene

    DawidSkene().fit(votes).save(tmp_path / "model")
    shown = wiesel("inspect", tmp_path / "model")
    assert "keyword, link, length" in shown.stdout
    assert "wiesel soft-labels" in shown.stderr
    learned = wiesel_json("inspect", tmp_path / "model")["manifest"]["learned"]
    assert learned["voters_"] == ["keyword", "link", "length"]
