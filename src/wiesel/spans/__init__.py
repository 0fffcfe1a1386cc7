"""Labels for parts of texts: span functions, votes on tokens, a sequence model, taggers.

Everything that needs torch is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiesel.spans.annotated_files import read_annotated, read_documents
from wiesel.spans.documents import Document, Documents
from wiesel.spans.formats import (
    read_conll,
    read_doccano,
    read_label_studio,
    write_conll,
    write_doccano,
    write_label_studio,
)
from wiesel.spans.functions import SpanFunction, span_function
from wiesel.spans.gazetteers import gazetteer
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.loading import load_span_lfs
from wiesel.spans.marking import MarkedText, explain_spans, spans_page
from wiesel.spans.metrics import SpanReport, evaluate_spans
from wiesel.spans.patterns import pattern
from wiesel.spans.spacy_documents import from_spacy, read_docbin, write_docbin
from wiesel.spans.summary import voter_table
from wiesel.spans.tags import Span, SpanLabels
from wiesel.spans.tokenizer import tokenize
from wiesel.spans.votes import TokenVotes, apply_span_lfs
from wiesel.spans.word_features import WordFeatures

if TYPE_CHECKING:
    from wiesel.spans.storage import load_span_model
    from wiesel.spans.tagger import BiLSTMTagger
    from wiesel.spans.training import SpanTwoStage, token_soft_labels
    from wiesel.spans.weasel import SpanWeaSEL
from wiesel.spans.prompting import prompt_spans

__all__ = [
    "BiLSTMTagger",
    "Document",
    "Documents",
    "HiddenMarkov",
    "MarkedText",
    "Span",
    "SpanFunction",
    "SpanLabels",
    "SpanReport",
    "SpanTwoStage",
    "SpanWeaSEL",
    "TokenVotes",
    "WordFeatures",
    "apply_span_lfs",
    "evaluate_spans",
    "explain_spans",
    "from_spacy",
    "gazetteer",
    "load_span_lfs",
    "load_span_model",
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
    "write_conll",
    "write_docbin",
    "write_doccano",
    "write_label_studio",
]

_WITH_TORCH = {
    "BiLSTMTagger": "wiesel.spans.tagger",
    "SpanTwoStage": "wiesel.spans.training",
    "SpanWeaSEL": "wiesel.spans.weasel",
    "load_span_model": "wiesel.spans.storage",
    "token_soft_labels": "wiesel.spans.training",
}


def __getattr__(name: str) -> Any:
    if name not in _WITH_TORCH:
        raise AttributeError(f"module 'wiesel.spans' has no attribute {name!r}")
    return getattr(import_module(_WITH_TORCH[name]), name)
