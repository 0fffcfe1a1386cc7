"""Features of the items in `aggregate` and `ask_next`, in Python and at the command line."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from wiesel import aggregate, ask_next
from wiesel.cli.main import app
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import DataError, ParameterError
from wiesel.label_models.confidence import calibrated_proba


@pytest.fixture(scope="module")
def crowd():
    """400 items with two answers or so of workers who are right on 70 %, and their features."""
    votes, gold = make_votes(400, 12, n_classes=3, accuracies=[0.7] * 12, coverage=0.18)
    kept = votes.covered
    frame = votes.to_long()
    X = make_features(gold, n_features=6)
    ids = [str(item) for item in votes.ids.tolist()]
    table = pl.DataFrame({"item": ids, "vector": X.tolist()}).filter(kept)
    return frame, table, dict(zip(ids, gold, strict=True))


def accuracy(found, truth):
    gold = [truth[str(item)] for item in found.votes.ids.tolist()]
    return float((found.best_class == gold).mean())


def test_features_mend_labels_of_items_with_few_answers(crowd):
    answers, table, truth = crowd
    alone = aggregate(answers, worker="voter")
    told = aggregate(answers, worker="voter", features=table)
    assert accuracy(told, truth) > accuracy(alone, truth) + 0.05
    sure = told.labels["confidence"].mean()
    assert abs(sure - accuracy(told, truth)) < 0.1
    assert any("Features alone" in note for note in told.notes())
    assert not any("Features alone" in note for note in alone.notes())


def test_the_order_of_the_rows_of_features_does_not_matter(crowd):
    answers, table, _ = crowd
    shuffled = table.sample(fraction=1.0, shuffle=True, seed=1)
    found = [aggregate(answers, worker="voter", features=rows).labels for rows in (table, shuffled)]
    assert found[0].equals(found[1])


def test_what_features_say_takes_the_place_of_the_class_balance(crowd):
    # Where the features say what the class balance says, nothing changes.
    answers, _, _ = crowd
    found = aggregate(answers, worker="voter")
    model, votes, proba = found.model, found.votes, found.model_proba
    same = np.tile(model.class_balance_, (votes.n_items, 1))
    without = calibrated_proba(model, votes, proba)
    # The balance itself is not lessened by the dependence of answers when it comes as expected.
    one = votes.votes_per_item == 1
    assert calibrated_proba(model, votes, proba, expected=same)[one] == pytest.approx(
        without[one], abs=0.02
    )
    sure = np.eye(3)[[0] * votes.n_items] * 0.999 + 0.0003
    assert calibrated_proba(model, votes, proba, expected=sure)[:, 0].min() > 0.8


def test_less_is_asked_about_items_whose_features_tell(crowd):
    answers, table, _ = crowd
    alone = ask_next(answers, worker="voter")
    told = ask_next(answers, worker="voter", features=table)
    assert told.n_open < alone.n_open
    assert told.wrong_now < alone.wrong_now


def test_gold_calibrates_what_features_and_answers_say(crowd):
    answers, table, truth = crowd
    names = {item: str(label) for item, label in truth.items()}
    labels = aggregate(answers, worker="voter").votes.labels.names
    known = {item: labels[int(label)] for item, label in list(names.items())[:60]}
    found = aggregate(answers, worker="voter", features=table, gold=known)
    assert (found.calibration.slope, found.calibration.shift) != (1.0, 0.0)


def test_features_need_a_model_whose_confidences_are_calibrated(crowd):
    answers, table, _ = crowd
    for options in ({"method": "majority_vote"}, {"calibrated": False}):
        with pytest.raises(ParameterError, match="dawid_skene"):
            aggregate(answers, worker="voter", features=table, **options)
    few = pl.DataFrame({"item": ["a", "b"], "voter": ["x", "x"], "label": ["0", "1"]})
    with pytest.raises(DataError, match="Ten items"):
        aggregate(few, worker="voter", features={"id": ["a", "b"], "size": [1.0, 2.0]})


def test_the_command_line_takes_a_column_or_a_file(crowd, tmp_path):
    answers, table, truth = crowd
    path, rows = tmp_path / "answers.csv", tmp_path / "items.parquet"
    words = {0: "it meows on the sofa", 1: "it barks at the mailman", 2: "it sings in the tree"}
    texts = pl.Series([words[truth[item]] for item in answers["item"].cast(pl.String)])
    answers.with_columns(text=texts).write_csv(path)
    table.write_parquet(rows)

    def labels(*words):
        found = CliRunner().invoke(
            app, ["aggregate", str(path), "--worker", "voter", *words, "--json"]
        )
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)["labels"]

    names = sorted(answers["label"].unique())
    for given in (str(rows), "text"):
        found = labels("--item", "item", "--features", given)
        right = [row["label"] == names[truth[str(row["item"])]] for row in found]
        assert np.mean(right) > 0.85
    wrong = CliRunner().invoke(app, ["aggregate", str(path), "--features", "texts"])
    assert wrong.exit_code == 1
    assert "neither such a file nor such a column" in wrong.output
    asked = CliRunner().invoke(
        app, ["ask-next", str(path), "--worker", "voter", "--item", "item", "--features", str(rows)]
    )
    assert asked.exit_code == 0, asked.output
    assert "--features" in asked.output  # the next step says the same
