"""Hypothesis strategies for the nouns of the project."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wiesel import LabelSpace, VoteMatrix

__all__ = ["hard_votes", "label_spaces", "names", "probabilistic_votes", "vote_matrices"]

names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
)
"""Any text but the empty one: spaces, quotes, emoji, line breaks."""


@st.composite
def label_spaces(draw: st.DrawFn, max_classes: int = 5) -> LabelSpace:
    """Two classes or more, with any names."""
    return LabelSpace(*draw(st.lists(names, min_size=2, max_size=max_classes, unique=True)))


@st.composite
def hard_votes(draw: st.DrawFn, max_items: int = 6, max_voters: int = 5) -> VoteMatrix:
    """Votes for classes; items, voters or votes may be missing altogether."""
    labels = draw(label_spaces())
    shape = draw(st.tuples(st.integers(0, max_items), st.integers(0, max_voters)))
    dense = draw(hnp.arrays(np.int64, shape, elements=st.integers(-1, len(labels) - 1)))
    voters, ids = _voters(draw, shape[1]), _ids(draw, shape[0])
    return VoteMatrix.from_dense(labels.from_indices(dense), labels, voters, ids)


@st.composite
def probabilistic_votes(draw: st.DrawFn, max_items: int = 6, max_voters: int = 5) -> VoteMatrix:
    """Votes that are distributions over the classes, some of them certain."""
    labels = draw(label_spaces())
    shape = draw(st.tuples(st.integers(0, max_items), st.integers(0, max_voters)))
    weights = hnp.arrays(np.float64, (*shape, len(labels)), elements=st.integers(0, 9))
    mass = draw(weights)
    total = mass.sum(axis=2, keepdims=True)
    proba = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)
    return VoteMatrix.from_proba(proba, labels, _voters(draw, shape[1]), _ids(draw, shape[0]))


def vote_matrices(max_items: int = 6, max_voters: int = 5) -> st.SearchStrategy[VoteMatrix]:
    """Votes of both kinds."""
    return hard_votes(max_items, max_voters) | probabilistic_votes(max_items, max_voters)


def _voters(draw: st.DrawFn, n_voters: int) -> list[str]:
    return draw(st.lists(names, min_size=n_voters, max_size=n_voters, unique=True))


def _ids(draw: st.DrawFn, n_items: int) -> Any:
    kind = draw(st.sampled_from([names, st.integers(-(2**40), 2**40)]))
    ids = draw(st.lists(kind, min_size=n_items, max_size=n_items, unique=True))
    return draw(st.sampled_from([ids, None]))
