"""VoteMatrix: what it holds, what it refuses, and in which words."""

import inspect
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import wiesel.analysis
import wiesel.guidance
import wiesel.label_models
from wiesel import LabelSpace, VoteMatrix, vote_entries
from wiesel.errors import DataError, ParameterError, VoteError
from wiesel.votes import require_votes

LABELS = LabelSpace("ham", "spam")
DENSE = [[0, 1, -1], [-1, -1, -1], [1, 1, 0]]
LONG = {"task": [7, 7, 9], "who": ["bob", "ann", "bob"], "said": ["ham", "spam", None]}


@pytest.fixture
def small() -> VoteMatrix:
    return VoteMatrix.from_dense(DENSE, LABELS, ["a", "b", "c"], ["x", "y", "z"])


def long(table: Any = LONG, **options: Any) -> VoteMatrix:
    return VoteMatrix.from_long(table, item="task", voter="who", label="said", **options)


def test_the_entries_are_stored_sparsely(small: VoteMatrix) -> None:
    assert small.indptr.tolist() == [0, 2, 2, 5]
    assert small.voter_index.tolist() == [0, 1, 0, 1, 2]
    assert small.class_index.tolist() == [0, 1, 1, 1, 0]
    assert (small.n_items, small.n_voters, small.n_classes, small.n_votes) == (3, 3, 2, 5)
    assert len(small) == 3


def test_covered_comes_from_the_votes(small: VoteMatrix) -> None:
    assert small.covered.tolist() == [True, False, True]
    assert small.votes_per_item.tolist() == [2, 0, 3]


def test_counts_and_one_hot_by_hand(small: VoteMatrix) -> None:
    assert small.counts().tolist() == [[1, 1], [0, 0], [1, 2]]
    assert small.one_hot().toarray().tolist() == [
        [1, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 1, 0, 1, 1, 0],
    ]


def test_distributions_count_with_their_probability() -> None:
    proba = [[[0.25, 0.75], [0.0, 0.0]], [[np.nan, np.nan], [0.5, 0.5]]]
    votes = VoteMatrix.from_proba(proba, LABELS)
    assert votes.counts().tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert votes.class_index.tolist() == [1, 0]
    assert votes.one_hot().toarray().tolist() == [[0.25, 0.75, 0, 0], [0, 0, 0.5, 0.5]]
    assert votes.dense().tolist() == [[1, -1], [-1, 0]]


def test_hard_votes_as_distributions_are_certain(small: VoteMatrix) -> None:
    assert small.vote_rows()[:2].tolist() == [[1, 0], [0, 1]]


def test_names_and_defaults(small: VoteMatrix) -> None:
    unnamed = VoteMatrix.from_dense(DENSE, ["ham", "spam"])
    assert unnamed.voters == ("voter_0", "voter_1", "voter_2")
    assert unnamed.ids.tolist() == [0, 1, 2]
    assert repr(small) == (
        "VoteMatrix(3 items x 3 voters, 2 classes, 5 votes, 66.7 % of the items covered)"
    )


@pytest.mark.parametrize(
    "cells",
    [
        [["ham", None], ["spam", "ham"]],
        [[0.0, np.nan], [1.0, 0.0]],
        np.array([[0, -1], [1, 0]], dtype=np.int8),
        np.array([["ham", None], [1, "ham"]], dtype=object),
    ],
)
def test_dense_votes_may_be_names_or_indices(cells: Any) -> None:
    assert VoteMatrix.from_dense(cells, LABELS).dense().tolist() == [[0, -1], [1, 0]]


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame])
def test_the_columns_of_a_table_are_the_voters(library: Any) -> None:
    votes = VoteMatrix.from_dense(library({"link": ["ham", None], "free": ["spam", "ham"]}), LABELS)
    assert votes.voters == ("link", "free")
    assert votes.dense().tolist() == [[0, 1], [-1, 0]]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([["ham", "eggs"]], r"'voter_1' voted 'eggs' on row 0; allowed are the classes 'ham'"),
        ([[0], [7]], "'voter_0' voted 7 on row 1"),
        ([[-2]], "voted -2 on row 0.*or -1 to abstain"),
        ([[0.5]], "voted 0.5 on row 0"),
        ([0, 1], r"items x voters; got the shape \(2,\)"),
        ([[0], [0, 1]], "rows of one length"),
    ],
)
def test_dense_votes_that_are_wrong_are_located(cells: Any, words: str) -> None:
    with pytest.raises(VoteError, match=words):
        VoteMatrix.from_dense(cells, LABELS)


