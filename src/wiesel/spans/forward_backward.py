"""Forward-backward in log space, over all documents at once.

Step t processes all documents that are longer than t together. Tokens are laid out step by step,
the longest documents first, so each step is a slice and nothing is padded. A document longer than
`PIECE` tokens is cut into pieces that are also processed in parallel. The matrix that carries each
piece from its first to its last token joins them again, so the result is that of the whole
document.

Legend: a chain has K states; e_t(k) = P(votes at token t | state k); log_alpha_t(k) =
log P(votes up to t, state k at t); log_beta_t(k) = log P(votes after t | state k at t). Arrays are
(K, tokens), because NumPy is slow with many short rows.
"""

import itertools
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Chain", "Layout", "Smoothed", "smooth"]

PIECE = 2048
_FAR = -700.0
"""Below this, exp() is nearly zero: such states are summed exactly."""
_AT_ONCE = 2**13

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """A Markov chain: `start` (K,) and `transitions` (from, to), zero if not allowed.

    `joined` (from, to) marks the pairs of states that belong together, for evidence on pairs.
    """

    start: Floats
    transitions: Floats
    joined: npt.NDArray[np.bool_]

    def turned(self) -> "Chain":
        """Return the reversed chain."""
        return Chain(self.start, self.transitions.T, self.joined.T)


