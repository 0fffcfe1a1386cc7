"""Votes that nothing confirms: those of a voter that names a class whatever the item is."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from wiesel.end_to_end.cross_check import MOST_PAIRED, copied_parts
from wiesel.end_to_end.cross_fitting import Array, can_be_asked, cross_fitted
from wiesel.errors import VoteError, listed
from wiesel.label_models.pair_moments import vote_totals
from wiesel.label_models.vote_products import weighted_counts
from wiesel.labels import LabelSpace
from wiesel.training.inputs import Inputs
from wiesel.votes import VoteMatrix

__all__ = ["named_votes", "numbered_votes", "told_votes", "unconfirmed", "without"]

_BROAD = 0.05
"""Only who names a class for so large a share of the items can do much harm."""
_LEAST = 20
"""And for so many items at least."""
_OTHERS = 0.1
"""Others must name the class for as many items as this share of the voter's, to be a measure."""
_FEW_OTHERS = 50
_CONFIRMED = 0.2
"""A voter's items must resemble the class this much, compared with items that others named it."""
_HEARD = 0.5
"""Less than half a vote is a copy's."""
_AT_ONCE = 20_000_000
"""How many numbers are predicted at once."""

Votes = npt.NDArray[np.bool_]


def unconfirmed(votes: VoteMatrix, inputs: Inputs) -> Votes:
    """Return which votes say nothing, as far as the others can tell: (n_voters, n_classes).

    A linear model learns from the features what the other voters say, copies of this one left out.
    If the items for which a voter names a class look to that model like any items, while those for
    which others name it do not, the voter names it whatever the item is. Without gold such a voter
    makes a class look common that is not.

    Where few others name the class, or the features tell nothing of it, votes are believed.
    """
    unheard = np.zeros((votes.n_voters, votes.n_classes), dtype=bool)
    covered = np.flatnonzero(votes.covered)
    broad = vote_totals(votes) >= max(_LEAST, _BROAD * len(covered))
    judged = np.flatnonzero(broad.any(axis=1))
    if not can_be_asked(inputs, covered) or not len(judged) or votes.n_voters > MOST_PAIRED:
        return unheard
    others = 1 - copied_parts(votes)
    per_chunk = max(1, _AT_ONCE // (votes.n_items * votes.n_classes))
    for start in range(0, len(judged), per_chunk):
        chunk = judged[start : start + per_chunk]
        counts = [weighted_counts(votes, others[voter]) for voter in chunk]
        predicted = cross_fitted(inputs, np.hstack([_surprise(own) for own in counts]), covered)
        parts = np.hsplit(predicted, len(chunk))
        for voter, of_others, resemblance in zip(chunk, counts, parts, strict=True):
            resemblance -= resemblance[covered].mean(axis=0)
            for c in np.flatnonzero(broad[voter]):
                own = votes.item_index[(votes.voter_index == voter) & (votes.class_index == c)]
                named = np.flatnonzero(of_others[:, c] > _HEARD)
                unheard[voter, c] = _says_nothing(resemblance[:, c], own, named)
    return unheard


def without(votes: VoteMatrix, unheard: Votes) -> VoteMatrix:
    """Return the votes that are left if voters abstain instead of naming some classes.

    >>> votes = VoteMatrix.from_dense([[0, 0], [1, 1]], ["no", "yes"])
    >>> without(votes, np.array([[True, False], [False, False]])).dense()
    array([[-1,  0],
           [ 1,  1]], dtype=int16)
    """
    kept = np.flatnonzero(~unheard[votes.voter_index, votes.class_index])
    return VoteMatrix(
        np.searchsorted(votes.item_index[kept], np.arange(votes.n_items + 1)),
        votes.voter_index[kept],
        votes.class_index[kept],
        votes.labels,
        votes.voters,
        votes.ids,
        None if votes.distribution is None else votes.distribution[kept],
    )


def named_votes(unheard: Votes, voters: Sequence[str], labels: LabelSpace) -> dict[str, list[str]]:
    """Return the voters and classes of what `unconfirmed` found, by name."""
    names: dict[str, list[str]] = {}
    for voter, c in np.argwhere(unheard):
        names.setdefault(voters[voter], []).append(labels.names[c])
    return names


def numbered_votes(
    names: Mapping[str, Sequence[str]], voters: Sequence[str], labels: LabelSpace
) -> Votes:
    """Return what `named_votes` was made of."""
    unheard = np.zeros((len(voters), len(labels)), dtype=bool)
    for voter, classes in names.items():
        if voter not in voters:
            raise VoteError(f"There is no voter {voter!r}.")
        unheard[voters.index(voter), [labels.index(name) for name in classes]] = True
    return unheard


def told_votes(names: Mapping[str, Sequence[str]]) -> str:
    """Return who names what, for a message.

    >>> told_votes({"what": ["description"], "who": ["human", "entity"]})
    "'what' names 'description' and 'who' names 'human', 'entity' whatever the item is"
    """
    told = [f"{voter!r} names {listed(classes)}" for voter, classes in names.items()]
    return " and ".join(told) + " whatever the item is"


def _surprise(counts: Array) -> Array:
    """The shares of the classes beyond their means; 0 where no other voted."""
    total = counts.sum(axis=1)
    heard = total > _HEARD
    shares = counts[heard] / total[heard, None]
    surprise = np.zeros_like(counts)
    if len(shares):
        surprise[heard] = shares - shares.mean(axis=0)
    return surprise


def _says_nothing(
    resemblance: Array, own: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
) -> bool:
    """Whether a voter's items resemble the class no more than any items do."""
    if len(others) < max(_FEW_OTHERS, _OTHERS * len(own)):
        return False
    of_others = resemblance[others].mean()
    # Features that know nothing of a class confirm nobody.
    if of_others <= 2 * resemblance.std() / np.sqrt(len(others)):
        return False
    return bool(resemblance[own].mean() < _CONFIRMED * of_others)
