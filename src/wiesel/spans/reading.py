"""Checks spans in characters, from people or programs, and turns them into runs of tokens."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import DataError, VoteError, as_list, listed, suggest
from wiesel.spans.tags import Runs, Span
from wiesel.tables import in_order_of

if TYPE_CHECKING:
    from wiesel.spans.documents import Documents

__all__ = ["runs_of_spans", "span_lists", "without_overlaps"]


def runs_of_spans(
    spans: Sequence[Iterable[Any]], documents: "Documents", names: Sequence[str], who: str
) -> Runs:
    """Return the tokens of spans `(start, end, label)`, given for each document.

    A span that ends within a token includes the whole token. A span that is outside of its text,
    is empty, covers no token or has an unknown label is refused; the message names `who`.
    """
    # `spans[k]` of a pandas series is by index, so it becomes a list.
    spans = list(in_order_of(documents, spans, f"{who} spans", "the documents"))
    if len(spans) != len(documents):
        raise VoteError(
            f"{who} spans are of {len(spans)} documents; there are {len(documents)}: give one list "
            "for each document."
        )
    per_document = [_listed_spans(spans[k], who, documents.id_of(k)) for k in range(len(documents))]
    counts = np.fromiter(map(len, per_document), dtype=np.int64, count=len(documents))
    document = np.repeat(np.arange(len(documents)), counts)
    flat = list(chain.from_iterable(per_document))
    numbers = [
        _checked(span, documents, number, names, who)
        for span, number in zip(flat, document.tolist(), strict=True)
    ]
    start, end, label = np.array(numbers, dtype=np.int64).reshape(-1, 3).T
    first, last = documents.tokens_between(document, start, end)
    if (first >= last).any():
        place = int(np.flatnonzero(first >= last)[0])
        raise VoteError(
            f"{_what(who, flat[place], documents, int(document[place]))}, where there is no token: "
            "a span holds more than white space."
        )
    return Runs(first, last, label)


def span_lists(spans: Any, documents: "Documents", what: str = "spans") -> list[list[Span]]:
    """Return the spans of every document; refuse anything but lists of (start, end, label)."""
    if not hasattr(documents, "tags_of"):
        raise DataError(
            "The documents must be Documents, such as Documents.from_texts(texts); got "
            f"{type(documents).__name__}."
        )
    spans = in_order_of(documents, spans, what, "documents")
    found = as_list(spans, f"The {what}", "[[(0, 3, 'PER')], []], a list for each document,")
    if len(found) != len(documents):
        raise DataError(
            f"There are {what} of {len(found)} documents, and {len(documents)} documents."
        )
    try:
        kept = [[Span(*span) for span in own] for own in found]
        is_right = all(isinstance(span.label, str) for own in kept for span in own)
    except TypeError:
        is_right = False
    if not is_right:
        raise DataError(
            f"The {what} of each document are a list of (start, end, label), such as "
            f"[(0, 3, 'PER')]; got {found[:2]!r:.100}."
        )
    return kept


def _listed_spans(spans: Any, who: str, document: object) -> list[Any]:
    if isinstance(spans, (str, bytes)) or not isinstance(spans, Iterable):
        raise VoteError(
            f"{who} answer on document {document!r} is {spans!r:.60}; it must be a list of spans "
            "(start, end, label), or None to abstain."
        )
    return list(spans)


def _checked(
    span: Any, documents: "Documents", number: int, names: Sequence[str], who: str
) -> tuple[int, int, int]:
    try:
        start, end, label = span[:3]
        whole = int(start) == start and int(end) == end
    except (ArithmeticError, LookupError, TypeError, ValueError):
        whole = False
    if not whole:
        raise VoteError(
            f"{who} span {span!r:.80} on document {documents.id_of(number)!r} is not valid: the "
            "answer is a list of spans (start, end, label), in characters."
        )
    if not 0 <= start < end <= len(documents.texts[number]):
        raise VoteError(
            f"{_what(who, span, documents, number)}; the text has "
            f"{len(documents.texts[number])} characters, and a span needs 0 <= start < end."
        )
    if label not in names:
        raise VoteError(
            f"{_what(who, span, documents, number)}; the labels are {listed(names)}. "
            f"{suggest(label, names)}"
        )
    return int(start), int(end), list(names).index(label)


def _what(who: str, span: Any, documents: "Documents", number: int) -> str:
    start, end, label = span[:3]
    where = f"characters {start} to {end} of document {documents.id_of(number)!r}"
    return f"{who} span is {where} as {label!r}"


def without_overlaps(runs: Runs) -> Runs:
    """Return runs without overlaps, in order: the longest win, among equal lengths the first.

    >>> runs = Runs(np.array([4, 0, 1]), np.array([5, 2, 4]), np.array([0, 0, 0]))
    >>> without_overlaps(runs).first
    array([1, 4])
    """
    order = np.lexsort((-runs.last, runs.first))
    runs = Runs(runs.first[order], runs.last[order], runs.label[order])
    if not len(order):
        return runs
    keep = np.ones(len(order), dtype=bool)
    reach = np.maximum.accumulate(runs.last)
    alone = np.concatenate([[True], runs.first[1:] >= reach[:-1]])
    for group in np.split(np.arange(len(order)), np.flatnonzero(alone))[1:]:
        if len(group) > 1:
            keep[group] = _longest_without_overlap(runs, group)
    return Runs(runs.first[keep], runs.last[keep], runs.label[keep])


def _longest_without_overlap(runs: Runs, group: npt.NDArray[np.int64]) -> list[bool]:
    """Take the longest first, then every run that does not overlap those taken."""
    taken: list[tuple[int, int]] = []
    chosen = set()
    # The sort is stable: among runs of equal length, the first comes first.
    for place in sorted(group.tolist(), key=lambda k: runs.first[k] - runs.last[k]):
        first, last = int(runs.first[place]), int(runs.last[place])
        if all(last <= other or first >= end for other, end in taken):
            taken.append((first, last))
            chosen.add(place)
    return [place in chosen for place in group.tolist()]
