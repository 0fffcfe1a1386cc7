"""Turns texts into token ids, for networks that read words in order."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError, MissingExtraError, NotFittedError, SavedModelError
from wiesel.features.standardize import FeatureState, StoredFeatures, check_kind, checked_names
from wiesel.features.text import checked_texts
from wiesel.parameters import Parameterized, check_number

__all__ = ["TokenFeatures"]

_WORD = re.compile(r"\w+|[^\w\s]")
_FIRST_WORD = 2
"""0 is padding, 1 an unknown word."""
_LONGEST = 100_000
"""The maximum length: even a short text takes memory for all tokens."""


@dataclass(eq=False)
class TokenFeatures(StoredFeatures, Parameterized):
    """Turns texts into sequences of token ids, truncated or padded to the same length.

    By default it learns a vocabulary from the training texts and returns one array (0 is padding, 1
    an unknown word) for the end model `lstm`. With the folder of a Hugging Face tokenizer
    (`tokenizer.json`), it returns `input_ids` and `attention_mask` for `transformer:PATH`.

    >>> features = TokenFeatures(length=4, min_count=1)
    >>> features.fit_transform(["a good film", "a bad, bad film"])
    array([[2, 5, 3, 0],
           [2, 4, 6, 4]])
    """

    tokenizer: str | PathLike[str] | None = None
    """A folder with a `tokenizer.json`; None to learn a vocabulary of words."""
    _: KW_ONLY
    length: int = 128
    """The maximum number of tokens per text."""
    max_terms: int = 20_000
    """Words: the maximum size of the vocabulary."""
    min_count: int = 2
    """Words: the minimum number of occurrences."""

    vocabulary_: tuple[str, ...] = field(init=False, repr=False)
    """The words, most frequent first; empty with a tokenizer."""
    tokenizer_: str = field(init=False, repr=False)
    """The content of `tokenizer.json`; empty without a tokenizer."""

    def fit(self, texts: Any, y: Any = None) -> Self:
        """Learn the vocabulary of the training texts, or read the tokenizer."""
        self.check_options()
        self.tokenizer_ = "" if self.tokenizer is None else _tokenizer_json(Path(self.tokenizer))
        self.vocabulary_ = ()
        if not self.tokenizer_:
            counts = Counter(word for text in checked_texts(texts) for word in _words(text))
            frequent = [word for word, n in counts.most_common() if n >= self.min_count]
            self.vocabulary_ = tuple(frequent[: self.max_terms])
        return self

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "length", self.length, low=1, high=_LONGEST, whole=True)
        for name in ("max_terms", "min_count"):
            check_number(self, name, getattr(self, name), low=1, whole=True)

    def transform(self, texts: Any) -> Any:
        """Return token ids: (n_items, length), or a dict of such arrays with a tokenizer."""
        self.check_fitted()
        documents = checked_texts(texts)
        if self.tokenizer_:
            return self._tokenized(documents)
        number = {word: place for place, word in enumerate(self.vocabulary_, start=_FIRST_WORD)}
        return self._padded([number.get(word, 1) for word in _words(text)] for text in documents)

    def fit_transform(self, texts: Any, y: Any = None) -> Any:
        """Return `fit(texts).transform(texts)`."""
        return self.fit(texts).transform(texts)

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        if not hasattr(self, "vocabulary_"):
            raise NotFittedError("These TokenFeatures are not fitted yet: call fit(texts) first.")

    def _n_columns(self) -> int:
        return self.length

    def to_state(self) -> FeatureState:
        """Return the options and the fitted values as plain data."""
        self.check_fitted()
        settings = {
            "kind": "tokens",
            "length": self.length,
            "vocabulary": list(self.vocabulary_),
            "tokenizer": self.tokenizer_,
        }
        return FeatureState(settings, {})

    @classmethod
    def from_state(cls, state: FeatureState) -> "TokenFeatures":
        """Return the fitted features from the result of `to_state`."""
        check_kind(state, "tokens", settings=("length", "vocabulary", "tokenizer"))
        features = cls(length=state.settings["length"])
        check_number(features, "length", features.length, low=1, high=_LONGEST, whole=True)
        features.vocabulary_ = checked_names(state.settings["vocabulary"], "words")
        features.tokenizer_ = state.settings["tokenizer"]
        if not isinstance(features.tokenizer_, str):
            raise SavedModelError("The saved tokenizer is not text.")
        return features

    def _padded(self, sequences: Iterable[list[int]]) -> npt.NDArray[np.int64]:
        rows = [sequence[: self.length] for sequence in sequences]
        ids = np.zeros((len(rows), self.length), dtype=np.int64)
        for row, sequence in enumerate(rows):
            ids[row, : len(sequence)] = sequence
        return ids

    def _tokenized(self, documents: list[str]) -> dict[str, npt.NDArray[np.int64]]:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingExtraError(
                "A Hugging Face tokenizer needs an extra: pip install 'wiesel[transformers]'"
            ) from None
        try:
            tokenizer = Tokenizer.from_str(self.tokenizer_)
        except Exception as error:
            raise FeatureError(f"The tokenizer cannot be read: {error}.") from error
        tokenizer.enable_truncation(self.length)
        tokenizer.no_padding()
        encoded = tokenizer.encode_batch(documents)
        mask = self._padded([1] * len(encoding.ids) for encoding in encoded)
        ids = self._padded(encoding.ids for encoding in encoded)
        return {"input_ids": ids, "attention_mask": mask}


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _tokenizer_json(folder: Path) -> str:
    file = folder / "tokenizer.json"
    try:
        text = file.read_text(encoding="utf-8")
        json.loads(text)
    except (OSError, ValueError) as error:
        raise FeatureError(f"{file} cannot be read as a tokenizer: {error}.") from error
    return text
