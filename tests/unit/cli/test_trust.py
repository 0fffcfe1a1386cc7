"""What strangers' folders may do: nothing that the user did not ask for."""

import hashlib
import inspect
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tiny_project import forge, run_wiesel, tiny_project
from wiesel.cli.main import app
from wiesel.project.seen import remember, was_run

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

WIESEL = [sys.executable, "-c", "from wiesel.cli.main import main; main()"]
RUN_A_PROJECT = {
    "run": ["PROJECT"],
    "compare": ["PROJECT", "majority_vote"],
    "explain": ["MODEL", "--item", "m0", "--project", "PROJECT"],
    "suggest": ["PROJECT"],
    "rows-to-label": ["PROJECT"],
    "blame": ["PROJECT", "--item", "m0"],
}
"""The verbs that run the Python code of a project, and what they are given."""
RED = "\x1b[31m"
CSI = "\x9b31m"


def trained_in(place: Path) -> Path:
    """A tiny project with a model that can explain, and an `lfs.py` that leaves a trace."""
    tiny = tiny_project(place)
    text = (tiny / "wiesel.toml").read_text()
    (tiny / "wiesel.toml").write_text(text.replace('"majority_vote"', '"crowd_layer"'))
    with (tiny / "lfs.py").open("a") as file:
        file.write("\nfrom pathlib import Path\nPath(__file__).with_name('trace').touch()\n")
    result = run_wiesel("run", tiny)
    assert result.exit_code == 0, result.output
    return tiny


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory) -> Path:
    return trained_in(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def trained(trained_once) -> Path:
    """The project, for tests that change nothing in it but the trace."""
    (trained_once / "trace").unlink(missing_ok=True)
    return trained_once


class TestExplain:
    def test_a_project_that_the_model_names_does_not_run(self, trained, wiesel):
        result = wiesel("explain", trained / "out/model", "--item", "m0")
        assert result.exit_code == 1
        assert "not in the current folder" in result.stderr
        assert shlex.join(["--project", str(trained.resolve())]) in result.stderr
        assert not (trained / "trace").exists()

    def test_it_does_not_run_where_the_command_is_run_either_if_the_user_never_ran_it(
        self, trained, wiesel, monkeypatch, tmp_path
    ):
        other = tmp_path / "downloaded"
        shutil.copytree(trained, other)
        forge(other / "out/model", project=str(other / "wiesel.toml"))
        monkeypatch.chdir(other)
        result = wiesel("explain", "out/model", "--item", "m0")
        assert result.exit_code == 1
        assert "which you have not run before" in result.stderr
        assert not (other / "trace").exists()

    def test_the_user_s_own_project_runs_where_the_command_is_run(
        self, trained, wiesel, monkeypatch
    ):
        monkeypatch.chdir(trained)
        result = wiesel("explain", "out/model", "--item", "m0")
        assert result.exit_code == 0, result.output
        assert (trained / "trace").exists()

    def test_a_named_project_runs(self, trained, wiesel):
        result = wiesel("explain", trained / "out/model", "--item", "m0", "--project", trained)
        assert result.exit_code == 0, result.output

    def test_another_folder_in_the_same_place_is_another_project(self, tmp_path):
        trained = trained_in(tmp_path)
        assert was_run(trained / "wiesel.toml")
        shutil.copytree(trained, trained.with_name("copy"))
        shutil.move(trained, trained.with_name("old"))
        shutil.move(trained.with_name("copy"), trained)
        assert not was_run(trained / "wiesel.toml")

    def test_a_new_folder_that_gets_the_number_of_a_deleted_one_is_another_project(self, tiny):
        remember(tiny / "wiesel.toml")
        (tiny / "lfs.py").write_text((tiny / "lfs.py").read_text() + "# edited since\n")
        assert was_run(tiny / "wiesel.toml")
        number, copy = tiny.stat().st_ino, tiny.with_name("download")
        shutil.copytree(tiny, copy)
        for _ in range(20):  # file systems such as ext4 give the number to the next folder
            shutil.rmtree(tiny)
            shutil.copytree(copy, tiny)
            assert not was_run(tiny / "wiesel.toml")
            if tiny.stat().st_ino == number:
                break
        remember(tiny / "wiesel.toml")
        assert was_run(tiny / "wiesel.toml")

    def test_a_model_with_code_beside_it_is_refused(self, trained, wiesel, tmp_path):
        model = tmp_path / "model"
        shutil.copytree(trained / "out/model", model)
        (model / "lfs.py").write_text("print('run me')")
        for words in (["predict", trained / "test.csv"], ["explain", "--item", "m0"]):
            result = wiesel(words[0], model, *words[1:])
            assert result.exit_code == 1
            assert "also holds 'lfs.py'" in result.stderr
        shown = wiesel("inspect", model).stdout
        assert "NOT PART OF THE MODEL (loading refuses it): 'lfs.py'" in shown


class TestFirstRun:
    def test_the_first_run_of_a_folder_says_that_its_code_runs_and_the_second_does_not(
        self, tiny, wiesel
    ):
        first, second = wiesel("run", tiny), wiesel("run", tiny)
        assert (first.exit_code, second.exit_code) == (0, 0)
        assert f"First run of {tiny}" in first.stderr
        assert "lfs.py' is run with all your rights" in first.stderr
        assert f"{shlex.join(['wiesel', 'inspect', str(tiny)])} shows" in first.stderr
        assert "First run" not in second.stderr

    def test_a_place_that_cannot_be_written_is_no_obstacle(self, tiny, monkeypatch, tmp_path):
        (tmp_path / "state").write_text("a file")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        remember(tiny / "wiesel.toml")
        assert not was_run(tiny / "wiesel.toml")

    def test_what_somebody_wrote_there_is_no_obstacle(self, tiny, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        (tmp_path / "state/wiesel").mkdir(parents=True)
        for text in ("", "[]", "{", '{"projects": 3}', "[" * 10**5):
            (tmp_path / "state/wiesel/projects.json").write_text(text)
            assert not was_run(tiny / "wiesel.toml")
        remember(tiny / "wiesel.toml")
        assert was_run(tiny / "wiesel.toml")

    def test_a_starter_project_is_one_s_own(self, tmp_path, wiesel):
        wiesel("init", tmp_path / "mine")
        assert was_run(tmp_path / "mine/wiesel.toml")

    def test_the_verbs_that_run_a_project_are_all_tested(self):
        found = set()
        for command in app.registered_commands:
            named = inspect.signature(command.callback).parameters
            found |= {command.name} if {"project", "projects"} & set(named) else set()
        assert found == {*RUN_A_PROJECT, "workbench"}

    @pytest.mark.parametrize("verb", RUN_A_PROJECT)
    def test_every_verb_says_so_before_it_runs_the_code(
        self, trained, wiesel, verb, monkeypatch, tmp_path
    ):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        code = (trained / "lfs.py").read_text()
        told = "import sys\nprint('THE CODE RUNS', file=sys.stderr)\n"
        words = [trained / "out/model" if w == "MODEL" else w for w in RUN_A_PROJECT[verb]]
        words = [trained if w == "PROJECT" else w for w in words]
        try:
            (trained / "lfs.py").write_text(code + told)
            first = wiesel(verb, *words)
            (trained / "lfs.py").write_text(code + told + "# so that the run is not known\n")
            second = wiesel(verb, *words)
        finally:
            (trained / "lfs.py").write_text(code)
        assert (first.exit_code, second.exit_code) == (0, 0), first.output
        notice = first.stderr.index(f"First run of {trained}")
        assert notice < first.stderr.index("THE CODE RUNS")
        assert "First run" not in second.stderr
        assert "THE CODE RUNS" in second.stderr

    def test_the_workbench_says_so_too(self, tiny, monkeypatch, tmp_path):
        pytest.importorskip("nicegui", reason="the extra 'workbench' is not installed")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        command = [*WIESEL, "workbench", str(tiny), "--port", "0", "--no-show"]
        for is_first in (True, False):
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            with subprocess.Popen(command, **pipes) as server:
                assert "http://" in server.stdout.readline()
                server.send_signal(signal.SIGINT)
                told = server.communicate(timeout=120)[1]
            assert (f"First run of {tiny}" in told) == is_first

    @pytest.mark.parametrize("verb", [*RUN_A_PROJECT, "workbench"])
    def test_the_help_says_it_too(self, wiesel, verb):
        assert "code" in wiesel(verb, "--help").stdout


def test_a_project_is_looked_at_without_running_it(tiny, wiesel, wiesel_json):
    (tiny / "lfs.py").write_text("raise SystemExit('this was run')")
    shown = wiesel("inspect", tiny)
    assert shown.exit_code == 0, shown.output
    python = shown.stdout.index("runs as Python, with all your rights:")
    assert python < shown.stdout.index("lfs.py") < shown.stdout.index("reads:")
    assert "train.csv" in shown.stdout
    answer = wiesel_json("inspect", tiny / "wiesel.toml")
    assert [Path(file["path"]).name for file in answer["code"]] == ["lfs.py"]
    digest = hashlib.sha256((tiny / "lfs.py").read_bytes()).hexdigest()
    assert answer["code"][0]["sha256"] == digest
    assert [file["role"] for file in answer["reads"]] == ["train rows", "dev rows", "test rows"]


class TestEscapes:
    """What steers a terminal is shown, not obeyed, whichever verb prints it."""

    def outputs(self, tiny, wiesel):
        rows = pl.read_csv(tiny / "train.csv").with_columns(
            pl.format("{}{}{}", pl.lit(RED), "id", pl.lit(CSI)).alias("id"),
            pl.format("{}{}", pl.lit(f"{RED}{CSI}"), "text").alias("text"),
        )
        rows.write_csv(tiny / "train.csv")
        code = (tiny / "lfs.py").read_text().replace('name="money"', f"name={'money' + RED!r}")
        (tiny / "lfs.py").write_text(code)
        model, item = tiny / "out/model", rows["id"][0]
        (tiny / f"missing{RED}.csv").unlink(missing_ok=True)
        yield wiesel("run", tiny, "--method", "crowd_layer")
        yield wiesel("run", tiny, "--json")
        yield wiesel("predict", model, tiny / "train.csv")
        yield wiesel("predict", model, "-", input=json.dumps({"id": item, "text": RED}))
        yield wiesel("predict", model, tiny / f"missing{RED}.csv")
        yield wiesel("predict", model, tiny / f"missing{RED}.csv", "--debug")
        yield wiesel("explain", model, "--item", item, "--project", tiny)
        yield wiesel("explain", model, "--item", f"no {item}", "--project", tiny)
        yield wiesel("try", tiny / "train.csv", "--lfs", tiny / "lfs.py")
        yield wiesel("inspect", tiny / "out/votes.parquet")
        yield wiesel("inspect", tiny)
        forge(model, **{"class": f"WeaSEL{RED}{CSI}", "project": f"/{RED}/wiesel.toml"})
        yield wiesel("inspect", model)
        yield wiesel("predict", model, tiny / "test.csv")

    def test_they_do_not_reach_the_terminal(self, tiny, wiesel):
        checked = shown = 0
        for result in self.outputs(tiny, wiesel):
            checked += 1
            output = result.stdout + result.stderr
            assert output.strip()
            assert "Unexpected" not in output
            assert RED not in output, output
            assert CSI not in output, output
            shown += "x1b[31m" in output or "u001b[31m" in output
        assert checked == 13
        assert shown > checked / 2, "the numbers of the characters stand in their place"


def test_sigterm_leaves_nothing_in_memory_or_beside_the_output(tiny):
    """A labeling function that hangs is ended from outside, as a job queue does it."""
    (tiny / "lfs.py").write_text(
        "import time\nfrom pathlib import Path\nfrom wiesel import labeling_function\n"
        "@labeling_function\ndef slow(row):\n"
        "    Path(__file__).with_name('trace').touch()\n    time.sleep(600)\n    return 'billing'\n"
        "@labeling_function\ndef other(row):\n    time.sleep(600)\n    return 'technical'\n"
    )
    with subprocess.Popen([*WIESEL, "run", str(tiny)], stderr=subprocess.DEVNULL) as process:
        mark = f"wiesel-{process.pid}-"
        while not (tiny / "trace").exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
    left = [entry.name for entry in Path("/dev/shm").glob(f"{mark}*")]
    assert left == []
    assert not list(tiny.rglob("*.unfinished"))


def test_commands_in_the_report_are_quoted_for_the_shell(tiny, wiesel):
    place = tiny.with_name("my; touch trace; project")
    tiny.rename(place)
    assert wiesel("run", place).exit_code == 0
    page = (place / "out/report.html").read_text()
    assert "wiesel run &#x27;" in page
    missing = CliRunner().invoke(app, ["run", str(place / "no project")])
    assert f"`{shlex.join(['wiesel', 'init', str(place / 'no project')])}`" in missing.stderr


def test_projects_that_run_at_the_same_time_are_all_remembered(tmp_path: Path):
    files = [tmp_path / f"p{number}" / "wiesel.toml" for number in range(16)]
    for file in files:
        file.parent.mkdir()
        file.touch()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(remember, files))
    assert [was_run(file) for file in files] == [True] * 16
