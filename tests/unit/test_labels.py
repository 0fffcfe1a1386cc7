"""Class names and indices."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from wiesel import ABSTAIN, LabelSpace, VoteMatrix
from wiesel.errors import DataError, ParameterError, WieselWarning
from wiesel.labels import class_prior

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
        ("half", "2 positive numbers.*got 'half'"),
        (0.5, "2 positive numbers"),
        ({"ham": 1}, "names 'ham'; it must name 'ham', 'spam'"),
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


@pytest.mark.parametrize("make", [np.array, list, pd.Series])
def test_numbers_that_can_only_be_names_are_names(make: Any) -> None:
    stars = LabelSpace("1", "2", "3", "4", "5")
    assert stars.indices(make([1, 5, 2])).tolist() == [0, 4, 1]
    assert stars.indices(make([0, 4, 2])).tolist() == [0, 4, 2]
    assert LabelSpace("-1", "1").indices(make([-1, 1])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("names", "gold", "message"),
    [
        (("1", "2", "3"), [1, 2, 2], "1 is the class '2'"),
        (("-1", "1"), [-1, 1], "-1 is unknown"),
        (("1", "0"), [1, 0], "the class"),
    ],
)
def test_numbers_that_may_be_names_or_indices_are_read_with_a_warning(
    names: tuple[str, ...], gold: list[int], message: str
) -> None:
    with pytest.warns(WieselWarning, match=message):
        assert LabelSpace(*names).indices(gold, allow_unknown=True).tolist() == gold


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
