"""Labels for parts of texts: span functions, votes on tokens, a sequence model."""

from typing import Any

from wiesel.label_models.base import LabelModel
from wiesel.registry import Method, Registry
from wiesel.spans.documents import Document, Documents, token_soft_labels, tokenize
from wiesel.spans.formats import (
    from_spacy,
    read_annotated,
    read_conll,
    read_docbin,
    read_doccano,
    read_documents,
    read_label_studio,
    write_argilla,
    write_conll,
    write_docbin,
    write_doccano,
    write_label_studio,
    write_prodigy,
)
from wiesel.spans.functions import SpanFunction, span_function
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.marking import MarkedText, explain_spans, spans_page
from wiesel.spans.metrics import SpanReport, evaluate_spans, voter_table
from wiesel.spans.patterns import gazetteer, load_span_lfs, outside, pattern
from wiesel.spans.prompting import prompt_spans
from wiesel.spans.tags import Span, SpanLabels
from wiesel.spans.votes import TokenVotes, apply_span_lfs

REGISTRY = Registry(
    LabelModel,
    Method(
        name="hidden_markov",
        cls=HiddenMarkov,
        summary="spans: tags are a Markov chain, and each voter confuses tags in its own way",
        paper="Lison et al. 2020, Named entity recognition without labelled data, ACL",
    ),
)
"""Label models for spans by name."""

_RENAMED = {
    "BiLSTMTagger": "wiesel.nn.BiLSTMTagger",
    "SpanTagger": "wiesel.EndToEndModel",
    "SpanTwoStage": "wiesel.TwoStage(HiddenMarkov(), BiLSTMTagger(n_tags))",
    "SpanWeaSEL": "wiesel.WeaSEL(BiLSTMTagger(n_tags))",
    "WordFeatures": "part of wiesel.training.TokenInputs",
    "load_span_model": "wiesel.load_model",
}
"""Earlier names, and what does the same for every kind of task today."""


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        raise AttributeError(f"{name} is {_RENAMED[name]} now.")
    raise AttributeError(f"module 'wiesel.spans' has no attribute {name!r}")


__all__ = [
    "Document",
    "Documents",
    "HiddenMarkov",
    "MarkedText",
    "Span",
    "SpanFunction",
    "SpanLabels",
    "SpanReport",
    "TokenVotes",
    "apply_span_lfs",
    "evaluate_spans",
    "explain_spans",
    "from_spacy",
    "gazetteer",
    "load_span_lfs",
    "outside",
    "pattern",
    "prompt_spans",
    "read_annotated",
    "read_conll",
    "read_docbin",
    "read_doccano",
    "read_documents",
    "read_label_studio",
    "span_function",
    "spans_page",
    "token_soft_labels",
    "tokenize",
    "voter_table",
    "write_argilla",
    "write_conll",
    "write_docbin",
    "write_doccano",
    "write_label_studio",
    "write_prodigy",
]
