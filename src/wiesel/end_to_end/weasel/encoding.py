"""Builds WeaSEL's encoder, and its features, from the user's options."""

import copy
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from wiesel.end_to_end.checks import MODULE_ERRORS, first_line
from wiesel.errors import FeatureError, ParameterError
from wiesel.label_models.dependence import find_dependencies
from wiesel.label_models.pair_statistics import place_statistics, voter_positions
from wiesel.nn.encoders import (
    EncoderLayers,
    VoteEncoder,
    Weighing,
    encoded_width,
    mlp_encoder,
    scale,
)
from wiesel.nn.graph_encoder import GraphEncoder, GraphLayers, NodeShape
from wiesel.parameters import check_number
from wiesel.training import Inputs
from wiesel.training.inputs import is_matrix, item_width
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.weasel.model import WeaSEL

__all__ = [
    "build_encoder",
    "check_encoder",
    "encoder_features",
    "encoder_network",
    "feature_width",
    "layers_of",
    "voter_dependencies",
    "weighing_of",
]

Dependencies = tuple[tuple[str, str], ...]


def layers_of(encoder: Any) -> EncoderLayers | GraphLayers | None:
    """Return the specification of an encoder; None for a user's own module.

    >>> layers_of((70, 70)) == EncoderLayers(), layers_of("graph") == GraphLayers()
    (True, True)
    """
    if isinstance(encoder, nn.Module):
        return None
    if isinstance(encoder, (EncoderLayers, GraphLayers)):
        return encoder
    return GraphLayers() if encoder == "graph" else EncoderLayers(hidden=encoder)


def encoder_features(inputs: Inputs, encoder_X: Inputs | None, wanted: bool) -> Inputs | None:
    """Return the features that the encoder reads in addition to the votes, or None."""
    if not wanted:
        if encoder_X is not None:
            raise ParameterError(
                "encoder_X is given, but EncoderLayers(features=False) says not to use it."
            )
        return None
    features = inputs if encoder_X is None else encoder_X
    if not is_matrix(features):
        raise FeatureError(
            "The encoder needs a plain feature vector for each item (items x features, floating "
            "point), and X is not one. Give it one with fit(..., encoder_X=...), or let it read "
            "the "
            "votes alone with encoder=EncoderLayers(features=False)."
        )
    return features


def voter_dependencies(options: "WeaSEL", votes: VoteMatrix) -> Dependencies:
    """Return the edges of a graph encoder, given or found; empty for other encoders."""
    layers = layers_of(options.encoder)
    if not isinstance(layers, GraphLayers):
        return ()
    if layers.dependencies is not None:
        return tuple((first, second) for first, second in layers.dependencies)
    found = find_dependencies(votes, layers.neighbors)
    return tuple((votes.voters[first], votes.voters[second]) for first, second in found)


def check_encoder(options: "WeaSEL") -> None:
    """Refuse an encoder that is neither a module nor a valid specification of one."""
    encoder = options.encoder
    if isinstance(encoder, GraphLayers):
        _check_graph(encoder)
    if isinstance(encoder, (nn.Module, GraphLayers)) or encoder == "graph":
        return
    hidden = encoder.hidden if isinstance(encoder, EncoderLayers) else encoder
    sizes = list(hidden) if isinstance(hidden, (tuple, list)) else [None]
    if not all(isinstance(size, Integral) and int(size) > 0 for size in sizes):
        raise ParameterError(
            "The 'encoder' option of WeaSEL must be the sizes of its hidden layers, such as "
            "(70, 70) or () for none, EncoderLayers(...), 'graph', GraphLayers(...), or a "
            f"torch.nn.Module; got {encoder!r:.60}.",
            option="encoder",
        )
    if isinstance(encoder, EncoderLayers):
        check_number(encoder, "dropout", encoder.dropout, low=0, high=1)


def _check_graph(layers: GraphLayers) -> None:
    check_number(layers, "dropout", layers.dropout, low=0, high=1)
    for name in ("width", "rounds", "neighbors"):
        check_number(layers, name, getattr(layers, name), low=1, whole=True)
    for pair in layers.dependencies or ():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ParameterError(
                "The 'dependencies' option of GraphLayers must be pairs of voters, such as "
                f"[('a', 'b')], or None to find them from the votes; got {pair!r:.60}.",
                option="encoder",
            )


def build_encoder(
    options: "WeaSEL",
    voters: tuple[str, ...],
    n_classes: int,
    n_features: int,
    dependencies: Dependencies,
    tau_1: float,
) -> VoteEncoder:
    """Return a new encoder for these voters; raise an error for an unknown voter."""
    # In a graph, statistics are nodes after the voters.
    edges = [voter_positions("dependency", pair, voters) for pair in dependencies]
    statistics = place_statistics(options.statistics, voters)
    for node, (_, first, second) in enumerate(statistics, start=len(voters)):
        edges += [(node, first), (node, second)]
    n_columns = len(voters) + len(statistics)
    n_values = encoded_width(1, n_classes, options.encoding)
    n_scores = n_classes if options.class_conditional else 1
    weighing = weighing_of(options, n_columns, n_features, n_classes, tau_1)
    nodes = NodeShape(n_columns, n_values, n_features, n_scores)
    network = encoder_network(options.encoder, nodes, edges)
    encoder = VoteEncoder(network, len(voters), weighing, len(statistics))
    layers = layers_of(options.encoder)
    return encoder if layers is None or layers.trained else encoder.requires_grad_(False)


def weighing_of(
    options: "WeaSEL", n_columns: int, n_features: int, n_classes: int, tau_1: float
) -> Weighing:
    """Return how scores become weights, for so many columns of votes."""
    return Weighing(
        activation=options.activation,
        tau_1=tau_1,
        # The paper's code counts one number for each vote, so sqrt_input does too.
        tau_2=scale(options.tau_2, n_columns, n_columns + n_features, n_classes),
        class_conditional=options.class_conditional,
        voting_only=options.voting_only,
    )


def feature_width(features: Inputs | None) -> int:
    """Return the number of features the encoder reads in addition to the votes."""
    return 0 if features is None else item_width(features)


def encoder_network(encoder: Any, nodes: NodeShape, edges: list[tuple[int, int]]) -> nn.Module:
    """Return the untrained network of an encoder: encoded votes and features to scores."""
    n_inputs, n_outputs = nodes.n_inputs, nodes.n_voters * nodes.n_scores
    layers = layers_of(encoder)
    if isinstance(layers, GraphLayers):
        return GraphEncoder(nodes, np.array(edges, dtype=np.int64), layers)
    if layers is not None:
        return mlp_encoder(n_inputs, n_outputs, layers)
    network: nn.Module = copy.deepcopy(encoder)
    with torch.no_grad():
        try:
            shape = tuple(network.eval()(torch.zeros(2, n_inputs)).shape)
        except MODULE_ERRORS as error:
            raise ParameterError(
                f"The encoder must read vectors of {n_inputs} numbers (encoded votes and "
                f"features): {first_line(error)}."
            ) from error
    if shape != (2, n_outputs):
        raise ParameterError(
            f"The encoder must return {n_outputs} scores for each item; for 2 items of {n_inputs} "
            f"numbers it returned the shape {shape}."
        )
    return network.train()
