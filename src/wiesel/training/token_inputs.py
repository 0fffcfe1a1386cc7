"""The inputs of a tagger: sections of documents, and numbers for each of their tokens."""

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wiesel.errors import FeatureError
from wiesel.nn.taggers import GRAMS, view_hash
from wiesel.spans.documents import Documents

__all__ = ["TokenInputs"]

_LENGTH = 48
"""The most tokens of a section: with about as many, a step on 64 items reads some 2,000 tokens."""
_MOST_GRAMS = 24
_ENDS = (".", "!", "?", "\n")
"""Tokens after which a section may end early: most of them end a sentence."""


class TokenInputs:
    """Sections of documents as items: numbers of their tokens, padded batch by batch.

    A document with more than `length` tokens becomes several items, which end with a sentence where
    they can; each token is in exactly one. Each token has a number for its word in lower case (all
    digits are the same), its first and its last three letters, its shape (`Ada` is `Xx`, `3.5` is
    `d.d`), and for every group of three to five letters in it. `features` replaces these: arrays by
    name, with a row for each token.

    >>> documents = Documents.from_texts(["Ada met Bob", "", "So did I"])
    >>> inputs = TokenInputs(documents)
    >>> len(inputs), inputs.n_tokens, sorted(inputs.take(np.arange(1)))
    (2, 6, ['grams', 'mask', 'positions', 'prefixes', 'shapes', 'suffixes', 'words'])
    """

    def __init__(
        self,
        documents: Documents,
        features: Mapping[str, npt.NDArray[Any]] | None = None,
        length: int = _LENGTH,
    ) -> None:
        self.documents = documents
        if features is None:
            views: Mapping[str, npt.NDArray[Any]]
            views, self._row = _views_of_words(documents)
        else:
            views, self._row = _checked(features, documents), np.arange(documents.n_tokens)
        self._views = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in views.items()}
        self._start, self._length = _sections(documents, length)
        longest = int(self._length.max(initial=0))
        width = sum(v[0].numel() for v in self._views.values() if len(v))
        self.item_bytes = 8 * longest * (width + 2)

    def __len__(self) -> int:
        return len(self._start)

    @property
    def n_tokens(self) -> int:
        """The number of tokens in all documents."""
        return self.documents.n_tokens

    def take(self, rows: npt.NDArray[np.int64]) -> dict[str, Tensor]:
        """Return some items, padded to the longest of them, with `mask` and token `positions`."""
        start, length = self._start[rows], self._length[rows]
        places = np.arange(length.max(initial=0))
        mask = places < length[:, None]
        positions = np.where(mask, start[:, None] + places, 0)
        held, row = torch.from_numpy(mask), torch.from_numpy(self._row[positions])
        batch = {"mask": held, "positions": torch.from_numpy(positions)}
        for name, values in self._views.items():
            taken = values[row]
            shown = held.reshape(*held.shape, *(1,) * (taken.ndim - 2))
            batch[name] = torch.where(shown, taken, torch.zeros_like(taken))
        return batch


def _checked(
    features: Mapping[str, npt.NDArray[Any]], documents: Documents
) -> Mapping[str, npt.NDArray[Any]]:
    if not isinstance(features, Mapping):
        raise FeatureError(
            "The features of tokens are a dict of arrays, with a row for each token; got "
            f"{type(features).__name__}."
        )
    for name, values in features.items():
        if len(values) != documents.n_tokens:
            raise FeatureError(
                f"The features {name!r} are of {len(values)} tokens; the documents have "
                f"{documents.n_tokens}."
            )
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            raise FeatureError(
                f"The features {name!r} have NaN or infinity for token {row}; they must be "
                "finite numbers."
            )
    return features


def _views_of_words(
    documents: Documents,
) -> tuple[dict[str, npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    """The numbers of each distinct word, and the word of each token."""
    words = documents.words
    known: dict[str, dict[str, int]] = {name: {} for name in (*_VIEWS, GRAMS)}

    def number(view: str, text: str) -> int:
        seen = known[view]
        if text not in seen:
            seen[text] = view_hash(view, text)
        return seen[text]

    found = {
        name: np.array([number(name, view(word)) for word in words.vocabulary], dtype=np.int64)
        for name, view in _VIEWS.items()
    }
    grams = np.zeros((len(words.vocabulary), _MOST_GRAMS), dtype=np.int64)
    for row, word in enumerate(words.vocabulary):
        own = _grams(word)
        grams[row, : len(own)] = [number(GRAMS, gram) for gram in own]
    return {**found, GRAMS: grams}, words.codes.astype(np.int64)


def _sections(
    documents: Documents, length: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first token and the length of every section."""
    words = documents.words
    ends = np.array([word in _ENDS for word in words.vocabulary], dtype=bool)[words.codes]
    sections = []
    for start, stop in itertools.pairwise(documents.pointers.tolist()):
        while stop - start > length:
            last = np.flatnonzero(ends[start : start + length])
            n_tokens = int(last[-1]) + 1 if len(last) else length
            sections.append((start, n_tokens))
            start += n_tokens
        if stop > start:
            sections.append((start, stop - start))
    table = np.array(sections, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _lower(word: str) -> str:
    return re.sub(r"\d", "0", word.lower())


def _shape(word: str) -> str:
    """Letters as X and x, digits as d, runs collapsed into one, the rest unchanged."""
    kinds = (
        "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word[:20]
    )
    return re.sub(r"(.)\1+", r"\1", "".join(kinds))


def _grams(word: str) -> list[str]:
    """Three to five letters in a row, with marks of the word's ends.

    >>> _grams("Bob")
    ['<bo', 'bob', 'ob>', '<bob', 'bob>', '<bob>']
    """
    marked = f"<{_lower(word)}>"
    found = [marked[k : k + n] for n in (3, 4, 5) for k in range(len(marked) - n + 1)]
    return found[:_MOST_GRAMS]


_VIEWS: dict[str, Callable[[str], str]] = {
    "words": _lower,
    "prefixes": lambda word: word[:3].lower(),
    "suffixes": lambda word: word[-3:].lower(),
    "shapes": _shape,
}
"""The views of a word that give one number."""
