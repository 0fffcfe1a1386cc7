"""Findings that look at features and texts: voters they contradict, and items nobody reaches."""

import numpy as np

from wiesel import VoteMatrix
from wiesel.guidance import feature_findings


def task(seed=0, n_items=600):
    """Two classes that features tell apart, and three voters that are mostly right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n_items)
    X = rng.normal(size=(n_items, 5)) + 2 * truth[:, None]
    votes = np.full((n_items, 3), -1)
    for j in range(3):
        cast = rng.random(n_items) < 0.5
        right = np.where(rng.random(n_items) < 0.85, truth, 1 - truth)
        votes[cast, j] = right[cast]
    return X, truth, votes


def test_a_voter_that_features_and_others_contradict_is_named_with_rows():
    X, truth, dense = task()
    wrong = np.where(truth == 0, 1, -1)
    wrong[100:] = -1
    votes = VoteMatrix.from_dense(
        np.column_stack([dense, wrong]), ["ham", "spam"], ["a", "b", "c", "wrong"]
    )
    found = [each for each in feature_findings(X, votes) if each.kind == "contradicted"]
    assert [each.voters for each in found] == [["wrong"]]
    assert found[0].classes == ["spam"]
    assert all(truth[row] == 0 and wrong[row] == 1 for row in found[0].rows)


def test_good_voters_are_not_contradicted():
    X, _, dense = task()
    votes = VoteMatrix.from_dense(dense, ["ham", "spam"], ["a", "b", "c"])
    assert not [each for each in feature_findings(X, votes) if each.kind == "contradicted"]


def test_the_only_voter_of_a_class_cannot_be_contradicted():
    X, truth, dense = task()
    dense[dense == 1] = -1
    only = np.where(truth == 0, 1, -1)
    votes = VoteMatrix.from_dense(
        np.column_stack([dense, only]), ["ham", "spam"], ["a", "b", "c", "only"]
    )
    found = [each.voters for each in feature_findings(X, votes) if each.kind == "contradicted"]
    assert ["only"] not in found


def test_uncovered_items_come_as_groups_with_words_and_rows():
    X, _, dense = task()
    X[500:] += 20
    dense[500:] = -1
    texts = ["about the weather"] * 500 + ["refund of my invoice"] * 100
    votes = VoteMatrix.from_dense(dense, ["ham", "spam"], ["a", "b", "c"])
    found = [each for each in feature_findings(X, votes, texts) if each.kind == "uncovered_cluster"]
    assert len(found) == 1
    assert {"refund", "invoice"} <= set(found[0].words)
    assert any(row >= 500 for row in found[0].rows)
    assert "items) without votes form" in found[0].sentence.replace(" %)", " items)")


def test_of_large_data_a_sample_is_looked_at_and_rows_are_those_of_the_whole():
    X, _, dense = task(n_items=6000)
    X[:3000] += 20
    dense[:3000] = -1
    votes = VoteMatrix.from_dense(dense, ["ham", "spam"], ["a", "b", "c"])
    found = [each for each in feature_findings(X, votes) if each.kind == "uncovered_cluster"]
    assert found
    assert found[0].sentence.startswith("About ")
    assert all(row < 3000 for row in found[0].rows)


def test_uncovered_items_that_no_words_tell_apart_are_no_group():
    rng = np.random.default_rng(0)
    words = np.array(["film", "plot", "actor", "scene", "story", "time", "end", "good"])
    texts = [" ".join(rng.choice(words, 4)) for _ in range(400)]
    dense = np.where(np.arange(400) < 100, rng.integers(0, 2, 400), -1)[:, None]
    votes = VoteMatrix.from_dense(dense, ["no", "yes"], ["a"])
    found = feature_findings(rng.normal(size=(400, 5)), votes, texts)
    assert not [each for each in found if each.kind == "uncovered_cluster"]


def test_of_mapped_features_only_the_sample_is_read(tmp_path):
    X, _, dense = task(n_items=12_000)
    votes = VoteMatrix.from_dense(dense, ["ham", "spam"])
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found, expected = (feature_findings(each, votes) for each in (mapped, X.astype(np.float32)))
    assert [each.sentence for each in found] == [each.sentence for each in expected]
    # Of 12,000 rows, 5,000 are looked at: NaN in another one shows that it is not.
    sample = np.sort(np.random.default_rng(0).choice(12_000, 5_000, replace=False))
    broken = X.astype(np.float32)
    broken[np.setdiff1d(np.arange(12_000), sample)] = np.nan
    np.save(tmp_path / "X.npy", broken)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert [each.sentence for each in feature_findings(mapped, votes)] == [
        each.sentence for each in expected
    ]
