"""The findings of a project: what its votes, its gold labels and its class balance show."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from wiesel import VoteMatrix
from wiesel.datasets import make_votes
from wiesel.errors import DataError
from wiesel.io import Split
from wiesel.project.insights import leak_findings, project_findings
from wiesel.project.kinds import kind_of
from wiesel.project.rows import read_splits
from wiesel.project.settings import Project, read_project


def kinds(votes: VoteMatrix, gold=None, class_balance=None) -> dict[str, str]:
    """The sentences of the findings by kind; `gold` are the labels of dev rows with these votes."""
    rows = pl.DataFrame({"id": [str(item) for item in range(votes.n_items)]})
    splits = {"train": Split(rows, np.full(votes.n_items, -1))}
    by_split = {"train": votes}
    if gold is not None:
        splits["dev"], by_split["dev"] = Split(rows, gold), votes
    found = project_findings(by_split, splits, class_balance=class_balance)
    return {each.kind: each.sentence for each in found}


def votes_and_gold(*balance: float) -> tuple[VoteMatrix, np.ndarray]:
    return make_votes(
        400, n_voters=6, n_classes=len(balance), accuracies=0.8, class_balance=balance, seed=1
    )


def test_an_unknown_balance_is_asked_for():
    votes, gold = votes_and_gold(0.5, 0.3, 0.2)
    sentence = kinds(votes)["unknown_balance"]
    assert "the shares of the 3 classes are guessed from the votes, with 'class_0' at" in sentence
    assert "set class_balance under [training]" in sentence
    assert "unknown_balance" not in kinds(votes, gold)
    assert "unknown_balance" in kinds(votes, np.full_like(gold, -1)), "nobody labeled the dev rows"
    assert "unknown_balance" not in kinds(votes, class_balance="votes")
    assert "of the 2 classes" in kinds(votes_and_gold(0.6, 0.4)[0])["unknown_balance"]


def test_members_of_a_committee_that_disagree_are_named_with_what_settles_it():
    votes, _ = votes_and_gold(0.5, 0.3, 0.2)
    rows = pl.DataFrame({"id": [str(item) for item in range(votes.n_items)]})
    given = {"train": votes}, {"train": Split(rows, np.full(votes.n_items, -1))}
    (found, *_) = project_findings(*given, agreement=0.7)
    assert found.kind == "members_disagree"
    assert "for only 70.0 % of the rows with votes" in found.sentence
    assert "Label 20 rows, or set class_balance" in found.sentence
    kinds_of = [{each.kind for each in project_findings(*given, agreement=a)} for a in (0.9, None)]
    assert "members_disagree" not in kinds_of[0] | kinds_of[1]


def test_the_balance_of_the_project_is_compared_with_the_votes():
    votes, gold = votes_and_gold(0.5, 0.3, 0.2)
    far, near = {"class_0": 0.1, "class_1": 0.1, "class_2": 0.8}, [0.5, 0.3, 0.2]
    assert "by the class balance given, 80.0 %" in kinds(votes, class_balance=far)["class_balance"]
    assert not {"class_balance", "unknown_balance"} & kinds(votes, class_balance=near).keys()
    assert "of 400 gold labels" in kinds(votes, gold, far)["class_balance"]


def text_split(*texts: str, prefix: str = "r") -> Split:
    ids = [f"{prefix}{number}" for number in range(len(texts))]
    return Split(pl.DataFrame({"id": ids, "text": texts}), np.zeros(len(texts), dtype=int))


def test_rows_in_two_splits_and_copies_within_train_are_counted():
    splits = {
        "train": text_split("win cash", "lunch", "Lunch ", "dinner", ""),
        "dev": text_split("hello", "LUNCH"),
        "test": text_split("win  cash", "dinner", "hello", ""),
    }
    found = [(each.kind, each.value) for each in leak_findings(splits, "text")]
    # One of two dev rows is in train, two of four test rows; one is in dev; one copy of lunch.
    assert found == [("leak", 0.5), ("leak", 0.5), ("leak", 0.25), ("copies", 0.25)]


def test_rows_that_share_numbers_or_ids_but_not_texts_are_no_leak():
    splits = {"train": text_split("a", "b"), "test": text_split("c", "d")}
    assert not list(leak_findings(splits, "text"))
    tables = {
        name: Split(pl.DataFrame({"id": [f"{name}-0"], "age": [30]}), np.array([0]))
        for name in ("train", "test")
    }
    assert not list(leak_findings(tables, "text"))


def test_dev_rows_drawn_from_train_are_no_leak():
    train = text_split("a", "b", "c")
    assert not list(leak_findings({"train": train, "dev": text_split("b", "c")}, "text"))


def test_a_test_file_equal_to_dev_is_refused(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    rows = "id,text,label\n" + "".join(f"{k},text {k},{'ab'[k % 2]}\n" for k in range(20))
    for name in ("train", "dev"):
        (folder / f"{name}.csv").write_text(rows)
    (folder / "test.csv").write_text(rows.replace("text", "Text ").replace("Text ,", "text,"))
    (folder / "rules.toml").write_text("")
    (folder / "wiesel.toml").write_text(
        'classes = ["a", "b"]\n[data]\ntrain = "train.csv"\ndev = "dev.csv"\n'
        'test = "test.csv"\n[votes]\nlfs = ["rules.toml"]\n'
    )
    project = read_project(folder)
    with pytest.raises(DataError, match="All 20 test rows are dev rows too"):
        read_splits(project, None)


OTHER_KINDS = {"multi = true": ["a"], "spans = true": [[0, 4, "a"]]}


def other_project(folder: Path, kind: str, **texts: list[str]) -> Project:
    """A project of files of texts, whose items have several labels or spans."""
    folder.mkdir()
    lines = [f'classes = ["a", "b"]\n{kind}\n[data]']
    for name, own in texts.items():
        rows = [{"id": f"{name}{k}", "text": text} for k, text in enumerate(own)]
        rows = [{**row, "label": OTHER_KINDS[kind]} for row in rows] if name != "train" else rows
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        lines.append(f'{name} = "{name}.jsonl"')
    (folder / "rules.toml").write_text("")
    (folder / "wiesel.toml").write_text("\n".join([*lines, '[votes]\nlfs = ["rules.toml"]\n']))
    return read_project(folder)


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_kinds_of_tasks_tell_common_texts_and_refuse_test_rows_of_dev(tmp_path, kind):
    texts = {"train": ["text one", "text two", "Text  two"], "dev": ["text one", "text four"]}
    project = other_project(tmp_path / "apart", kind, **texts, test=["text two", "text five"])
    splits = kind_of(project).read(project).splits
    said = kind_of(project).leaks(SimpleNamespace(project=project, splits=splits))
    assert [each.split(":")[0].split(" repeat")[0] for each in said] == [
        "1 of the 2 dev rows is also in train",
        "1 of the 2 test rows is also in train",
        "1 of the 3 training rows",
    ]
    project = other_project(tmp_path / "equal", kind, **texts, test=["Text one", "text four"])
    with pytest.raises(DataError, match="All 2 test rows are dev rows too"):
        kind_of(project).read(project)


def test_votes_that_contradict_a_rough_balance_are_reported():
    votes, _ = votes_and_gold(0.8, 0.2)
    sentence = kinds(votes, class_balance="about 2 % class_1")["class_balance"]
    assert "by the class balance given, 98.0 %" in sentence
    assert "or check the balance" in sentence
    assert "class_balance" not in kinds(votes, class_balance="15-30 % class_1")
    assert "class_balance" not in kinds(votes, class_balance="I do not know")


def test_gold_labels_that_contradict_the_balance_are_reported():
    votes, gold = votes_and_gold(0.8, 0.2)
    sentence = kinds(votes, gold, class_balance="about 2 % class_1")["class_balance"]
    assert "The class balance given has 2.0 % 'class_1'; of 400 gold labels" in sentence
    assert "class_balance" not in kinds(votes, gold, class_balance="20 % class_1")
