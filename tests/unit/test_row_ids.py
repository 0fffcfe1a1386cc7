"""Rows are matched by id where there are ids, at every entrance, by one rule."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from wiesel import (
    Committee,
    MajorityVote,
    Supervised,
    TwoStage,
    VoteMatrix,
    WeaSEL,
    apply_lfs,
    compare,
    evaluate,
    keywords,
)
from wiesel.analysis import disagreements, findings, summarize
from wiesel.analysis.buckets import label_buckets
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import DataError
from wiesel.evaluation import (
    choose_threshold,
    compare_paired,
    compare_paired_proba,
    evaluate_presence,
    evaluate_proba,
)
from wiesel.guidance import blame, preview_end_model, rows_to_label, suggest_lfs
from wiesel.guidance.feature_findings import feature_findings, uncovered_clusters
from wiesel.label_models import calibrate_votes
from wiesel.multilabel import MultiLabelVotes, PerLabel
from wiesel.spans import Documents, evaluate_spans
from wiesel.tables import in_order_of, index_ids

N = 300
TOLD, GOLD = make_votes(N, n_voters=5, seed=3)
NAMES = np.array([f"m{row}" for row in range(N)])
VOTES = VoteMatrix.from_dense(TOLD.dense(), TOLD.labels, TOLD.voters, NAMES)
VECTORS = make_features(GOLD, n_features=4, seed=3)
X = pd.DataFrame(VECTORS, index=NAMES, columns=list("abcd"))
Y = pd.Series(np.array(TOLD.labels.names)[GOLD], index=NAMES)
OTHER = np.random.default_rng(5).permutation(N)
with torch.random.fork_rng():
    torch.manual_seed(0)  # before any test, nobody else has set one
    NET = torch.nn.Linear(4, 2)


def same(model, other):
    return np.array_equal(model.predict_proba(VECTORS), other.predict_proba(VECTORS))


# The rule.


def test_rows_with_ids_are_matched_by_id():
    assert in_order_of(VOTES, Y.iloc[OTHER], "gold").equals(Y)
    assert in_order_of(VOTES, X.iloc[OTHER], "X").equals(X)
    assert in_order_of(X, VOTES[OTHER], "votes", "X").equals(VOTES)


def test_rows_without_ids_are_matched_by_position():
    for plain in (VECTORS, VECTORS.tolist(), X.reset_index(drop=True), pl.DataFrame(VECTORS)):
        assert in_order_of(VOTES, plain, "X") is plain
    part = X.set_index(np.arange(N) + 7)
    assert in_order_of(TOLD, part, "X") is part


def test_other_ids_are_refused_with_numbers_and_examples():
    other = X.rename(index={"m1": "x1", "m4": "x4", "m5": "x5"})
    with pytest.raises(DataError, match="3 of votes are missing in X") as e:
        in_order_of(VOTES, other, "X")
    assert "3 of X are missing in votes ('x1', 'x4' and 1 more)" in str(e.value)
    assert "('m1', 'm4' and 1 more)" in str(e.value)
    assert ".to_numpy()" in str(e.value)
    with pytest.raises(DataError, match="X repeats the ids 'm0'"):
        in_order_of(VOTES, X.rename(index={"m1": "m0"}), "X")


def test_numbers_in_another_order_may_mean_both_and_are_refused():
    shuffled = pd.DataFrame(VECTORS).iloc[OTHER]
    with pytest.raises(DataError, match="it is open what belongs together"):
        in_order_of(TOLD, shuffled, "X")
    with pytest.raises(DataError, match="another order"):
        in_order_of(TOLD[OTHER], pd.DataFrame(VECTORS), "X")
    assert in_order_of(TOLD[OTHER], shuffled, "X") is shuffled


def test_an_index_names_rows_unless_it_counts_repeats_or_has_gaps():
    frame = pd.DataFrame({"a": [1, 2, 3]})
    assert index_ids(frame) is None
    assert index_ids(frame.set_index(np.array([4, 4, 5]))) is None
    assert index_ids(frame.set_index(np.array(["u", None, "v"], dtype=object))) is None
    assert index_ids(frame.set_index(pd.MultiIndex.from_product([[1], [1, 2, 3]]))) is None
    assert index_ids(frame[1:]).tolist() == [1, 2]
    assert index_ids([1, 2]) is None


@pytest.mark.parametrize("column", ["id", "mail"])
def test_the_id_column_of_a_table_is_the_one_with_the_ids(column):
    table = pl.DataFrame({column: NAMES[OTHER], "a": VECTORS[OTHER, 0]})
    for given in (table, table.to_arrow(), table.to_pandas()):
        found = in_order_of(VOTES, given, "X")
        assert list(found[column]) == NAMES.tolist()
        without = in_order_of(VOTES, given, "X", drop_ids=True)
        assert list(without.columns) == ["a"]
        assert np.array_equal(without["a"], VECTORS[:, 0])
    with pytest.raises(DataError, match="has other ids"):
        in_order_of(VOTES, pl.DataFrame({"id": NAMES[1:]}), "X")


# The entrances.


@pytest.mark.parametrize(
    "method",
    [
        TwoStage(MajorityVote(), NET, epochs=2),
        WeaSEL(NET, epochs=2, warm_up=1),
        Committee(NET, epochs=2, networks=1),
    ],
    ids=["two_stage", "weasel", "committee"],
)
def test_training_matches_rows_by_id(method):
    from sklearn.base import clone

    mixed = X[:60].sample(frac=1, random_state=1)
    plain = clone(method, safe=False).fit(X, VOTES, validation=(mixed, Y[:60].loc[mixed.index]))
    given = clone(method, safe=False).fit(X.iloc[OTHER], VOTES, validation=(mixed, Y[:60]))
    assert same(plain, given)
    soft = plain.soft_labels(X, VOTES)
    assert np.array_equal(plain.soft_labels(X.iloc[OTHER], VOTES), soft)
    with pytest.raises(DataError, match="has other ids"):
        clone(method, safe=False).fit(X.rename(index={"m1": "x"}), VOTES)


def test_gold_labels_of_a_series_are_matched_by_id():
    options = {"labels": TOLD.labels, "epochs": 1}
    plain = Supervised(NET, **options).fit(X, Y)
    assert same(plain, Supervised(NET, **options).fit(X, Y.iloc[OTHER]))
    model = MajorityVote().fit(VOTES)
    for own, items in ((plain, X), (model, VOTES)):
        report = evaluate(own, items, Y, n_resamples=0)
        assert evaluate(own, items, Y.iloc[OTHER], n_resamples=0).accuracy == report.accuracy
        assert own.score(items, Y.iloc[OTHER]) == own.score(items, Y)
    parted = evaluate(plain, X.iloc[OTHER], Y, VOTES, n_resamples=0)
    assert parted.covered.accuracy == evaluate(plain, X, Y, VOTES, n_resamples=0).covered.accuracy
    second = Supervised(NET, labels=TOLD.labels, epochs=2).fit(X, Y)
    pairs = [compare_paired(plain, second, X, y, n_resamples=9) for y in (Y, Y.iloc[OTHER])]
    assert pairs[0].to_dict() == pairs[1].to_dict()
    tuned = [TwoStage(MajorityVote(), NET, epochs=1).fit(X, VOTES) for _ in range(2)]
    first, second = (own.fine_tune(X, y) for own, y in zip(tuned, (Y, Y.iloc[OTHER]), strict=True))
    assert first == second


def test_probabilities_with_an_index_are_matched_by_id():
    proba = pd.DataFrame(MajorityVote().fit(VOTES).predict_proba(VOTES), NAMES, TOLD.labels.names)
    covered, shuffled = pd.Series(VOTES.covered, NAMES), Y.iloc[OTHER]
    plain = evaluate_proba(proba, Y, TOLD.labels, covered=covered, n_resamples=0)
    for columns in (list(proba), list(proba)[::-1]):
        given = proba[columns].iloc[OTHER]
        found = evaluate_proba(given, Y, TOLD.labels, covered=covered[::-1], n_resamples=0)
        assert found.accuracy == plain.accuracy
        assert found.log_loss == pytest.approx(plain.log_loss)
        assert found.covered.accuracy == plain.covered.accuracy
        pairs = compare_paired_proba(given, proba, shuffled, TOLD.labels, n_resamples=0)
        assert pairs.only_first == pairs.only_second == pairs.differences["log_loss"] == 0
    truth = pd.Series((TOLD.labels.names[1] == Y) * 1, NAMES)
    column = proba[TOLD.labels.names[1]]
    assert choose_threshold(column.iloc[OTHER], truth) == choose_threshold(column, truth)
    found = [
        evaluate_presence(
            own, truth.to_frame("b").assign(a=1 - truth), ["a", "b"], n_resamples=0
        ).micro_f1
        for own in (proba, proba.iloc[OTHER])
    ]
    assert found[0] == found[1]
    with pytest.raises(DataError, match="other ids"):
        evaluate_proba(proba, shuffled[1:], TOLD.labels)


def test_calibration_matches_gold_by_id():
    plain = calibrate_votes(VOTES, Y).distribution
    assert np.array_equal(calibrate_votes(VOTES, Y.iloc[OTHER]).distribution, plain)


def test_analysis_matches_gold_and_rows_by_id():
    shuffled = Y.iloc[OTHER]
    assert summarize(VOTES, gold=shuffled).frame.equals(summarize(VOTES, gold=Y).frame)
    assert findings(VOTES, gold=shuffled).frame.equals(findings(VOTES, gold=Y).frame)
    rows = pd.DataFrame({"text": NAMES}, index=NAMES)
    for given in (rows, rows.iloc[OTHER], pl.DataFrame({"key": NAMES, "text": NAMES})[OTHER]):
        found = disagreements(VOTES, given, gold=shuffled)
        assert found["item"].to_list() == found["text"].to_list()
        assert found["gold"].to_list() == Y.loc[found["item"].to_list()].tolist()
    buckets = label_buckets(rows.iloc[OTHER], gold=shuffled, votes=VOTES.select(["voter_0"]))
    found = buckets.frame
    assert found["gold"].to_list() == Y.loc[found["text"].to_list()].tolist()


def test_guidance_matches_features_and_gold_by_id():
    few = Y.where(np.arange(N) < 20, None)
    plain = preview_end_model(X, VOTES, few)
    given = preview_end_model(X.iloc[OTHER], VOTES, few.iloc[OTHER])
    assert np.array_equal(plain.proba, given.proba)
    first = rows_to_label(VOTES, X, gold=few, n=8).frame
    second = rows_to_label(VOTES, X.iloc[OTHER], gold=few.iloc[OTHER], n=8).frame
    assert first.equals(second)
    assert X.loc[first["item"].to_list()].shape == (8, 4)
    assert np.array_equal(blame(X.iloc[OTHER], VOTES, 3).proba, blame(X, VOTES, 3).proba)
    open_votes = VOTES.select(["voter_0"])
    groups = [uncovered_clusters(own, open_votes) for own in (X, X.iloc[OTHER])]
    assert [each.rows.tolist() for each in groups[0]] == [each.rows.tolist() for each in groups[1]]


def test_suggestions_match_gold_by_id():
    texts = ["free cash now", "win free cash", "lunch at noon", "lunch with you"] * 5
    rows = pd.DataFrame({"text": texts}, index=[f"r{k}" for k in range(20)])
    gold = pd.Series(["spam", "spam", "ham", "ham"] * 5, index=rows.index)
    other = np.random.default_rng(0).permutation(20)
    plain = suggest_lfs(rows, labels=["ham", "spam"], gold=gold, n=2)
    given = suggest_lfs(rows, labels=["ham", "spam"], gold=gold.iloc[other], n=2)
    assert plain.table.frame.equals(given.table.frame)
    assert given.table.frame["correct"].to_list() == given.table.frame["support"].to_list()


def test_compare_matches_by_id():
    methods = {"majority_vote": {"epochs": 1, "members": 1}}
    options = {"end_model": "linear", "validation": (X, Y)}
    plain = compare(methods, X, VOTES, test=(X, Y), **options)
    mixed = {"end_model": "linear", "validation": (X, Y.iloc[OTHER])}
    given = compare(methods, X.iloc[OTHER], VOTES, test=(X, Y.iloc[OTHER]), **mixed)
    assert_frame_equal(plain.frame.drop("seconds"), given.frame.drop("seconds"))


def test_votes_keep_the_index_of_a_pandas_table():
    frame = pd.DataFrame({"text": ["free", "see you", "free now"]}, index=[7, 2, 9])
    votes = apply_lfs(keywords("spam", ["free"], column="text"), frame, labels=["ham", "spam"])
    assert votes.ids.tolist() == [7, 2, 9]
    dense = VoteMatrix.from_dense(frame.eq("free") * 1, ["ham", "spam"])
    assert dense.ids.tolist() == [7, 2, 9]
    listed = rows_to_label(votes, n=3, way="random").frame["item"].to_list()
    assert sorted(frame.loc[listed].index) == [2, 7, 9]
    dated = frame.set_index(pd.date_range("2026-01-01", periods=3))
    votes = apply_lfs(keywords("spam", ["free"], column="text"), dated, labels=["ham", "spam"])
    assert dated.loc[votes.ids].equals(dated)
    assert in_order_of(votes, dated[::-1], "rows").equals(dated)


def test_multilabel_gold_and_inputs_are_matched_by_id():
    votes = MultiLabelVotes.from_dense(
        np.stack([TOLD.dense(), TOLD.dense()], axis=2), ["a", "b"], ids=NAMES
    )
    gold = pd.DataFrame({"a": GOLD, "b": GOLD}, index=NAMES)
    mixed = gold.iloc[OTHER]
    assert votes.summary(mixed).frame.equals(votes.summary(gold).frame)
    model = PerLabel(MajorityVote()).fit(votes)
    reports = [evaluate(model, votes, own, n_resamples=0) for own in (gold, mixed)]
    assert reports[0].exact_match == reports[1].exact_match


def test_spans_are_matched_by_document():
    documents = Documents.from_texts(pd.Series(["Ada met Bob.", "Eve left."], index=["u", "v"]))
    assert documents.ids.tolist() == ["u", "v"]
    gold = pd.Series([[(0, 3, "PER"), (8, 11, "PER")], [(0, 3, "PER")]], index=["u", "v"])
    report = evaluate_spans(gold[::-1], gold.tolist(), documents, ["PER"])
    assert report.exact["all"].f1 == 1.0


def test_ids_of_several_types_stay_what_they_are():
    mixed = VoteMatrix.from_dense([[0], [1], [1]], ["ham", "spam"], ids=[7, "7", 2.5])
    assert mixed.ids.tolist() == [7, "7", 2.5]
    large = VoteMatrix.from_dense([[0], [1], [1]], ["ham", "spam"], ids=[2**60 + 1, 0.5, "x"])
    assert large.ids.tolist() == [2**60 + 1, 0.5, "x"]
    gold = pd.Series(["spam", "ham", "spam"], index=pd.Index(["7", 7, 2.5], dtype=object))
    assert MajorityVote().fit(mixed).score(mixed, gold) == 1.0
    features = np.array([[-1.0], [0.5], [1.0]])
    rows = pl.DataFrame({"text": ["a", "b", "c"]})
    votes = VoteMatrix.from_dense([[0, 1], [1, 0], [1, 1]], ["ham", "spam"], ids=[7, "7", 2.5])
    assert disagreements(votes, rows)["item"].to_list() == [7, "7"]
    assert rows_to_label(votes, n=3, way="random").frame["item"].to_list().count("7") == 1
    assert set(blame(features, votes, 1).neighbors.frame["item"]) <= {7, "7", 2.5}


def test_an_id_column_that_repeats_known_ids_is_refused():
    """It was taken for a column that names no rows, and the rows for ordered ones."""
    repeated = [*NAMES[:-1], NAMES[0]]
    table = pl.DataFrame({"id": repeated, "a": VECTORS[:, 0]})
    for given in (table, table.to_pandas(), table.to_arrow()):
        with pytest.raises(DataError, match="X repeats the ids 'm0'"):
            in_order_of(VOTES, given, "X")
    person = pl.DataFrame({"id": ["ada", "bob"] * (N // 2), "a": VECTORS[:, 0]})
    assert in_order_of(VOTES, person, "X") is person


def test_a_table_that_is_matched_by_a_column_is_matched_once():
    table = X.iloc[OTHER].reset_index(names="id")
    assert rows_to_label(VOTES, table, n=8).frame.equals(rows_to_label(VOTES, X, n=8).frame)
    once = in_order_of(VOTES, table, "X")
    assert in_order_of(VOTES, once, "X").equals(once)
    assert once.index.tolist() == once["id"].tolist() == NAMES.tolist()


@pytest.mark.parametrize("given", [VECTORS[:7], X.assign(e="cash"), X.assign(e=pd.Timestamp(0))])
def test_features_that_do_not_fit_are_refused_by_every_guide(given):
    rows = pl.DataFrame({"text": NAMES})
    for guide in (
        lambda: suggest_lfs(rows, VOTES, gold=Y, features=given),
        lambda: rows_to_label(VOTES, given, n=3),
        lambda: uncovered_clusters(given, VOTES),
        lambda: feature_findings(given, VOTES),
        lambda: blame(given, VOTES, 3),
        lambda: TwoStage(MajorityVote(), NET).fit(given, VOTES),
    ):
        with pytest.raises(DataError, match=r"items|numbers"):
            guide()
    with pytest.raises(DataError, match="7 texts but votes on 300 items"):
        feature_findings(X, VOTES, ["a"] * 7)
