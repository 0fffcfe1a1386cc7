"""Converts labels of spans to BIO tags of tokens, and back.

`B-X` begins a span of label X, `I-X` continues it, `O` is outside of all spans. `I-X` may follow
only `B-X` or `I-X`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError, ParameterError, as_list, listed, suggest
from wiesel.labels import LabelSpace

__all__ = ["OUTSIDE", "Span", "SpanLabels", "legal_tags", "runs_of_tags", "tags_of_runs"]

OUTSIDE = "O"
"""The tag of tokens outside of all spans."""
_RESERVED = (OUTSIDE, "all")
"""Names that no label can have: in figures, `all` stands for the spans of all labels."""


class Span(NamedTuple):
    """A part of a text: characters `start` up to, not including, `end`.

    >>> Span(0, 3, "PER").label
    'PER'
    """

    start: int
    end: int
    label: str
    confidence: float | None = None
    """The confidence of the source; None if unknown."""


@dataclass(frozen=True)
class SpanLabels:
    """The labels of spans, in order, and their BIO tags for tokens.

    >>> labels = SpanLabels(("PER", "LOC"))
    >>> labels.tags.names
    ('O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC')
    >>> SpanLabels.of_tags(labels.tags) == labels
    True
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            if not isinstance(name, str) or name in ("", *_RESERVED):
                raise ParameterError(
                    f"Labels of spans are non-empty strings other than {listed(_RESERVED)}; got "
                    f"{name!r}. Give it another name."
                )
        if not self.names or len(set(self.names)) < len(self.names):
            given = listed(self.names) or "none"
            raise ParameterError(f"Spans need at least one label, each named once; got {given}.")

    @classmethod
    def of(cls, labels: "SpanLabels | LabelSpace | Sequence[str] | str") -> "SpanLabels":
        """Return the labels of a sequence of names; `O` among them is implied and left out."""
        if isinstance(labels, SpanLabels):
            return labels
        if isinstance(labels, str):
            return cls((labels,))
        names = as_list(labels, "Labels of spans", "['PER', 'LOC']", ParameterError)
        return cls(tuple(name for name in names if not isinstance(name, str) or name != OUTSIDE))

    @classmethod
    def of_tags(cls, tags: LabelSpace) -> "SpanLabels":
        """Return the labels with these tags, or raise an error if they are not BIO tags."""
        names = tuple(name[2:] for name in tags if name.startswith("B-"))
        if names and tags.names == cls(names).tags.names:
            return cls(names)
        raise DataError(
            f"These are not BIO tags: {listed(tags)}. They are 'O', then 'B-X' and 'I-X' for each "
            "label X."
        )

    @cached_property
    def tags(self) -> LabelSpace:
        """The BIO tags: `O`, then `B-X` and `I-X` for each label X."""
        pairs = [f"{part}-{name}" for name in self.names for part in "BI"]
        return LabelSpace(OUTSIDE, *pairs)

    def index(self, label: str) -> int:
        """Return the index of a label."""
        if label not in self.names:
            raise DataError(f"{label!r} is not a span label. {suggest(label, self.names)}")
        return self.names.index(label)

    @cached_property
    def allowed(self) -> npt.NDArray[np.bool_]:
        """(tag, next tag): which tag may follow which."""
        n_tags = 2 * len(self.names) + 1
        allowed = np.ones((n_tags, n_tags), dtype=bool)
        for inside in range(2, n_tags, 2):
            allowed[:, inside] = False
            allowed[[inside - 1, inside], inside] = True
        return allowed

    @cached_property
    def allowed_first(self) -> npt.NDArray[np.bool_]:
        """The tags that the first token may have: all but `I-X`."""
        return ~self.continues

    @cached_property
    def continues(self) -> npt.NDArray[np.bool_]:
        """Which tags continue a span: `I-X`."""
        tag = np.arange(2 * len(self.names) + 1)
        return (tag > 0) & (tag % 2 == 0)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)


class Runs(NamedTuple):
    """Spans as tokens: from `first` up to, not including, `last`, with the label index `label`."""

    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]


def tags_of_runs(runs: Runs, n_tokens: int) -> npt.NDArray[np.int64]:
    """Return the tag of every token; runs must not overlap.

    >>> tags_of_runs(Runs(np.array([1]), np.array([3]), np.array([0])), 4)
    array([0, 1, 2, 0])
    """
    tags = np.zeros(n_tokens, dtype=np.int64)
    tokens, label = tokens_of_runs(runs)
    tags[tokens] = 2 * label + 2
    tags[runs.first] = 2 * runs.label + 1
    return tags


def tokens_of_runs(runs: Runs) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return every token of every run, and the label of its run."""
    lengths = runs.last - runs.first
    starts = np.repeat(runs.first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.arange(lengths.sum()) + starts, np.repeat(runs.label, lengths)


def runs_of_tags(tags: npt.NDArray[np.int64], pointers: npt.NDArray[np.int64]) -> Runs:
    """Return the spans of tags, document by document.

    An `I-X` that follows neither `B-X` nor `I-X` begins a span, as in old IOB1 files.

    >>> runs_of_tags(np.array([1, 2, 0, 2]), np.array([0, 4])).first
    array([0, 3])
    """
    label = (tags + 1) // 2 - 1
    before = np.roll(label, 1)
    before[pointers[:-1][pointers[:-1] < len(tags)]] = -1
    begins = (label >= 0) & ((tags % 2 == 1) | (before != label))
    first = np.flatnonzero(begins)
    # A run ends where another run, an outside token or the next document begins.
    stops = np.flatnonzero(begins | (label < 0))
    stops = np.union1d(stops, pointers)
    last = stops[np.searchsorted(stops, first, side="right")]
    return Runs(first, last, label[first])


def legal_tags(
    log_proba: npt.NDArray[np.float64], pointers: npt.NDArray[np.int64], labels: SpanLabels
) -> npt.NDArray[np.int64]:
    """Return the most probable tags that are legal BIO, by Viterbi's algorithm.

    `log_proba` is (n_tokens, n_tags). A document whose most probable tags are already legal keeps
    them; only the others are searched.
    """
    best = log_proba.argmax(axis=1)
    legal = labels.allowed[np.roll(best, 1), best]
    starts = pointers[:-1][np.diff(pointers) > 0]
    legal[starts] = labels.allowed_first[best[starts]]
    document = np.searchsorted(pointers, np.flatnonzero(~legal), side="right") - 1
    for number in np.unique(document).tolist():
        rows = slice(pointers[number], pointers[number + 1])
        best[rows] = _best_path(log_proba[rows], labels)
    return best


def _best_path(log_proba: npt.NDArray[np.float64], labels: SpanLabels) -> npt.NDArray[np.int64]:
    """The path of tags with the largest sum, for one document."""
    step = np.where(labels.allowed, 0.0, -np.inf)
    score = np.where(labels.allowed_first, log_proba[0], -np.inf)
    came_from = np.zeros(log_proba.shape, dtype=np.int64)
    columns = np.arange(log_proba.shape[1])
    for token in range(1, len(log_proba)):
        options = score[:, None] + step
        came_from[token] = options.argmax(axis=0)
        score = options[came_from[token], columns] + log_proba[token]
    path = np.empty(len(log_proba), dtype=np.int64)
    path[-1] = score.argmax()
    for token in range(len(log_proba) - 1, 0, -1):
        path[token - 1] = came_from[token, path[token]]
    return path
