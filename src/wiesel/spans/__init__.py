"""Labels for parts of texts: span functions, votes on tokens, a sequence model, taggers."""

from wiesel.spans.documents import Document, Documents
from wiesel.spans.functions import SpanFunction, span_function
from wiesel.spans.gazetteers import gazetteer
from wiesel.spans.hidden_markov import HiddenMarkov
from wiesel.spans.metrics import SpanReport, evaluate_spans
from wiesel.spans.patterns import pattern
from wiesel.spans.tags import Span, SpanLabels
from wiesel.spans.tokenizer import tokenize
from wiesel.spans.votes import TokenVotes, apply_span_lfs

__all__ = [
    "Document",
    "Documents",
    "HiddenMarkov",
    "Span",
    "SpanFunction",
    "SpanLabels",
    "SpanReport",
    "TokenVotes",
    "apply_span_lfs",
    "evaluate_spans",
    "gazetteer",
    "pattern",
    "span_function",
    "tokenize",
]
