"""`wiesel init`, `run`, `compare`, `explain`, `predict`, `evaluate` and `fit`."""

import json
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import polars as pl
import pytest

from tiny_project import assert_no_places, forge
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.io import write_votes
from wiesel.project.bundle import recorded_file

MESSAGES = ["the invoice is wrong", "the app will crash", "a refund please", "crash on start"]


def small_project(folder: Path) -> None:
    """The starter with two short epochs of a linear model."""
    file = folder / "wiesel.toml"
    quickly = "\n[training]\nepochs = 2\n[options.weasel]\nepoch_size = 640\nwarm_up = 1\n"
    file.write_text(file.read_text().replace('"mlp" ', '"linear" ') + quickly)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A starter project after `wiesel run`."""
    from typer.testing import CliRunner

    from wiesel.cli.main import app

    folder = tmp_path_factory.mktemp("starter") / "demo"
    assert CliRunner().invoke(app, ["init", str(folder)]).exit_code == 0
    small_project(folder)
    result = CliRunner().invoke(app, ["run", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result


@pytest.fixture
def messages(tmp_path):
    file = tmp_path / "messages.csv"
    pl.DataFrame({"text": MESSAGES, "label": ["billing", "technical"] * 2}).write_csv(file)
    return file


@pytest.mark.parametrize("verb", ["run", "suggest"])
def test_a_table_instead_of_a_project_is_answered_with_what_a_project_is(verb, messages, wiesel):
    found = wiesel(verb, str(messages))
    assert found.exit_code == 1
    assert "is a table, not a project" in found.stderr
    assert 'train = "messages.csv" under [data]' in found.stderr


def test_the_workbench_of_a_project_without_features_does_not_open(tmp_path, messages, wiesel):
    """Its pages would wait for predictions forever."""
    pytest.importorskip("nicegui")
    pl.read_csv(messages).rename({"text": "The message"}).write_csv(messages)
    settings = 'classes = ["billing", "technical"]\n[data]\ntrain = "messages.csv"\n'
    (tmp_path / "wiesel.toml").write_text(settings + '[votes]\nlfs = ["rules.toml"]\n')
    found = wiesel("workbench", str(tmp_path), "--no-show", "--port", "0")
    assert found.exit_code == 1
    assert 'set column to the column of text (column = "The message"?)' in found.stderr


def test_a_project_is_by_default_in_this_folder(tmp_path, wiesel, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "is not a project" in wiesel("run").stderr
    assert wiesel("init").stderr == "Next: wiesel run\n"
    assert (tmp_path / "wiesel.toml").is_file()
    assert wiesel("rows-to-label", "-n", "3", "--way", "random").exit_code == 0


def test_advice_for_a_folder_of_rows_is_advice_that_works(messages, wiesel):
    folder = messages.parent
    for place in (folder, messages):
        told = wiesel("run", str(place)).stderr
        assert "not a project" in told
        assert f"Write {folder / 'wiesel.toml'} with classes" in told
    text = 'classes = ["billing", "technical"]\n[data]\ntrain = "messages.csv"\n'
    (folder / "wiesel.toml").write_text(text + '[votes]\nlfs = ["rules.toml"]\n')
    assert wiesel("inspect", str(folder)).exit_code == 0


def test_python_dash_m_runs_the_command_line():
    command = [sys.executable, "-m", "wiesel", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("wiesel ")


def test_init_names_run_as_the_next_step(tmp_path, wiesel):
    result = wiesel("init", tmp_path / "my project")
    assert result.stderr.splitlines()[-1] == f"Next: wiesel run '{tmp_path / 'my project'}'"
    again = wiesel("init", tmp_path / "my project")
    assert again.exit_code == 1
    assert "is not empty" in again.stderr


def test_run_shows_voters_methods_and_explanations(trained):
    folder, result = trained
    assert "sign_in" in result.stdout
    assert "majority_vote" in result.stdout
    assert "Item train-" in result.stdout
    assert f"report    {folder / 'out/report.html'}" in result.stderr
    assert "wiesel explain" in result.stderr.splitlines()[-1]


def test_run_as_json_reuses_what_is_there(trained, wiesel_json):
    answer = wiesel_json("run", trained[0])
    assert answer["reused"] == {"votes": 27, "features": True, "models": 2}
    assert answer["splits"]["test"]["n_items"] == 300


def test_compare_prints_a_table_and_names_the_best(trained, wiesel):
    result = wiesel("compare", trained[0], "majority_vote,snorkel")
    assert result.exit_code == 0, result.output
    assert "snorkel" in result.stdout
    assert "--method" in result.stderr.splitlines()[-1]
    assert "Did you mean 'weasel'" in wiesel("compare", trained[0], "wesel").stderr


def test_explain_shows_the_row_and_who_pushed(trained, wiesel, wiesel_json):
    words = ("explain", trained[0] / "out/model", "--project", trained[0], "--item")
    answer = wiesel_json(*words, "train-0")
    assert answer["item"] == "train-0"
    assert sum(answer["soft_label"].values()) == pytest.approx(1)
    shown = wiesel(*words, "train-0").stdout
    assert shown.startswith("text: ")
    assert "Item train-0 is" in shown
    missing = wiesel(*words, "nobody")
    assert missing.exit_code == 1
    assert "no item 'nobody'" in missing.stderr


def test_a_saved_model_tells_no_place_of_its_author(trained):
    assert_no_places(trained[0] / "out/model")


def test_export_checks_on_rows_of_the_project_wherever_it_was_moved(
    trained, tmp_path, monkeypatch, wiesel, wiesel_json
):
    moved = tmp_path / "moved"
    shutil.copytree(trained[0], moved)
    monkeypatch.chdir(tmp_path)
    done = wiesel_json("export", "moved/out/model", "-o", tmp_path / "a.npz")
    assert done["checked"] == pl.read_csv(moved / "test.csv").height
    monkeypatch.chdir(moved / "out")  # rows outside of the current folder are not read
    assert "name a table of them" in wiesel("export", "model", "-o", tmp_path / "b.npz").stderr
    # Beside no project, the rows may be in the current folder.
    shutil.copytree(moved / "out/model", tmp_path / "alone/model")
    monkeypatch.chdir(tmp_path / "alone")
    assert "name a table of them" in wiesel("export", "model").stderr
    shutil.copy(moved / "test.csv", tmp_path / "alone")
    assert wiesel_json("export", "model")["checked"] == done["checked"]


def test_export_reads_the_whole_paths_of_older_models(trained, tmp_path, monkeypatch, wiesel_json):
    model, rows = tmp_path / "old/model", tmp_path / "old/rows.csv"
    shutil.copytree(trained[0] / "out/model", model)
    shutil.copy(trained[0] / "dev.csv", rows)
    data = {"train": {"file": None}, "dev": {"file": str(rows)}, "test": ["forged"]}
    forge(model, data=data, project=str(trained[0] / "wiesel.toml"))
    monkeypatch.chdir(tmp_path)
    assert wiesel_json("export", "old/model")["checked"] == pl.read_csv(rows).height


def test_a_file_outside_of_the_project_is_recorded_by_its_name_alone(tmp_path):
    for given in ("train.csv", "../shared/train.csv", str(tmp_path / "spam/train.csv"), None):
        expected = "train.csv" if given == str(tmp_path / "spam/train.csv") else given
        project = SimpleNamespace(folder=tmp_path / "spam")
        assert recorded_file(project, given) == expected
    assert recorded_file(project, "/home/ada/secret/train.csv") == "train.csv"


def test_predict_reads_raw_rows_and_writes_a_table(trained, messages, wiesel, wiesel_json):
    model = trained[0] / "out/model"
    output = messages.with_name("predicted.parquet")
    result = wiesel("predict", model, messages, "-o", output)
    assert result.exit_code == 0, result.output
    written = pl.read_parquet(output)
    assert written.columns == ["id", "prediction", "p: billing", "p: technical"]
    answer = wiesel_json("predict", model, messages)
    assert [row["prediction"] for row in answer["predictions"]] == written["prediction"].to_list()


def test_a_spreadsheet_is_refused_before_anything_is_predicted(trained, messages, wiesel):
    for name in ("predicted.xlsx", "no/such/folder/predicted.csv"):
        found = wiesel("predict", trained[0] / "out/model", messages, "-o", messages.parent / name)
        assert found.exit_code == 1
        assert found.stdout == ""
        words = "predicted.csv, which spreadsheet" if name.endswith("x") else "there is no folder"
        assert words in found.stderr


def test_a_bundle_predicts_classes_from_rows(trained, messages, wiesel_json):
    from wiesel.project.bundle import load_bundle

    model = trained[0] / "out/model"
    expected = [row["prediction"] for row in wiesel_json("predict", model, messages)["predictions"]]
    assert load_bundle(model).predict(pl.read_csv(messages)).tolist() == expected


def test_a_stream_of_json_lines_gives_the_predictions_of_the_file(trained, messages, wiesel_json):
    """In a process of its own: nothing but the folder of the model is needed."""
    model, answers = trained[0] / "out/model", []
    command = [sys.executable, "-c", "from wiesel.cli.main import main; main()", "predict"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, str(model), "-"], **pipes) as process:
        # Every line is answered before the next is sent. A hang would be ended by the timer.
        timer = threading.Timer(1200, process.kill)
        timer.start()
        for place, text in enumerate(MESSAGES):
            process.stdin.write(json.dumps({"id": place, "text": text}) + "\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        timer.cancel()
        process.stdin.close()
        assert process.wait() == 0
    assert [answer["id"] for answer in answers] == [0, 1, 2, 3]
    expected = wiesel_json("predict", model, messages)["predictions"]
    for answer, row in zip(answers, expected, strict=True):
        assert answer["prediction"] == row["prediction"]
        assert answer["proba"]["billing"] == pytest.approx(row["p: billing"], abs=1e-6)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("not json", "Line 2 of the input is not JSON"),
        ("[1, 2]", "Line 2 of the input is a list"),
        ('{"txt": "a"}', "There is no column 'text'"),
        ('{"text": 5}', "'text' is 5, not a text"),
        ('{"id": 7, "text": " "}', "There is no text in 'text'"),
    ],
)
def test_a_wrong_line_of_a_stream_is_named_and_is_not_its_end(
    trained, tmp_path, wiesel, line, words
):
    stream = f'{{"text": "a refund"}}\n{line}\n\n{{"text": "a crash"}}\n'
    model = trained[0] / "out/model"
    result = wiesel("predict", model, "-", input=stream)
    assert result.exit_code == 3
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["error" in answer for answer in answers] == [False, True, False]
    assert answers[1]["line"] == 2
    assert words in answers[1]["error"]
    assert answers[1].get("id") == (7 if '"id"' in line else None)
    apart = wiesel("predict", model, "-", "--errors", tmp_path / "bad.jsonl", input=stream)
    assert apart.exit_code == 3
    assert len(apart.stdout.splitlines()) == 2
    assert json.loads((tmp_path / "bad.jsonl").read_text()) == answers[1]


def test_a_giant_line_of_a_stream_is_refused(trained, wiesel, monkeypatch):
    monkeypatch.setattr("wiesel.io.lenient.LONGEST_LINE", 100)
    stream = json.dumps({"text": "x" * 200}) + '\n{"text": "a refund"}\n'
    result = wiesel("predict", trained[0] / "out/model", "-", input=stream)
    assert result.exit_code == 3
    assert "Line 1 of the input is longer than" in result.stdout
    assert "prediction" in result.stdout


def test_evaluate_judges_by_the_label_column(trained, messages, wiesel, wiesel_json):
    model = trained[0] / "out/model"
    assert wiesel_json("evaluate", model, messages)["report"]["n_items"] == 4
    result = wiesel("evaluate", model, messages, "--label-column", "lable")
    assert result.exit_code == 1
    assert "Did you mean 'label'?" in result.stderr


def test_fit_takes_votes_and_features_from_files(tmp_path, wiesel, wiesel_json):
    votes, gold = make_votes(40, n_voters=3, coverage=0.8)
    write_votes(votes, tmp_path / "votes.parquet")
    np.save(tmp_path / "X.npy", make_features(gold, n_features=3))
    words = ("fit", "weasel", tmp_path / "votes.parquet", "-o", tmp_path / "model")
    refused = wiesel(*words)
    assert refused.exit_code == 1
    assert "--features X.npy" in refused.stderr
    options = ("--option", "epochs=1", "--option", "tau_1=0.5", "--end-model", "linear")
    result = wiesel(*words, "--features", tmp_path / "X.npy", *options)
    assert result.exit_code == 0, result.output
    manifest = wiesel_json("inspect", tmp_path / "model")["manifest"]
    assert (manifest["parameters"]["epochs"], manifest["parameters"]["tau_1"]) == (1, 0.5)
    predicted = wiesel_json("predict", tmp_path / "model", tmp_path / "X.npy")
    assert predicted["n_items"] == 40


def test_a_network_of_ones_own_is_named_again_for_predicting(tmp_path, wiesel, wiesel_json):
    folder = tmp_path / "demo"
    wiesel("init", folder)
    small_project(folder)
    (folder / "net.py").write_text(
        "from torch import nn\nclass Net(nn.Linear):\n"
        "    def __init__(self, n_features, n_classes):\n"
        "        super().__init__(n_features, n_classes)\n"
    )
    file = folder / "wiesel.toml"
    file.write_text(file.read_text().replace('"linear" ', '"module:net.py:Net" '))
    assert wiesel("run", folder, "--method", "majority_vote").exit_code == 0
    words = ("predict", folder / "out/model", folder / "test.csv")
    refused = wiesel(*words)
    assert refused.exit_code == 1
    assert "If you trust that code, add" in refused.stderr
    answer = wiesel_json(*words, "--end-model", f"module:{folder / 'net.py'}:Net")
    assert answer["n_items"] == 300


def test_fit_refuses_an_option_that_there_is_not(tmp_path, wiesel):
    votes, _ = make_votes(20, n_voters=3)
    write_votes(votes, tmp_path / "votes.parquet")
    words = ("fit", "snorkel", tmp_path / "votes.parquet", "-o", tmp_path / "model")
    assert "Did you mean" in wiesel(*words, "--option", "epoch=1").stderr
    assert "name=value" in wiesel(*words, "--option", "epochs").stderr
    assert wiesel(*words).exit_code == 0


@pytest.fixture
def _no_experiments():
    """Nothing is imported of this repository's experiments; what was is back after the test."""
    kept = experiments_imported()
    for name in kept:
        del sys.modules[name]
    yield
    for name in experiments_imported():
        del sys.modules[name]
    sys.modules.update(kept)


