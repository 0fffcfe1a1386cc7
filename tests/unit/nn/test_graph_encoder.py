"""The graph encoder: who hears of whom, that voters are treated alike, and its sparse form."""

import numpy as np
import pytest
import torch

from wiesel.errors import ParameterError
from wiesel.nn import GraphEncoder, GraphLayers, NodeShape, encode_votes, graph_encoder
from wiesel.nn.graph_encoder import _by_voter
from wiesel.nn.stacking import RandomStreams, stack_modules
from wiesel.training import seeded

QUIET = GraphLayers(width=8, dropout=0.0)
SHAPE = NodeShape(n_voters=4, n_values=3, n_features=2)
CHAIN = [(0, 1), (1, 2), (2, 3)]


def encoder(edges=CHAIN, how=QUIET, seed=0, shape=SHAPE) -> GraphEncoder:
    with seeded(seed):
        return GraphEncoder(shape, edges, how).eval()


def inputs(classes: list[list[int]]) -> torch.Tensor:
    """Encoded votes (-1 abstains) with two features."""
    votes = torch.stack([torch.eye(3)[torch.tensor(row)][:, :2] for row in classes])
    return encode_votes(votes, "one_hot", torch.tensor([[0.3, -0.7]]).repeat(len(classes), 1))


def test_a_vote_reaches_as_far_as_there_are_rounds():
    before, after = inputs([[0, 1, 1, -1], [1, 1, 1, -1]])
    for rounds in (1, 2):
        network = encoder(how=GraphLayers(width=8, rounds=rounds, dropout=0.0))
        changed = (network(before[None]) - network(after[None])).abs()[0] > 1e-6
        assert changed.tolist() == [True] * (rounds + 1) + [False] * (3 - rounds)


def test_without_edges_every_voter_has_one_and_the_same_network():
    network = encoder(edges=())
    with torch.no_grad():
        network.voters.zero_()
        scores = network(inputs([[0, 0, 1, -1]]))[0]
    assert scores[0] == pytest.approx(scores[1].item())
    assert scores[0].item() != pytest.approx(scores[2].item())
    assert scores[2].item() != pytest.approx(scores[3].item())


def test_permuting_voters_permutes_the_scores():
    order = [2, 0, 3, 1]
    place = {old: new for new, old in enumerate(order)}
    network, votes = encoder(), [[0, 1, -1, 1], [1, 1, 0, -1]]
    turned = encoder(edges=[(place[a], place[b]) for a, b in CHAIN])
    turned.load_state_dict(network.state_dict())
    with torch.no_grad():
        turned.voters.copy_(network.voters[order])
        expected = network(inputs(votes))[:, order]
        found = turned(inputs([[row[old] for old in order] for row in votes]))
    assert torch.allclose(expected, found, atol=1e-6)


def test_many_voters_are_added_up_edge_by_edge_to_the_same_scores(monkeypatch):
    votes = inputs([[0, 1, -1, 1], [1, 1, 0, -1]])
    dense = encoder()
    monkeypatch.setattr(graph_encoder, "_DENSE_VOTERS", 0)
    sparse = encoder()
    assert sparse.rounds[0].mean is None
    assert dense.rounds[0].edges is None
    assert torch.allclose(dense(votes), sparse(votes), atol=1e-6)
    # A network of thousands of voters has no matrix of voters by voters.
    large = encoder(shape=NodeShape(5000, 3), edges=[(0, 4999)])
    assert large(torch.zeros(2, 15_000)).shape == (2, 5000)
    assert all(tensor.numel() <= 5000 * 8 for tensor in large.state_dict().values())


@pytest.mark.parametrize("most", [0, 256])
def test_networks_can_be_stacked(monkeypatch, most):
    monkeypatch.setattr(graph_encoder, "_DENSE_VOTERS", most)
    networks = [encoder(seed=seed) for seed in range(3)]
    stack = stack_modules(networks, RandomStreams([torch.get_rng_state()] * 3)).eval()
    values = torch.randn(3, 5, SHAPE.n_inputs, generator=torch.Generator().manual_seed(1))
    for k, network in enumerate(networks):
        assert torch.allclose(stack(values)[k], network(values[k]), atol=1e-5)


def test_scores_for_each_class_and_votes_as_single_numbers():
    shape = NodeShape(n_voters=4, n_values=1, n_features=0, n_scores=2)
    assert encoder(shape=shape)(torch.zeros(3, 4)).shape == (3, 8)


@pytest.mark.parametrize(
    ("n_values", "rows"),
    [
        (1, [[11], [12], [21], [22]]),
        (2, [[11, 13], [12, 14], [21, 23], [22, 24]]),
        (3, [[11, 12, 15], [13, 14, 16], [21, 22, 25], [23, 24, 26]]),
    ],
)
def test_votes_become_rows_of_voters_with_their_flags_last(n_values: int, rows: list[list[int]]):
    """Encoded, the values of all voters come first, and then a flag for each that is silent."""
    encoded = torch.tensor([[11, 12, 13, 14, 15, 16], [21, 22, 23, 24, 25, 26]])[:, : 2 * n_values]
    assert _by_voter(encoded, NodeShape(2, n_values)).tolist() == rows


def test_every_pair_is_heard_once_however_often_it_is_given():
    once, twice = encoder(), encoder(edges=[*CHAIN, (1, 0), (0, 1)])
    assert np.array_equal(once.edges, twice.edges)


@pytest.mark.parametrize(
    ("edges", "message"),
    [([(0, 4)], r"0 to 3; got \[0, 4\]"), ([(-1, 2)], "0 to 3"), ([(1, 1)], "different voters")],
)
def test_edges_that_make_no_sense_are_refused(edges, message):
    with pytest.raises(ParameterError, match=message):
        encoder(edges=edges)
