"""Span functions: they read a document and mark parts of its text, or abstain."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError, VoteError, listed
from wiesel.lfs.failures import Failure
from wiesel.spans.documents import Document, Documents
from wiesel.spans.reading import runs_of_spans, without_overlaps
from wiesel.spans.tags import OUTSIDE, Runs, Span, SpanLabels
from wiesel.tables import in_order_of

__all__ = [
    "GivenSpans",
    "Marks",
    "PythonSpanFunction",
    "SpanFunction",
    "check_labels",
    "span_function",
]


class Marks(NamedTuple):
    """The answers of one span function for documents."""

    runs: Runs
    """Its spans as runs of tokens, without overlaps; the label index after the last is `O`."""
    answered: npt.NDArray[np.bool_] | None = None
    """Documents on which it did not abstain; None means all of them."""
    n_overlapping: int = 0
    """How many spans were dropped in favor of longer ones."""
    failures: tuple[Failure, ...] = ()


class SpanFunction(ABC):
    """Marks spans of some documents, and abstains on the others.

    The decorator `span_function` or a builder such as `gazetteer` makes one. It abstains on tokens
    that it does not mark; with `exhaustive` it votes `O` on them.
    """

    name: str
    """The name of the voter."""
    applied_by: ClassVar[str] = "apply_span_lfs, or wiesel spans apply"
    exhaustive: bool
    """Whether, unless it abstains on a document, tokens that it does not mark are outside."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...] | None:
        """The labels it can mark; None if that is not known in advance."""

    @abstractmethod
    def run(self, documents: Documents, labels: SpanLabels, stop_at_failure: bool = True) -> Marks:
        """Return its answers for documents."""

    def __call__(self, text: str | Document) -> list[Span]:
        """Return the spans it marks in one text, to try it out."""
        text = text.text if isinstance(text, Document) else text
        documents = Documents.from_texts([text])
        labels = SpanLabels(tuple({*(self.labels or ())} - {OUTSIDE}) or ("X",))
        names, runs = (*labels.names, OUTSIDE), self.run(documents, labels).runs
        places = zip(runs.first.tolist(), runs.last.tolist(), runs.label.tolist(), strict=True)
        return [documents[0].span(first, last, names[label]) for first, last, label in places]


@dataclass(frozen=True, eq=False, repr=False)
class PythonSpanFunction(SpanFunction):
    """A span function written in Python; made by `span_function`."""

    function: Callable[[Document], Any]
    name: str
    exhaustive: bool = False

    @property
    def labels(self) -> None:
        """None: the labels are known only after it has run."""

    def __call__(self, text: str | Document) -> Any:
        """Return what the function returns for one text or document."""
        document = Documents.from_texts([text])[0] if isinstance(text, str) else text
        return self.function(document)

    def run(self, documents: Documents, labels: SpanLabels, stop_at_failure: bool = True) -> Marks:
        """Return the spans of every document; an exception of the function is a failure."""
        spans: list[Any] = []
        failures = []
        for document in documents:
            try:
                answer = self.function(document)
                # A generator runs only here, and may raise.
                answer = answer if answer is None or isinstance(answer, str) else list(answer)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                failure = Failure(
                    self.name, f"document {document.id!r}", reason, document.text[:200]
                )
                if stop_at_failure:
                    raise failure.error() from error
                failures.append(failure)
                answer = None
            spans.append(answer)
        return _marks_of(spans, documents, labels, self.name, tuple(failures))

    def __repr__(self) -> str:
        return f"<span function {self.name}>"


@dataclass(frozen=True, eq=False, repr=False)
class GivenSpans(SpanFunction):
    """A voter whose spans exist already: a list for each document, None where it abstained."""

    spans: Any
    name: str
    exhaustive: bool = False

    @property
    def labels(self) -> None:
        """None: an unknown label is refused together with its document."""

    def run(self, documents: Documents, labels: SpanLabels, stop_at_failure: bool = True) -> Marks:
        """Return the spans of these documents, which are those that the spans were given for."""
        spans = list(in_order_of(documents, self.spans, f"{self.name!r}: spans", "the documents"))
        return _marks_of(spans, documents, labels, self.name)


def _marks_of(
    spans: Sequence[Any],
    documents: Documents,
    labels: SpanLabels,
    name: str,
    failures: tuple[Failure, ...] = (),
) -> Marks:
    """The marks of spans of every document; None is an abstention."""
    answered = np.array([own is not None for own in spans], dtype=bool)
    given = [[] if own is None else own for own in spans]
    runs = runs_of_spans(given, documents, (*labels.names, OUTSIDE), f"{name!r}:")
    kept = without_overlaps(runs)
    return Marks(kept, answered, len(runs.first) - len(kept.first), failures)


@overload
def span_function(function: Callable[[Document], Any], /) -> PythonSpanFunction: ...


@overload
def span_function(
    *, name: str = "", exhaustive: bool = False
) -> Callable[[Callable[[Document], Any]], PythonSpanFunction]: ...


def span_function(
    function: Callable[[Document], Any] | None = None,
    /,
    *,
    name: str = "",
    exhaustive: bool = False,
) -> PythonSpanFunction | Callable[[Callable[[Document], Any]], PythonSpanFunction]:
    """Make a span function from a Python function (a decorator, with or without parentheses).

    The function gets a `Document` (its text, its words and where they start and end) and returns
    spans `(start, end, label)` in characters, or None to abstain. The label `O` is a vote against
    any span there. With `exhaustive`, everything it does not mark is a vote for `O`.

    >>> @span_function
    ... def after_mister(document):
    ...     words = document.words
    ...     return [document.span(k + 1, k + 2, "PER") for k in range(len(words) - 1)
    ...             if words[k] == "Mr"]
    >>> after_mister("Ask Mr Brown")
    [Span(start=7, end=12, label='PER', confidence=None)]
    """
    if function is None:
        return functools.partial(_decorated, name=name, exhaustive=exhaustive)
    return _decorated(function, name=name, exhaustive=exhaustive)


def _decorated(
    function: Callable[[Document], Any], name: str, exhaustive: bool
) -> PythonSpanFunction:
    if not callable(function):
        raise ParameterError(
            f"span_function decorates a function; got {function!r:.60}. "
            "Its options are given by name: @span_function(name=...)."
        )
    own_name = getattr(function, "__name__", type(function).__name__)
    return PythonSpanFunction(function, name or own_name, exhaustive)


def check_labels(functions: Iterable[SpanFunction], labels: SpanLabels) -> None:
    """Refuse span functions that mark an unknown label."""
    for function in functions:
        for name in function.labels or ():
            if name not in (*labels.names, OUTSIDE):
                raise VoteError(
                    f"{function.name!r} marks {name!r}; the labels are {listed(labels.names)}."
                )
