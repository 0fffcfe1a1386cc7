"""Taggers: networks that return the logits of a tag for each token of a text.

They read numbers of each token, by name (`TokenInputs`): of its word, its first and its last
letters, its shape, and the groups of letters in it. A number is a hash: a network takes its
remainder to choose a row of a table.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self
from zlib import crc32

import torch
from torch import Tensor, nn

from wiesel.nn.end_models import SHIPPED, ShippedModule

__all__ = ["GRAMS", "BiLSTMTagger", "LinearTagger", "TagChain", "view_hash"]

GRAMS = "grams"
"""The one input with several numbers for each token."""
_ROWS = {"words": 2**13, "prefixes": 2**11, "suffixes": 2**11, "shapes": 2**8, GRAMS: 2**13}
_LINEAR_ROWS = 2**16
_STEP = 30.0
"""A linear model of single words needs this much larger steps than a network."""
_CHAIN_STEP = 3.0
"""Scores of pairs of tags are few, and take larger steps than a network, too."""
_NEVER, _FAR = 1e-30, 30.0
_WIDTHS = {"words": 64, "prefixes": 16, "suffixes": 24, "shapes": 8, GRAMS: 64}


def view_hash(view: str, text: str) -> int:
    """Return the number of a text in one view of a word; it is positive, because 0 is padding.

    >>> view_hash("words", "ada") != view_hash("prefixes", "ada")
    True
    """
    return max(1, crc32(f"{view} {text}".encode()) & 0x7FFFFFFF)


class TagChain(nn.Module):
    r"""The last layer of a tagger: a tag depends on its neighbors (a linear-chain CRF).

    With s the scores of tags and T those of pairs, P(tags | text) is proportional to

        exp(sum over t of s[t, tag_t] + T[tag_{t-1}, tag_t])

    where `I-X` follows `B-X` or `I-X` only. Its logits are log P(tag of a token | text), found by
    the forward-backward algorithm. So their cross-entropy is trained, ensembles average them, and
    soft labels of tokens are all that it takes to learn from.

    >>> chain, mask = TagChain(3), torch.ones(1, 2, dtype=torch.bool)
    >>> proba = chain(torch.zeros(1, 2, 3), mask).exp()
    >>> [[round(share, 1) for share in token] for token in proba[0].tolist()]
    [[0.4, 0.6, 0.0], [0.4, 0.4, 0.2]]
    """

    def __init__(self, n_tags: int) -> None:
        super().__init__()
        self.pairs = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.first = nn.Parameter(torch.zeros(n_tags))

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return log P(tag | text): (items, tokens, tags); `mask` marks the places with a token."""
        if not scores.numel():
            return scores
        tags = torch.arange(len(self.first), device=scores.device)
        continues = (tags > 0) & (tags % 2 == 0)
        same_label = (tags[:, None] + 1) // 2 == (tags + 1) // 2
        weights = (_CHAIN_STEP * self.pairs).exp() * (same_label | ~continues)
        opens = (_CHAIN_STEP * self.first).exp() * ~continues
        both_ways = torch.stack([weights, weights.T])
        # One walk for both directions: the second reads the tokens backward.
        seen = torch.stack([scores, scores.flip(1)])
        held = torch.stack([mask, mask.flip(1)]).unsqueeze(-1)
        start = torch.stack([opens, torch.ones_like(opens)]).clamp(min=_NEVER).log()
        # What is known of a token before it is read, from the side where the walk comes from.
        known = start.unsqueeze(1).expand(seen[:, :, 0].shape)
        walked = [known]
        for step in range(scores.shape[1] - 1):
            read = known + seen[:, :, step]
            top = read.amax(dim=-1, keepdim=True).detach()
            moved = (read - top).exp() @ both_ways
            known = torch.where(held[:, :, step], moved.clamp(min=_NEVER).log(), known)
            walked.append(known)
        known = torch.stack(walked, dim=2)
        total = known[0] + scores + known[1].flip(1)
        # A soft label may give `I-X` to a first token: nothing is learned from the impossible.
        never = (total[:, :1, :1] - _FAR).detach().expand(-1, -1, len(continues))
        begins = torch.where(continues, never, total[:, :1])
        return torch.log_softmax(torch.cat([begins, total[:, 1:]], dim=1), dim=-1)


