"""A tagger's features of each token: the word, its first and last letters, and its shape."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import SavedModelError
from wiesel.parameters import Parameterized, check_number
from wiesel.spans.documents import Documents

__all__ = ["WordFeatures"]

PADDING, UNKNOWN = 0, 1
_VIEWS: dict[str, Callable[[str], str]] = {
    "words": lambda word: re.sub(r"\d", "0", word.lower()),
    "prefixes": lambda word: word[:3].lower(),
    "suffixes": lambda word: word[-3:].lower(),
    "shapes": lambda word: _shape(word),
}
"""The views of a word."""


@dataclass(eq=False, kw_only=True)
class WordFeatures(Parameterized):
    """Numbers for the words of documents, learned from the training documents.

    Each token gets four numbers: its word in lower case (all digits are the same), its first and
    its last three letters, and its shape (`Ada` is `Xx`, `3.5` is `d.d`). 0 is padding, 1 is
    anything that is not frequent enough.

    >>> documents = Documents.from_texts(["Ada met Bob", "Bob met Ada"])
    >>> WordFeatures(min_count=2).fit(documents).transform(documents)["shapes"]
    array([2, 3, 2, 2, 3, 2])
    """

    min_count: int = 2
    """A word, or a part of one, gets its own number if it occurs at least this often."""
    max_words: int = 50_000
    """Only the most frequent words get a number."""

    vocabularies_: dict[str, list[str]] = field(init=False, repr=False)
    """The values seen for each view of a word, the most frequent first."""

    def fit(self, documents: Documents) -> Self:
        """Learn the vocabularies."""
        self.check_options()
        words = documents.words
        counts = np.bincount(words.codes, minlength=len(words.vocabulary)).tolist()
        self.vocabularies_ = {}
        for name, view in _VIEWS.items():
            total: Counter[str] = Counter()
            for word, count in zip(words.vocabulary, counts, strict=True):
                total[view(word)] += count
            frequent = [seen for seen, n in total.most_common() if n >= self.min_count]
            self.vocabularies_[name] = frequent[: self.max_words]
        return self

    def _check_options(self) -> None:
        check_number(self, "min_count", self.min_count, low=1, whole=True)
        check_number(self, "max_words", self.max_words, low=1, whole=True)

    def transform(self, documents: Documents) -> dict[str, npt.NDArray[np.int64]]:
        """Return the numbers of every token, (n_tokens,) for each view of a word."""
        words = documents.words
        found = {}
        for name, view in _VIEWS.items():
            known = {seen: k for k, seen in enumerate(self.vocabularies_[name], start=2)}
            codes = [known.get(view(word), UNKNOWN) for word in words.vocabulary]
            found[name] = np.array(codes, dtype=np.int64)[words.codes]
        return found

    @property
    def sizes(self) -> dict[str, int]:
        """How many numbers each view has, including padding and unknown."""
        return {name: len(seen) + 2 for name, seen in self.vocabularies_.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the options and the learned values as plain data."""
        return {"options": self.get_params(), "vocabularies": self.vocabularies_}

    @classmethod
    def from_dict(cls, state: Any) -> "WordFeatures":
        """Return the features that `to_dict` described."""
        try:
            features = cls(**state["options"])
            vocabularies = {name: list(state["vocabularies"][name]) for name in _VIEWS}
        except (KeyError, TypeError) as error:
            raise SavedModelError(f"The saved features cannot be read: {error!r}.") from error
        if not all(isinstance(word, str) for seen in vocabularies.values() for word in seen):
            raise SavedModelError("The saved vocabulary holds something that is not a word.")
        features.vocabularies_ = vocabularies
        return features


def _shape(word: str) -> str:
    """Letters as X and x, digits as d, runs collapsed into one, the rest unchanged."""
    kinds = (
        "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word[:20]
    )
    return re.sub(r"(.)\1+", r"\1", "".join(kinds))