@pytest.mark.parametrize(
    ("proba", "words"),
    [
        ([[[-0.5, 1.5]]], r"vote of 'voter_0' on row 0 is \[-0.5, 1.5\]"),
        ([[[0.5, 0.25]]], "non-negative numbers that sum to 1, or all zeros"),
        ([[[0.5, np.nan]]], r"\[0.5, nan\]"),
        ([[[np.inf, 0.0]]], "inf"),
        ([[0.5, 0.5]], r"items x voters x 2 classes; got the shape \(1, 2\)"),
        ([[[0.2, 0.3, 0.5]]], r"the shape \(1, 1, 3\)"),
    ],
)
def test_probabilities_that_are_none_are_located(proba: Any, words: str) -> None:
    with pytest.raises(VoteError, match=words):
        VoteMatrix.from_proba(proba, LABELS)


@pytest.mark.parametrize(
    ("voters", "words"),
    [
        (["a"], "3 columns of votes but 1 voter names"),
        (["a", "a", "b"], "unique; 'a' appear more than once"),
        (["a", "", "b"], "non-empty strings; got ''"),
        (["a", 5, "b"], "non-empty strings; got 5"),
        ("abc", "a list of names; got the string 'abc'"),
    ],
)
def test_voter_names_that_are_wrong_are_refused(voters: Any, words: str) -> None:
    with pytest.raises(VoteError, match=words):
        VoteMatrix.from_dense(DENSE, LABELS, voters)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["x", "y", "x"], "must be unique; repeated: 'x'"),
        (["x"], r"3 items but ids of the shape \(1,\)"),
        (["x", None, "z"], "that of row 1 is missing"),
        ([1.5, 2.5, np.nan], "that of row 2 is missing"),
        (pl.Series(["x", "y", None]), "that of row 2 is missing"),
    ],
)
def test_ids_that_are_wrong_are_refused(ids: Any, words: str) -> None:
    with pytest.raises(VoteError, match=words):
        VoteMatrix.from_dense(DENSE, LABELS, ids=ids)


@pytest.mark.parametrize(
    "ids", [["x", "y", "z"], pl.Series(["x", "y", "z"]), pd.Series(list("xyz"))]
)
def test_ids_may_come_in_any_column(ids: Any) -> None:
    assert VoteMatrix.from_dense(DENSE, LABELS, ids=ids).ids.tolist() == ["x", "y", "z"]


def test_a_long_table_keeps_the_order_of_items_and_sorts_voters() -> None:
    votes = long()
    assert votes.ids.tolist() == [7, 9]
    assert votes.voters == ("ann", "bob")
    assert votes.dense().tolist() == [[1, 0], [-1, -1]]


@pytest.mark.parametrize(
    "table",
    [pl.DataFrame(LONG), pl.LazyFrame(LONG), pd.DataFrame(LONG), pa.table(LONG)],
    ids=["polars", "lazy", "pandas", "arrow"],
)
def test_a_long_table_may_be_of_any_library(table: Any) -> None:
    assert long(table).equals(long())


def test_items_and_voters_without_votes_can_be_kept() -> None:
    votes = long(items=[9, 8, 7], voters=["bob", "eve", "ann"])
    assert votes.ids.tolist() == [9, 8, 7]
    assert votes.dense().tolist() == [[-1, -1, -1], [-1, -1, -1], [0, -1, 1]]


