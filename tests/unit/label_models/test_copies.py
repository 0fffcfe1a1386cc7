import numpy as np
import pytest

from wiesel import LabelSpace, VoteMatrix
from wiesel.tasks.base import find_copies, merge_copies

LABELS = LabelSpace("no", "yes")
N_ITEMS = 1500


def voters(*accuracies: float, share: float = 0.5, seed: int = 0) -> np.ndarray:
    """Independent voters so often right; `share` of the items are of the second class."""
    rng = np.random.default_rng(seed)
    gold = (rng.random(N_ITEMS) < share).astype(int)
    right = rng.random((N_ITEMS, len(accuracies))) < accuracies
    return np.where(right, gold[:, None], 1 - gold[:, None])


def copies_in(dense: np.ndarray) -> list[int]:
    return find_copies(VoteMatrix.from_dense(dense, LABELS)).tolist()


def test_copies_are_found_and_good_voters_are_not():
    dense = voters(0.8, 0.85, 0.8)
    assert copies_in(dense) == [0, 1, 2]
    assert copies_in(np.hstack([dense, dense[:, [1, 1, 0]]])) == [0, 1, 2, 1, 1, 0]


def test_near_copies_are_copies_and_less_is_not():
    dense = voters(0.8, 0.8)
    rng = np.random.default_rng(1)
    for alike, original in ((0.97, 0), (0.8, 2)):
        near = np.where(rng.random(N_ITEMS) < alike, dense[:, 0], 1 - dense[:, 0])
        assert copies_in(np.column_stack([dense, near])) == [0, 1, original]


def test_voters_that_agree_because_one_class_is_rare_are_no_copies():
    dense = voters(0.97, 0.97, share=0.02)
    assert (dense[:, 0] == dense[:, 1]).mean() > 0.9
    assert copies_in(dense) == [0, 1]


def test_a_few_equal_votes_are_no_proof():
    assert copies_in(np.array([[0, 0]] * 6 + [[0, -1]] * 50)) == [0, 1]
    assert copies_in(np.array([[0, 0, -1]] * 6 + [[-1, -1, 0]] * 50)) == [0, 1, 2]


def test_thousands_of_voters_are_not_compared():
    assert copies_in(np.zeros((20, 3_001), dtype=int)) == list(range(3_001))


def test_probabilistic_votes_that_are_equal_and_sure_are_copies():
    proba = np.eye(2)[voters(0.8, 0.8)]
    votes = VoteMatrix.from_proba(np.concatenate([proba, proba[:, :1]], axis=1), LABELS)
    found = find_copies(votes)
    assert found.tolist() == [0, 1, 0]
    merged = merge_copies(votes, found)
    assert merged.voters == votes.voters[:2]
    assert np.array_equal(merged.distribution, votes.select(merged.voters).distribution)


def test_what_is_merged_has_the_votes_of_the_first_that_voted():
    votes = VoteMatrix.from_dense(
        [[0, -1, 1], [-1, 1, 0], [-1, -1, -1], [1, 0, -1]], LABELS, ["a", "b", "c"], list("wxyz")
    )
    merged = merge_copies(votes, np.array([0, 1, 0]))
    assert merged.voters == ("a", "b")
    assert merged.dense().tolist() == [[0, -1], [0, 1], [-1, -1], [1, 0]]
    assert list(merged.ids) == list("wxyz")


@pytest.mark.parametrize("n_copies", [1, 9])
def test_merging_copies_gives_back_the_votes_without_them(n_copies: int):
    votes = VoteMatrix.from_dense(voters(0.7, 0.8, 0.9), LABELS)
    dense = votes.dense()
    more = VoteMatrix.from_dense(np.hstack([dense, *[dense[:, :1]] * n_copies]), LABELS)
    merged = merge_copies(more, find_copies(more))
    assert np.array_equal(merged.dense(), dense)
    assert merge_copies(votes, find_copies(votes)) is votes
