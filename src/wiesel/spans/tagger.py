"""A bidirectional LSTM that tags tokens, and wrappers to train any tagger token by token."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.errors import FeatureError
from wiesel.nn.end_models import logits_of
from wiesel.spans.documents import Documents

__all__ = ["BiLSTMTagger", "TokenInputs", "TokenLogits"]

_SIZES = {"words": 64, "prefixes": 16, "suffixes": 24, "shapes": 8}
"""The default embedding size of each input of a tagger."""


class BiLSTMTagger(nn.Module):
    """A bidirectional LSTM on the numbers of `WordFeatures`: logits (items, tokens, tags).

    >>> tagger = BiLSTMTagger({"words": 100, "shapes": 9}, n_tags=3)
    >>> words = torch.ones(2, 5, dtype=torch.long)
    >>> tagger({"words": words, "shapes": words, "mask": words > 0}).shape
    torch.Size([2, 5, 3])
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        n_tags: int,
        hidden: int = 96,
        dropout: float = 0.3,
        unknown: float = 0.1,
    ) -> None:
        super().__init__()
        self.arguments: dict[str, Any] = {
            "sizes": dict(sizes),
            "n_tags": n_tags,
            "hidden": hidden,
            "dropout": dropout,
            "unknown": unknown,
        }
        self.unknown = unknown
        self.embeddings = nn.ModuleDict(
            {
                name: nn.Embedding(n, _SIZES.get(name, 16), padding_idx=0)
                for name, n in sizes.items()
            }
        )
        width = sum(_SIZES.get(name, 16) for name in sizes)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, n_tags)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the logits of a batch; `mask` marks the places with a token."""
        mask = inputs["mask"]
        parts = [layer(self._seen(inputs[name])) for name, layer in self.embeddings.items()]
        read = self.dropout(torch.cat(parts, dim=-1))
        lengths = mask.sum(dim=1).clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            read, lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1]
        )
        logits: Tensor = self.head(self.dropout(states))
        return logits

    def _seen(self, numbers: Tensor) -> Tensor:
        """In training, replace some tokens by the unknown token, so that the tagger learns it."""
        if not self.training or not self.unknown:
            return numbers
        hidden = torch.rand(numbers.shape, device=numbers.device) < self.unknown
        return torch.where(hidden & (numbers > 0), torch.ones_like(numbers), numbers)


class TokenLogits(nn.Module):
    """Wraps a tagger to return one row of logits for each token, without the padding.

    The tagger gets a dict of tensors (items, tokens, ...) and `mask`, as keyword arguments if its
    `forward` has parameters with these names. It returns logits (items, tokens, tags).
    """

    def __init__(self, tagger: nn.Module, n_tags: int) -> None:
        super().__init__()
        self.tagger = tagger
        self.n_tags = n_tags

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return (n_tokens, n_tags), in the order of the documents."""
        mask = inputs["mask"]
        longest = int(mask.sum(dim=1).max()) if len(mask) else 0
        mask = mask[:, :longest]
        # A slice of a large batch is padded to the longest item of that batch.
        seen = {name: value[:, :longest] for name, value in inputs.items() if name != "positions"}
        logits = logits_of(self.tagger, seen)
        if logits.shape != (*mask.shape, self.n_tags):
            raise FeatureError(
                "A tagger returns logits (items, tokens, tags), here "
                f"{(*mask.shape, self.n_tags)}; got the shape {tuple(logits.shape)}."
            )
        return logits[mask]


class TokenInputs:
    """Sections of documents as items: the features of their tokens, padded batch by batch.

    A document with more than `length` tokens becomes several items; each token is in exactly one.
    """

    def __init__(
        self, features: Mapping[str, npt.NDArray[Any]], documents: Documents, length: int = 256
    ) -> None:
        if not isinstance(features, Mapping):
            raise FeatureError(
                "The features of a tagger must return a dict of arrays, with a row for each token; "
                f"got {type(features).__name__}."
            )
        for name, values in features.items():
            if not np.isfinite(values).all():
                row = int(np.argwhere(~np.isfinite(values))[0, 0])
                raise FeatureError(
                    f"The features {name!r} have NaN or infinity for token {row}; they must be "
                    "finite numbers."
                )
            if len(values) != documents.n_tokens:
                raise FeatureError(
                    f"The features {name!r} are of {len(values)} tokens; the documents have "
                    f"{documents.n_tokens}."
                )
        self._features = {
            name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in features.items()
        }
        counts = -(-documents.lengths // length)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        self._start = np.repeat(documents.pointers[:-1], counts) + number * length
        self._length = np.minimum(length, np.repeat(documents.pointers[1:], counts) - self._start)
        longest = int(self._length.max(initial=0))
        width = sum(v[0].numel() for v in self._features.values() if len(v))
        self.item_bytes = 8 * longest * (width + 2)

    def __len__(self) -> int:
        return len(self._start)

    def take(self, rows: npt.NDArray[np.int64]) -> dict[str, Tensor]:
        """Return some items, padded to the longest of them, with `mask` and token `positions`."""
        start, length = self._start[rows], self._length[rows]
        places = np.arange(length.max(initial=0))
        mask = places < length[:, None]
        positions = torch.from_numpy(np.where(mask, start[:, None] + places, 0))
        held = torch.from_numpy(mask)
        batch = {"mask": held, "positions": positions}
        for name, values in self._features.items():
            taken = values[positions]
            shown = held.reshape(*held.shape, *(1,) * (taken.ndim - 2))
            batch[name] = torch.where(shown, taken, torch.zeros_like(taken))
        return batch
