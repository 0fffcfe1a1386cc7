"""Class names and indices."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from wiesel import ABSTAIN, LabelSpace, MajorityVote, Supervised, VoteMatrix, load_model
from wiesel.errors import DataError, ParameterError
from wiesel.io import read_votes, write_votes
from wiesel.labels import class_prior, rough_balance
from wiesel.nn import Linear
from wiesel.saving import decoded, encoded

LABELS = LabelSpace("ham", "spam")


def test_a_label_space_is_a_sequence_of_names() -> None:
    assert (len(LABELS), list(LABELS), "spam" in LABELS) == (2, ["ham", "spam"], True)
    assert repr(LABELS) == "LabelSpace('ham', 'spam')"
    assert LabelSpace.of(["ham", "spam"]) == LABELS
    assert LabelSpace.of(LABELS) is LABELS
    assert hash(LabelSpace("ham", "spam")) == hash(LABELS)
    assert ABSTAIN == -1


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "at least two classes; got none"),
        (("ham",), "at least two classes; got 'ham'"),
        (("ham", ""), "non-empty strings; got ''"),
        (("ham", 1), "non-empty strings; got 1"),
        ((["ham"], ["spam"]), r"non-empty strings; got \['ham'\].*LabelSpace.of\(names\)"),
        (("ham", "spam", "ham"), "'ham' is repeated"),
    ],
)
def test_names_that_are_no_classes_are_refused(names: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        LabelSpace(*names)


@pytest.mark.parametrize("labels", ["ham", None, 2])
def test_classes_are_given_as_a_list(labels: Any) -> None:
    with pytest.raises(ParameterError, match=f"a list of names; got {labels!r}"):
        LabelSpace.of(labels)


def test_a_misspelled_class_is_answered_with_the_nearest() -> None:
    assert LABELS.index("spam") == 1
    with pytest.raises(DataError, match=r"'spma' is not a class. Did you mean 'spam'"):
        LABELS.index("spma")


@pytest.mark.parametrize(
    "values",
    [
        ["spam", "ham"],
        [1, 0],
        [1.0, 0.0],
        [True, False],
        np.array([1, 0], dtype=object),
        np.array(["spam", 0], dtype=object),
        np.array([1, 0], dtype=np.uint8),
        pl.Series(["spam", "ham"]),
        pl.Series(["spam", "ham"], dtype=pl.Enum(["ham", "spam"])),
        pd.Series(["spam", "ham"], dtype="category"),
        pa.array(["spam", "ham"]),
        pa.chunked_array([[1], [0]]),
        torch.tensor([1, 0]),
        ("spam", "ham"),
    ],
    ids=lambda values: f"{type(values).__module__.split('.')[0]} {type(values).__name__}",
)
def test_gold_may_be_names_or_indices_of_any_library(values: Any) -> None:
    found = LABELS.indices(values)
    assert found.tolist() == [1, 0]
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    "values",
    [
        ["spam", None],
        [1, None],
        [1, -1],
        [1.0, np.nan],
        ["spam", float("nan")],
        pl.Series([1, None]),
        pl.Series(["spam", None]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["spam", None]),
        pa.array(["spam", None]),
    ],
    ids=lambda values: f"{type(values).__module__.split('.')[0]} {list(values)}",
)
def test_a_label_that_is_not_known_is_minus_one(values: Any) -> None:
    assert LABELS.indices(values, allow_unknown=True).tolist() == [1, -1]
    with pytest.raises(DataError, match="label of row 1 is"):
        LABELS.indices(values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["ham", "eggs"], "label of row 1 is 'eggs'; it must be one of 'ham', 'spam'"),
        ([0, 2], "row 1 is 2; .* index 0 to 1"),
        ([-2, 0], "row 0 is -2"),
        ([0.5], "row 0 is 0.5"),
        ([np.inf], "row 0 is inf"),
        ([1e30], r"row 0 is 1e\+30"),
        (np.array([2**63], dtype=np.uint64), "row 0 is 9223372036854775808"),
        (["0"], "row 0 is '0'"),
        ([[0]], r"one-dimensional; got the shape \(1, 1\)"),
        ("ham", r"one-dimensional; got the shape \(\)"),
    ],
)
def test_labels_that_are_no_classes_are_located(values: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        LABELS.indices(values)


def test_the_message_says_how_to_mark_the_unknown() -> None:
    with pytest.raises(DataError, match="or None where it is not known"):
        LABELS.indices(["eggs"], allow_unknown=True)


def test_no_labels_are_fine() -> None:
    assert LABELS.indices([]).tolist() == []


@pytest.mark.parametrize(
    "balance", [[1, 3], {"spam": 3, "ham": 1}, np.array([0.25, 0.75]), (2.0, 6.0)]
)
def test_a_class_prior_sums_to_one(balance: Any) -> None:
    assert class_prior(LABELS, balance).tolist() == [0.25, 0.75]


def test_an_unknown_class_prior_is_uniform() -> None:
    assert class_prior(LABELS, None).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("balance", "words"),
    [
        ([0, 1], r"2 positive numbers, one for each of 'ham', 'spam'; got \[0, 1\]"),
        ([1, 1, 1], "2 positive numbers"),
        ([1, -1], "2 positive numbers"),
        ([np.nan, 1], "2 positive numbers"),
        ([np.inf, 1], "2 positive numbers"),
        ("half", "'half' is not understood: there is no share in 'half'"),
        (0.5, "2 positive numbers"),
        ({"ham": 1}, "The share of 'ham' is a number between 0 and 1"),
        ({"ham": 1, "eggs": 1}, "names 'ham', 'eggs'"),
        ({"ham": "x", "spam": 1}, "2 positive numbers"),
    ],
)
def test_a_balance_that_is_none_is_refused(balance: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        class_prior(LABELS, balance)


def test_many_classes_cost_no_more_than_a_pass_over_their_names() -> None:
    """A hostile rules file may name a hundred thousand; comparing all pairs took minutes."""

    class Counted(str):
        compared = 0
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

    names = [Counted(f"class {number}") for number in range(300)]
    assert len(LabelSpace(*names)) == 300
    assert Counted.compared < 10 * len(names)


def test_half_a_character_is_no_name() -> None:
    """A JSON file may hold one; no table could store it, and no terminal print it."""
    with pytest.raises(ParameterError, match=r"Class names must be .* got '\\ud83d'"):
        LabelSpace("ham", "\ud83d")


def test_a_series_is_a_class_balance_by_its_index() -> None:
    """`value_counts` sorts by frequency, so its order is not that of the classes."""
    shares = pd.Series(["spam", "ham", "spam", "spam"]).value_counts(normalize=True)
    assert class_prior(LABELS, shares).tolist() == [0.25, 0.75]
    assert class_prior(LABELS, pd.Series([1, 3])).tolist() == [0.25, 0.75]
    with pytest.raises(ParameterError, match="names 1, 0; it must name 'ham', 'spam'"):
        class_prior(LABELS, pd.Series([1, 0, 1]).value_counts())


STARS = LabelSpace("1", "2", "3", "4", "5")


@pytest.mark.parametrize("make", [np.array, list, pd.Series, pl.Series, torch.tensor])
def test_numbers_are_names_if_the_classes_are_named_by_numbers(make: Any) -> None:
    assert STARS.indices(make([1, 5, 2])).tolist() == [0, 4, 1]
    assert STARS.indices(make([1, 4, 2, 3])).tolist() == [0, 3, 1, 2], "not indices, without 5 too"
    assert STARS.indices(make([1.0, 4.0])).tolist() == [0, 3]
    assert LabelSpace("1", "0").indices(make([1, 0])).tolist() == [0, 1]
    assert LabelSpace("-1", "1").indices(make([-1, 1])).tolist() == [0, 1]
    assert LabelSpace("0", "1", "2").indices(make([2, 0])).tolist() == [2, 0]
    assert LabelSpace("0.5", "2").indices(make([0.5, 2.0])).tolist() == [0, 1]


@pytest.mark.parametrize("names", [("True", "False"), ("1", "0"), ("yes", "no")])
def test_true_and_false_are_names_numbers_or_indices(names: tuple[str, str]) -> None:
    found = LabelSpace(*names).indices(np.array([True, False]))
    assert found.tolist() == ([1, 0] if names == ("yes", "no") else [0, 1])
    assert LabelSpace(*names).indices([False, True]).tolist() == found.tolist()[::-1]
    with pytest.raises(DataError, match=r"label (True|False) could be"):
        LabelSpace("yes", "true").indices([False, True, True])


def test_minus_one_is_unknown_unless_it_is_a_class() -> None:
    assert STARS.indices([1, -1, 5], allow_unknown=True).tolist() == [0, -1, 4]
    assert LabelSpace("-1", "1").indices([1, -1, None], allow_unknown=True).tolist() == [1, 0, -1]
    with pytest.raises(DataError, match="row 1 is -1"):
        STARS.indices([1, -1])


def test_a_number_that_is_no_name_is_refused_with_the_way_to_give_indices() -> None:
    with pytest.raises(DataError, match=r"row 1 is 0; .*numbers are names.*from_indices\(y\)"):
        STARS.indices([4, 0, 2])
    assert STARS.indices(STARS.from_indices([4, 0, 2])).tolist() == [4, 0, 2]


@pytest.mark.parametrize("names", [("1", "2", "other"), ("other", "0"), ("01", "1")])
def test_numbers_that_may_be_names_or_indices_are_refused(names: tuple[str, ...]) -> None:
    labels = LabelSpace(*names)
    with pytest.raises(DataError, match=r"label [01] could be .*astype\(str\).*from_indices"):
        labels.indices([0, 1] if names[1] == "0" else [1, 1])
    assert labels.indices([*names, None], allow_unknown=True)[-1] == -1
    assert labels.indices(labels.from_indices([1, 0])).tolist() == [1, 0]


def test_numbers_that_mean_the_same_as_names_and_as_indices_are_read() -> None:
    assert LabelSpace("0", "1", "other").indices([2, 1, 0]).tolist() == [2, 1, 0]
    assert LabelSpace("false", "true").indices([1, 0]).tolist() == [1, 0]
    with pytest.raises(DataError, match="could be"):
        LabelSpace("true", "false").indices([1, 0])


def test_indices_stay_indices_when_rows_are_chosen_and_joined() -> None:
    gold = STARS.indices(["5", "2", "1"])
    for part in (gold[:2], gold[[0, 1]], gold[gold > 0], gold[:2].copy(), pickled(gold)[:2]):
        assert STARS.indices(part).tolist() == [4, 1]
    assert STARS.indices(np.concatenate([gold, gold[:1]])).tolist() == [4, 1, 0, 4]
    assert STARS.indices(np.r_[gold, gold]).tolist() == [4, 1, 0] * 2
    assert type(gold + 1) is type(gold == 1) is type(np.concatenate([gold, [1]])) is np.ndarray
    assert STARS.indices(gold + 1).tolist() == gold.tolist(), "numbers of stars again"
    assert type(LABELS.indices(["ham"])) is np.ndarray
    assert repr(gold) == "array([4, 1, 0])"


def pickled(array: Any) -> Any:
    return pickle.loads(pickle.dumps(array))  # noqa: S301


@pytest.mark.parametrize("given", [[0, 5], [-2], [0.0], ["1"], [True]])
def test_what_is_no_index_is_refused(given: Any) -> None:
    with pytest.raises(DataError, match="Class indices are whole numbers from -1 to 4"):
        STARS.from_indices(given)


def test_classes_given_as_numbers_or_truth_values_are_named_by_them() -> None:
    assert LabelSpace(1, 0).names == LabelSpace.of(np.array([1, 0])).names == ("1", "0")
    assert LabelSpace(False, True).names == ("False", "True")
    assert LabelSpace.of(np.array([True, False])).names == ("True", "False")
    for mixed in ((1, "0"), (1, True), (1.5, 2.5)):
        with pytest.raises(ParameterError, match="non-empty strings"):
            LabelSpace(*mixed)


def test_a_class_balance_may_name_classes_by_their_numbers() -> None:
    labels = LabelSpace(1, 0)
    assert class_prior(labels, {1: 3, 0: 1}).tolist() == [0.75, 0.25]
    shares = pd.Series([1, 1, 1, 0]).value_counts().sort_index()
    assert class_prior(labels, shares).tolist() == [0.75, 0.25]


def test_missing_values_of_pandas_are_unknown() -> None:
    for dtype in ("string", "object", "category"):
        gold = pd.Series(["spam", pd.NA], dtype=dtype)
        assert LABELS.indices(gold, allow_unknown=True).tolist() == [1, -1]
    assert LabelSpace("1", "5").indices([5, None], allow_unknown=True).tolist() == [1, -1]


def test_votes_are_no_gold_labels() -> None:
    """As in validation=(X, votes, gold), where the shape of the votes said nothing."""
    votes = VoteMatrix.from_dense([[0, 1], [1, 1]], ["ham", "spam"])
    with pytest.raises(DataError, match="got votes"):
        votes.labels.indices(votes)


def test_order_is_kept_wherever_a_label_space_is_stored(tmp_path: Any) -> None:
    ranks = LabelSpace("poor", "fair", "good", ordered=True)
    assert repr(ranks) == "LabelSpace('poor', 'fair', 'good', ordered=True)"
    assert ranks == LabelSpace("poor", "fair", "good")  # votes and models are matched by names
    assert decoded(encoded(ranks)).ordered
    assert pickle.loads(pickle.dumps(ranks)).ordered  # noqa: S301 - written just now
    votes = VoteMatrix.from_dense([[0, 2], [1, -1]], ranks, ["a", "b"])
    assert votes[1].labels.ordered
    write_votes(votes, tmp_path / "votes.parquet")
    assert read_votes(tmp_path / "votes.parquet").labels.ordered
    plain = VoteMatrix.from_dense([[0, 2], [1, -1]], list(ranks), ["a", "b"])
    write_votes(plain, tmp_path / "plain.parquet")
    assert not read_votes(tmp_path / "plain.parquet").labels.ordered
    assert read_votes(tmp_path / "plain.parquet", labels=ranks).labels.ordered
    MajorityVote().fit(votes).save(tmp_path / "model")
    assert load_model(tmp_path / "model").labels_.ordered


def test_a_trained_network_keeps_the_order_of_its_classes(tmp_path: Any) -> None:
    ranks = LabelSpace("poor", "good", ordered=True)
    model = Supervised(Linear(2, 2), labels=ranks, epochs=20, epoch_size=400, lr=0.1)
    y = np.array([0, 1] * 20)
    model.fit(np.eye(2, dtype=np.float32)[y], y).save(tmp_path / "net")
    assert load_model(tmp_path / "net").labels_.ordered


@pytest.mark.parametrize(
    ("said", "low", "high"),
    [
        ("about 5 % spam", 0.05, 0.05),
        ("~5% SPAM", 0.05, 0.05),
        ("spam: 0.05", 0.05, 0.05),
        ("3-8 % spam", 0.03, 0.08),
        ("3 % to 8 % spam.", 0.03, 0.08),
        ("spam 1,5 %", 0.015, 0.015),
        ("I do not know", 0.0, 1.0),
        ({"spam": (0.03, 0.08)}, 0.03, 0.08),
    ],
)
def test_a_balance_may_be_said_in_words(said: Any, low: float, high: float) -> None:
    ranges = rough_balance(LABELS, said)
    assert ranges[1].tolist() == pytest.approx([low, high])
    assert ranges[0].tolist() == pytest.approx([1 - high, 1 - low])


def test_the_middle_of_a_range_is_that_of_its_log_odds_and_other_classes_divide_the_rest() -> None:
    # Odds 1/9 and 9 have the middle 1; three classes are left with 0.9.
    assert class_prior(LABELS, {"spam": [0.1, 0.9]}).tolist() == pytest.approx([0.5, 0.5])
    four = LabelSpace("a", "b", "c", "d e")
    assert class_prior(four, "d e 10 %").tolist() == pytest.approx([0.3, 0.3, 0.3, 0.1])
    assert class_prior(four, "10 % a and 20-20 % b").tolist() == pytest.approx(
        [0.1, 0.2, 0.35, 0.35]
    )


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("5 % span", "there is no class 'span'"),
        ("mostly ham", "there is no share in 'mostly ham'"),
        ("60 % spam, 70 % ham", "cannot sum to 1"),
        ({"spam": (0.5, 0.2)}, "a number between 0 and 1, or a range"),
        ({"spam": 5}, "a number between 0 and 1"),
    ],
)
def test_a_balance_that_says_nothing_clear_is_refused(said: Any, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        class_prior(LABELS, said)
