"""spaCy documents with spaCy's tokens, and DocBin files, if spaCy is installed."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from wiesel.errors import DataError, MissingExtraError
from wiesel.spans.documents import Documents
from wiesel.spans.tags import Span

if TYPE_CHECKING:
    from wiesel.spans.formats import Annotated

__all__ = ["from_spacy", "read_docbin", "write_docbin"]


def from_spacy(docs: Iterable[Any], ids: Any = None) -> "Annotated":
    """Return spaCy `Doc` objects as documents with spaCy's tokens, and their entities as spans.

    Tokens that consist only of white space are left out.
    """
    kept = list(docs)
    for number, doc in enumerate(kept):
        if not hasattr(doc, "ents"):
            raise DataError(f"Document {number} is not a spaCy Doc: {doc!r:.60}.")
    offsets = [
        [(token.idx, token.idx + len(token.text)) for token in doc if not token.is_space]
        for doc in kept
    ]
    documents = Documents.from_offsets([doc.text for doc in kept], offsets, ids)
    spans = [[Span(e.start_char, e.end_char, e.label_) for e in doc.ents] for doc in kept]
    return documents, spans


def read_docbin(content: bytes) -> "Annotated":
    """Return the documents and entities of a DocBin from `spacy convert` or `to_bytes`."""
    spacy = _spacy()
    try:
        docs = list(spacy.tokens.DocBin().from_bytes(content).get_docs(spacy.blank("xx").vocab))
    except Exception as error:  # spaCy may raise anything for foreign bytes
        raise DataError(f"This is not a spaCy DocBin: {type(error).__name__}: {error}") from error
    return from_spacy(docs)


def write_docbin(documents: Documents, spans: Sequence[Sequence[tuple[Any, ...]]]) -> bytes:
    """Return documents and their spans as a DocBin, which `spacy train` reads."""
    spacy = _spacy()
    documents.tags_of(spans, _labels_of(spans))  # refuses spans that overlap or are outside
    vocabulary, docs = spacy.blank("xx").vocab, []
    for document, own in zip(documents, spans, strict=True):
        words, spaces = _words_and_spaces(document.text, document.starts, document.ends)
        doc = spacy.tokens.Doc(vocabulary, words=words, spaces=spaces)
        doc.ents = [
            doc.char_span(int(start), int(end), label=label, alignment_mode="expand")
            for start, end, label, *_ in own
        ]
        docs.append(doc)
    return bytes(spacy.tokens.DocBin(docs=docs).to_bytes())


def _labels_of(spans: Sequence[Sequence[tuple[Any, ...]]]) -> Any:
    from wiesel.spans.tags import SpanLabels

    names = dict.fromkeys(span[2] for own in spans for span in own)
    return SpanLabels(tuple(names) or ("X",))


def _words_and_spaces(text: str, starts: Any, ends: Any) -> tuple[list[str], list[bool]]:
    """The text in spaCy's form: words with or without a space; white space as words."""
    words: list[str] = []
    spaces: list[bool] = []
    place = 0
    for start, end in [*zip(starts.tolist(), ends.tolist(), strict=True), (len(text), len(text))]:
        gap = text[place:start]
        if gap and words:
            spaces[-1] = gap[0] == " "
            gap = gap[1:] if gap[0] == " " else gap
        if gap:
            words.append(gap)
            spaces.append(False)
        if end > start:
            words.append(text[start:end])
            spaces.append(False)
        place = end
    return words, spaces


def _spacy() -> Any:
    try:
        import spacy
        import spacy.tokens
    except ImportError:
        raise MissingExtraError("DocBin files need spaCy: pip install 'wiesel[spacy]'") from None
    return spacy
