"""An encoder whose voters are the nodes of a graph; dependent voters exchange their votes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.errors import ParameterError
from wiesel.nn.end_models import Dropout

__all__ = ["GraphEncoder", "GraphLayers", "NodeShape"]

_DENSE_VOTERS = 256
"""Up to this number, one product with a dense matrix is faster than a sum edge by edge."""


@dataclass(frozen=True)
class GraphLayers:
    """The architecture of WeaSEL's graph encoder, and the voters that exchange messages.

    `WeaSEL(net, encoder="graph")` is `WeaSEL(net, encoder=GraphLayers())`.

    >>> GraphLayers(dependencies=[("keyword", "link")]).rounds
    2
    """

    dependencies: Sequence[tuple[str, str]] | None = None
    """Pairs of voters that depend on each other, by name. None finds them from the votes: pairs
    that agree more often than their accuracies explain (up to 3,000 voters)."""
    neighbors: int = 3
    """How many pairs each voter may contribute if they are found from the votes."""
    width: int = 16
    """How many numbers describe a voter for an item."""
    rounds: int = 2
    """How many times voters exchange messages with their neighbors: how far a vote travels."""
    dropout: float = 0.3
    """The share of these numbers that is set to zero in training."""
    features: bool = True
    """Whether the encoder reads features in addition to votes."""
    trained: bool = True
    """False keeps the initial weights."""


@dataclass(frozen=True)
class NodeShape:
    """The layout of an encoder's input and output, voter by voter."""

    n_voters: int
    n_values: int
    """Numbers for each vote, in the order of `encode_votes`: all votes, then all flags."""
    n_features: int = 0
    n_scores: int = 1
    """Scores of each voter: one, or one for each class."""

    @property
    def n_inputs(self) -> int:
        """The length of an item's vector."""
        return self.n_voters * self.n_values + self.n_features


class GraphEncoder(nn.Module):
    """Scores every voter from its own vote, its neighbors' votes and the item's features.

    With v_j the encoded vote of voter j, x the features, u_j the voter's embedding and N(j) its
    neighbors::

        h_j  = W_v v_j + W_x x + u_j
        h_j <- relu(LayerNorm(A_self h_j + mean over k in N(j) of A_edge h_k)),    `rounds` times
        score_j = w h_j

    All voters share the weights. So permuting voters (with their u_j) permutes the scores, and
    without edges every voter has the same small network. Rühling Cachay et al. 2021 propose
    dependencies between sources as edges (section 3, "any network").

    >>> encoder = GraphEncoder(NodeShape(n_voters=3, n_values=3), edges=[(0, 1)])
    >>> encoder(torch.zeros(5, 9)).shape
    torch.Size([5, 3])
    """

    stackable = True

    def __init__(
        self,
        shape: NodeShape,
        edges: Sequence[tuple[int, int]] | npt.NDArray[np.int64] = (),
        how: GraphLayers | None = None,
    ) -> None:
        super().__init__()
        how = how or GraphLayers()
        self.shape = shape
        self.edges = _directed(edges, shape.n_voters)
        self.votes = _Mixing(shape.n_values, how.width)
        self.features = _Mixing(shape.n_features, how.width) if shape.n_features else None
        self.voters = nn.Parameter(_drawn(shape.n_voters, how.width))
        self.rounds = nn.Sequential(
            *(_Round(shape.n_voters, self.edges, how) for _ in range(how.rounds))
        )
        self.scores = _Mixing(how.width, shape.n_scores)

    def forward(self, encoded: Tensor) -> Tensor:
        """Return scores (n_items, n_voters * n_scores) for vectors (n_items, n_inputs)."""
        nodes = self._nodes(encoded)
        scores: Tensor = self.scores(self.rounds(nodes))
        # There is one row for each voter of each item: this restores the dimension of items.
        return scores.reshape(*encoded.shape[:-1], -1)

    def _nodes(self, encoded: Tensor) -> Tensor:
        """The first description of every voter: (..., n_items * n_voters, width)."""
        shape, n_items = self.shape, encoded.shape[-2]
        width = shape.n_voters * shape.n_values
        votes, features = encoded[..., :width], encoded[..., width:]
        described: Tensor = self.votes(_by_voter(votes, shape))
        described = described.reshape(*described.shape[:-2], n_items, shape.n_voters, -1)
        described = described + self.voters.unsqueeze(-3)
        if self.features is not None:
            described = described + self.features(features).unsqueeze(-2)
        return described.flatten(-3, -2)

    def extra_repr(self) -> str:
        """Return the number of nodes and edges as text."""
        return f"n_voters={self.shape.n_voters}, n_edges={len(self.edges) // 2}"