class BiLSTMTagger(ShippedModule):
    """A bidirectional LSTM on the numbers of words, beside a linear tagger.

    Their logits are added: the linear part learns words by heart, the LSTM what is around them.
    There is none with `sizes`, the rows of each table, or with `linear_rows=0`.
    The sums are the scores of a `TagChain`.

    >>> tagger = BiLSTMTagger(3, {"words": 100, "shapes": 9})
    >>> words = torch.ones(2, 5, dtype=torch.long)
    >>> tagger({"words": words, "shapes": words, "mask": words > 0}).shape
    torch.Size([2, 5, 3])
    """

    def __init__(
        self,
        n_tags: int,
        sizes: Mapping[str, int] | None = None,
        hidden: int = 48,
        dropout: float = 0.3,
        unknown: float = 0.1,
        vocabularies: Mapping[str, Sequence[str]] | None = None,
        linear_rows: int | None = None,
    ) -> None:
        super().__init__()
        # Taggers that were saved before there was a linear part have sizes.
        if linear_rows is None:
            linear_rows = _LINEAR_ROWS if sizes is None else 0
        sizes = dict(_ROWS if sizes is None else sizes)
        arguments: dict[str, Any] = {
            "n_tags": n_tags,
            "sizes": sizes,
            "hidden": hidden,
            "dropout": dropout,
            "unknown": unknown,
            "linear_rows": linear_rows,
            "chain": True,
        }
        self.unknown = unknown
        self.vocabularies = None
        if vocabularies is not None:
            arguments["vocabularies"] = {k: list(v) for k, v in vocabularies.items()}
            self.vocabularies = _Vocabularies(vocabularies)
        self.embeddings = nn.ModuleDict(
            {
                name: (nn.EmbeddingBag if name == GRAMS else nn.Embedding)(
                    n, _WIDTHS.get(name, 16), padding_idx=0
                )
                for name, n in sizes.items()
            }
        )
        width = sum(_WIDTHS.get(name, 16) for name in sizes)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, n_tags)
        self.linear = LinearTagger(n_tags, linear_rows, chain=False) if linear_rows else None
        self.chain: TagChain | None = TagChain(n_tags)
        self.made_with(**arguments)

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """Return a new tagger; one that was saved before there were chains has none."""
        given = {"chain": False, **arguments}
        has_chain = given.pop("chain")
        tagger = cls(**given)
        if not has_chain:
            tagger.chain = None
            tagger.made_with(**given, chain=False)
        return tagger

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the logits of a batch; `mask` marks the places with a token."""
        mask = inputs["mask"]
        parts = []
        for name, layer in self.embeddings.items():
            numbers = inputs[name]
            if self.vocabularies is not None:
                numbers = self.vocabularies.numbers(name, numbers)
            parts.append(_embedded(layer, self._seen(numbers)))
        read = self.dropout(torch.cat(parts, dim=-1))
        lengths = mask.sum(dim=1).clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            read, lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1]
        )
        logits: Tensor = self.head(self.dropout(states))
        if self.linear is not None:
            logits = logits + self.linear(inputs)
        return logits if self.chain is None else self.chain(logits, mask)

    def _seen(self, numbers: Tensor) -> Tensor:
        """In training, replace some tokens by the unknown token, so that the tagger learns it."""
        if not self.training or not self.unknown or numbers.ndim > 2:
            return numbers
        hidden = torch.rand(numbers.shape, device=numbers.device) < self.unknown
        return torch.where(hidden & (numbers > 0), torch.ones_like(numbers), numbers)


class LinearTagger(ShippedModule):
    """Logistic regression on a token, its letters, and the tokens around it; fast.

    Logits are multiplied by `step`, so that the learning rate of a network suits it. With `chain`,
    they are the scores of a `TagChain`.

    >>> tagger = LinearTagger(3)
    >>> words = torch.ones(2, 5, dtype=torch.long)
    >>> tagger({"words": words, "grams": words.unsqueeze(-1), "mask": words > 0}).shape
    torch.Size([2, 5, 3])
    """

    def __init__(
        self,
        n_tags: int,
        rows: int = _LINEAR_ROWS,
        window: int = 2,
        step: float = _STEP,
        chain: bool = True,
    ) -> None:
        super().__init__()
        self.window, self.step = window, step
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, n_tags, mode="sum", padding_idx=0) for _ in range(2 * window + 1)
        )
        for table in self.tables:
            nn.init.zeros_(table.weight)  # type: ignore[arg-type]
        self.bias = nn.Parameter(torch.zeros(n_tags))
        self.chain = TagChain(n_tags) if chain else None
        self.made_with(n_tags=n_tags, rows=rows, window=window, step=step, chain=chain)

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """Return a new tagger; one that was saved before there were chains has none."""
        return cls(**{"chain": False, **arguments})

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the logits of a batch; the letters of words count for the token itself only."""
        names = [name for name in inputs if name not in ("mask", "positions")]
        of_word = torch.stack([inputs[name] for name in names if name != GRAMS], dim=-1)
        logits: Tensor = self.bias
        for offset, table in zip(range(-self.window, self.window + 1), self.tables, strict=True):
            seen = [of_word, *([inputs[GRAMS]] if offset == 0 and GRAMS in names else [])]
            logits = logits + _moved(_embedded(table, torch.cat(seen, dim=-1)), -offset)
        logits = self.step * logits
        return logits if self.chain is None else self.chain(logits, inputs["mask"])


