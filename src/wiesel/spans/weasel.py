"""SpanWeaSEL: an encoder for the votes on tokens, trained together with the tagger."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.label_models import LabelModel
from wiesel.nn import AGREEMENT_LOSSES, VoteEncoder, encode_votes, mlp_encoder, soft_cross_entropy
from wiesel.nn.encoders import EncoderLayers, Weighing, scale
from wiesel.parameters import check_number
from wiesel.spans.documents import Documents
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.training import SpanTagger, check_label_model, fitted_soft_labels, tokens_of
from wiesel.spans.votes import TokenVotes
from wiesel.training import Batch, Objective, TrainingData
from wiesel.votes import VoteMatrix

__all__ = ["SpanWeaSEL", "TokenEncoder"]

_AT_ONCE = 2**14
"""How many tokens have their votes made dense at once."""


@dataclass(eq=False, kw_only=True)
class SpanWeaSEL(SpanTagger):
    """WeaSEL on tokens: an encoder weights the votes on each token, and learns with the tagger.

    The encoder reads the votes on a token and on its two neighbors. An additional voter votes `O`
    on tokens without votes (`TokenVotes.with_silence`); otherwise `O` would hardly be seen. For
    `warm_up` epochs both networks learn the soft labels of `start`, then from each other.

    >>> from wiesel.spans import apply_span_lfs, gazetteer
    >>> documents = Documents.from_texts(["Ada met Bob", "Bob met Ada"] * 8)
    >>> votes = apply_span_lfs(gazetteer("PER", ["Ada", "Bob"]), documents, labels=["PER"])
    >>> model = SpanWeaSEL(epochs=10, lr=0.05, batch_size=4, progress=False).fit(votes)
    >>> [span[:3] for span in model.predict(["Ada met Bob"])[0]]
    [(0, 3, 'PER'), (8, 11, 'PER')]
    >>> model.soft_labels(votes).shape
    (48, 3)
    """

    start: LabelModel | HiddenMarkov = field(default_factory=HiddenMarkov)
    """The label model whose soft labels both networks learn first: `HiddenMarkov()`, or any label
    model, which then labels token by token."""
    warm_up: int = 2
    """The number of initial epochs in which both networks learn the soft labels of `start`."""
    hidden: tuple[int, ...] = (70, 70)
    """The hidden layers of the encoder."""

    encoder_: "TokenEncoder" = field(init=False, repr=False)
    """The trained encoder, on the CPU and in evaluation mode."""

    def soft_labels(self, votes: TokenVotes) -> npt.NDArray[np.float64]:
        """Return the encoder's soft label of every token: (n_tokens, n_tags)."""
        self.check_fitted()
        votes.votes.check_same_voters(self.voters_, self.labels_)
        blocks, n_tokens = _TokenBlocks(votes.with_silence()), votes.documents.n_tokens
        proba = np.empty((n_tokens, len(self.labels_)))
        with torch.no_grad():
            for start in range(0, n_tokens, _AT_ONCE):
                rows = np.arange(start, min(start + _AT_ONCE, n_tokens))
                proba[rows] = self.encoder_(*blocks.of(rows)).double().softmax(dim=1).numpy()
        return proba

    def _check_options(self) -> None:
        super()._check_options()
        check_number(self, "warm_up", self.warm_up, low=0, whole=True)
        check_label_model(self, "start")

    def _objective(self, end_model: nn.Module, votes: TokenVotes) -> Objective:
        _, soft_labels = fitted_soft_labels(self.start, votes)
        encoder = TokenEncoder(len(votes.voters) + 1, len(votes.labels.tags), self.hidden)
        blocks = _TokenBlocks(votes.with_silence())
        return WeaSELTokenObjective(end_model, encoder, blocks, soft_labels, self.warm_up)

    def _keep(self, objective: Any) -> None:
        self.encoder_ = objective.encoder.eval()


class TokenEncoder(nn.Module):
    """Log P(tag | votes on a token and on its neighbors), up to a constant.

    `n_voters` includes the additional voter of `with_silence`. There is no prior: it would be
    almost all `O`, which that voter already represents, and a sum of weights could hardly
    outweigh it.
    """

    def __init__(self, n_voters: int, n_tags: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        n_inputs = n_voters * (n_tags + 1) + 2 * n_tags
        network = mlp_encoder(n_inputs, n_voters, EncoderLayers(hidden=hidden))
        # Until the last layer learns, all voters have the same weight.
        nn.init.zeros_(network[-1].weight)  # type: ignore[arg-type]
        weighing = Weighing(tau_2=scale("classes", n_voters, n_inputs, n_tags), voting_only=True)
        self.weigh = VoteEncoder(network, n_voters, weighing)

    def forward(self, votes: Tensor, around: Tensor) -> Tensor:
        """Return the label logits of votes (tokens, voters, tags)."""
        return self.weigh.soft_label(encode_votes(votes, "one_hot", around), votes)[1]


class WeaSELTokenObjective(Objective):
    """The tagger and the encoder, and the losses that make them agree on every token."""

    soft_labels: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        encoder: TokenEncoder,
        blocks: "_TokenBlocks",
        soft_labels: npt.NDArray[np.float64],
        warm_up: int,
    ) -> None:
        super().__init__()
        self.end_model, self.encoder, self._blocks = end_model, encoder, blocks
        self.warm_up, self.warming = warm_up, warm_up > 0
        self.register_buffer("soft_labels", torch.from_numpy(soft_labels).float(), persistent=False)

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Set whether the networks still learn the initial soft labels."""
        self.warming = epoch <= self.warm_up

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the tagger and of the encoder."""
        tokens = tokens_of(batch)
        votes, around = self._blocks.of(tokens.cpu().numpy())
        label = self.encoder(votes.to(tokens.device), around.to(tokens.device))
        logits = self.end_model(batch.inputs)
        if self.warming:
            wanted = self.soft_labels[tokens]
            return {
                "end_model": soft_cross_entropy(logits, wanted),
                "encoder": soft_cross_entropy(label, wanted),
            }
        return AGREEMENT_LOSSES["symmetric"](logits, label)


class _TokenBlocks:
    """Votes on tokens in the encoder's form, some tokens at a time."""

    def __init__(self, votes: TokenVotes) -> None:
        self._votes: Any = votes.votes.one_hot()
        self._shape = (-1, votes.votes.n_voters, votes.votes.n_classes)
        self._around = _neighbors(votes.votes, votes.documents).astype(np.float32)

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
