"""A project whose items may have several labels: run, compare, inspect, predict, explain."""

import json
import random
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tiny_project import assert_no_places
from wiesel import MajorityVote
from wiesel.cli.main import app
from wiesel.errors import DataError, ParameterError
from wiesel.multilabel import MultiLabelSpace, PerLabel, read_multilabel_votes
from wiesel.project.multilabel import SeveralLabelsProject, gold_labels
from wiesel.project.pipeline import run_project
from wiesel.project.settings import read_project
from wiesel.project.workspace import Workspace

WORDS = {
    "sports": ["goal", "match", "team", "coach"],
    "money": ["bank", "stocks", "market", "tax"],
    "law": ["court", "judge", "trial", "verdict"],
}
PROJECT = """
classes = ["sports", "money", "law"]
multi = true
[data]
train = "train.jsonl"
dev = "dev.jsonl"
test = "test.csv"
[votes]
lfs = ["rules.toml", "lfs.py"]
[features]
kind = "tfidf"
n_dimensions = 12
[end_model]
name = "linear"
[method]
name = "weasel"
[training]
epochs = 6
lr = 0.05
epoch_size = 240
batch_size = 16
weight_average = 0.5
[options.weasel]
warm_up = 2
"""
RULES = """
[[lf]]
kind = "keywords"
label = "sports"
keywords = ["goal", "team"]
column = "text"
[[lf]]
kind = "keywords"
label = "money"
keywords = ["bank", "stocks"]
column = "text"
[[lf]]
kind = "keywords"
label = "law"
keywords = ["court", "trial", "judge"]
column = "text"
exhaustive = ["money"]
[[lf]]
kind = "keywords"
label = "law"
keywords = ["goal", "tax"]
column = "text"
against = true
"""
LFS = """
from wiesel.multilabel import multilabel_function
@multilabel_function(exhaustive=["sports", "money"])
def desk(row):
    found = {"sports"} if "match" in row["text"] else set()
    return found | ({"money"} if "market" in row["text"] else set())
"""