SHIPPED.update({cls.__name__: cls for cls in (BiLSTMTagger, LinearTagger)})


class _Vocabularies:
    """The numbers of words in a model that numbered the words of its training texts.

    Models of version 0.1 did: 2 and up are its words in their order, 1 is any other.
    """

    def __init__(self, vocabularies: Mapping[str, Sequence[str]]) -> None:
        self._known = {}
        for view, texts in vocabularies.items():
            hashes = torch.tensor([view_hash(view, text) for text in texts], dtype=torch.int64)
            self._known[view] = torch.sort(hashes)

    def numbers(self, view: str, hashes: Tensor) -> Tensor:
        """Return the number of each hash; 0, which is padding, stays 0."""
        known, order = self._known[view]
        if not len(known):
            return hashes.clamp(max=1)
        place = torch.searchsorted(known, hashes.cpu()).clamp(max=len(known) - 1)
        found = torch.where(known[place] == hashes.cpu(), order[place] + 2, 1).to(hashes.device)
        return torch.where(hashes > 0, found, hashes)


def _embedded(table: nn.Module, numbers: Tensor) -> Tensor:
    """The rows of a table for numbers of any size; a bag of them where a token has several."""
    rows: int = table.num_embeddings  # type: ignore[assignment]
    places = torch.where(numbers > 0, 1 + (numbers - 1) % (rows - 1), numbers)
    if numbers.ndim == 2:
        found: Tensor = table(places)
        return found
    bags: Tensor = table(places.reshape(-1, numbers.shape[-1]))
    return bags.view(*numbers.shape[:2], -1)


def _moved(values: Tensor, steps: int) -> Tensor:
    """Values (items, tokens, n) so many tokens later, zeros where there is none."""
    if not steps:
        return values
    moved = torch.zeros_like(values)
    if steps > 0:
        moved[:, steps:] = values[:, :-steps]
    else:
        moved[:, :steps] = values[:, -steps:]
    return moved
