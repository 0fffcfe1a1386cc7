"""Copies of a voter on several labels: found label by label, and counted once."""

from collections.abc import Mapping

import numpy as np

from wiesel.label_models.copies import find_copies, merge_copies
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.votes import VoteMatrix

__all__ = ["Copies", "label_copies", "without_copies"]

Copies = Mapping[str, Mapping[str, str]]
"""For labels with copies: the voters that are copies there, and of which voter."""


def label_copies(votes: MultiLabelVotes) -> dict[str, dict[str, str]]:
    """Return each copy and its original for each label; on another label they may differ.

    >>> array = np.zeros((400, 2, 2))
    >>> array[:200] = 1
    >>> array[::2, 1, 1] = -1
    >>> label_copies(MultiLabelVotes.from_dense(array, ["a", "b"], ["ann", "bob"]))
    {'a': {'bob': 'ann'}}
    """
    found = {}
    for label in votes.labels:
        # A voter that never votes on a label is not a copy there.
        voters = votes.voters_on(label)
        original = find_copies(votes[label].select(voters)) if voters else ()
        own = {voters[k]: voters[first] for k, first in enumerate(original) if k != first}
        if own:
            found[label] = own
    return found


def without_copies(votes: MultiLabelVotes, copies: Copies) -> MultiLabelVotes:
    """Return the votes in which copies abstain, and their originals vote for all of them.

    >>> votes = MultiLabelVotes.from_dense([[[-1, 1], [1, 0]]], ["a", "b"], ["ann", "bob"])
    >>> merged = without_copies(votes, {"a": {"bob": "ann"}})
    >>> merged["a"].dense().tolist(), merged["b"].dense().tolist()
    ([[1, -1]], [[1, 0]])
    """
    matrices = [
        _merged(matrix, copies[label]) if label in copies else matrix
        for label, matrix in zip(votes.labels, votes.matrices, strict=True)
    ]
    return MultiLabelVotes(votes.labels, tuple(matrices))


def _merged(votes: VoteMatrix, copies: Mapping[str, str]) -> VoteMatrix:
    position = {name: place for place, name in enumerate(votes.voters)}
    original = np.array([position[copies.get(name, name)] for name in votes.voters])
    merged = merge_copies(votes, original)
    return VoteMatrix(
        merged.indptr,
        np.unique(original)[merged.voter_index].astype(merged.voter_index.dtype),
        merged.class_index,
        merged.labels,
        votes.voters,
        merged.ids,
        merged.distribution,
    )
