"""Labeling functions as people write them for other tools: row.text, -1, NaN, class indices."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import wiesel
from wiesel import apply_lfs, keywords, labeling_function, try_lfs, votes_by_index
from wiesel.errors import LabelingFunctionError, VoteError
from wiesel.lfs import VoteCache, preprocessor
from wiesel.lfs.batch import Row

ROWS = [{"text": "free prize", "n": 2}, {"text": "see you", "n": 1}, {"text": "free", "n": 0}]
LABELS = ["ham", "spam"]


def votes_of(function, **options):
    return apply_lfs(function, ROWS, labels=LABELS, **options).dense()[:, 0].tolist()


def test_a_row_is_read_by_key_and_by_attribute():
    @labeling_function
    def free(row):
        return "spam" if "free" in row.text and row["n"] else None

    assert votes_of(free) == [1, -1, -1]
    assert free({"text": "free", "n": 1}) == "spam"
    assert free(pd.Series({"text": "free", "n": 1})) == "spam"


def test_a_column_that_is_not_there_is_named_with_the_nearest_one():
    @labeling_function
    def typo(row):
        return row.txt

    with pytest.raises(LabelingFunctionError, match=r"no column 'txt'\. Did you mean 'text'"):
        votes_of(typo)


def test_preprocessed_values_are_attributes_too():
    @preprocessor
    def words(row):
        return row.text.split()

    @labeling_function(uses=words)
    def long(row):
        return "ham" if len(row.words) > 1 else None

    assert votes_of(long) == [0, 0, -1]
    assert long({"text": "a b"}) == "ham"


def test_a_row_can_be_copied_and_pickled_and_is_a_dict():
    row = Row(text="a", items=3)
    for same in (copy.copy(row), copy.deepcopy(row), pickle.loads(pickle.dumps(row))):  # noqa: S301 - our own
        assert same == row
        assert type(same) is Row
    assert row["items"] == 3
    assert callable(row.items)  # what a dict has keeps its meaning
    assert isinstance(row, dict)
    assert not hasattr(row, "other")


@pytest.mark.parametrize(
    "silence",
    [None, -1, wiesel.ABSTAIN, math.nan, np.nan, np.float32("nan"), np.int64(-1)],
    ids=["None", "-1", "ABSTAIN", "nan", "numpy nan", "float32 nan", "int64"],
)
def test_all_common_signs_of_silence_abstain(silence):
    @labeling_function
    def free(row):
        return "spam" if "free" in row.text else silence

    assert votes_of(free) == [1, -1, 1]
    assert apply_lfs(free, ROWS, labels=LABELS).distribution is None


def test_silence_among_distributions_abstains():
    @labeling_function
    def unsure(row):
        return {"spam": 0.75, "ham": 0.25} if "prize" in row.text else -1 if row.n else math.nan

    votes = apply_lfs(unsure, ROWS, labels=LABELS)
    assert votes.dense()[:, 0].tolist() == [1, -1, -1]
    assert votes.distribution.tolist() == [[0.25, 0.75]]


def test_class_indices_count_where_the_set_is_declared_so():
    @labeling_function
    def free(row):
        return 1 if "free" in row.text else -1

    @labeling_function
    def polite(row):
        return np.int64(0) if "see" in row.text else math.nan

    rule = keywords("spam", ["prize"], column="text")
    votes = apply_lfs(votes_by_index([free, polite, rule]), ROWS, labels=LABELS)
    assert votes.voters == ("free", "polite", "spam_prize")
    assert votes.dense().tolist() == [[1, -1, 1], [-1, 0, -1], [1, -1, -1]]


def test_class_indices_of_a_column_count_too():
    @labeling_function(vectorized=True)
    def free(frame: pl.DataFrame):
        return pl.Series([1, -1, None])

    @labeling_function(vectorized=True)
    def with_numpy(frame: pl.DataFrame):
        return np.array([0.0, np.nan, 1.0])

    votes = apply_lfs(votes_by_index([free, with_numpy]), ROWS, labels=LABELS)
    assert votes.dense().tolist() == [[1, 0], [-1, -1], [-1, 1]]


def test_numbers_that_were_not_declared_are_refused_with_the_cure():
    @labeling_function
    def free(row):
        return 1 if "free" in row.text else -1

    with pytest.raises(VoteError, match=r"'free' voted 1 on row 0.*votes_by_index\(lfs\)"):
        votes_of(free)


@pytest.mark.parametrize("wrong", [2, -2, 0.5, True, "spam", [1]])
def test_what_is_no_class_index_is_refused(wrong):
    @labeling_function
    def odd(row):
        return wrong if row.n == 1 else 0

    with pytest.raises(VoteError, match=r"'odd' voted .* on row 1; .*0 to 1 \('ham', 'spam'\)"):
        votes_of(votes_by_index(odd))


def test_a_declaration_changes_what_is_kept_of_a_function(tmp_path):
    @labeling_function
    def silent(row):
        return -1

    (declared,) = votes_by_index(silent)
    assert declared.fingerprint != silent.fingerprint
    assert declared.with_params().by_index
    cache = VoteCache(tmp_path / "votes.sqlite")
    assert votes_of(silent, cache=cache) == votes_of(declared, cache=cache) == [-1, -1, -1]


def test_a_trial_shows_votes_by_index():
    @labeling_function
    def free(row):
        return 1 if "free" in row.text else -1

    assert "free" in str(try_lfs(votes_by_index([free]), ROWS))


def test_no_function_changes_the_row_of_another() -> None:
    def changes(row):
        row["text"] = row["text"].lower()

    lfs = [labeling_function(changes), labeling_function(name="reads")(lambda row: row["text"])]
    with pytest.raises(LabelingFunctionError, match=r"cannot be .*dict\(row\), a copy\. The row"):
        apply_lfs(lfs, [{"text": "A"}], labels=["a", "A"])
    row = Row(text="A")
    assert copy.deepcopy(row) == copy.copy(row) == row
    assert isinstance(copy.copy(row), Row)
