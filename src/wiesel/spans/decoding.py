"""From votes to probabilities of tags, and from these to spans with a confidence."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wiesel.spans.documents import Documents
from wiesel.spans.tags import Span, SpanLabels, legal_tags, runs_of_tags

if TYPE_CHECKING:
    from wiesel.label_models import LabelModel
    from wiesel.spans.votes import TokenVotes

__all__ = ["outside_where_silent", "reads_sequences", "spans_of_proba", "token_soft_labels"]


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


def reads_sequences(label_model: "LabelModel") -> bool:
    """Return whether a label model takes votes on tokens with their documents."""
    return tuple(label_model.tasks) == ("spans",)


def token_soft_labels(label_model: Any, votes: "TokenVotes") -> npt.NDArray[np.float64]:
    """Return a fitted label model's soft label of every token: (n_tokens, n_tags).

    A label model of independent items labels token by token; tokens without votes are outside.
    """
    if reads_sequences(label_model):
        proba: npt.NDArray[np.float64] = label_model.predict_proba(votes)
        return proba
    return outside_where_silent(label_model.predict_proba(votes.votes), votes.votes.covered)