def test_numbers_are_names_where_they_read_so_else_indices() -> None:
    table = {**LONG, "said": [1, 2, 1]}
    assert long(table).labels.names == ("1", "2")
    assert long(table, labels=["1", "2"]).dense().tolist() == [[1, 0], [-1, 0]]
    assert long({**LONG, "said": [0, 1, 0]}, labels=LABELS).dense().tolist() == [[1, 0], [-1, 0]]


def test_whole_numbers_stored_as_floats_are_read_with_their_gaps() -> None:
    # What pandas makes of a column of integers in which one is missing.
    table = pd.DataFrame({**LONG, "said": [0, 1, None]})
    assert table["said"].dtype == float
    assert long(table, labels=LABELS).dense().tolist() == [[1, 0], [-1, -1]]


def test_lists_of_probabilities_are_probabilistic_votes() -> None:
    table = {**LONG, "said": [[0.5, 0.5], [0.1, 0.9], [0.0, 0.0]]}
    votes = long(table, labels=LABELS)
    assert votes.distribution is not None
    assert votes.distribution == pytest.approx(np.array([[0.1, 0.9], [0.5, 0.5]]))
    assert votes.covered.tolist() == [True, False]


@pytest.mark.parametrize(
    ("said", "options", "words"),
    [
        (
            ["ham", "eggs", None],
            {"labels": LABELS},
            "'ann' voted 'eggs' on item 7; .*'ham', 'spam'",
        ),
        ([0, 5, 0], {"labels": LABELS}, "'ann' voted 5 on item 7"),
        ([0, -1, 0], {"labels": LABELS}, "'ann' voted -1 on item 7.*missing to abstain"),
        ([0.5, 1, 0], {"labels": LABELS}, "'bob' voted 0.5 on item 7"),
        (
            [[0.5, 0.5], [1.0], [1.0, 0.0]],
            {"labels": LABELS},
            "'ann' gave 1 probabilities on item 7",
        ),
        ([[0.5, 0.5]] * 3, {}, r"need labels=\[...\]"),
        ([[0.5, 0.1]] * 3, {"labels": LABELS}, "vote of 'ann' on item 7 is"),
        (LONG["said"], {"items": [8]}, "The item 7 is not among the items given"),
        (LONG["said"], {"items": [7, 7, 9]}, "items given must be unique; repeated: 7"),
        (LONG["said"], {"items": [7, 9, None]}, "that of row 2 is missing"),
        (LONG["said"], {"voters": ["ann"]}, "The voter 'bob' is not among the voters given"),
        (LONG["said"], {"voters": ["ann", "bob", "ann"]}, "voters given must be unique"),
        (LONG["said"], {"voters": "ann"}, "got the string 'ann'"),
        (LONG["said"], {"duplicates": "any"}, "'refuse', 'first', 'last' or 'all'; got 'any'"),
    ],
)
def test_long_tables_that_are_wrong_are_located(
    said: list[Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(VoteError, match=words):
        long({**LONG, "said": said}, **options)


def test_a_wrong_column_is_named() -> None:
    with pytest.raises(DataError, match=r"'worker' \(named in from_long\).*'task', 'who', 'said'"):
        VoteMatrix.from_long(LONG, item="task", voter="worker", label="said")


def test_one_class_alone_is_no_task() -> None:
    with pytest.raises(ParameterError, match="at least two classes; got 'ham'"):
        long({**LONG, "said": ["ham"] * 3})


def test_repeated_answers_must_be_decided() -> None:
    table = {"task": [1, 1, 1], "who": ["a", "a", "a"], "said": ["ham", "spam", "spam"]}
    with pytest.raises(VoteError, match=r"'a' answered item 1 more than once \(2 such answers"):
        long(table)
    assert long(table, duplicates="first").dense().tolist() == [[0]]
    assert long(table, duplicates="last").dense().tolist() == [[1]]
    every = long(table, duplicates="all")
    assert every.voters == ("a",)
    assert every.dense().tolist() == [[1]]
    assert every.counts().tolist() == [[1, 2]]
    once = long({"task": [1, 1], "who": ["a", "b"], "said": ["ham", "spam"]}, duplicates="all")
    assert once.distribution is None


def test_an_empty_long_table_has_no_items() -> None:
    empty = pl.DataFrame(schema={"task": pl.Int64, "who": pl.String, "said": pl.String})
    assert long(empty, labels=LABELS).n_items == 0


def test_a_vote_matrix_cannot_be_changed(small: VoteMatrix) -> None:
    with pytest.raises(ValueError, match="read-only"):
        small.class_index[0] = 1
    with pytest.raises(FrozenInstanceError):
        small.voters = ("a",)  # type: ignore[misc]


def test_the_arrays_of_the_user_stay_theirs() -> None:
    dense, ids = np.array(DENSE), np.array(["x", "y", "z"], dtype=object)
    votes = VoteMatrix.from_dense(dense, LABELS, ids=ids)
    dense[0, 0], ids[0] = 1, "changed"
    assert votes.dense().tolist() == DENSE
    assert votes.ids.tolist() == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        (1, ["y"]),
        (-1, ["z"]),
        (np.int64(0), ["x"]),
        (slice(None, None, -1), ["z", "y", "x"]),
        ([2, 0], ["z", "x"]),
        ([-1], ["z"]),
        ([True, False, True], ["x", "z"]),
        ([], []),
        ([0, 0], ["x", "x"]),
    ],
)
def test_rows_are_selected_in_order(small: VoteMatrix, rows: Any, ids: list[str]) -> None:
    chosen = small[rows]
    assert chosen.ids.tolist() == ids
    assert chosen.dense().tolist() == [DENSE["xyz".index(name)] for name in ids]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (3, "no item 3; there are 3"),
        ([0, 3], "out of range; there are 3"),
        ([True], r"A mask of \(1,\) does not fit 3 items"),
        (True, "mask"),
        ([0.5], r"by position or mask; got \[0.5\]"),
        (["x"], "by position or mask; got"),
        ([[0]], "by position or mask; got"),
    ],
)
def test_rows_that_do_not_exist_are_refused(small: VoteMatrix, rows: Any, words: str) -> None:
    with pytest.raises(IndexError, match=words):
        small[rows]


