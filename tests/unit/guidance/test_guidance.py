"""Rows to label, blame, previews of rules, clusters, filters, marked words."""

import numpy as np
import polars as pl
import pytest
from planted import LABELS, noisy_votes, planted
from sklearn.cluster import KMeans

from wiesel import VoteMatrix, apply_lfs, blame, keywords, regex, rows_to_label, threshold
from wiesel.errors import DataError, FeatureError, ParameterError
from wiesel.guidance import (
    ItemFacts,
    ItemFilter,
    TermIndex,
    lfs_from_selection,
    preview_end_model,
    preview_lf,
    uncovered_clusters,
)
from wiesel.guidance.lf_preview import matching_rows


def test_a_share_of_the_rows_to_label_is_random_and_kept_for_evaluation():
    data = planted()
    table = rows_to_label(noisy_votes(data, (0.8, 0.7)), data.X, n=20)
    assert table.frame["purpose"].to_list().count("evaluate") == 5
    assert table.frame["row"].n_unique() == 20
    assert all(row["score"] is None for row in table.to_records() if row["purpose"] == "evaluate")


def test_rows_with_a_label_are_not_asked_for_again():
    data = planted(60)
    gold = np.where(np.arange(60) < 50, data.gold, -1)
    table = rows_to_label(noisy_votes(data, (0.8, 0.7)), data.X, n=20, gold=gold)
    assert set(table.frame["row"]) == set(range(50, 60))


@pytest.mark.parametrize("way", ["recommended", "random", "conflict", "uncertain", "voter_1"])
def test_every_way_to_choose_rows_works_with_and_without_features(way: str):
    data = planted(80)
    votes = noisy_votes(data, (0.8, 0.7, 0.6))
    for X in (None, data.X):
        assert 0 < len(rows_to_label(votes, X, n=8, way=way)) <= 8


def test_the_way_of_a_voter_asks_for_its_votes_only():
    data = planted(80)
    votes = noisy_votes(data, (0.8, 0.7))
    chosen = rows_to_label(votes, n=8, way="voter_0", random_share=0).frame["row"].to_numpy()
    assert votes.select(["voter_0"]).covered[chosen].all()


def test_an_unknown_way_is_answered_with_the_nearest(votes):
    with pytest.raises(ParameterError, match="Did you mean 'conflict'"):
        rows_to_label(votes, way="conflicts")


def test_blame_finds_the_voter_that_misled_a_region_and_silence_would_mend_it():
    data = planted(400)
    region = data.X[:, 0] > 2.0
    dense = noisy_votes(data, (0.85, 0.85), coverage=0.3).dense()
    liar = np.where(region, 0, -1)
    votes = VoteMatrix.from_dense(np.column_stack([dense, liar]), LABELS, ["a", "b", "liar"])
    preview = preview_end_model(data.X, votes)
    wrong = np.flatnonzero(region & (data.gold == 1) & (preview.proba[:, 0] > 0.3))
    assert len(wrong)
    found = blame(data.X, votes, int(wrong[0]), "ham")
    assert found.voters.to_records()[0]["voter"] == "liar"
    assert found.without(["liar"])[1] > found.proba[1]


def test_blame_takes_the_features_of_another_item_and_refuses_wrong_ones():
    data = planted(60)
    votes = noisy_votes(data, (0.8, 0.8))
    assert len(blame(data.X, votes, np.ones(5)).neighbors) > 0
    with pytest.raises(FeatureError, match="3 features; the training items have 5"):
        blame(data.X, votes, np.ones(3))
    with pytest.raises(ParameterError, match="no item 99"):
        blame(data.X, votes, 99)
    with pytest.raises(ParameterError, match="no voter 'x' to leave out"):
        blame(data.X, votes, 0).without(["x"])


TEXTS = [
    "free  PRIZE",
    "freedom",
    "a free\nprize!",
    "café free",
    "FREEprize",
    "",
    "prizes free",
    None,
]


@pytest.mark.parametrize(
    "rule",
    [
        keywords("spam", ["free"], column="text"),
        keywords("spam", ["free prize"], column="text"),
        keywords("spam", ["free", "prize"], column="text", min_matches=2),
        keywords("spam", ["free", "Free"], column="text"),
        keywords("spam", ["FREE"], column="text", case_sensitive=True),
        keywords("spam", ["rize"], column="text", whole_words=False),
        regex("spam", r"(?i)prize", column="text"),
    ],
)
def test_the_preview_finds_the_rows_that_the_rule_votes_on(rule):
    frame = pl.DataFrame({"text": TEXTS})
    voted = np.flatnonzero(apply_lfs(rule, frame, labels=LABELS).covered)
    assert matching_rows(rule, frame).tolist() == voted.tolist()


def test_a_preview_counts_conflicts_fixes_breaks_and_precision(votes):
    # Votes: ham ham -, ham spam -, spam spam spam, - spam ham; the rule votes spam on 0, 1, 2.
    rows = pl.DataFrame({"text": ["x", "x", "x", "y"]})
    gold = np.array([0, 1, 1, -1])
    proba = np.array([[0.8, 0.2], [0.4, 0.6], [0.1, 0.9], [0.5, 0.5]])
    found = preview_lf(keywords("spam", ["x"], column="text"), ItemFacts(rows, votes, proba, gold))
    assert (len(found.rows), found.conflicts, found.newly_covered) == (3, 2, 0)
    assert found.fixes.tolist() == [1]  # a tie, of which the first class leads
    assert found.breaks.tolist() == [0]
    assert (found.support, found.precision) == (3, 2 / 3)
    assert found.from_features == pytest.approx((0.2 + 0.6 + 0.9) / 3)
    assert found.from_voters == pytest.approx(4 / 7)
    assert found.to_dict()["coverage"] == 0.75


