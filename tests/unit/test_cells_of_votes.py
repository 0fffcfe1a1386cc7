"""What cells of votes mean, alike in every reader: blanks, other spellings, NaN among shares."""

import numpy as np
import polars as pl
import pytest

from wiesel import LabelSpace, VoteMatrix, apply_lfs
from wiesel.errors import DataError, VoteError, other_spelling, suggest
from wiesel.io import read_gold, read_votes
from wiesel.io.answers import crowd_answers
from wiesel.lfs import from_columns

LABELS = ["ham", "spam"]
NAN = float("nan")


def by_columns(cells, tmp_path):
    return apply_lfs(from_columns("ann"), {"ann": cells}, labels=LABELS)


def by_row(cells, tmp_path):
    """Each row by itself, as in a notebook."""
    rows = [from_columns("ann")[0]({"ann": cell}) for cell in cells]
    return apply_lfs(from_columns("ann"), {"ann": rows}, labels=LABELS)


def by_file(cells, tmp_path):
    pl.DataFrame({"id": range(len(cells)), "ann": cells}).write_parquet(tmp_path / "wide.parquet")
    return read_votes(tmp_path / "wide.parquet", labels=LABELS, id_column="id")


def by_answers(cells, tmp_path):
    table = pl.DataFrame({"item": range(len(cells)), "voter": "ann", "label": cells})
    return VoteMatrix.from_long(table, item="item", voter="voter", label="label", labels=LABELS)


def by_array(cells, tmp_path):
    return VoteMatrix.from_dense([[cell] for cell in cells], LABELS, ["ann"])


READERS = [by_columns, by_row, by_file, by_answers, by_array]


@pytest.mark.parametrize("read", READERS)
def test_a_blank_cell_abstains(read, tmp_path):
    assert read(["spam", "", " ", None, "ham"], tmp_path).dense().ravel().tolist() == [
        1, -1, -1, -1, 0,
    ]  # fmt: skip


def test_a_blank_cell_of_a_category_abstains(tmp_path):
    cells = pl.Series(["spam", "", "ham"], dtype=pl.Categorical)
    for read in (by_columns, by_file, by_answers):
        assert read(cells, tmp_path).dense().ravel().tolist() == [1, -1, 0]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("cell", ["Spam", " spam", "SPAM"])
def test_another_spelling_of_a_class_is_refused_with_the_class(read, cell, tmp_path):
    with pytest.raises(VoteError, match=f"'ann' voted '{cell}'.*'{cell}' is 'spam' in another"):
        read(["ham", cell], tmp_path)


@pytest.mark.parametrize("cell", ["Spam", " spam", "SPAM"])
def test_another_spelling_of_a_gold_label_is_refused_with_the_class(cell):
    with pytest.raises(DataError, match=f"row 1 is '{cell}'.*'{cell}' is 'spam' in another spell"):
        LabelSpace(*LABELS).indices(["ham", cell])


@pytest.mark.parametrize("read", [by_columns, by_answers])
def test_shares_that_are_all_unknown_abstain_and_one_of_them_is_refused(read, tmp_path):
    cells = [[0.2, 0.8], [NAN, NAN], [None, None], [0.0, 0.0]]
    assert read(cells, tmp_path).dense().ravel().tolist() == [1, -1, -1, -1]
    with pytest.raises(VoteError, match=r"nan, 1\.0.*NaN"):
        read([[0.2, 0.8], [NAN, 1.0]], tmp_path)


def test_a_blank_gold_label_is_unknown(tmp_path):
    pl.DataFrame({"label": ["spam", "", " "]}).write_parquet(tmp_path / "gold.parquet")
    assert read_gold(tmp_path / "gold.parquet", LABELS).tolist() == [1, -1, -1]


def test_names_are_suggested_whatever_their_case():
    assert suggest("SPAM", LABELS) == "Did you mean 'spam'?"
    assert other_spelling(np.nan, LABELS) == other_spelling("eggs", LABELS) == ""


def test_answers_without_blanks_are_not_trimmed():
    table = pl.DataFrame({"task": ["t"], "worker": ["ann"], "label": ["x y"]})
    found = crowd_answers(table)
    assert (found.n_trimmed, found.n_rejected) == (0, 0)
    assert found.rows.equals(table)
