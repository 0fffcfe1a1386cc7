"""Classes that are named by numbers: in a file, their names look like indices."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tiny_project import tiny_project
from wiesel.errors import DataError
from wiesel.io import read_gold, read_votes
from wiesel.labels import LabelSpace
from wiesel.project import run_project
from wiesel.project.rows import read_splits
from wiesel.project.settings import read_project
from wiesel.project.workspace import Workspace


@pytest.mark.parametrize("names", [("1", "0"), ("1", "2"), ("-1", "1"), ("0.5", "2"), ("2", "1.5")])
def test_votes_and_gold_of_such_classes_are_those_written(tmp_path: Path, names):
    file = tmp_path / "both.csv"
    file.write_text(f"id,label,votes\nm1,{names[0]},{names[1]}\nm2,{names[1]},\nm3,,{names[0]}\n")
    assert read_gold(file, names).tolist() == [0, 1, -1]
    votes = read_votes(file, labels=names, id_column="id", voters=["votes"])
    assert votes.dense().ravel().tolist() == [1, -1, 0]


@pytest.mark.parametrize("names", [("true", "false"), ("False", "True")])
def test_yes_and_no_are_names_too(tmp_path: Path, names):
    (tmp_path / "gold.csv").write_text(f"id,label\n1,{names[1]}\n2,{names[0]}\n3,\n")
    assert read_gold(tmp_path / "gold.csv", names).tolist() == [1, 0, -1]


def test_the_gold_of_a_project_is_read_by_name(tiny):
    for file in [*tiny.glob("*.csv"), tiny / "wiesel.toml"]:
        text = file.read_text().replace(",billing\n", ",2\n").replace(",technical\n", ",1\n")
        file.write_text(text.replace('["billing", "technical"]', '["1", "2"]'))
    _, splits = read_splits(read_project(tiny), LabelSpace("1", "2"))
    assert splits["dev"].gold[:2].tolist() == [1, 0]


def test_a_number_that_is_no_class_is_refused_with_its_row(tmp_path: Path):
    (tmp_path / "gold.csv").write_text("id,label\n1,5\n2,0\n")
    with pytest.raises(DataError, match=r"label of row 1 is 0; .*'1', '5', and numbers are names"):
        read_gold(tmp_path / "gold.csv", ["1", "5"])


def test_two_names_of_one_number_are_refused(tmp_path: Path):
    (tmp_path / "gold.csv").write_text("id,label\n1,1\n2,1\n")
    with pytest.raises(DataError, match=r"classes are '01', '1', so the label 1 could be"):
        read_gold(tmp_path / "gold.csv", ["01", "1"])


def test_numbers_are_indices_of_other_classes(tmp_path: Path):
    (tmp_path / "gold.csv").write_text("id,label\n1,1\n2,0\n3,\n4,-1\n")
    for names in (("ham", "spam"), ("ham", "1")):
        assert read_gold(tmp_path / "gold.csv", names).tolist() == [1, 0, -1, -1]


def test_a_project_of_such_classes_has_the_results_of_any_other(tmp_path: Path):
    results = []
    for names in (("billing", "technical"), ("1", "0")):
        (tmp_path / names[0]).mkdir()
        folder = tiny_project(tmp_path / names[0])
        for file in [*folder.glob("*.csv"), folder / "wiesel.toml", folder / "lfs.py"]:
            text = file.read_text()
            for place, name in enumerate(("billing", "technical")):
                text = text.replace(f",{name}\n", f",{names[place]}\n")
                text = text.replace(f'"{name}"', f'"{names[place]}"')
            if names[0] == "1":
                text = text.replace('return "0"', "return 0")
            file.write_text(text)
        run_project(read_project(folder))
        splits = json.loads((folder / "out" / "metrics.json").read_text())["splits"]
        space = Workspace(folder)
        for row, index in ((0, 0), (1, 1), (3, 1)):
            space.store.add(str(space.train.ids[row]), names[index], "ada")
        space.refresh()
        figures = space.summary().drop("voter").select(pl.selectors.numeric())
        results.append((splits["test"]["scores"], figures.rows(), space.score()))
    np.testing.assert_equal(results[1], results[0])
