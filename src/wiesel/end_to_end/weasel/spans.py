"""WeaSEL for spans: the encoder weighs the votes on a token, and reads those beside it, too.

An additional voter votes `O` on tokens without votes (`TokenVotes.with_silence`); otherwise `O`
would hardly be seen. There is no prior: it would be almost all `O`, which that voter already
represents, and a sum of weights could hardly outweigh it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from wiesel.end_to_end.evidence_models import FeatureChecked
from wiesel.end_to_end.weasel.encoding import encoder_network, layers_of, weighing_of
from wiesel.errors import ParameterError
from wiesel.label_models import LabelModel
from wiesel.labels import ABSTAIN
from wiesel.nn import AGREEMENT_LOSSES, VoteEncoder, encode_votes, soft_cross_entropy
from wiesel.nn.encoders import encoded_width
from wiesel.nn.graph_encoder import GraphLayers, NodeShape
from wiesel.spans.documents import Documents
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.votes import TokenVotes
from wiesel.tasks.spans import SoftTokenObjective, tokens_of
from wiesel.training import Batch, TrainingData
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.weasel.model import WeaSEL

__all__ = [
    "TokenBlocks",
    "WeaSELTokenObjective",
    "build_token_encoder",
    "check_for_spans",
    "start_for_spans",
    "weigh_tokens",
]

_AT_ONCE = 2**14
"""How many tokens have their votes made dense at once."""


class WeaSELTokenObjective(SoftTokenObjective):
    """The tagger and the encoder, and the losses that make them agree on every token.

    Both learn `targets` in the first `warm_up` epochs, and the tags that people gave (`known`, -1
    elsewhere) always.
    """

    known: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        encoder: VoteEncoder,
        votes: TokenVotes,
        targets: npt.NDArray[np.float64],
        warm_up: int,
    ) -> None:
        super().__init__(end_model, targets)
        unknown = np.full(votes.n_tokens, ABSTAIN)
        known = torch.from_numpy(unknown if votes.known is None else votes.known)
        self.register_buffer("known", known, persistent=False)
        self.encoder, self._blocks = encoder, TokenBlocks(votes)
        self.warm_up, self.is_warming_up = warm_up, warm_up > 0

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Set whether the networks still learn the initial soft labels."""
        self.is_warming_up = epoch <= self.warm_up

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the tagger and of the encoder."""
        tokens = tokens_of(batch)
        votes, around = (part.to(tokens.device) for part in self._blocks.of(tokens.cpu().numpy()))
        label = self.encoder.soft_label(encode_votes(votes, "one_hot", around), votes)[1]
        logits = self.end_model(batch.inputs)
        if self.is_warming_up:
            wanted = self.targets[tokens]
            return {
                "end_model": soft_cross_entropy(logits, wanted),
                "encoder": soft_cross_entropy(label, wanted),
            }
        tags = self.known[tokens]
        told, open_ = torch.nonzero(tags >= 0).ravel(), torch.nonzero(tags < 0).ravel()
        if not len(told):
            return AGREEMENT_LOSSES["symmetric"](logits, label)
        right = functional.one_hot(tags[told], logits.shape[1]).float()
        found = {
            "end_model": soft_cross_entropy(logits[told], right),
            "encoder": soft_cross_entropy(label[told], right),
        }
        if not len(open_):
            return found
        agreement = AGREEMENT_LOSSES["symmetric"](logits[open_], label[open_])
        share = len(told) / len(tags)
        return {name: share * found[name] + (1 - share) * agreement[name] for name in found}


class TokenBlocks:
    """Votes on tokens in the encoder's form, some tokens at a time."""

    def __init__(self, votes: TokenVotes) -> None:
        silent = votes.with_silence()
        self._votes: Any = silent.votes.one_hot()
        self._shape = (-1, silent.votes.n_voters, silent.votes.n_classes)
        self._around = _neighbors(silent.votes, votes.documents).astype(np.float32)

    def of(self, tokens: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the votes on tokens, and those on their neighbors."""
        dense = torch.from_numpy(self._votes[tokens].toarray()).view(self._shape)
        return dense, torch.from_numpy(self._around[tokens])


def _neighbors(votes: VoteMatrix, documents: Documents) -> npt.NDArray[np.float64]:
    """The vote shares of the previous and the next token, zeros at the ends."""
    counts = votes.counts()
    counts /= np.maximum(counts.sum(axis=1, keepdims=True), 1)
    before, after = np.zeros_like(counts), np.zeros_like(counts)
    follows = np.flatnonzero(np.diff(documents.document_index) == 0)
    before[follows + 1], after[follows] = counts[follows], counts[follows + 1]
    return np.concatenate([before, after], axis=1)


def check_for_spans(options: "WeaSEL") -> None:
    """Refuse the options that are for labels of items."""
    wrong = {
        "encoder": isinstance(layers_of(options.encoder), GraphLayers),
        "encoding": options.encoding != "one_hot",
        "class_conditional": options.class_conditional,
        "statistics": bool(options.statistics),
        "loss": options.loss != "symmetric",
        "start": options.start is None,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ParameterError(
                "WeaSEL for spans learns a start first, with the symmetric loss and one-hot "
                f"votes, and has no graph, class-conditional weights or statistics: leave out "
                f"{name}={getattr(options, name)!r:.60}.",
                option=name,
            )


def start_for_spans(start: Any) -> LabelModel:
    """Return the label model to start from; the default one for items reads their features."""
    return HiddenMarkov() if isinstance(start, FeatureChecked) else start


def build_token_encoder(options: "WeaSEL", n_voters: int, n_tags: int, tau_1: float) -> VoteEncoder:
    """Return a new encoder for so many voters, and the one for silence."""
    n_columns, n_features = n_voters + 1, 2 * n_tags
    nodes = NodeShape(n_columns, encoded_width(1, n_tags, "one_hot"), n_features, 1)
    network = encoder_network(options.encoder, nodes, [])
    layers = layers_of(options.encoder)
    if layers is not None:
        # Until the last layer learns, all voters have the same weight.
        last = [part for part in network.modules() if isinstance(part, nn.Linear)][-1]
        nn.init.zeros_(last.weight)
    weighing = weighing_of(options, n_columns, n_features, n_tags, tau_1)
    encoder = VoteEncoder(network, n_columns, weighing)
    return encoder if layers is None or layers.trained else encoder.requires_grad_(False)


@torch.no_grad()
def weigh_tokens(
    model: "WeaSEL", votes: TokenVotes
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the weights of the voters and of silence, and the soft labels, by token."""
    blocks, n_tokens = TokenBlocks(votes), votes.n_tokens
    weights = np.empty((n_tokens, len(votes.voters) + 1))
    proba = np.empty((n_tokens, len(votes.labels.tags)))
    for start in range(0, n_tokens, _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, n_tokens))
        own, around = blocks.of(rows)
        found, logits = model.encoder_.soft_label(encode_votes(own, "one_hot", around), own)
        weights[rows] = found.double().numpy()
        proba[rows] = logits.double().softmax(dim=1).numpy()
    return weights, proba