def experiments_imported() -> dict[str, ModuleType]:
    modules = sys.modules.items()
    return {name: module for name, module in modules if name.split(".")[0] == "experiments"}


@pytest.mark.usefixtures("_no_experiments")
def test_reproduce_lists_and_runs_the_experiments_of_a_clone(
    tmp_path, monkeypatch, wiesel, wiesel_json
):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/__init__.py").write_text("")
    program = """
        import sys
        EXPERIMENTS = ("table1",)
        if __name__ == "__main__":
            print("[1/1] auc=0.9")
            print("a page")
            sys.exit(3 * (sys.argv[1:] != "table1 --full --seeds 2 --jobs 1".split()))
    """
    (tmp_path / "experiments/results").mkdir()
    (tmp_path / "experiments/results/table1.md").write_text("| WeaSEL | 82.10 |")
    (tmp_path / "experiments/__main__.py").write_text(textwrap.dedent(program))
    monkeypatch.chdir(tmp_path)
    assert wiesel_json("reproduce")["experiments"] == ["table1"]
    done = wiesel("reproduce", "table1", "--full", "--seeds", 2)
    assert "| 82.10 |" in done.stdout
    assert "[1/1] auc=0.9" in done.stderr
    assert "a page" not in done.stderr  # it is shown once, as the answer
    failed = wiesel("reproduce", "table1").stderr
    assert "a page" in failed
    assert "ended with exit code 3" in failed
    assert "Did you mean 'table1'" in wiesel("reproduce", "tabel1").stderr


