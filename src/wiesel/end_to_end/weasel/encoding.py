"""What WeaSEL's encoder is made of and reads, from the options the user gave."""

import copy
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from wiesel.end_to_end.checks import MODULE_ERRORS, first_line
from wiesel.errors import FeatureError, ParameterError
from wiesel.nn.encoders import (
    EncoderLayers,
    VoteEncoder,
    Weighing,
    encoded_width,
    mlp_encoder,
    scale,
)
from wiesel.parameters import check_number
from wiesel.training import Inputs, as_inputs
from wiesel.training.inputs import is_matrix

if TYPE_CHECKING:
    from wiesel.end_to_end.weasel.model import WeaSEL

__all__ = [
    "EncoderShape",
    "build_encoder",
    "check_encoder",
    "encoder_features",
    "feature_width",
]


def encoder_features(inputs: Inputs, encoder_X: Any, wanted: bool) -> Inputs | None:
    """Return what the encoder reads beside the votes, or None."""
    if not wanted:
        if encoder_X is not None:
            raise ParameterError(
                "encoder_X is given, but EncoderLayers(features=False) says not to use it."
            )
        return None
    features = inputs if encoder_X is None else as_inputs(encoder_X, "encoder_X")
    if not is_matrix(features):
        raise FeatureError(
            "The encoder needs a plain feature vector for each item (items x features, floating "
            "point), and X is none. Give it one with fit(..., encoder_X=...), or let it read the "
            "votes alone with encoder=EncoderLayers(features=False)."
        )
    return features


class EncoderShape(NamedTuple):
    """The sizes that decide how an encoder is built."""

    n_voters: int
    n_classes: int
    n_features: int


def check_encoder(options: "WeaSEL") -> None:
    """Refuse an encoder that is neither a module nor a list of layer sizes."""
    encoder = options.encoder
    if isinstance(encoder, nn.Module):
        return
    hidden = encoder.hidden if isinstance(encoder, EncoderLayers) else encoder
    sizes = list(hidden) if isinstance(hidden, (tuple, list)) else [None]
    if not all(isinstance(size, Integral) and int(size) > 0 for size in sizes):
        raise ParameterError(
            "The 'encoder' option of WeaSEL must be the sizes of its hidden layers, such as "
            "(70, 70) or () for none, EncoderLayers(...), or a torch.nn.Module; "
            f"got {encoder!r:.60}."
        )
    if isinstance(encoder, EncoderLayers):
        check_number(encoder, "dropout", encoder.dropout, low=0, high=1)


def build_encoder(options: "WeaSEL", shape: EncoderShape, tau_1: float) -> VoteEncoder:
    """Return a new encoder that fits the votes and features."""
    n_voters, n_classes, n_features = shape
    n_inputs = encoded_width(n_voters, n_classes, options.encoding) + n_features
    n_outputs = n_voters * (n_classes if options.class_conditional else 1)
    weighing = Weighing(
        activation=options.activation,
        tau_1=tau_1,
        # The paper's code counts one number for each vote, so sqrt_input does too.
        tau_2=scale(options.tau_2, n_voters, n_voters + n_features, n_classes),
        class_conditional=options.class_conditional,
        voting_only=options.voting_only,
    )
    encoder = VoteEncoder(_network(options, n_inputs, n_outputs), n_voters, weighing)
    frozen = isinstance(options.encoder, EncoderLayers) and not options.encoder.trained
    return encoder.requires_grad_(False) if frozen else encoder


def feature_width(features: Inputs | None) -> int:
    """Return how many features the encoder reads beside the votes."""
    return 0 if features is None else features.item_bytes // 4


def _network(options: "WeaSEL", n_inputs: int, n_outputs: int) -> nn.Module:
    if not isinstance(options.encoder, nn.Module):
        given = options.encoder
        layers = given if isinstance(given, EncoderLayers) else EncoderLayers(hidden=tuple(given))
        return mlp_encoder(n_inputs, n_outputs, layers)
    network = copy.deepcopy(options.encoder)
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