def rows_of(n_items, name, rng):
    rows = []
    for number in range(n_items):
        own = [label for label in WORDS if rng.random() < 0.45]
        text = [rng.choice(WORDS[label]) for label in own for _ in range(2)]
        words = " ".join([*text, rng.choice(["today", "here", "then"])])
        rows.append({"id": f"{name}{number}", "text": words, "label": own})
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small project, run once."""
    place, rng = tmp_path_factory.mktemp("labels"), random.Random(0)
    for name, content in (("wiesel.toml", PROJECT), ("rules.toml", RULES), ("lfs.py", LFS)):
        (place / name).write_text(content)
    train, dev = rows_of(120, "train", rng), rows_of(40, "dev", rng)
    for name, rows in (("train", [{**row, "label": None} for row in train]), ("dev", dev)):
        text = "\n".join(
            json.dumps({k: v for k, v in row.items() if v is not None}) for row in rows
        )
        (place / f"{name}.jsonl").write_text(text)
    test = [{**row, "label": "|".join(row["label"]) or "-"} for row in rows_of(50, "test", rng)]
    pl.DataFrame(test).write_csv(place / "test.csv")
    run_project(read_project(place))
    return place


def test_methods_and_baselines_are_compared_with_the_first_and_a_sentence_says_who_wins(folder):
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    first, *others = [*metrics["methods"], *metrics["references"]]
    names = [row["method"] for row in metrics["references"]]
    baselines = ["labels alone: logistic", "labels alone: end model", "weasel without labels"]
    assert names == baselines
    for other in others:
        apart = other["macro_f1"] - first["macro_f1"]
        assert other["difference"] == pytest.approx(apart)
        assert other["difference_low"] < apart < other["difference_high"]
    # TF-IDF with a model for each label is no worse than chance: it reads the words of forty rows.
    assert metrics["references"][0]["macro_f1"] > 0.6
    assert "points of macro F1" in metrics["verdict"]
    page = (folder / "out" / "report.html").read_text()
    assert metrics["verdict"] in page
    assert "labels alone: logistic" in page


def called(*words):
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_run_leaves_votes_predictions_figures_model_and_report(folder):
    out = folder / "out"
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["judged_on"] == "test"
    assert {row["method"] for row in metrics["methods"]} == {"weasel", "majority_vote"}
    assert metrics["splits"]["test"]["scores"]["macro_f1"]["value"] > 0.7
    assert read_multilabel_votes(out / "votes.parquet").n_items == 120
    predicted = pl.read_parquet(out / "predictions.parquet")
    assert len(predicted) == 210
    assert predicted.filter(pl.col("split") == "test")["gold"].null_count() == 0
    assert predicted.filter(pl.col("split") == "train")["gold"].null_count() == 120
    page = (out / "report.html").read_text()
    for words in ("micro F1", "sports", "desk", "Why three items got their labels", "multi = true"):
        assert words in page


def test_the_saved_model_tells_no_place_of_its_author(folder):
    assert_no_places(folder / "out/model")


def test_the_saved_model_predicts_evaluates_and_explains(folder, monkeypatch):
    model = folder / "out" / "model"
    answer = json.loads(called("predict", model, folder / "test.csv", "--json"))
    predicted = pl.read_parquet(folder / "out" / "predictions.parquet").filter(split="test")
    assert [row["prediction"] for row in answer["predictions"]] == predicted["prediction"].to_list()
    found = json.loads(called("evaluate", model, folder / "test.csv", "--json"))
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    ours, theirs = found["report"]["scores"], metrics["splits"]["test"]["scores"]
    assert ours["exact_match"]["value"] == theirs["exact_match"]["value"]
    refused = CliRunner().invoke(
        app,
        ["evaluate", str(model), str(folder / "test.csv"), "--votes", str(folder / "v.parquet")],
    )
    assert refused.exit_code == 1
    assert "--votes is for models of one label for each item" in refused.output
    why = json.loads(called("explain", model, "--item", "train3", "--project", folder, "--json"))
    assert set(why["by_label"]) == set(WORDS)
    text = called("explain", model, "--item", "train3", "--project", folder)
    assert "Item train3 has" in text


def test_inspect_describes_votes_and_model(folder):
    out = folder / "out"
    text = called("inspect", out / "votes.parquet")
    assert "desk" in text
    assert "present only" not in text
    assert "WeaSEL" in called("inspect", out / "model")
    given = ["inspect", str(out / "votes.parquet"), "--gold", str(folder / "train.jsonl")]
    wrong = CliRunner().invoke(app, given)
    assert "neither a column 'label' nor one for each label" in wrong.output


def test_compare_gives_a_row_for_each_method(folder):
    answer = json.loads(called("compare", folder, "majority_vote,committee", "--json"))
    assert [row["method"] for row in answer["runs"]] == ["majority_vote", "committee"]
    assert answer["on"] == "test"


def test_a_model_of_several_labels_is_trained_once(folder):
    said = []
    again = run_project(read_project(folder), say=lambda stage, text: said.append(text))
    assert [run.reused for run in again.trained] == [True, True]
    assert "weasel, seed 0: reused" in said
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    assert metrics["reused"]["models"] == 2


def test_the_verb_run_prints_labels_and_figures(folder, tmp_path):
    changed(folder, tmp_path, "epochs = 6", "epochs = 2")
    text = called("run", tmp_path, "--method", "majority_vote")
    assert "macro F1" in text
    assert "exact match" in text


def test_votes_label_models_and_soft_labels_come_from_single_verbs_too(folder, tmp_path):
    votes, model, soft = (tmp_path / name for name in ("v.parquet", "model", "soft.parquet"))
    lfs = ["--lfs", folder / "rules.toml", "--lfs", folder / "lfs.py"]
    labels = ["--labels", "sports,money,law", "--id", "id"]
    called("apply", folder / "train.jsonl", *lfs, *labels, "--multi", "-o", votes)
    made = read_multilabel_votes(folder / "out" / "votes.parquet")
    assert read_multilabel_votes(votes).equals(made)
    called("fit", "majority_vote", votes, "-o", model)
    called("soft-labels", model, votes, "-o", soft)
    frame = pl.read_parquet(soft)
    assert frame["id"].to_list() == list(made.ids)
    assert np.allclose(
        frame.drop("id").to_numpy(), PerLabel(MajorityVote()).fit(made).predict_proba(made)
    )
    wrong = CliRunner().invoke(app, ["fit", "weasel", str(votes), "-o", str(model)])
    assert "multi = true" in wrong.output
    wrong = CliRunner().invoke(app, ["apply", str(folder / "train.jsonl"), *map(str, lfs[2:])])
    assert "apply_multilabel_lfs" in wrong.output


def changed(folder, tmp_path, old, new):
    for file in folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    text = (tmp_path / "wiesel.toml").read_text()
    assert old in text
    (tmp_path / "wiesel.toml").write_text(text.replace(old, new))
    return read_project(tmp_path)


def test_what_a_multilabel_project_cannot_do_is_said(folder, tmp_path):
    with pytest.raises(ParameterError, match="'doctor_net' cannot learn several labels"):
        run_project(changed(folder, tmp_path, 'name = "weasel"', 'name = "doctor_net"'))
    with pytest.raises(ParameterError, match="multi = true rows come from files"):
        run_project(changed(folder, tmp_path, 'train = "train.jsonl"', 'dataset = "youtube"'))
    with pytest.raises(ParameterError, match="one label per item"):
        Workspace(read_project(folder))
    with pytest.raises(ParameterError, match="'multi' is true or false"):
        changed(folder, tmp_path, "multi = true", 'multi = "yes"')


def test_the_report_of_an_ensemble_tells_its_networks_and_epochs_in_words(folder, tmp_path):
    project = changed(folder, tmp_path, "epochs = 6", "epochs = 2\nmembers = 2")
    run_project(project, ["majority_vote"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "2 networks with an output for each label" in page
    assert re.search(r"Epoch \d was kept|kept one of the epochs 1 to 2", page)
    assert '<div class="wiesel-explanation">' in page
    assert "<summary>wiesel.toml</summary>" in page


def test_gold_is_read_from_lists_texts_and_columns():
    labels = MultiLabelSpace("a", "b")
    wanted = np.array([[1, 1], [0, 0], [-1, -1]])
    lists = pl.DataFrame({"label": [["b", "a"], [], None]})
    texts = pl.DataFrame({"label": ["a; b", "-", None]})
    columns = pl.DataFrame({"a": [1, 0, None], "b": [1, 0, None]})
    for rows in (lists, texts, columns):
        assert np.array_equal(gold_labels(rows, "label", labels), wanted)
    with pytest.raises(DataError, match="'c' is not a label"):
        gold_labels(pl.DataFrame({"label": ["a|c"]}), "label", labels)
    with pytest.raises(DataError, match="one for each label"):
        gold_labels(pl.DataFrame({"a": [1]}), "label", labels)
    with pytest.raises(DataError, match="row 1 for 'b' is 'yes'; it must be 0, 1"):
        gold_labels(pl.DataFrame({"a": ["1", "0"], "b": ["1", "yes"]}), "label", labels)
    numbers = MultiLabelSpace("1", "2")
    assert gold_labels(pl.DataFrame({"label": [2, 1]}), "label", numbers).tolist() == [
        [0, 1],
        [1, 0],
    ]


@pytest.mark.parametrize("name", ["-", "sports|law", "sports;law", " sports"])
def test_labels_that_a_table_cannot_name_are_refused(folder, tmp_path, name):
    project = changed(folder, tmp_path, '["sports", "money", "law"]', f'["{name}", "money", "law"]')
    with pytest.raises(ParameterError, match=r"cannot be the name of a label.*Rename it"):
        SeveralLabelsProject().read(project)


def test_a_label_may_have_the_name_of_a_column(folder, tmp_path):
    project = changed(folder, tmp_path, '["sports", "money", "law"]', '["text", "id", "law"]')
    (tmp_path / "dev.jsonl").write_text('{"id": 1, "text": "goal", "label": ["text"]}\n')
    (tmp_path / "test.csv").unlink()
    project = changed(tmp_path, tmp_path, 'test = "test.csv"', "")
    rows = SeveralLabelsProject().read(project)
    assert rows.splits["train"].rows.columns == ["id", "text"]
    assert rows.truth["dev"].tolist() == [[1, 0, 0]]
