"""The real data behind generated tasks: gold, words and features of a base, computed once.

Only rows of the training split are read, so generated tasks never see the validation or test
labels of a real set. Slow results (words, TF-IDF) are cached in a folder outside the repository:
`$XDG_CACHE_HOME/wiesel-tasks`, or `~/.cache/wiesel-tasks`.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from experiments.tasks.cards import CARDS, Card
from wiesel.datasets import load_dataset, load_movie_reviews
from wiesel.features import TextFeatures
from wiesel.io import Split

VERSION = 1
"""The version of the recipe below; a new version recomputes everything."""

N_COMPONENTS = 200
MAX_WORDS = 8000
MIN_COUNT = 5

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Base:
    """Items with gold, and the data that labeling functions and end models may read."""

    card: Card
    gold: npt.NDArray[np.int64]
    features: dict[str, Matrix]
    """Features by name: `tfidf`, `minilm`, `columns` (tables), `network` and `pixels` (images)."""
    words: sparse.csr_matrix | None = None
    """(n_items, n_words): 1 if the text contains the word or word pair."""
    lengths: npt.NDArray[np.int64] | None = None
    """The number of words in each text."""
    crossing: npt.NDArray[np.int64] | None = None
    """Another label of the same items, if there is one."""

    @property
    def best(self) -> Matrix:
        """The features used for threshold voters and sub-classes."""
        return self.features[self.card.features[0]]

    def __len__(self) -> int:
        return len(self.gold)


@lru_cache(maxsize=3)
def load_base(name: str) -> Base:
    """Return a base by name; missing parts are computed and cached."""
    card = CARDS[name]
    source = _Source(card)
    keep = _Keeper(cache_folder() / f"{name}-v{VERSION}-{source.fingerprint}")
    gold = keep.array("gold", source.gold)
    features = {kind: keep.array(kind, source.maker(kind)) for kind in card.features}
    if card.kind != "text":
        return Base(card, gold, features)
    return Base(
        card,
        gold,
        features,
        keep.words(source.words),
        keep.array("lengths", source.lengths),
        keep.array("crossing", source.crossing) if card.crossing else None,
    )


def cache_folder() -> Path:
    """Return the cache folder for base data, outside the repository."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "wiesel-tasks"


@dataclass
class _Source:
    """Reads the training split of a base when a cached part is missing."""

    card: Card
    _split: Split | None = field(default=None, init=False)

    @property
    def fingerprint(self) -> str:
        """A fingerprint of the data: other rows are another base."""
        files = [] if self.card.folder is None else [*self._folder().glob("*train*")]
        digest = hashlib.sha256(self.card.name.encode())
        for file in sorted(files):
            digest.update(f"{file.name} {file.stat().st_size}".encode())
        return digest.hexdigest()[:10]

    def gold(self) -> npt.NDArray[np.int64]:
        if self.card.name == "digits":
            return _digits().target.astype(np.int64)
        if self.card.name == "amazon_domains":
            return self._domains()
        return self.split.gold.astype(np.int64)

    def crossing(self) -> npt.NDArray[np.int64]:
        """The domain if the classes are sentiments, the sentiment if they are domains."""
        if self.card.name == "amazon_domains":
            return self.split.gold.astype(np.int64)
        return self._domains()

    def lengths(self) -> npt.NDArray[np.int64]:
        return np.array([len(text.split()) for text in self.split.texts])

    def words(self) -> sparse.csr_matrix:
        from sklearn.feature_extraction.text import CountVectorizer

        vectorizer = CountVectorizer(
            binary=True,
            ngram_range=(1, 2),
            min_df=MIN_COUNT,
            max_df=0.5,
            max_features=MAX_WORDS,
            dtype=np.int8,
        )
        return vectorizer.fit_transform(self.split.texts.to_list())

    def maker(self, kind: str) -> Callable[[], Matrix]:
        """Return the function that computes a kind of features."""
        return {
            "tfidf": self._tfidf,
            "minilm": self._stored,
            "columns": self._columns,
            "network": lambda: _compressed(self.split.features, 128),
            "pixels": self._pixels,
        }[kind]

    @property
    def split(self) -> Split:
        if self._split is None:
            if self.card.name == "movie_reviews":
                self._split = load_movie_reviews().train
            else:
                self._split = load_dataset(self.card.folder).train
        return self._split

    def _domains(self) -> npt.NDArray[np.int64]:
        names = self.split.rows["domain"].to_list()
        number = {name: place for place, name in enumerate(sorted(set(names)))}
        return np.array([number[name] for name in names])

    def _tfidf(self) -> Matrix:
        options = {"n_dimensions": N_COMPONENTS, "standardize": False}
        return TextFeatures("tfidf", **options).fit_transform(self.split.texts)

    def _stored(self) -> Matrix:
        return np.asarray(self.split.features, np.float32)

    def _columns(self) -> Matrix:
        X = np.asarray(self.split.features, np.float64)
        # E-mail frequencies and run lengths have long tails; a log scale suits thresholds.
        skewed = (X.min(axis=0) >= 0) & (X.max(axis=0) > 20 * np.abs(X).mean(axis=0))
        return np.where(skewed, np.log1p(np.maximum(X, 0)), X).astype(np.float32)

    def _pixels(self) -> Matrix:
        if self.card.name == "digits":
            return _digits().data.astype(np.float32)
        return _compressed(self.split.images.reshape(len(self.split), -1) / 255, 64)

    def _folder(self) -> Path:
        return Path(os.environ.get("WIESEL_DATA", "")) / str(self.card.folder)


class _Keeper:
    """Arrays of one folder; missing ones are computed and written atomically."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def array(self, name: str, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        file = self.folder / f"{name}.npy"
        if not file.exists():
            part = self.folder / f"{name}.{os.getpid()}.part.npy"
            np.save(part, make(), allow_pickle=False)
            part.replace(file)
        return np.load(file, allow_pickle=False)

    def words(self, make: Callable[[], sparse.csr_matrix]) -> sparse.csr_matrix:
        file = self.folder / "words.npz"
        if not file.exists():
            part = self.folder / f"words.{os.getpid()}.part.npz"
            sparse.save_npz(part, make())
            part.replace(file)
        return sparse.load_npz(file)


def _compressed(X: Any, n_columns: int) -> Matrix:
    from sklearn.decomposition import PCA

    return PCA(n_columns, random_state=0).fit_transform(np.asarray(X, np.float64)).astype("float32")


def _digits() -> Any:
    from sklearn.datasets import load_digits

    return load_digits()
