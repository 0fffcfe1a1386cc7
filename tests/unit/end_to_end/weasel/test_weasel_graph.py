"""WeaSEL with a graph of voters: better where voters depend on each other, saved and restored."""

import numpy as np
import pytest
from experiments.studies.graph_encoder import QUICK, planted_votes
from tiny_task import linear, tiny_task, weasel

from wiesel import WeaSEL, fit_together, load_model
from wiesel.datasets.synthetic import make_features
from wiesel.errors import ParameterError
from wiesel.nn import GraphEncoder, GraphLayers


def right_labels(kind: str, encoder) -> float:
    """How many soft labels are right, in the mean of two draws."""
    shares = []
    for seed in range(2):
        votes, gold = planted_votes(kind, seed)
        X = make_features(gold, n_features=4, separation=1.5, seed=seed)
        model = WeaSEL(linear(4, seed=seed), encoder=encoder, seed=seed, **QUICK).fit(X, votes)
        shares.append((model.soft_labels(X, votes).argmax(axis=1) == gold).mean())
    return float(np.mean(shares))


@pytest.mark.parametrize("kind", ["block", "chain"])
def test_planted_dependencies_are_weighed_better_than_by_the_mlp(kind):
    assert right_labels(kind, "graph") > right_labels(kind, (70, 70)) + 0.005


def test_independent_voters_are_weighed_as_well_as_by_the_mlp():
    assert right_labels("independent", "graph") > right_labels("independent", (70, 70)) - 0.02


def test_edges_are_found_from_the_votes_or_given():
    X, votes, _ = tiny_task()
    given = [("voter_0", "voter_2")]
    model = weasel(encoder=GraphLayers(dependencies=given)).fit(X, votes)
    assert model.dependencies_ == (("voter_0", "voter_2"),)
    assert isinstance(model.encoder_.network, GraphEncoder)
    assert model.encoder_.network.edges.tolist() == [[0, 2], [2, 0]]
    block, gold = planted_votes("block", 0)
    X = make_features(gold, n_features=3)
    found = weasel(encoder="graph", epochs=1).fit(X, block).dependencies_
    assert {name for pair in found for name in pair} <= set(block.voters[6:])
    assert len(found) >= 6
    assert weasel(epochs=1).fit(X, block).dependencies_ == ()


@pytest.mark.parametrize(
    "options",
    [
        {"encoder": "graph"},
        {"encoder": GraphLayers(dependencies=[("voter_0", "voter_1")], width=4, rounds=1)},
        {"encoder": GraphLayers(features=False, width=4), "class_conditional": True},
        {"encoder": GraphLayers(trained=False), "encoding": "signed", "voting_only": True},
    ],
    ids=str,
)
def test_it_trains_alone_and_in_a_stack_and_comes_back_from_a_file(options, tmp_path):
    X, votes, _ = tiny_task()
    alone = weasel(seed=1, **options).fit(X, votes)
    stacked = fit_together([weasel(seed=seed, **options) for seed in range(2)], X, votes)[1]
    expected = alone.soft_labels(X, votes)
    assert np.allclose(stacked.soft_labels(X, votes), expected, atol=1e-4)
    alone.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model", end_model=linear(seed=9))
    assert np.array_equal(loaded.soft_labels(X, votes), expected)
    assert loaded.encoder == alone.encoder
    assert loaded.dependencies_ == alone.dependencies_


def test_a_trained_graph_changes_and_a_frozen_one_does_not():
    X, votes, _ = tiny_task()
    for trained in (True, False):
        layers = GraphLayers(trained=trained, dependencies=[("voter_0", "voter_1")])
        once, more = (weasel(encoder=layers, epochs=n).fit(X, votes) for n in (1, 3))
        first = once.encoder_.network.rounds[0].heard.weight
        second = more.encoder_.network.rounds[0].heard.weight
        assert np.array_equal(first.numpy(force=True), second.numpy(force=True)) is not trained


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("grpah", "'graph', GraphLayers"),
        (GraphLayers(rounds=0), "'rounds'.*at least 1"),
        (GraphLayers(dropout=2.0), "'dropout'.*at most 1"),
        (GraphLayers(dependencies=[("a", "b", "c")]), r"pairs of voters.*\('a', 'b', 'c'\)"),
        (GraphLayers(dependencies=["ab"]), "pairs of voters.*'ab'"),
        (GraphLayers(dependencies=[("voter_0", "voter_9")]), "'voter_9', which is not a voter"),
        (GraphLayers(dependencies=[("voter_1", "voter_1")]), "names one voter twice"),
    ],
)
def test_what_makes_no_graph_is_refused(encoder, message):
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match=message):
        weasel(encoder=encoder).fit(X, votes)