class Layout(NamedTuple):
    """The places of the tokens while all documents are processed together."""

    order: Ints
    """The token at each place; the places of one step are adjacent."""
    bounds: Ints
    """Where the places of each step begin, and where the last step ends."""
    previous: Ints
    """The place of the previous token, -1 for the first token of a document."""
    piece_start: Ints
    """The first token of every piece, the longest piece first."""
    begins: npt.NDArray[np.bool_]
    """Whether a document begins with the piece."""

    @classmethod
    def of(cls, pointers: Ints) -> "Layout":
        """Return the layout of documents with these pointers to their tokens.

        >>> Layout.of(np.array([0, 2, 5])).order
        array([2, 0, 3, 1, 4])
        """
        lengths = np.diff(pointers)
        counts = -(-lengths // PIECE)
        number = _counted(counts)
        start = np.repeat(pointers[:-1], counts) + number * PIECE
        length = np.minimum(PIECE, np.repeat(pointers[1:], counts) - start)
        by_length = np.argsort(-length, kind="stable")
        start, length, begins = start[by_length], length[by_length], (number == 0)[by_length]
        # Step s has as many tokens as there are pieces longer than s.
        per_step = np.searchsorted(-length, -np.arange(length.max(initial=0)), side="left")
        bounds = np.concatenate([[0], np.cumsum(per_step)])
        step = _counted(length)
        place = bounds[step] + np.repeat(np.arange(len(start)), length)
        token = np.repeat(start, length) + step
        order, place_of = np.empty(len(token), np.int64), np.empty(len(token), np.int64)
        order[place], place_of[token] = token, place
        previous = place_of[order - 1]
        previous[place_of[pointers[:-1][lengths > 0]]] = -1
        return cls(order, bounds, previous, start, begins)

    @property
    def first(self) -> Ints:
        """The places of the first tokens of documents."""
        return np.flatnonzero(self.previous < 0)

    def steps(self) -> list[slice]:
        """Return the places of every step."""
        return [slice(*pair) for pair in itertools.pairwise(self.bounds.tolist())]


def _counted(counts: Ints) -> Ints:
    """0 to count - 1 for every count, concatenated."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


class Smoothed(NamedTuple):
    """The posterior of each token given all votes of its document, in the order of the layout."""

    proba: Floats
    """P(state | votes): (n_tokens, K)."""
    starts: Floats
    """Expected first states: (K,)."""
    transitions: Floats
    """Expected transitions: (from, to)."""
    joined: Floats
    """P(the token and its predecessor are joined): (n_tokens,); 0 for a document's first token."""
    evidence: float
    """log P(votes)."""


def smooth(
    log_emission: Floats, layout: Layout, chain: Chain, log_links: Floats | None = None
) -> Smoothed:
    """Return the posteriors and the expected counts of documents.

    `log_emission` (n_tokens, K) and `log_links` (n_tokens, 2) are in the order of the layout. The
    latter is log P(votes on the pair | not joined, joined), for each token and its predecessor.

    >>> chain = Chain(np.array([0.5, 0.5]), np.full((2, 2), 0.5), np.eye(2, dtype=bool))
    >>> evidence = np.log([[0.9, 0.1], [0.2, 0.8]])
    >>> smooth(evidence, Layout.of(np.array([0, 2])), chain).proba.round(3)
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """
    emission = np.ascontiguousarray(log_emission.T)
    links = None if log_links is None else np.ascontiguousarray(log_links.T)
    with np.errstate(divide="ignore"):
        walk = _Walk(emission, links, chain, layout)
        log_alpha, log_beta = walk.both()
        proba, total = np.empty(log_emission.shape), np.empty(len(log_emission))
        for start in range(0, len(proba), _AT_ONCE):
            own = slice(start, start + _AT_ONCE)
            proba[own], total[own] = _posterior(log_alpha[:, own] + log_beta[:, own])
        log_beta += emission
        transitions, joined = _pairs(log_alpha, log_beta, walk)
    first = layout.first
    evidence = float(total[first].sum())
    return Smoothed(proba, proba[first].sum(axis=0), transitions, joined, evidence)


def _posterior(log_joint: Floats) -> tuple[Floats, Floats]:
    """P(state | votes), tokens first, and log P(votes)."""
    top = reduce(np.maximum, log_joint)
    proba = np.exp(log_joint - top)
    total = proba.sum(axis=0)
    return (proba / total).T, np.log(total) + top


class _Walk(NamedTuple):
    """The inputs of a pass: the evidence on tokens and on pairs, and the chain."""

    emission: Floats
    links: Floats | None
    chain: Chain
    layout: Layout

    def both(self) -> tuple[Floats, Floats]:
        """Return log_alpha and log_beta of every token."""
        n_states, n_pieces = len(self.emission), len(self.layout.begins)
        initial = np.repeat(np.log(self.chain.start)[:, None], n_pieces, axis=1)
        final = np.zeros((n_states, n_pieces))
        if not self.layout.begins.all():
            self._join(initial, final)
        return self._forward(initial), self._backward(final)

    def _forward(self, initial: Floats) -> Floats:
        """log_alpha; `initial` excludes the votes on the first token of each piece."""
        log_alpha = np.empty_like(self.emission)
        current = initial
        for step, places in enumerate(self.layout.steps()):
            if step:
                n_tokens = places.stop - places.start
                current = _advance(current[:, :n_tokens], self.chain, self._links_at(places))
            current = current + self.emission[:, places]
            log_alpha[:, places] = current
        return log_alpha

    def _backward(self, final: Floats) -> Floats:
        """log_beta; `final` is the log_beta of the last token of each piece."""
        log_beta, turned = np.empty_like(self.emission), self.chain.turned()
        after = slice(0, 0)
        for places in reversed(self.layout.steps()):
            current = final[:, : places.stop - places.start].copy()
            n_after = after.stop - after.start
            if n_after:
                seen = log_beta[:, after] + self.emission[:, after]
                current[:, :n_after] = _advance(seen, turned, self._links_at(after))
            log_beta[:, places] = current
            after = places
        return log_beta

    def _join(self, initial: Floats, final: Floats) -> None:
        """Fill in the values before and after each piece, for documents with several pieces."""
        order = np.argsort(self.layout.piece_start)
        begins = self.layout.begins[order]
        several = ~begins
        several[:-1] |= ~begins[1:]
        pieces = np.sort(order[several])
        carried = dict(zip(pieces.tolist(), self._carried(pieces), strict=True))
        state = np.empty(0)
        later = np.flatnonzero(~begins)
        for place in later.tolist():
            before, piece = int(order[place - 1]), int(order[place])
            # At the beginning of a document, the previous state does not matter.
            own = carried[before]
            state = own[0] if begins[place - 1] else _log_sum(state[:, None] + own)
            link = self._links_at(slice(piece, piece + 1))
            initial[:, piece] = _advance(state[:, None], self.chain, link)[:, 0]
        for place in later[::-1].tolist():
            before, piece = int(order[place - 1]), int(order[place])
            final[:, before] = _log_sum(carried[piece].T + final[:, piece, None])

    def _carried(self, pieces: Ints) -> Floats:
        """Log P(votes of a piece, its last state | the last state before it): (pieces, from, to).

        The first piece of a document has the same row for each previous state.
        """
        n_states = len(self.emission)
        result = np.empty((len(pieces), n_states, n_states))
        current = np.repeat(np.log(np.eye(n_states))[:, None, :], len(pieces), axis=1)
        current = current.reshape(n_states, -1)
        at_start = np.repeat(self.layout.begins[pieces], n_states)
        for step, places in enumerate(self.layout.steps()):
            going_on = int(np.searchsorted(pieces, places.stop - places.start))
            if not going_on:
                break
            rows = np.repeat(places.start + pieces[:going_on], n_states)
            links = None if self.links is None else self.links[:, rows]
            current = _advance(current[:, : len(rows)], self.chain, links)
            if step == 0:
                current[:, at_start] = np.log(self.chain.start)[:, None]
            current += self.emission[:, rows]
            own = current.reshape(n_states, going_on, n_states)
            result[:going_on] = own.transpose(1, 2, 0)
        return result

    def _links_at(self, places: slice) -> Floats | None:
        return None if self.links is None else self.links[:, places]


def _advance(log_values: Floats, chain: Chain, log_links: Floats | None) -> Floats:
    """Log sum_j exp(values_j) T_jk for many columns; T is weighted by the evidence on the pair."""
    top = reduce(np.maximum, log_values)
    shifted = log_values - top
    values = np.exp(shifted)
    if log_links is None:
        result = np.log(chain.transitions.T @ values) + top
    else:
        largest = np.maximum(log_links[0], log_links[1])
        apart, joined = np.exp(log_links - largest)
        mass = (chain.transitions * chain.joined).T @ values * joined
        mass += (chain.transitions * ~chain.joined).T @ values * apart
        result = np.log(mass) + top + largest
    if shifted.min(initial=0.0, where=shifted > -np.inf) < _FAR:
        far = ((shifted < _FAR) & (shifted > -np.inf)).any(axis=0)
        links = None if log_links is None else log_links[:, far]
        result[:, far] = _exactly(log_values[:, far], chain, links)
    return result


def _exactly(log_values: Floats, chain: Chain, log_links: Floats | None) -> Floats:
    """The same for columns in which exp() would lose states: all pairs in log space."""
    pairs = log_values[:, None, :] + np.log(chain.transitions)[:, :, None]
    if log_links is not None:
        pairs += np.where(chain.joined[:, :, None], log_links[1], log_links[0])
    n_states, _, n_columns = pairs.shape
    return _log_sum(pairs.reshape(n_states, -1)).reshape(n_states, n_columns)


def _log_sum(columns: Floats) -> Floats:
    """Log sum exp of every column."""
    top = reduce(np.maximum, columns)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.log(np.exp(columns - top).sum(axis=0)) + top


def _pairs(log_before: Floats, log_after: Floats, walk: _Walk) -> tuple[Floats, Floats]:
    """Expected transitions, and for every token P(joined with its predecessor)."""
    previous = walk.layout.previous
    places = np.flatnonzero(previous >= 0)
    counts, joined = np.zeros_like(walk.chain.transitions), np.zeros(len(previous))
    # A few thousand at a time fit in the processor's cache.
    for start in range(0, len(places), _AT_ONCE):
        own = places[start : start + _AT_ONCE]
        before = np.take(log_before, previous[own], axis=1)
        after = np.take(log_after, own, axis=1)
        links = np.zeros((2, len(own))) if walk.links is None else walk.links[:, own]
        more, joined[own] = _pair_counts(before, after, walk.chain, links)
        counts += more
    return counts, joined


def _pair_counts(
    log_before: Floats, log_after: Floats, chain: Chain, log_links: Floats
) -> tuple[Floats, Floats]:
    before = np.exp(log_before - reduce(np.maximum, log_before))
    after = np.exp(log_after - reduce(np.maximum, log_after))
    weights = np.exp(log_links - np.maximum(log_links[0], log_links[1]))
    matrices = (chain.transitions * ~chain.joined, chain.transitions * chain.joined)
    mass = [
        weight * ((matrix.T @ before) * after).sum(axis=0)
        for weight, matrix in zip(weights, matrices, strict=True)
    ]
    total = mass[0] + mass[1]
    # A pair whose likely states may not follow each other underflows and does not count.
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    counts = np.zeros_like(chain.transitions)
    for weight, matrix in zip(weights, matrices, strict=True):
        counts += matrix * ((before * (weight * scale)) @ after.T)
    return counts, mass[1] * scale