@pytest.mark.usefixtures("_no_experiments")
def test_reproduce_needs_the_repository(tmp_path, monkeypatch, wiesel):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "experiments", None)
    assert "in a clone of it" in wiesel("reproduce").stderr


HOSTILE = {
    "missing": (None, "There is no file"),
    "empty.csv": (b"", "is empty"),
    "header_only.csv": (b"id,text\n", "no rows"),
    "damaged.csv": (b"id,text\n1,caf\xe9 \xc3\xbc\n", "is not UTF-8"),
    "no_text.csv": (b"id,txt\n1,hello\n", "There is no column 'text'"),
    "ragged.csv": (b"id,text\n1,a,b,c\n", "fields in line 2"),
    "table.xlsx": (b"PK", "is a spreadsheet (.xlsx)"),
    "broken.parquet": (b"PAR1 not really", "cannot be read"),
    "broken.jsonl": (b'{"text": 1}\n{"text": \n', "line 2"),
    "broken.npy": (b"\x93NUMPY nonsense", "cannot be read as an array"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_every_wrong_file_gets_one_line_that_helps(trained, tmp_path, wiesel, name):
    content, words = HOSTILE[name]
    file = tmp_path / (name if content is not None else "missing.csv")
    if content is not None:
        file.write_bytes(content)
    result = wiesel("predict", trained[0] / "out/model", file)
    assert result.exit_code == 1
    assert words in result.stderr
    assert "Unexpected" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_model_that_is_none_is_refused(tmp_path, wiesel):
    result = wiesel("predict", tmp_path / "nowhere", "new.csv")
    assert result.exit_code == 1
    assert "is not a saved model" in result.stderr