def test_voters_are_selected_in_the_order_given(small: VoteMatrix) -> None:
    assert small.select(["c", "a"]).dense().tolist() == [[-1, 0], [-1, -1], [0, 1]]
    assert small.select([-1, 0]).voters == ("c", "a")
    assert small.select([]).n_voters == 0


@pytest.mark.parametrize(
    ("voters", "words"),
    [
        (["aa"], "no voter 'aa'. Did you mean 'a'"),
        ([3], "no voter number 3; there are 3"),
        (["a", 0], "selected once; got 'a', 0"),
        ("ab", "got the string 'ab'"),
    ],
)
def test_voters_that_do_not_exist_are_refused(small: VoteMatrix, voters: Any, words: str) -> None:
    with pytest.raises(VoteError, match=words):
        small.select(voters)


def test_other_voters_or_classes_are_named(small: VoteMatrix) -> None:
    with pytest.raises(VoteError, match=r"missing: 'd'; unknown: 'c'.*votes.select"):
        small.check_same_voters(("a", "b", "d"), LABELS)
    with pytest.raises(VoteError, match="the order differs"):
        small.check_same_voters(("b", "a", "c"), LABELS)
    with pytest.raises(VoteError, match=r"expected LabelSpace\('no', 'yes'\)"):
        small.check_same_voters(("a", "b", "c"), LabelSpace("no", "yes"))


