"""Votes survive every shape they can be written in."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import hard_votes, probabilistic_votes, vote_matrices

from wiesel import VoteMatrix
from wiesel.io import read_votes, write_votes

examples = settings(deadline=None, max_examples=30)


@examples
@given(hard_votes())
def test_dense_arrays_hold_all_hard_votes(votes: VoteMatrix) -> None:
    back = VoteMatrix.from_dense(votes.dense(), votes.labels, votes.voters, votes.ids)
    assert back.equals(votes)


@examples
@given(hard_votes())
def test_dense_names_hold_all_hard_votes(votes: VoteMatrix) -> None:
    names = np.array([*votes.labels, None], dtype=object)
    back = VoteMatrix.from_dense(names[votes.dense()], votes.labels, votes.voters, votes.ids)
    assert back.equals(votes)


@examples
@given(probabilistic_votes())
def test_arrays_of_probabilities_hold_all_probabilistic_votes(votes: VoteMatrix) -> None:
    shape = (votes.n_items, votes.n_voters, votes.n_classes)
    proba = votes.one_hot().toarray().reshape(shape)
    back = VoteMatrix.from_proba(proba, votes.labels, votes.voters, votes.ids)
    assert same_up_to_rounding(back, votes)


@examples
@given(vote_matrices())
def test_long_tables_hold_all_votes(votes: VoteMatrix) -> None:
    back = VoteMatrix.from_long(
        votes.to_long(),
        item="item",
        voter="voter",
        label="label",
        labels=votes.labels,
        items=votes.ids,
        voters=votes.voters,
    )
    assert same_up_to_rounding(back, votes)


@examples
@given(vote_matrices(), st.sampled_from(["auto", "list"]))
def test_files_hold_all_votes_exactly(votes: VoteMatrix, layout: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.parquet"
        write_votes(votes, path, layout)
        back = read_votes(path)
    assert back.equals(votes)
    assert back.ids.dtype == votes.ids.dtype


@examples
@given(hard_votes())
def test_wide_files_hold_all_hard_votes_exactly(votes: VoteMatrix) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_votes(votes, Path(folder) / "votes.parquet", "wide")
        assert read_votes(Path(folder) / "votes.parquet").equals(votes)


@examples
@given(vote_matrices(), st.data())
def test_rows_put_together_again_are_the_whole(votes: VoteMatrix, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, votes.n_items))
    assert VoteMatrix.concatenate([votes[:cut], votes[cut:]]).equals(votes)


@examples
@given(vote_matrices(), st.data())
def test_a_permutation_and_its_inverse_cancel(votes: VoteMatrix, data: st.DataObject) -> None:
    rows = data.draw(st.permutations(range(votes.n_items)))
    voters = data.draw(st.permutations(range(votes.n_voters)))
    there = votes[list(rows)].select([votes.voters[k] for k in voters])
    assert np.array_equal(there.dense(), votes.dense()[list(rows)][:, list(voters)])
    back = there[np.argsort(rows)].select(votes.voters)
    assert back.equals(votes)


@examples
@given(vote_matrices())
def test_counts_covered_and_one_hot_agree(votes: VoteMatrix) -> None:
    counts = votes.counts()
    cube = votes.one_hot().toarray().reshape(votes.n_items, votes.n_voters, votes.n_classes)
    assert counts == pytest.approx(cube.sum(axis=1), abs=1e-5)
    assert counts.sum(axis=1) == pytest.approx(votes.votes_per_item, abs=1e-5)
    assert np.array_equal(votes.covered, (votes.dense() >= 0).any(axis=1))
    assert votes.vote_rows().sum(axis=1) == pytest.approx(np.ones(votes.n_votes), abs=1e-6)


def same_up_to_rounding(back: VoteMatrix, votes: VoteMatrix) -> bool:
    """Equal, but for the last bit that dividing by a sum of 1 +- 1e-7 may change."""
    if votes.distribution is None:
        return back.equals(votes)
    assert back.distribution is not None
    assert back.distribution == pytest.approx(votes.distribution, abs=1e-6)
    # Which of two equal probabilities is the larger one may differ by rounding, too.
    top = votes.distribution[np.arange(votes.n_votes), back.class_index]
    assert top == pytest.approx(votes.distribution.max(axis=1, initial=0), abs=1e-6)
    return (
        back.labels == votes.labels
        and back.voters == votes.voters
        and np.array_equal(back.ids, votes.ids)
        and np.array_equal(back.indptr, votes.indptr)
        and np.array_equal(back.voter_index, votes.voter_index)
    )
