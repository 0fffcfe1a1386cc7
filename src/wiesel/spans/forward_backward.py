"""Forward-backward in log space, over all documents at once.

At step t all documents that are longer than t go on together: documents are sorted by length, so
nothing is padded. A document longer than `PIECE` tokens is cut into pieces that go on side by
side, too; the matrix that carries each piece from its first to its last token joins them again,
so the result is that of the whole document.

Legend: a chain has K states; e_t(k) = P(votes at token t | state k); log_alpha_t(k) =
log P(votes up to t, state k at t); log_beta_t(k) = log P(votes after t | state k at t).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Chain", "Smoothed", "smooth"]

PIECE = 2048
_FAR = -700.0
"""Below this, exp() is nearly zero: such states are summed exactly."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """A Markov chain: `start` (K,) and `transitions` (from, to), zero where it is not allowed.

    `joined` (from, to) says which pairs of states belong together, for evidence on pairs.
    """

    start: Floats
    transitions: Floats
    joined: npt.NDArray[np.bool_]

    def turned(self) -> "Chain":
        """Return the chain that is walked backward."""
        return Chain(self.start, self.transitions.T, self.joined.T)


class Smoothed(NamedTuple):
    """What all votes of a document say about each of its tokens."""

    proba: Floats
    """P(state | votes): (n_tokens, K)."""
    starts: Floats
    """Expected first states: (K,)."""
    transitions: Floats
    """Expected transitions: (from, to)."""
    joined: Floats
    """P(the token and the one before are joined): (n_tokens,); 0 for the first of a document."""
    evidence: float
    """log P(votes)."""


def smooth(
    log_emission: Floats, pointers: Ints, chain: Chain, log_links: Floats | None = None
) -> Smoothed:
    """Return the posteriors and the expected counts of documents.

    `log_links` (n_tokens, 2) are log P(votes on the pair | not joined, joined), for each token and
    the one before.

    >>> chain = Chain(np.array([0.5, 0.5]), np.full((2, 2), 0.5), np.eye(2, dtype=bool))
    >>> smooth(np.log([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 2]), chain).proba.round(3)
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """
    with np.errstate(divide="ignore"):
        log_alpha, log_beta = _passes(log_emission, pointers, chain, log_links)
        both = log_alpha + log_beta
        total = _log_sum(both)
        proba = np.exp(both - total[:, None])
        proba /= proba.sum(axis=1, keepdims=True)
        first = pointers[:-1][np.diff(pointers) > 0]
        transitions, joined = _pairs(log_alpha, log_emission + log_beta, first, chain, log_links)
    return Smoothed(proba, proba[first].sum(axis=0), transitions, joined, float(total[first].sum()))


class _Pieces(NamedTuple):
    """Stretches of tokens, the longest first."""

    start: Ints
    length: Ints
    begins: npt.NDArray[np.bool_]
    """Whether a document begins with it."""

    def going_on(self, step: int) -> int:
        """How many have more than `step` tokens."""
        return int(np.searchsorted(-self.length, -step, side="left"))

    def chosen(self, rows: Ints) -> "_Pieces":
        """Some of them, in the order given."""
        return _Pieces(self.start[rows], self.length[rows], self.begins[rows])


def _pieces(pointers: Ints) -> _Pieces:
    lengths = np.diff(pointers)
    counts = -(-lengths // PIECE)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    start = np.repeat(pointers[:-1], counts) + number * PIECE
    length = np.minimum(PIECE, np.repeat(pointers[1:], counts) - start)
    order = np.argsort(-length, kind="stable")
    return _Pieces(start[order], length[order], (number == 0)[order])


def _passes(
    log_emission: Floats, pointers: Ints, chain: Chain, log_links: Floats | None
) -> tuple[Floats, Floats]:
    """log_alpha and log_beta of every token."""
    pieces = _pieces(pointers)
    log_alpha, log_beta = np.empty_like(log_emission), np.empty_like(log_emission)
    begins = np.flatnonzero(pieces.begins)
    initial = np.tile(np.log(chain.start), (len(begins), 1))
    final = np.zeros((len(pieces.start), log_emission.shape[1]))
    walk = _Walk(log_emission, log_links, chain)
    walk.forward(pieces.chosen(begins), initial, log_alpha)
    later = np.flatnonzero(~pieces.begins)
    if len(later):
        initial = _join(pieces, walk, log_alpha, final)
        walk.forward(pieces.chosen(later), initial[later], log_alpha)
    walk.backward(pieces, final, log_beta)
    return log_alpha, log_beta


class _Walk(NamedTuple):
    """What is walked along: the evidence on tokens and on pairs, and the chain."""

    log_emission: Floats
    log_links: Floats | None
    chain: Chain

    def forward(self, pieces: _Pieces, initial: Floats, log_alpha: Floats) -> None:
        """Fill in log_alpha of some pieces; `initial` is before the votes on their first tokens."""
        current = initial
        for step in range(pieces.length.max(initial=0)):
            rows = pieces.start[: pieces.going_on(step)] + step
            if step:
                current = self.advance(current[: len(rows)], rows)
            current = current + self.log_emission[rows]
            log_alpha[rows] = current

    def backward(self, pieces: _Pieces, final: Floats, log_beta: Floats) -> None:
        """Fill in log_beta of pieces; `final` is that of their last tokens."""
        ends, turned = pieces.start + pieces.length - 1, self.chain.turned()
        current = final
        for step in range(pieces.length.max(initial=0)):
            rows = ends[: pieces.going_on(step)] - step
            if step:
                after = current[: len(rows)] + self.log_emission[rows + 1]
                current = _advance(after, turned, _at(self.log_links, rows + 1))
            log_beta[rows] = current

    def advance(self, log_values: Floats, rows: Ints) -> Floats:
        """One step of the chain, to the tokens at `rows`."""
        return _advance(log_values, self.chain, _at(self.log_links, rows))


def _join(pieces: _Pieces, walk: _Walk, log_alpha: Floats, final: Floats) -> Floats:
    """What comes before each piece; `final` is filled with what comes after."""
    order = np.argsort(pieces.start)
    begins = pieces.begins[order]
    later = np.flatnonzero(~begins)
    matrices = dict(zip(later.tolist(), _carried(pieces.chosen(order[later]), walk), strict=True))
    initial = np.zeros_like(final)
    state = np.empty(0)
    for place in later.tolist():
        piece = order[place]
        if begins[place - 1]:
            state = log_alpha[pieces.start[piece] - 1]
        initial[piece] = walk.advance(state[None], pieces.start[piece : piece + 1])[0]
        state = _log_sum((state[:, None] + matrices[place]).T)
    for place in later[::-1].tolist():
        final[order[place - 1]] = _log_sum(matrices[place] + final[order[place]][None, :])
    return initial


def _carried(pieces: _Pieces, walk: _Walk) -> Floats:
    """log P(votes of a piece, its last state | the last state before it): (pieces, from, to)."""
    order = np.argsort(-pieces.length, kind="stable")
    sorted_pieces = pieces.chosen(order)
    n_states = walk.log_emission.shape[1]
    current = np.where(np.eye(n_states, dtype=bool), 0.0, -np.inf)
    current = np.tile(current, (len(order), 1))
    result = np.empty((len(order), n_states, n_states))
    for step in range(pieces.length.max(initial=0)):
        going_on = sorted_pieces.going_on(step)
        rows = np.repeat(sorted_pieces.start[:going_on] + step, n_states)
        current = walk.advance(current[: len(rows)], rows) + walk.log_emission[rows]
        result[order[:going_on]] = current.reshape(going_on, n_states, n_states)
    return result


def _at(log_links: Floats | None, rows: Ints) -> Floats | None:
    return None if log_links is None else log_links[rows]


def _advance(log_values: Floats, chain: Chain, log_links: Floats | None) -> Floats:
    """log sum_j exp(values_j) T_jk, for many rows; T is weighed by evidence on the pair."""
    top = log_values.max(axis=1, keepdims=True)
    shifted = log_values - top
    values = np.exp(shifted)
    if log_links is None:
        result = np.log(values @ chain.transitions) + top
    else:
        largest = log_links.max(axis=1, keepdims=True)
        apart, joined = np.exp(log_links - largest).T
        together = values @ (chain.transitions * chain.joined) * joined[:, None]
        together += values @ (chain.transitions * ~chain.joined) * apart[:, None]
        result = np.log(together) + top + largest
    far = ((shifted < _FAR) & np.isfinite(shifted)).any(axis=1)
    if far.any():
        links = None if log_links is None else log_links[far]
        result[far] = _exactly(log_values[far], chain, links)
    return result


def _exactly(log_values: Floats, chain: Chain, log_links: Floats | None) -> Floats:
    """The same where exp() would lose states: all pairs in log space."""
    pairs = log_values[:, :, None] + np.log(chain.transitions)
    if log_links is not None:
        pairs += np.where(chain.joined, log_links[:, 1, None, None], log_links[:, 0, None, None])
    top = pairs.max(axis=1, keepdims=True)
    top[~np.isfinite(top)] = 0
    return np.log(np.exp(pairs - top).sum(axis=1)) + top[:, 0]


def _log_sum(rows: Floats) -> Floats:
    """log sum exp of every row."""
    top = rows.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.log(np.exp(rows - top[:, None]).sum(axis=1)) + top


def _pairs(
    log_before: Floats, log_after: Floats, first: Ints, chain: Chain, log_links: Floats | None
) -> tuple[Floats, Floats]:
    """Expected transitions, and for every token P(joined with the one before)."""
    n_tokens, n_states = log_before.shape
    follows = np.ones(n_tokens, dtype=bool)
    follows[first] = False
    rows = np.flatnonzero(follows)
    before = np.exp(log_before[rows - 1] - log_before[rows - 1].max(axis=1, keepdims=True))
    after = np.exp(log_after[rows] - log_after[rows].max(axis=1, keepdims=True))
    weights = np.ones((2, len(rows)))
    if log_links is not None:
        links = log_links[rows]
        weights = np.exp(links - links.max(axis=1, keepdims=True)).T
    matrices = (chain.transitions * ~chain.joined, chain.transitions * chain.joined)
    mass = [
        weight * np.einsum("nk,nk->n", before @ matrix, after)
        for weight, matrix in zip(weights, matrices, strict=True)
    ]
    total = mass[0] + mass[1]
    # Pairs whose likely states are not allowed to follow each other underflow; they are so few
    # and so far from every legal path that they count for nothing here.
    known = total > 0
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=known)
    counts = np.zeros((n_states, n_states))
    for weight, matrix in zip(weights, matrices, strict=True):
        counts += matrix * ((before * (weight * scale)[:, None]).T @ after)
    joined = np.zeros(n_tokens)
    joined[rows] = mass[1] * scale
    return counts, joined