def test_parts_are_put_together(small: VoteMatrix) -> None:
    certain = VoteMatrix.from_proba(np.full((1, 3, 2), 0.5), LABELS, ["a", "b", "c"], ["w"])
    both = VoteMatrix.concatenate([small, certain])
    assert both.ids.tolist() == ["x", "y", "z", "w"]
    assert both.distribution is not None
    assert both.distribution[[0, -1]].tolist() == [[1, 0], [0.5, 0.5]]
    with pytest.raises(VoteError, match="the order differs"):
        VoteMatrix.concatenate([small, small.select(["b", "a", "c"])])
    with pytest.raises(VoteError, match="nothing to concatenate"):
        VoteMatrix.concatenate([])


def test_equal_means_the_same_votes_of_the_same_voters_on_the_same_items(small: VoteMatrix) -> None:
    assert small.equals(small[:])
    others = [
        VoteMatrix.from_dense(DENSE, LabelSpace("no", "yes"), small.voters, small.ids),
        VoteMatrix.from_dense(DENSE, LABELS, ["a", "b", "d"], small.ids),
        VoteMatrix.from_dense(DENSE, LABELS, small.voters, ["x", "y", "w"]),
        VoteMatrix.from_dense([[0, 0, -1], *DENSE[1:]], LABELS, small.voters, small.ids),
        VoteMatrix.from_dense([[0, -1, 1], *DENSE[1:]], LABELS, small.voters, small.ids),
        small[[0, 1]],
    ]
    assert not any(small.equals(other) for other in others)


def test_a_long_table_of_nothing_has_text_for_ids() -> None:
    votes = VoteMatrix.from_dense([[-1]], LABELS, ids=["x"])
    assert votes.to_long().schema["item"] == pl.String


def test_one_matrix_is_one_part(small: VoteMatrix) -> None:
    (total,) = small.sum(lambda part: (part.counts().sum(axis=0),))
    assert total.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indptr": [1, 2]}, "start at 0 and grow"),
        ({"indptr": [0, 2, 1]}, "start at 0 and grow"),
        ({"ids": [0, 1]}, "do not fit the items"),
        ({"indptr": [0, 3]}, "disagree on the number of votes"),
        ({"voter_index": [0, 9]}, "A voter index is outside 0 to 1"),
        ({"class_index": [0, 2]}, "A class index is outside 0 to 1"),
        ({"class_index": [0, -1]}, "A class index is outside 0 to 1"),
        ({"voter_index": [1, 0]}, "not in order"),
        ({"voter_index": [0, 0]}, "one appears twice"),
        ({"distribution": np.ones((1, 2), np.float32)}, r"shape \(1, 2\); expected \(2, 2\)"),
    ],
)
def test_arrays_that_are_no_vote_matrix_are_refused(change: dict[str, Any], words: str) -> None:
    parts = {"indptr": [0, 2], "voter_index": [0, 1], "class_index": [0, 1], "ids": [0], **change}
    with pytest.raises(VoteError, match=words):
        VoteMatrix(
            np.array(parts["indptr"]),
            np.array(parts["voter_index"], np.int32),
            np.array(parts["class_index"], np.int16),
            LABELS,
            ("a", "b"),
            np.array(parts["ids"]),
            parts.get("distribution"),
        )


@pytest.mark.parametrize("cell", [[1], {"a": 1}, np.array([1, 2])])
def test_a_cell_that_holds_several_values_is_no_vote(cell: object) -> None:
    cells = np.empty((1, 2), dtype=object)
    cells[0, 0], cells[0, 1] = "ham", cell
    with pytest.raises(VoteError, match="A vote is the name or the index of a class"):
        VoteMatrix.from_dense(cells, LABELS)


def test_a_long_text_in_the_place_of_a_vote_is_cut_in_the_message() -> None:
    with pytest.raises(VoteError, match="voted 'xxx") as told:
        VoteMatrix.from_dense(np.array([["x" * 10_000, "ham"]]), LABELS)
    assert len(str(told.value)) < 500


def test_half_a_character_is_no_name_of_a_voter() -> None:
    with pytest.raises(VoteError, match=r"Voter names must be .* got '\\ud83d'"):
        VoteMatrix.from_dense([[0, 1]], LABELS, ["a", "\ud83d"])


