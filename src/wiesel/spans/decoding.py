"""From probabilities of tags to spans with a confidence."""

import numpy as np
import numpy.typing as npt

from wiesel.spans.documents import Documents
from wiesel.spans.tags import Span, SpanLabels, legal_tags, runs_of_tags

__all__ = ["outside_where_silent", "spans_of_proba"]


def spans_of_proba(
    proba: npt.NDArray[np.float64], documents: Documents, labels: SpanLabels
) -> list[list[Span]]:
    """Return the spans of the most probable legal tags, for every document.

    The confidence of a span is the mean probability of the tags of its tokens.

    >>> documents = Documents.from_texts(["Ada Byron"])
    >>> spans_of_proba(np.array([[0.2, 0.8, 0], [0.4, 0, 0.6]]), documents, SpanLabels(("PER",)))
    [[Span(start=0, end=9, label='PER', confidence=0.7)]]
    """
    tags = legal_tags(np.log(np.maximum(proba, 1e-300)), documents.pointers, labels)
    runs = runs_of_tags(tags, documents.pointers)
    chosen = proba[np.arange(len(tags)), tags]
    before = np.concatenate([[0.0], np.cumsum(chosen)])
    confidence = (before[runs.last] - before[runs.first]) / (runs.last - runs.first)
    return documents.spans_of_runs(runs, labels, confidence.round(6))


def outside_where_silent(
    proba: npt.NDArray[np.float64], covered: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return probabilities in which tokens without votes are outside of all spans.

    Label models of independent items give such a token the class prior. But voters who mark spans
    abstain on most tokens because there is nothing to mark.
    """
    proba = proba.copy()
    proba[~covered] = 0.0
    proba[~covered, 0] = 1.0
    return proba
