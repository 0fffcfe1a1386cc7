"""WeaSEL's encoder: from votes and features to an accuracy for every voter and item."""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from wiesel.errors import ParameterError
from wiesel.nn.end_models import Dropout

__all__ = [
    "Activation",
    "EncoderLayers",
    "Encoding",
    "VoteEncoder",
    "Weighing",
    "accuracies_of",
    "encode_votes",
    "encoded_width",
    "label_logits",
    "mlp_encoder",
    "scale",
]

Encoding = Literal["one_hot", "signed", "index"]
Activation = Literal["softmax", "sigmoid", "relu", "tanh"]


_SCALED = ("softmax", "sigmoid")
"""The activations that tau_2 scales."""
_FEW_CLASSES = 4
"""Up to this number, one product per class is faster than a small matrix product per item."""


def encode_votes(votes: Tensor, encoding: Encoding, features: Tensor | None = None) -> Tensor:
    """Return votes (n_items, n_voters, n_classes), then features, as the encoder's input.

    `one_hot` encodes all votes as distributions, followed by an abstain flag for every voter, so
    that no class has a larger code than another. `signed` (two classes: -1, 0, +1) and `index`
    (-1 for abstain, else the class index) are the encodings of the paper's experiments.

    >>> ham_then_abstain = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    >>> encode_votes(ham_then_abstain, "one_hot")
    tensor([[1., 0., 0., 0., 0., 1.]])
    >>> encode_votes(ham_then_abstain, "signed"), encode_votes(ham_then_abstain, "index")
    (tensor([[-1.,  0.]]), tensor([[ 0., -1.]]))
    """
    if encoding == "signed":
        parts = [_signed(votes)]
    else:
        # Class by class: torch's sum over such a short dimension takes several times as long.
        abstained = functools.reduce(
            torch.sub, votes.unbind(dim=-1), votes.new_ones(votes.shape[:-1])
        )
        if encoding == "index":
            classes = torch.arange(votes.shape[-1], dtype=votes.dtype, device=votes.device)
            parts = [votes @ classes - abstained]
        else:
            parts = [votes.flatten(start_dim=-2), abstained]
    return torch.cat(parts if features is None else [*parts, features], dim=-1)


def _signed(votes: Tensor) -> Tensor:
    if votes.shape[-1] != 2:
        raise ParameterError(
            f"encoding='signed' is for two classes; there are {votes.shape[-1]}. "
            "Use 'one_hot', or 'index' as the paper's code does."
        )
    return votes[..., 1] - votes[..., 0]


def encoded_width(n_voters: int, n_classes: int, encoding: Encoding) -> int:
    """Return how many numbers `encode_votes` returns for an item."""
    return n_voters * (n_classes + 1) if encoding == "one_hot" else n_voters


@dataclass(frozen=True)
class EncoderLayers:
    """The architecture of the paper's encoder, and what it reads and learns.

    >>> EncoderLayers(hidden=(70,), batch_norm=False).dropout
    0.3
    """

    hidden: Sequence[int] = (70, 70)
    """The sizes of the hidden layers; `()` is linear."""
    batch_norm: bool = True
    """Whether hidden layers are followed by BatchNorm."""
    dropout: float = 0.3
    """The share of hidden units that is set to zero in training."""
    features: bool = True
    """Whether the encoder reads features in addition to votes."""
    trained: bool = True
    """False keeps the initial weights (the paper's "WeaSEL-random")."""


def mlp_encoder(n_inputs: int, n_outputs: int, how: EncoderLayers | None = None) -> nn.Sequential:
    """Return the paper's encoder network.

    >>> [type(layer).__name__ for layer in mlp_encoder(9, 3, EncoderLayers(hidden=(4,)))]
    ['Linear', 'BatchNorm1d', 'ReLU', 'Dropout', 'Linear']
    """
    how = how or EncoderLayers()
    layers: list[nn.Module] = []
    for size, following in itertools.pairwise((n_inputs, *how.hidden)):
        layers.append(nn.Linear(size, following))
        if how.batch_norm:
            layers.append(nn.BatchNorm1d(following))
        layers += [nn.ReLU(), Dropout(how.dropout)]
    return nn.Sequential(*layers, nn.Linear((n_inputs, *how.hidden)[-1], n_outputs))


def accuracies_of(
    scores: Tensor,
    activation: Activation = "softmax",
    tau_1: float = 1.0,
    tau_2: float = 1.0,
    dim: int = 1,
) -> Tensor:
    """Return the accuracies of the voters from the encoder's scores (voters in dimension `dim`).

    theta = tau_2 * softmax(tau_1 * scores) over voters (paper, equation 3), or one of the
    ablations: tau_2 * sigmoid, ReLU + 1e-5, tanh (the last two are not scaled).

    >>> accuracies_of(torch.zeros(1, 4), tau_2=2.0)
    tensor([[0.5000, 0.5000, 0.5000, 0.5000]])
    """
    shares = _shares_of(scores, activation, tau_1, dim)
    return tau_2 * shares if activation in _SCALED else shares