def _drawn(n_voters: int, width: int) -> Tensor:
    """Return random vectors of about length 1, one for each voter."""
    vectors = torch.empty(n_voters, width)
    if vectors.is_meta:  # it has no numbers, and to draw them torch would load its compiler
        return vectors
    return vectors.normal_().div_(math.sqrt(width))


def _by_voter(votes: Tensor, shape: NodeShape) -> Tensor:
    """Encoded votes as one row for each voter of each item: (..., n_items * n_voters, n_values)."""
    n_voters, n_values = shape.n_voters, shape.n_values
    cast = votes[..., : n_voters * (n_values - 1)]
    cast = cast.reshape(*cast.shape[:-1], n_voters, n_values - 1)
    flags = votes[..., n_voters * (n_values - 1) :].unsqueeze(-1)
    return torch.cat([cast, flags], dim=-1).flatten(-3, -2)


def _directed(edges: Any, n_voters: int) -> npt.NDArray[np.int64]:
    """Both directions of every edge, without duplicates, sorted: (n_edges, 2), from and to."""
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n_voters):
        raise ParameterError(
            f"An edge of a graph encoder joins two of the voters 0 to {n_voters - 1}; "
            f"got {pairs[(pairs < 0).any(1) | (pairs >= n_voters).any(1)][0].tolist()}."
        )
    if (pairs[:, 0] == pairs[:, 1]).any():
        raise ParameterError("An edge of a graph encoder joins two different voters.")
    return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0).reshape(-1, 2)


class _Mixing(nn.Module):
    """A linear layer for rows (..., n_rows, n_inputs), also with a leading member dimension."""

    stackable = True

    def __init__(self, n_inputs: int, n_outputs: int, bias: bool = True) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_inputs)
        self.weight = nn.Parameter(torch.empty(n_inputs, n_outputs).uniform_(-bound, bound))
        own = torch.empty(n_outputs).uniform_(-bound, bound) if bias else None
        self.bias = None if own is None else nn.Parameter(own)

    def forward(self, rows: Tensor) -> Tensor:
        products = rows @ self.weight
        return products if self.bias is None else products + self.bias.unsqueeze(-2)


class _Round(nn.Module):
    """One exchange of messages, on rows (..., n_items * n_voters, width)."""

    stackable = True

    def __init__(self, n_voters: int, edges: npt.NDArray[np.int64], how: GraphLayers) -> None:
        super().__init__()
        self.n_voters = n_voters
        self.own = _Mixing(how.width, how.width)
        self.heard = _Mixing(how.width, how.width, bias=False) if len(edges) else None
        self.mean = _mean_matrix(edges, n_voters) if n_voters <= _DENSE_VOTERS else None
        self.edges = None if n_voters <= _DENSE_VOTERS else edges
        self.weight = nn.Parameter(torch.ones(how.width))
        self.bias = nn.Parameter(torch.zeros(how.width))
        self.dropout = Dropout(how.dropout)

    def forward(self, rows: Tensor) -> Tensor:
        mixed = self.own(rows)
        if self.heard is not None:
            heard: Tensor = self.heard(rows)
            nodes = heard.reshape(*heard.shape[:-2], -1, self.n_voters, heard.shape[-1])
            mixed = mixed + self._means(nodes).flatten(-3, -2)
        normal = nn.functional.layer_norm(mixed, mixed.shape[-1:])
        normal = normal * self.weight.unsqueeze(-2) + self.bias.unsqueeze(-2)
        kept: Tensor = self.dropout(torch.relu(normal))
        return kept

    def _means(self, nodes: Tensor) -> Tensor:
        """The mean over each voter's neighbors: (..., n_items, n_voters, width)."""
        if self.mean is not None:
            return torch.from_numpy(self.mean).to(nodes.device) @ nodes
        edges = torch.from_numpy(self.edges).to(nodes.device)
        degrees = torch.bincount(edges[:, 1], minlength=self.n_voters).clamp_min(1)
        sent = nodes.index_select(-2, edges[:, 0])
        total = torch.zeros_like(nodes).index_add(nodes.ndim - 2, edges[:, 1], sent)
        return total / degrees.unsqueeze(-1).to(nodes.dtype)


def _mean_matrix(edges: npt.NDArray[np.int64], n_voters: int) -> npt.NDArray[np.float32]:
    """Row j averages the neighbors of voter j; it is zero for a voter without neighbors."""
    matrix = np.zeros((n_voters, n_voters), dtype=np.float32)
    matrix[edges[:, 1], edges[:, 0]] = 1
    averaging: npt.NDArray[np.float32] = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    return averaging