def test_what_cannot_be_told_of_a_rule_is_unknown(votes):
    facts = ItemFacts(pl.DataFrame({"n": [1, 2, 3, 4]}), votes)
    found = preview_lf(threshold("spam", "n", above=9), facts)
    assert len(found.rows) == 0
    assert found.to_dict()["precision"] is None
    assert found.to_dict()["estimate"] is None


def test_uncovered_items_are_grouped_with_their_telling_words():
    texts = ["red apple", "red cherry", "red apple", "blue ocean", "blue ocean", "seen"]
    X = np.array([[0.0, 5], [0, 5.1], [0, 4.9], [5, 0], [5.1, 0], [9, 9]])
    votes = VoteMatrix.from_dense([[-1]] * 5 + [[0]], LABELS)
    found = uncovered_clusters(X, votes, TermIndex.of(texts, min_count=1), n_clusters=2)
    assert [len(cluster) for cluster in found] == [3, 2]
    assert "red" in found[0].words
    assert found[1].words[0] in ("blue", "ocean", "blue ocean")


def test_equal_items_are_one_cluster_however_many_are_wanted():
    X = np.array([[0.0, 1]] * 4 + [[3, 0]] * 2)
    votes = VoteMatrix.from_dense([[-1]] * 6, LABELS)
    assert [each.rows.tolist() for each in uncovered_clusters(X, votes)] == [[0, 1, 2, 3], [4, 5]]


def test_clusters_are_as_tight_as_those_of_scikit_learn():
    X = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
    found = uncovered_clusters(X, VoteMatrix.from_dense([[-1]] * 300, LABELS), n_clusters=5)
    own = sum(np.square(X[c.rows] - X[c.rows].mean(axis=0)).sum() for c in found)
    assert own < 1.05 * KMeans(5, n_init=10, random_state=0).fit(X).inertia_


def test_where_everything_is_covered_there_is_no_cluster(votes):
    assert uncovered_clusters(np.zeros((4, 2)), votes) == []


def test_filters_follow_the_threshold_that_decides(votes):
    proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    rows = pl.DataFrame({"text": ["a", "b", "c", "d"]})
    facts = ItemFacts(rows, votes, proba, np.array([0, 1, -1, 0]), np.array([0, 1, 1, 1]))
    assert ItemFilter(predicted="spam").rows(facts).tolist() == [1, 2, 3]
    assert ItemFilter(gold="wrong").rows(facts).tolist() == [3]
    # The confidence is that of the predicted class, here 40 % for the second item.
    assert ItemFilter(most_confidence=0.5).rows(facts).tolist() == [1]


def test_filters_choose_by_votes_prediction_gold_and_words(votes):
    proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.3, 0.7]])
    rows = pl.DataFrame({"text": ["hi <b>", "see www", "win www", "www ok"]})
    facts = ItemFacts(rows, votes, proba, np.array([0, 0, -1, 1]))
    chosen = {
        "words": ItemFilter(search="<B>"),
        "vote": ItemFilter(voter="length", vote="ham"),
        "predicted": ItemFilter(predicted="spam"),
        "sure": ItemFilter(least_confidence=0.75),
        "gold": ItemFilter(gold="ham"),
        "unknown": ItemFilter(gold="unknown"),
        "wrong": ItemFilter(gold="wrong"),
        "all": ItemFilter(conflict=True, predicted="spam", gold="known"),
    }
    assert {name: each.rows(facts).tolist() for name, each in chosen.items()} == {
        "words": [0],
        "vote": [3],
        "predicted": [1, 2, 3],
        "sure": [0, 2],
        "gold": [0, 1],
        "unknown": [2],
        "wrong": [1],
        "all": [1, 3],
    }


def test_a_class_named_like_a_word_of_the_filter_can_be_chosen():
    votes = VoteMatrix.from_dense([[0], [1], [-1]], ["spam", "unknown"])
    facts = ItemFacts(pl.DataFrame({"text": ["a", "b", "c"]}), votes, None, np.array([0, 1, -1]))
    assert ItemFilter(gold_class="unknown").rows(facts).tolist() == [1]
    assert ItemFilter(gold="unknown").rows(facts).tolist() == [2]


def test_a_filter_on_what_is_not_there_says_so(votes):
    facts = ItemFacts(pl.DataFrame({"text": ["a", "b", "c", "d"]}), votes)
    with pytest.raises(DataError, match="no predictions yet"):
        ItemFilter(predicted="spam").rows(facts)
    with pytest.raises(ParameterError, match="Did you mean 'link'"):
        ItemFilter(voter="lnk").rows(facts)


@pytest.mark.parametrize(
    "marked", ["free", "won 500 pounds", "call 0800-123 now!", "a+b (c)", "£5"]
)
def test_every_rule_from_marked_words_finds_the_text_they_were_marked_in(marked: str):
    frame = pl.DataFrame({"text": [f"hello {marked} there", "nothing of it"]})
    rules = lfs_from_selection(marked, "spam", column="text")
    assert rules
    for rule in rules:
        assert matching_rows(rule, frame).tolist() == [0], rule


def test_marking_nothing_or_a_whole_page_is_refused():
    for marked in ("  ", "word " * 40):
        with pytest.raises(ParameterError, match="Mark one to 12 words"):
            lfs_from_selection(marked, "spam", column="text")