def _shares_of(scores: Tensor, activation: Activation, tau_1: float, dim: int) -> Tensor:
    """Accuracies before tau_2."""
    if tau_1 != 1:
        scores = tau_1 * scores
    if activation == "softmax":
        return torch.softmax(scores, dim=dim)
    if activation == "sigmoid":
        return torch.sigmoid(scores)
    if activation == "relu":
        return torch.relu(scores) + 1e-5
    return torch.tanh(scores)


def label_logits(accuracies: Tensor, votes: Tensor) -> Tensor:
    """Return s = theta^T votes: (n_items, n_classes), the logits of the soft labels.

    `accuracies` is (n_items, n_voters), or (n_items, n_voters, n_classes) if they differ by the
    class that is voted for.

    >>> label_logits(torch.tensor([[0.9, 0.4]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    tensor([[0.9000, 0.4000]])
    """
    if accuracies.ndim == votes.ndim:
        return (accuracies * votes).sum(dim=-2)
    if votes.shape[-1] > _FEW_CLASSES:
        return torch.matmul(accuracies.unsqueeze(-2), votes).squeeze(-2)
    logits: Tensor = _ClassByClass.apply(accuracies, votes)  # type: ignore[no-untyped-call]
    return logits


class _ClassByClass(torch.autograd.Function):
    """The sum of accuracies for each class. Votes are constants, stored class by class."""

    @staticmethod
    def forward(ctx: Any, accuracies: Tensor, votes: Tensor) -> Tensor:
        ctx.save_for_backward(votes)
        return torch.matmul(votes.mT, accuracies.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (votes,) = ctx.saved_tensors
        own, voted = gradient.unsqueeze(-2).unbind(dim=-1), votes.unbind(dim=-1)
        total = own[0] * voted[0]
        for one, vote in zip(own[1:], voted[1:], strict=True):
            total.addcmul_(one, vote)
        return total, None


@dataclass(frozen=True)
class Weighing:
    """How scores become accuracies."""

    activation: Activation = "softmax"
    tau_1: float = 1.0
    tau_2: float = 1.0
    class_conditional: bool = False
    voting_only: bool = False
    """Whether only voters that voted get weight."""


class VoteEncoder(nn.Module):
    """A network that scores every voter for every item, and turns the scores into accuracies.

    The network gets one vector for each item: its encoded votes, followed by its features if
    there are any. It returns a score for each voter, or for each voter and class. Statistics of
    two voters are additional columns after the votes, and are weighted like voters.
    """

    stackable = True

    def __init__(
        self, network: nn.Module, n_voters: int, weighing: Weighing, n_statistics: int = 0
    ) -> None:
        super().__init__()
        self.network = network
        self.n_voters = n_voters
        self.n_statistics = n_statistics
        self.weighing = weighing

    def forward(self, encoded: Tensor, votes: Tensor) -> Tensor:
        """Return the accuracies of the voters for every item."""
        return self._shares(self.network(encoded), votes) * self._scale

    def soft_label(self, encoded: Tensor, votes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the voters' shares of the accuracy, and the logits of the soft labels.

        tau_2 is applied to the logits: there are far fewer classes than voters.
        """
        shares = self._shares(self.network(encoded), votes)
        return shares, label_logits(shares, votes) * self._scale

    @property
    def _scale(self) -> float:
        """The factor that turns shares into accuracies."""
        return self.weighing.tau_2 if self.weighing.activation in _SCALED else 1.0

    def _shares(self, scores: Tensor, votes: Tensor) -> Tensor:
        how = self.weighing
        if how.class_conditional:
            scores = scores.reshape(*scores.shape[:-1], self.n_voters + self.n_statistics, -1)
        if how.voting_only:
            silent = votes.amax(dim=-1, keepdim=how.class_conditional) <= 0
            # Finite, so that an item without votes gets equal weights and not NaN.
            scores = scores.masked_fill(silent, -1e9)
        return _shares_of(scores, how.activation, how.tau_1, -2 if how.class_conditional else -1)


def scale(tau_2: str | float, n_voters: int, n_inputs: int, n_classes: int = 2) -> float:
    """Return tau_2 as a number.

    >>> scale("sqrt_voters", 100, 400), scale("sqrt_input", 100, 400), scale("classes", 100, 400)
    (10.0, 20.0, 3.0)
    """
    named = {
        "sqrt_voters": math.sqrt(n_voters),
        "sqrt_input": math.sqrt(n_inputs),
        "voters": float(n_voters),
        "classes": 3 + math.log(max(1, n_classes - 1)),
    }
    return named[tau_2] if isinstance(tau_2, str) else float(tau_2)
