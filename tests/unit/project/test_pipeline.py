"""The stages of a project: what they write, what they reuse, what they refuse."""

import json

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

from tiny_project import tiny_project
from wiesel import load_model
from wiesel.errors import DataError, ParameterError, WieselError
from wiesel.io import read_votes
from wiesel.project import load_bundle, read_project, run_project
from wiesel.project.explaining import explain_item
from wiesel.project.labels import label_store
from wiesel.project.pipeline import prepare
from wiesel.project.training import train_models

# Two epochs on forty rows may well end in a warning; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

OUTPUTS = {
    "model",
    "soft_labels.parquet",
    "predictions.parquet",
    "votes.parquet",
    "metrics.json",
    "report.html",
}


def run(folder, methods=None):
    """Run a project; returns the outcome and what was said."""
    said: list[str] = []
    project = read_project(folder)
    outcome = run_project(project, methods, lambda stage, text: said.append(f"{stage}: {text}"))
    return outcome, said


def change(file, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A tiny project after its first run, for tests that only look at it."""
    folder = tiny_project(tmp_path_factory.mktemp("pipeline"))
    return folder, *run(folder)


def test_a_run_writes_everything(first_run):
    tiny, outcome, said = first_run
    assert {entry.name for entry in (tiny / "out").iterdir()} == OUTPUTS | {".cache"}
    assert [line.partition(":")[0] for line in said] == [
        "read",
        "votes",
        "features",
        "train",
        "train",
        "train",
        "report",
    ]
    assert said[4].startswith("train: 12 labels alone")
    assert said[5].startswith("train: majority_vote without labels")
    metrics = json.loads((tiny / "out/metrics.json").read_text())
    assert metrics["splits"]["test"]["n_items"] == 12
    assert metrics["verdict"] == outcome.verdict
    assert "our votes" in outcome.verdict
    assert (
        metrics["methods"][0]["accuracy"]
        == metrics["splits"]["test"]["scores"]["accuracy"]["value"]
    )
    assert read_votes(tiny / "out/votes.parquet").equals(outcome.prepared.votes.train)


def test_predictions_are_those_of_the_saved_model_on_raw_rows(first_run):
    tiny = first_run[0]
    frame = pl.read_parquet(tiny / "out/predictions.parquet")
    assert frame["split"].value_counts().sort("split").rows() == [
        ("dev", 12),
        ("test", 12),
        ("train", 40),
    ]
    test = frame.filter(pl.col("split") == "test")
    bundle = load_bundle(tiny / "out/model")
    proba = bundle.predict_proba(pl.read_csv(tiny / "test.csv"))
    assert np.allclose(test.select("p: billing", "p: technical").to_numpy(), proba)
    assert frame.filter(pl.col("split") == "train")["gold"].null_count() == 40


def test_the_model_is_an_ordinary_saved_model_with_features_as_data(first_run):
    tiny, outcome, _ = first_run
    model = load_model(tiny / "out/model")
    X = outcome.prepared.data.vectors.by_split["test"]
    assert np.allclose(model.predict_proba(X), outcome.proba["test"])
    assert "components" in load_file(tiny / "out/model/features.safetensors")


def test_soft_labels_have_a_row_for_each_item_and_the_weights_of_voters(tiny):
    run(tiny, ["weasel"])
    frame = pl.read_parquet(tiny / "out/soft_labels.parquet")
    assert frame.columns == ["id", "p: billing", "p: technical", "weight: money", "weight: crash"]
    assert frame["id"].to_list() == [f"m{place}" for place in range(40)]
    assert np.allclose(frame["p: billing"] + frame["p: technical"], 1)


def test_a_label_model_has_one_weight_for_each_voter_on_all_items(tiny):
    outcome, _ = run(tiny, ["snorkel"])
    frame = pl.read_parquet(tiny / "out/soft_labels.parquet")
    assert frame["weight: money"].n_unique() == 1
    assert frame["weight: money"][0] == pytest.approx(outcome.weights[0], abs=1e-6)
    run(tiny, ["max_mig"])
    weights = pl.read_parquet(tiny / "out/soft_labels.parquet")["weight: money"]
    assert weights.is_nan().sum() == 0, "what is not known is null, not a number"


def test_soft_labels_of_another_method_do_not_stay(tiny):
    run(tiny, ["majority_vote"])
    rows = (tiny / "train.csv").read_text().splitlines()
    labeled = [f"{row},{('billing', 'technical')[k % 2]}" for k, row in enumerate(rows[1:])]
    (tiny / "train.csv").write_text("\n".join(["id,text,label", *labeled]) + "\n")
    run(tiny, ["supervised"])
    assert not (tiny / "out/soft_labels.parquet").exists()


def test_a_second_run_reuses_every_stage(tiny):
    first, _ = run(tiny)
    second, said = run(tiny)
    assert "votes: 2 voters, 67.5 % of train covered, 6 of 6 parts reused" in said[1]
    assert "reused" in said[2]
    assert said[3] == "train: majority_vote, seed 0: reused"
    assert said[-1] == "reused: 6 of 6 parts of the votes, the features, 1 of 1 models"
    assert np.array_equal(first.proba["test"], second.proba["test"])
    assert first.main.seconds == second.main.seconds


def test_after_editing_one_labeling_function_only_that_one_and_training_run_again(tiny):
    run(tiny)
    change(tiny / "lfs.py", '"crash" in', '"update" in')
    _, said = run(tiny)
    assert "3 of 6 parts reused" in said[1]
    assert "reused" in said[2]
    assert "2 epochs" in said[3]
    assert said[-1] == "reused: 3 of 6 parts of the votes, the features; trained: majority_vote"


def test_the_first_run_reuses_nothing_and_says_nothing_of_it(first_run):
    assert not [line for line in first_run[2] if line.startswith("reused")]


def test_after_editing_a_text_the_features_are_made_again(tiny):
    run(tiny)
    change(tiny / "test.csv", "t0,the invoice is wrong", "t0,the refund is wrong")
    _, said = run(tiny)
    assert "4 of 6 parts" in said[1]
    assert "reused" not in said[2]


def test_damaged_caches_are_made_again(tiny):
    outcome, _ = run(tiny)
    for file in (tiny / "out/.cache").rglob("*.safetensors"):
        file.write_bytes(b"broken")
    again, said = run(tiny)
    assert "reused" not in said[2] + said[3]
    assert np.allclose(outcome.proba["test"], again.proba["test"])


def test_several_methods_and_seeds_make_one_table(tiny):
    change(tiny / "wiesel.toml", "baselines = []", "seeds = [0, 1]")
    outcome, _ = run(tiny, ["snorkel", "majority_vote"])
    assert outcome.main.method == "snorkel"
    assert [(row["method"], row["seed"]) for row in outcome.rows] == [
        ("snorkel", 0),
        ("snorkel", 1),
        ("majority_vote", 0),
        ("majority_vote", 1),
    ]
    assert "95 % intervals" in str(outcome.table)
    assert "±" not in str(outcome.table)
    assert outcome.rows[2]["p_value"] == outcome.rows[3]["p_value"] <= 1
    assert outcome.paired is not None


def test_the_report_says_which_epochs_of_an_ensemble_were_kept(tiny):
    longer = "epoch_size = 3200\n\n[options.weasel]\nmembers = 3\n"  # after less, they collapse
    change(tiny / "wiesel.toml", "epoch_size = 320\n", longer)
    run(tiny, ["weasel"])
    page = (tiny / "out/report.html").read_text()
    assert "The end model averages 3 networks. Each kept its epoch with the best ROC-AUC" in page


def test_it_works_without_any_gold_labels(tiny):
    change(tiny / "wiesel.toml", 'dev = "dev.csv"\ntest = "test.csv"\n', "")
    outcome, _ = run(tiny, ["weasel"])
    assert outcome.table is None
    assert json.loads((tiny / "out/metrics.json").read_text())["splits"] == {}
    assert "there are no gold labels" in (tiny / "out/report.html").read_text()


def test_crowd_answers_are_voters_too(tiny):
    answers = [
        f"m{item},w{worker},{('billing', 'technical')[item % 2]}"
        for item in range(40)
        for worker in range(2)
    ]
    (tiny / "answers.csv").write_text("task,worker,label\n" + "\n".join(answers) + "\n")
    change(tiny / "wiesel.toml", 'lfs = ["lfs.py"]', 'answers = "answers.csv"')
    outcome, _ = run(tiny)
    assert outcome.prepared.votes.train.voters == ("w0", "w1")
    assert outcome.prepared.votes.by_split.keys() == {"train"}


def test_votes_in_a_file_are_matched_by_id(tiny):
    outcome, _ = run(tiny)
    votes = outcome.prepared.votes.train
    from wiesel.io import write_votes

    write_votes(votes[np.arange(40)[::-1]], tiny / "given.parquet")
    change(tiny / "wiesel.toml", 'lfs = ["lfs.py"]', 'file = "given.parquet"')
    again, _ = run(tiny)
    assert again.prepared.votes.train.equals(votes)


def test_an_interrupted_training_goes_on_where_it_stopped(tiny, monkeypatch):
    from wiesel.training import loop

    project, calls = read_project(tiny), []
    original = loop._run_epoch

    def stopping(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(loop, "_run_epoch", stopping)
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        run_project(project)
    assert list((tiny / "out/.cache/models").glob("*.checkpoint"))
    monkeypatch.setattr(loop, "_run_epoch", original)
    resumed = run_project(project)
    assert not list((tiny / "out/.cache/models").glob("*.checkpoint"))
    fresh = tiny.with_name("fresh")
    tiny.joinpath("out").rename(fresh)
    assert np.allclose(resumed.proba["test"], run_project(project).proba["test"])


def test_an_item_is_explained_by_its_id(tiny):
    run(tiny, ["weasel"])
    explanation, row = explain_item(tiny / "out/model", "m0", project=tiny)
    assert row["text"] == "the invoice is wrong"
    assert [push.voter for push in explanation.pushes] == ["money"]
    with pytest.raises(DataError, match=r"no item 'm00' in the project\. Did you mean 'm0'"):
        explain_item(tiny / "out/model", "m00", project=tiny)


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("dev.csv", "billing", "biling", "dev.csv: The label of row 0 is 'biling'"),
        ("train.csv", "m1,", "m0,", "train.csv: Item ids must be unique; 2 rows share the id 'm0'"),
        ("dev.csv", "id,text,label", "id,text,lable", "Did you mean 'lable'?"),
        ("lfs.py", '"technical" if', '"tecnical" if', "tecnical"),
        ("wiesel.toml", "n_dimensions = 3", "n_dimension = 3", "Did you mean 'n_dimensions'?"),
        ("wiesel.toml", 'name = "linear"', 'name = "liner"', "Did you mean 'linear'?"),
        ("wiesel.toml", "epochs = 2", "epoch = 2", "Did you mean 'epochs'?"),
        (
            "wiesel.toml",
            'name = "majority_vote"',
            'name = "majorty"',
            "Did you mean 'majority_vote'?",
        ),
        ("wiesel.toml", 'kind = "tfidf"', 'kind = "tfdif"', "Did you mean 'tfidf'?"),
        (
            "wiesel.toml",
            'kind = "tfidf"\nn_dimensions = 3',
            'kind = "images"',
            "have no images of their own",
        ),
        ("wiesel.toml", "n_dimensions = 3", 'column = "txt"', "Did you mean 'text'?"),
        ("wiesel.toml", "baselines = []", 'baselines = ["supervised"]', "training rows have none"),
    ],
)
def test_what_is_wrong_is_said_before_any_training(tiny, monkeypatch, file, old, new, words):
    monkeypatch.setattr("wiesel.project.pipeline.judge", lambda *_: pytest.fail("it was trained"))
    change(tiny / file, old, new)
    with pytest.raises(WieselError) as caught:
        run(tiny)
    assert words in str(caught.value)


def test_all_mistakes_of_the_file_are_told_before_anything_is_read(tiny, monkeypatch):
    monkeypatch.setattr(
        "wiesel.project.one_label.read_splits", lambda *_: pytest.fail("rows were read")
    )
    file = tiny / "wiesel.toml"
    for old, new in [
        ('"test.csv"', '"tset.csv"'),
        ("n_dimensions = 3", "n_dimension = 3"),
        ('name = "linear"', 'name = "linear"\nbais = 1'),
        ("baselines = []", 'baselines = ["snorkle"]'),
        ("epochs = 2", 'epochs = "two"'),
    ]:
        change(file, old, new)
    with pytest.raises(ParameterError) as caught:
        run(tiny)
    said = str(caught.value)
    for words in ("tset.csv", "'n_dimensions'", "'bais'", "'snorkel'", "'epochs'"):
        assert words in said
    assert said.count(" And line ") == 4
    assert said.count("wiesel.toml") == 1
    assert not (tiny / "out").exists()


def test_a_module_without_its_class_is_noticed_first(tiny, monkeypatch):
    monkeypatch.setattr(
        "wiesel.project.one_label.read_splits", lambda *_: pytest.fail("rows were read")
    )
    (tiny / "net.py").write_text("from torch import nn\nclass Net(nn.Module): pass\n")
    change(tiny / "wiesel.toml", 'name = "linear"', 'name = "module:net.py:Nte"')
    with pytest.raises(ParameterError, match=r"has no class 'Nte'\. Did you mean 'Net'"):
        run(tiny)


def test_the_table_has_rows_that_take_no_votes(first_run):
    tiny, outcome, _ = first_run
    shown = str(outcome.table)
    assert "always 'billing'" in shown
    assert outcome.table.frame["method"].to_list() == [
        "majority_vote",
        "always 'billing'",
        "labels alone: logistic",
        "labels alone: end model",
        "majority_vote without labels",
    ]
    assert shown.endswith(outcome.verdict)
    references = json.loads((tiny / "out/metrics.json").read_text())["references"]
    assert [row["method"] for row in references] == outcome.table.frame["method"].to_list()[1:]
    assert references[0]["accuracy"] == pytest.approx(0.5)


def test_votes_for_one_class_alone_are_warned_about_before_training(tiny):
    change(tiny / "lfs.py", '"technical" if', "None if")
    _, said = run(tiny)
    stages = [line.partition(":")[0] for line in said]
    assert stages.index("warning") < stages.index("features")
    warning = said[stages.index("warning")]
    assert "Every vote is for 'billing', none for 'technical'" in warning


def test_options_of_one_method_reach_that_method_only(tiny):
    with (tiny / "wiesel.toml").open("a") as file:
        file.write("\n[options.snorkel]\nepochs = 1\n")
    outcome, _ = run(tiny, ["majority_vote", "snorkel"])
    assert [len(trained.model.history_) for trained in outcome.trained] == [2, 1]


def test_a_class_balance_reaches_the_methods_that_have_one(tiny):
    balance = "lr = 0.05\nclass_balance = { billing = 0.7, technical = 0.3 }"
    change(tiny / "wiesel.toml", "lr = 0.05", balance)
    outcome, said = run(tiny, ["majority_vote", "crowd_layer"])
    assert outcome.main.model.class_balance == {"billing": 0.7, "technical": 0.3}
    assert any("labels alone" in line for line in said), "gold labels alone need no balance"
    change(tiny / "wiesel.toml", 'name = "majority_vote"', 'name = "crowd_layer"')
    with pytest.raises(ParameterError, match="CrowdLayer has no option 'class_balance'"):
        run(tiny)


def test_the_classes_of_the_file_and_of_the_labeling_functions_must_agree(tiny):
    with (tiny / "lfs.py").open("a") as file:
        file.write("from wiesel import LabelSpace\nspace = LabelSpace('technical', 'billing')\n")
    with pytest.raises(ParameterError, match="Both must agree, in the same order"):
        run(tiny)
    change(tiny / "wiesel.toml", 'classes = ["billing", "technical"]', "")
    assert run(tiny)[0].prepared.data.labels.names == ("technical", "billing")


def test_token_ids_reach_an_lstm(tiny):
    change(tiny / "wiesel.toml", 'kind = "tfidf"\nn_dimensions = 3', 'kind = "tokens"\nlength = 6')
    change(tiny / "wiesel.toml", 'name = "linear"', 'name = "lstm"\nhidden = 4\nembedding = 4')
    outcome, _ = run(tiny, ["majority_vote"])
    assert outcome.prepared.data.vectors.train.shape == (40, 6)
    bundle = load_bundle(tiny / "out/model")
    proba = bundle.predict_proba(pl.read_csv(tiny / "test.csv"))
    assert np.allclose(proba, outcome.proba["test"], atol=1e-6)


def test_models_are_trained_once_for_each_seed(tiny):
    outcome, _ = run(tiny)
    said: list[str] = []
    cache = tiny / "out/.cache"
    train_models(
        outcome.prepared.data, ["majority_vote"], [0, 1], cache, lambda *s: said.append(s[1])
    )
    assert [line.endswith("reused") for line in said] == [True, False]


def gold_of_training(folder):
    """What the models of a project learn as gold."""
    prepared = prepare(read_project(folder), lambda stage, text: None)
    gold = prepared.data.gold()
    names = np.array(prepared.data.labels.names)[np.asarray(gold.y)].tolist()
    return prepared.data.vectors, gold, names, list(gold.chosen)


def test_labels_of_some_training_rows_are_learned_with_those_of_dev(tmp_path):
    folder = tiny_project(tmp_path)
    frame = pl.read_csv(folder / "train.csv").with_row_index("row")
    some = pl.when(pl.col("row") < 3).then(pl.lit("technical")).alias("label")
    frame.with_columns(some).drop("row").write_csv(folder / "train.csv")
    vectors, gold, names, chosen = gold_of_training(folder)
    assert len(names) == len(gold.X) == gold.votes.n_items == 12 + 3
    assert names[12:] == ["technical"] * 3
    assert chosen == ["random"] * 12 + ["file"] * 3
    assert np.array_equal(gold.X[12:], vectors.train[:3])
    change(folder / "wiesel.toml", 'dev = "dev.csv"\n', "")
    assert gold_of_training(folder)[2:] == (["technical"] * 3, ["file"] * 3)


def test_training_rows_that_all_have_a_label_are_the_truth_to_compare_with(tmp_path):
    folder = tiny_project(tmp_path)
    frame = pl.read_csv(folder / "train.csv")
    frame.with_columns(pl.lit("technical").alias("label")).write_csv(folder / "train.csv")
    assert len(gold_of_training(folder)[2]) == 12


def test_all_labels_made_in_the_workbench_are_learned_once(tmp_path):
    folder = tiny_project(tmp_path)
    change(folder / "wiesel.toml", 'dev = "dev.csv"\n', "")
    store = label_store(read_project(folder))
    for row in range(12):
        store.add(f"m{row}", ("billing", "technical")[row % 2], "ada", purpose="evaluate")
    for row in range(20, 25):
        store.add(f"m{row}", "billing", "ada", purpose="learn")
    vectors, _, names, chosen = gold_of_training(folder)
    assert len(vectors.by_split["dev"]) == 12
    assert names == ["billing", "technical"] * 6 + ["billing"] * 5
    assert chosen == ["random"] * 12 + ["workbench"] * 5
    outcome, said = run(folder)
    assert "labels: 5 of the training rows have one, which the models learn" in said
    assert len(outcome.main.model.learned_gold_.items) == 17
    store.add("m30", "technical", "ada", purpose="learn")
    again = run(folder)[0]
    assert not again.main.reused, "a new label trains a new model"


def test_dev_rows_are_judged_by_networks_that_have_not_learned_them(first_run):
    _, outcome, _ = first_run
    data, model = outcome.prepared.data, outcome.main.model
    dev = data.vectors.by_split["dev"]
    assert np.array_equal(outcome.proba["dev"], model.out_of_fold_proba(dev))
    assert not np.array_equal(outcome.proba["dev"], model.predict_proba(dev))


def test_vectors_of_many_rows_are_written_in_blocks_and_are_the_same(tmp_path, monkeypatch):
    for name in ("whole", "blocks"):
        (tmp_path / name).mkdir()
    whole, _ = run(tiny_project(tmp_path / "whole"))
    monkeypatch.setattr("wiesel.project.vectors._BLOCK_ROWS", 7)
    folder = tiny_project(tmp_path / "blocks")
    blocks, _ = run(folder)
    vectors = blocks.prepared.data.vectors
    assert isinstance(vectors.train, np.memmap)
    for name, expected in whole.prepared.data.vectors.by_split.items():
        np.testing.assert_array_equal(vectors.by_split[name], expected)
    again, said = run(folder)
    assert again.prepared.data.vectors.reused, said


def test_what_makes_the_figures_uncertain_is_kept_beside_them(tiny):
    change(tiny / "wiesel.toml", 'dev = "dev.csv"\n', "")
    run(tiny)
    (sentence,) = json.loads((tiny / "out/metrics.json").read_text())["uncertain"]
    assert "the shares of the 2 classes are guessed from the votes" in sentence
    report = (tiny / "out/report.html").read_text()
    assert report.index("are guessed from the votes") < report.index("ROC-AUC")
    change(tiny / "wiesel.toml", "epochs = 2", 'epochs = 2\nclass_balance = "about 60 % billing"')
    run(tiny)
    assert json.loads((tiny / "out/metrics.json").read_text())["uncertain"] == []
