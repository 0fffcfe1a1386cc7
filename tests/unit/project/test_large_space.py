"""Of very many rows, some drawn at random stand for all; votes, labels and searches know all."""

import numpy as np
import polars as pl
import pytest

from wiesel import keywords
from wiesel.guidance.lf_preview import ItemFilter
from wiesel.labels import ABSTAIN
from wiesel.project import large_space
from wiesel.project.large_space import LargeSpace
from wiesel.project.workspace import open_workspace

N, DRAWN = 400, 150


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.setattr(large_space, "MANY_ROWS", 300)
    monkeypatch.setattr(large_space, "_DRAWN", DRAWN)
    rng = np.random.default_rng(0)
    words = [["lunch", "noon", "friend"], ["cash", "win", "prize"]]
    said = [
        " ".join(rng.choice(words[k % 2], 3)) + f" {rng.choice(words[k % 2])}" for k in range(N)
    ]
    rows = pl.DataFrame({"id": [f"m{k}" for k in range(N)], "text": said})
    rows.write_parquet(tmp_path / "train.parquet")
    (tmp_path / "wiesel.toml").write_text(
        "classes = ['ham', 'spam']\n[data]\ntrain = 'train.parquet'\n"
        "[votes]\nlfs = ['rules.toml']\n"
        "[features]\nn_dimensions = 4\n"
    )
    rule = '[[lf]]\nkind = "keywords"\nlabel = "{}"\nkeywords = ["{}"]\ncolumn = "text"\n'
    (tmp_path / "rules.toml").write_text(rule.format("ham", "lunch") + rule.format("spam", "cash"))
    return open_workspace(tmp_path)


def test_features_are_made_of_the_drawn_rows_only(space):
    assert isinstance(space, LargeSpace)
    assert len(space.vectors.by_split["train"]) == len(space.rows) == DRAWN
    assert space.votes.n_items == N
    assert len(space.preview.proba) == DRAWN


def test_any_row_is_predicted_when_it_is_shown(space):
    other = int(np.setdiff1d(np.arange(N), space.rows)[0])
    found = space.previewed("train")
    assert found.predicted[other] == ABSTAIN
    assert np.isnan(found.proba[other]).all()
    shown = space.marks("train", [other, int(space.rows[0])], found)
    truth = [("ham", "spam")[other % 2], ("ham", "spam")[int(space.rows[0]) % 2]]
    assert [mark.predicted[0][0] for mark in shown] == truth
    place = int(space.rows[0])
    assert shown[1].predicted == space.marks("train", [place], found)[0].predicted


def test_filters_by_prediction_find_only_rows_that_were_asked_about(space):
    facts = space.facts_of("train", space.previewed("train"))
    ham = ItemFilter(predicted="ham").rows(facts)
    assert len(ham)
    assert set(ham) <= set(space.rows.tolist())
    assert len(ItemFilter(search="lunch").rows(facts)) > len(ham) / 2
    # A row without a prediction is not a wrong one.
    other = int(np.setdiff1d(np.arange(N), space.rows)[0])
    space.store.add(f"m{other}", ("ham", "spam")[other % 2], "ada", "learn")
    space.refresh(labels_only=True)
    facts = space.facts_of("train", space.previewed("train"))
    assert other not in ItemFilter(gold="wrong").rows(facts)
    assert other in ItemFilter(gold="known").rows(facts)


def test_rows_at_random_need_no_votes_and_no_row_comes_twice(space):
    found = space.to_label(20, "random", "ada", seed=1)
    assert not space.has("cast")
    assert set(found.frame["purpose"]) == {"evaluate"}
    ids = space.train.ids
    assert found.frame["item"].to_list() == [ids[row] for row in found.frame["row"]]
    # 20 of 150 open rows, which are 150 of 400: each row is drawn with probability 20 / 400.
    assert found.frame["probability"].to_list() == pytest.approx([0.05] * 20)
    for item in found.frame["item"]:
        space.store.add(item, "ham", "ada", "evaluate")
    space.refresh(labels_only=True)
    again = space.to_label(DRAWN, "random", "ada", seed=2)
    assert len(again.frame) == DRAWN - 20
    assert not set(again.frame["item"]) & set(found.frame["item"])


def test_recommended_rows_and_those_of_a_voter_are_named_by_their_place_among_all(space):
    for way in ("recommended", "conflict", "uncertain", space.votes.voters[0]):
        found = space.to_label(10, way, "ada", seed=0).frame
        assert [space.train.ids[row] for row in found["row"]] == found["item"].to_list()


def test_labels_of_an_earlier_session_are_among_the_drawn_rows(space):
    other = int(np.setdiff1d(np.arange(N), space.rows)[0])
    space.store.add(f"m{other}", "spam", "ada", "learn")
    again = open_workspace(space.project)
    assert other in again.rows
    assert again.some.gold[np.searchsorted(again.rows, other)] == 1


def test_clusters_map_and_disputes_name_rows_of_all(space):
    texts = space.train.rows["text"]
    uncovered = np.flatnonzero(~space.votes.covered)
    found = space.clusters()
    assert found
    assert all(set(each.rows) <= set(uncovered) & set(space.rows) for each in found)
    words = found[0].words
    assert any(words[0].split()[0] in texts[int(row)] for row in found[0].rows)
    assert space.map.rows.tolist() == space.rows.tolist()
    assert set(space.disputed(5)) <= set(space.rows)
    ham = np.array([row for row in range(N) if row % 2 == 0])
    assert {"lunch", "noon", "friend"} & set(space.typical_words(ham, 3, 1.0))


def test_a_rule_is_previewed_on_all_rows_and_its_effect_on_the_drawn(space):
    rule = keywords("spam", ["prize"], column="text")
    rows = np.flatnonzero(space.train.rows["text"].str.contains("prize").to_numpy())
    found = space.preview_rule(rule)
    assert found.rows.tolist() == rows.tolist()
    assert 0 < found.from_features <= 1
    effect = space.effect(rule)
    gained = set(rows) & set(np.flatnonzero(~space.votes.covered)) & set(space.rows)
    assert set(effect.gained) == gained


def test_blame_and_figures_of_any_row(space):
    other = int(np.setdiff1d(np.arange(N), space.rows)[0])
    found = space.blame(other)
    assert found.label == ("ham", "spam")[other % 2]
    for row in found.neighbors.to_records():
        assert space.train.ids[row["row"]] == row["item"]
    covered = float(space.votes.covered.mean())
    assert space.score()["coverage"] == pytest.approx(covered)
    assert space.summary()["trust"].null_count() == 0
    assert isinstance(space.suggestions(3), list)
