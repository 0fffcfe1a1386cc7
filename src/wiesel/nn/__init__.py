"""Encoders, losses and ready-made end models."""

from wiesel.nn.encoders import (
    EncoderLayers,
    VoteEncoder,
    accuracies_of,
    encode_votes,
    mlp_encoder,
)
from wiesel.nn.end_models import CNN, LSTM, MLP, Ensemble, Linear, shipped_module, shipped_spec
from wiesel.nn.graph_encoder import GraphEncoder, GraphLayers, NodeShape
from wiesel.nn.losses import (
    AGREEMENT_LOSSES,
    DIVERGENCES,
    mutual_information_loss,
    ranked_probability_loss,
    soft_cross_entropy,
)
from wiesel.nn.taggers import BiLSTMTagger, LinearTagger

__all__ = [
    "AGREEMENT_LOSSES",
    "CNN",
    "DIVERGENCES",
    "LSTM",
    "MLP",
    "BiLSTMTagger",
    "EncoderLayers",
    "Ensemble",
    "GraphEncoder",
    "GraphLayers",
    "Linear",
    "LinearTagger",
    "NodeShape",
    "VoteEncoder",
    "accuracies_of",
    "encode_votes",
    "mlp_encoder",
    "mutual_information_loss",
    "ranked_probability_loss",
    "shipped_module",
    "shipped_spec",
    "soft_cross_entropy",
]
