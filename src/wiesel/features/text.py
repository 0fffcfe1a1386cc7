"""Turns texts into vectors; fitted on the training texts and saved as plain data."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, FeatureError, NotFittedError, SavedModelError, as_list
from wiesel.features.standardize import (
    FeatureState,
    Standardizer,
    StoredFeatures,
    check_kind,
    checked_names,
    finite_array,
)
from wiesel.io import replacing
from wiesel.parameters import Parameterized, check_choice, check_number
from wiesel.tables import require_columns

if TYPE_CHECKING:
    from wiesel.features.tfidf import TfidfOptions, TfidfWeights

__all__ = ["TextFeatures", "cached_array", "checked_texts", "fingerprint", "text_column"]

_AT_ONCE = 20_000
"""How many texts become vectors together: their words take more memory than the vectors."""


@dataclass(eq=False)
class TextFeatures(StoredFeatures, Parameterized):
    """Turns texts into vectors, by their words (`tfidf`) or by their meaning (`minilm`).

    `tfidf`: TF-IDF weights, compressed by truncated SVD (of more than 50,000 texts, that of evenly
    spaced 50,000). Fast and for any language, but limited to the words seen in `fit`. `minilm`:
    sentence embeddings of a pretrained network (all-MiniLM-L6-v2, English, the first 256 tokens;
    extra `text`). Much slower, but better if there is little text.

    >>> features = TextFeatures("tfidf", n_dimensions=2, min_count=1)
    >>> X = features.fit_transform(["good film", "bad film", "good plot", "bad plot"])
    >>> X.shape, features.transform(["a good film"]).dtype
    ((4, 2), dtype('float32'))
    """

    kind: Literal["tfidf", "minilm"] = "tfidf"
    """Words (`tfidf`) or sentence embeddings (`minilm`)."""
    _: KW_ONLY
    n_dimensions: int = 300
    """`tfidf`: the maximum length of the vectors."""
    max_terms: int = 20_000
    """`tfidf`: the maximum number of terms; the most frequent are used."""
    min_count: int = 2
    """`tfidf`: the minimum number of texts that contain a term."""
    longest_phrase: int = 1
    """`tfidf`: the maximum number of words of a term; 2 includes pairs of neighboring words."""
    standardize: bool = True
    """Scale every column to mean 0 and standard deviation 1 on the texts of `fit`."""
    seed: int = 0
    """`tfidf`: the seed of the randomized SVD."""
    cache: str | PathLike[str] | None = None
    """A folder that caches vectors before standardization, so that they are computed only once."""

    standardizer_: Standardizer | None = field(init=False, repr=False)
    """The mean and standard deviation of each column; None with `standardize=False`."""
    weights_: "TfidfWeights | None" = field(init=False, repr=False)
    """`tfidf`: terms, IDF weights and directions; None for `minilm`, which learns nothing."""

    @property
    def n_features(self) -> int:
        """The length of the vectors."""
        self.check_fitted()
        if self.weights_ is not None:
            return len(self.weights_.components)
        from wiesel.features.minilm import N_DIMENSIONS

        return N_DIMENSIONS

    def fit(self, texts: Any, y: Any = None) -> Self:
        """Learn from the training texts: a list or a Polars Series."""
        self._fit(_text_sequence(texts))
        return self

    def fit_transform(self, texts: Any, y: Any = None) -> npt.NDArray[np.float32]:
        """Learn from the training texts and return their vectors."""
        documents = _text_sequence(texts)
        vectors = self._fit(documents)
        if len(vectors) < len(documents):
            return self.transform(documents)
        return self._standardized(vectors)

    def transform(self, texts: Any) -> npt.NDArray[np.float32]:
        """Return the vectors of texts: (n_items, n_features), float32."""
        self.check_fitted()
        documents = _text_sequence(texts)
        if self.weights_ is None or self.cache is not None or len(documents) <= _AT_ONCE:
            if not len(documents):
                return np.empty((0, self.n_features), np.float32)
            return self._standardized(self._vectors(documents))
        vectors = np.empty((len(documents), self.n_features), np.float32)
        for start in range(0, len(documents), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            vectors[block] = self._standardized(self._vectors(documents[block]))
        return vectors

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        if not hasattr(self, "standardizer_"):
            raise NotFittedError("These TextFeatures are not fitted yet: call fit(texts) first.")

    def to_state(self) -> FeatureState:
        """Return the options and the fitted values as plain data."""
        self.check_fitted()
        options = {name: value for name, value in self.get_params().items() if name != "cache"}
        settings: dict[str, Any] = {"kind": "text", "options": options}
        arrays: dict[str, npt.NDArray[Any]] = {}
        if self.weights_ is not None:
            settings["terms"] = list(self.weights_.terms)
            arrays |= {"idf": self.weights_.idf, "components": self.weights_.components}
        if self.standardizer_ is not None:
            arrays |= self.standardizer_.to_state().arrays
        return FeatureState(settings, arrays)

    @classmethod
    def from_state(
        cls, state: FeatureState, cache: str | PathLike[str] | None = None
    ) -> "TextFeatures":
        """Return the fitted features from the result of `to_state`."""
        check_kind(state, "text", settings=("options",))
        features = cls(**_checked_options(cls, state.settings["options"]), cache=cache)
        features.check_options()
        features.weights_ = _saved_weights(state) if features.kind == "tfidf" else None
        features.standardizer_ = None
        if features.standardize:
            scaling = FeatureState({"kind": "standardizer"}, state.arrays)
            features.standardizer_ = Standardizer.from_state(scaling)
            if len(features.standardizer_.mean_) != features.n_features:
                raise SavedModelError("The saved features disagree on the length of the vectors.")
        return features

    def _n_columns(self) -> int:
        return self.n_features

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "kind", self.kind, ("tfidf", "minilm"))
        for name in ("n_dimensions", "max_terms", "min_count"):
            check_number(self, name, getattr(self, name), low=1, whole=True)
        check_number(self, "longest_phrase", self.longest_phrase, low=1, high=20, whole=True)
        check_number(self, "seed", self.seed, low=0, whole=True)

    def _standardized(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return vectors if self.standardizer_ is None else self.standardizer_.transform(vectors)

    def _fit(self, documents: Sequence[str]) -> npt.NDArray[np.float32]:
        """Learn, and return the vectors that the scale was learned from: of all, or of a sample."""
        self.check_options()
        if not len(documents):
            raise FeatureError("TextFeatures needs at least one text to fit on; got none.")
        vectors = self._fit_tfidf(documents) if self.kind == "tfidf" else self._embed(documents)
        self.standardizer_ = Standardizer().fit(vectors) if self.standardize else None
        return vectors

    def _fit_tfidf(self, documents: Sequence[str]) -> npt.NDArray[np.float32]:
        from wiesel.features.tfidf import fit_tfidf

        self.weights_, vectors = fit_tfidf(documents, self.tfidf_options())
        return vectors

    def tfidf_options(self) -> "TfidfOptions":
        """Return the options of `tfidf`."""
        from wiesel.features.tfidf import TfidfOptions

        return TfidfOptions(
            self.n_dimensions, self.max_terms, self.min_count, self.longest_phrase, self.seed
        )

    def _embed(self, documents: Sequence[str]) -> npt.NDArray[np.float32]:
        from wiesel.features.minilm import embed, model_version

        self.weights_ = None
        settings = {"kind": "minilm", "model": model_version()}
        return cached_array(
            self.cache,
            lambda: f"minilm-{fingerprint(settings, texts=documents)}",
            lambda: embed(documents),
        )

    def _vectors(self, documents: Sequence[str]) -> npt.NDArray[np.float32]:
        from wiesel.features.tfidf import transform_tfidf

        weights = self.weights_
        if weights is None:
            return self._embed(documents)
        settings = {**asdict(self.tfidf_options()), "terms": weights.terms}
        arrays = (weights.idf, weights.components)
        return cached_array(
            self.cache,
            lambda: f"tfidf-{fingerprint(settings, arrays, documents)}",
            lambda: transform_tfidf(documents, weights, self.longest_phrase),
        )


def _text_sequence(texts: Any) -> Sequence[str]:
    """Texts to be read in blocks; a column of texts stays as it is, which takes less memory."""
    if isinstance(texts, pl.Series) and texts.dtype == pl.String and not texts.null_count():
        return texts  # type: ignore[return-value]
    return checked_texts(texts)


def checked_texts(texts: Any) -> list[str]:
    """Return texts as a list. The error names the first row that is not a text."""
    if isinstance(texts, str):
        raise FeatureError(
            f"Texts are given as a list or a column, not as one string: [{texts[:40]!r}]."
        )
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        # The elements of a table of pandas, and of a dict, are the names of its columns.
        raise FeatureError(
            "Texts are given as a list or a column, not as a table: name the column of texts, "
            f"as in table[{next(iter(getattr(texts, 'columns', texts)), 'text')!r}]."
        )
    documents = as_list(
        texts.to_list() if hasattr(texts, "to_list") else texts, "Texts", "['hello']", FeatureError
    )
    for row, text in enumerate(documents):
        if not isinstance(text, str):
            raise FeatureError(
                f"The text of row {row} is {text!r}; every item needs a text. "
                "Put '' where there is none."
            )
    return documents


def text_column(rows: pl.DataFrame, column: str, purpose: str = "the text") -> pl.Series:
    """Return the text column of a table; a missing text becomes an empty string.

    >>> text_column(pl.DataFrame({"text": ["free prize", None]}), "text").to_list()
    ['free prize', '']
    """
    require_columns(rows, [column], purpose)
    texts = rows[column]
    gone = texts.dtype.is_float() and bool(np.isnan(texts.to_numpy()).all())
    if gone or texts.null_count() == len(texts):
        # Where all texts of a batch are missing, nothing tells their type.
        return pl.Series(column, [""] * len(texts), pl.String)
    if texts.dtype != pl.String:
        raise DataError(
            f"The column {column!r} holds {texts.dtype}, not text. Where texts look like numbers, "
            "write the rows as JSONL or Parquet, with that column as text."
        )
    if not texts.null_count():
        return texts
    # Not `fill_null`, which needs threads that a forked process does not have.
    return pl.Series(column, ["" if text is None else text for text in texts], pl.String)


def _checked_options(cls: type[TextFeatures], options: Any) -> dict[str, Any]:
    allowed = set(cls.option_names()) - {"cache"}
    if not isinstance(options, dict) or set(options) != allowed:
        raise SavedModelError(
            f"The saved options of TextFeatures are not the known ones: {options!r:.200}"
        )
    return options


def _saved_weights(state: FeatureState) -> "TfidfWeights":
    from wiesel.features.tfidf import TfidfWeights

    check_kind(state, "text", settings=("terms",), arrays=("idf", "components"))
    terms = checked_names(state.settings["terms"], "terms")
    idf, components = state.arrays["idf"], state.arrays["components"]
    if idf.shape != (len(terms),) or components.ndim != 2 or components.shape[1] != len(terms):
        raise SavedModelError("The saved terms, their rarity and the directions differ in length.")
    finite_array(state, "idf", (len(terms),))
    components = finite_array(state, "components", (None, len(terms)))
    return TfidfWeights(terms, idf, np.asfortranarray(components))


def fingerprint(
    settings: Mapping[str, Any], arrays: Iterable[npt.NDArray[Any]] = (), texts: Iterable[str] = ()
) -> str:
    """Return a name for inputs: equal inputs have equal names on every machine.

    >>> fingerprint({"seed": 0}, texts=["a", "bc"]) == fingerprint({"seed": 0}, texts=["ab", "c"])
    False
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()[:32]


def cached_array(
    folder: str | PathLike[str] | None,
    name: Callable[[], str],
    compute: Callable[[], npt.NDArray[np.float32]],
) -> npt.NDArray[np.float32]:
    """Return `compute()`, cached in a file in `folder` and memory-mapped on later calls.

    Without a folder, nothing is cached. A damaged file is computed again.
    """
    if folder is None:
        return compute()
    file = Path(folder) / f"{name()}.npy"
    stored = _stored(file)
    if stored is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary, temporary.open("wb") as handle:
            np.save(handle, compute())
        stored = np.load(file, mmap_mode="r", allow_pickle=False)
    return stored


def _stored(file: Path) -> npt.NDArray[np.float32] | None:
    if not file.exists():
        return None
    try:
        found: npt.NDArray[np.float32] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return None
    return found