def test_as_an_array_votes_are_small_whole_numbers_unless_others_are_asked_for(
    small: VoteMatrix,
) -> None:
    assert np.asarray(small).dtype == np.int16
    assert np.asarray(small).tolist() == DENSE
    assert np.asarray(small, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="always a copy"):
        np.array(small, copy=False)


def test_every_public_function_of_votes_refuses_an_array_with_the_way_to_make_votes():
    rows = [{"text": "free money"}] * 4
    given = {"rows": rows, "X": np.eye(4), "item": 0, "gold": [0, 1, 0, 1]}
    tried = []
    for room in (wiesel, wiesel.analysis, wiesel.guidance, wiesel.label_models):
        for name in room.__all__:
            function = getattr(room, name)
            if not inspect.isfunction(function) or name in tried:
                continue
            named = inspect.signature(function).parameters
            votes = [each for each in ("votes", "before", "after", "swapped") if each in named]
            needed = [each.name for each in named.values() if each.default is each.empty]
            if not votes or not set(needed) <= {*given, *votes}:
                continue
            arguments = {each: given[each] for each in needed if each not in votes}
            with pytest.raises(VoteError, match=r"votes must be a VoteMatrix; got ndarray.*Make"):
                function(**arguments, **dict.fromkeys(votes, np.zeros((4, 2), int)))
            tried.append(name)
    assert {"summarize", "agreement", "rows_to_label", "suggest_lfs", "blame"} <= set(tried)
    assert len(tried) >= 15, tried


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float64, object])
def test_dense_votes_of_many_blocks_are_those_of_one(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    dense = rng.integers(-1, 3, size=(41, 6)).astype(kind)
    whole = VoteMatrix.from_dense(dense, ["a", "b", "c"])
    monkeypatch.setattr(vote_entries, "_BLOCK_CELLS", 20)  # three items of six voters
    parts = VoteMatrix.from_dense(dense, ["a", "b", "c"])
    for name in ("indptr", "voter_index", "class_index"):
        assert np.array_equal(getattr(parts, name), getattr(whole, name))
    assert np.array_equal(parts.dense(), dense.astype(int))
    assert parts.voter_index.dtype == np.int32
    assert parts.class_index.dtype == np.int16


def test_voters_out_of_order_are_refused_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vote_entries, "_BLOCK_CELLS", 4)
    votes = VoteMatrix.from_dense(np.zeros((5, 3), int), ["a", "b"])
    for place in range(14):
        voters = votes.voter_index.copy()
        voters[place + 1] = voters[place]
        with pytest.raises(VoteError, match="not in order"):
            vote_entries.check_entries(
                vote_entries.Entries(votes.indptr, voters, votes.class_index, None),
                votes.labels,
                votes.voters,
                votes.ids,
            )


@pytest.mark.parametrize("ids", [[4, 4, 5], [5, 4, 4], [0, 0, 0]])
def test_repeated_numbers_are_no_ids(ids):
    with pytest.raises(VoteError, match="Item ids must be unique; repeated"):
        VoteMatrix.from_dense([[0], [1], [0]], ["no", "yes"], ids=np.array(ids))


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (["no", "yes"], "gold labels, train on them"),
        (np.array([0, 1]), "gold labels, train on them"),
        ([[0, -1], [1, 1]], "from_dense"),
        (np.array([[0, -1], [1, 1]]), "from_dense"),
    ],
)
def test_what_is_no_votes_is_refused_with_the_way_to_use_it(given, advice):
    with pytest.raises(VoteError, match=rf"must be a VoteMatrix; got .*{advice}"):
        require_votes(given)


@pytest.mark.parametrize("rows", [[0, 2], [-3, 1], 2, -3])
def test_items_that_do_not_exist_are_not_selected(rows):
    votes = VoteMatrix.from_dense([[0], [1]], ["no", "yes"])
    assert votes[[-2, 1]].ids.tolist() == [0, 1]
    with pytest.raises(IndexError, match="there are 2"):
        votes[rows]
