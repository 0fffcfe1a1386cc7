"""Files of documents with spans: JSON Lines, CoNLL, annotation tools and spaCy."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.errors import DataError, MissingExtraError
from wiesel.io import FilePath, existing_file, explained, read_rows, scan_rows
from wiesel.io.annotation.doccano import labels_of
from wiesel.io.annotation.label_studio import is_label_studio, prediction_task
from wiesel.io.files import read_text
from wiesel.io.lenient import as_written_by, json_records
from wiesel.spans.documents import Documents
from wiesel.spans.reading import span_lists
from wiesel.spans.tags import OUTSIDE, Span, SpanLabels

__all__ = [
    "annotated_content",
    "from_spacy",
    "read_annotated",
    "read_conll",
    "read_docbin",
    "read_doccano",
    "read_documents",
    "read_label_studio",
    "write_argilla",
    "write_conll",
    "write_docbin",
    "write_doccano",
    "write_label_studio",
    "write_prodigy",
]

_AS_BIO = {"S-": "B-", "U-": "B-", "E-": "I-", "L-": "I-"}
_PREFIXES = ("B-", "I-", *_AS_BIO)

Annotated = tuple[Documents, list[list[Span]]]
"""Documents, and the spans of each."""
_FORMATS = {
    ".jsonl": "doccano",
    ".json": "label_studio",
    ".spacy": "docbin",
    **dict.fromkeys((".conll", ".txt", ".bio", ".iob"), "conll"),
}


def read_conll(text: str, column: int = -1) -> Annotated:
    r"""Return the sentences of CoNLL columns, and the spans that their tags encode.

    The word is in the first column, its IOB1, BIO, BIOES or BILOU tag in `column`. Empty lines
    separate sentences. Words are joined by single spaces. Lines that begin with `# ` are comments,
    unless the line is a word and its tag: `# O`.

    >>> documents, spans = read_conll("Ada B-PER\nByron I-PER\nwrote O\n\nYes O\n")
    >>> documents.texts, spans
    (('Ada Byron wrote', 'Yes'), [[Span(start=0, end=9, label='PER', confidence=None)], []])
    """
    sentences: list[list[tuple[str, str]]] = [[]]
    lines = text.splitlines()
    words = (line for line in lines if line.strip() and not line.startswith("# "))
    n_columns = len(next(words, "# O").split())
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            sentences.append([])
        elif not _is_comment(line, n_columns, column):
            sentences[-1].append(_word_and_tag(line, number, column))
    sentences = [sentence for sentence in sentences if sentence]
    tags = [tag for sentence in sentences for _, tag in sentence]
    names = list(dict.fromkeys(tag[2:] for tag in tags if tag != OUTSIDE))
    documents = Documents.from_words([[word for word, _ in sentence] for sentence in sentences])
    if not names:
        return documents, [[] for _ in sentences]
    labels = SpanLabels(tuple(names))
    return documents, documents.spans_of(labels.tags.indices(np.array(tags, dtype=object)), labels)


def _is_comment(line: str, n_columns: int, column: int) -> bool:
    """Whether a line is a comment, not the word `#` with a tag and as many columns as others."""
    parts = line.split()
    if not line.startswith("# ") or len(parts) != n_columns or not -n_columns <= column < n_columns:
        return line.startswith("# ")
    return parts[column] != OUTSIDE and parts[column][:2] not in _PREFIXES


def _word_and_tag(line: str, number: int, column: int) -> tuple[str, str]:
    parts = line.split()
    try:
        word, tag = parts[0], parts[column]
    except IndexError:
        raise DataError(f"Line {number} has {len(parts)} columns: {line!r:.60}.") from None
    # BIOES and BILOU mark last tokens and one-token spans, which BIO does not need.
    tag = _AS_BIO.get(tag[:2], tag[:2]) + tag[2:]
    if len(parts) < 2 or (tag != OUTSIDE and tag[:2] not in ("B-", "I-")) or tag in ("B-", "I-"):
        raise DataError(
            f"Line {number} has the tag {tag!r}; it must be 'O', 'B-X' or 'I-X': {line!r:.60}."
        )
    return word, tag


def write_conll(documents: Documents, spans: Sequence[Sequence[tuple[Any, ...]]]) -> str:
    r"""Return documents and their spans as CoNLL columns: word and BIO tag.

    The format cannot represent ids, white space or documents without tokens: these are omitted.

    >>> write_conll(Documents.from_texts(["Ada wrote"]), [[(0, 3, "PER")]])
    'Ada B-PER\nwrote O\n'
    """
    spans = span_lists(spans, documents)
    names = list(dict.fromkeys(span[2] for own in spans for span in own)) or ["X"]
    labels = SpanLabels(tuple(names))
    for name in names:
        if name.split() != [name]:
            raise DataError(
                f"CoNLL columns are separated by white space, so they cannot hold the label "
                f"{name!r}: rename it, or write doccano (.jsonl) or Label Studio (.json) files."
            )
    tags = [labels.tags.names[tag] for tag in documents.tags_of(spans, labels).tolist()]
    place, sentences = 0, []
    for document in documents:
        own = tags[place : place + len(document)]
        place += len(document)
        pairs = zip(document.words, own, strict=True)
        sentences.append("".join(f"{word} {tag}\n" for word, tag in pairs))
    return "\n".join(sentence for sentence in sentences if sentence)


def read_doccano(text: str) -> Annotated:
    r"""Return the documents and spans of a doccano JSONL export (`text`, and `label` or `labels`).

    >>> read_doccano('{"id": 1, "text": "Ada", "label": [[0, 3, "PER"]]}')[1]
    [[Span(start=0, end=3, label='PER', confidence=None)]]
    """
    rows, found = [], []
    for number, record in enumerate(json_records(text), start=1):
        shown = record.get("text", record.get("data"))
        if not isinstance(shown, str):
            raise DataError(f"Line {number} is not an object with a 'text': {record!r:.60}.")
        rows.append({**record, "text": shown})
        with as_written_by(f"Text {number} of this doccano export"):
            found.append([_doccano_span(span) for span in labels_of(record) or ()])
    return _annotated(rows, found)


def _doccano_span(span: Any) -> Span:
    if isinstance(span, dict):  # exports of relations have objects
        span = (span.get("start_offset"), span.get("end_offset"), span.get("label"))
    start, end, label = span[:3]
    return _span(start, end, label)


def write_doccano(documents: Documents, spans: Sequence[Sequence[tuple[Any, ...]]]) -> str:
    r"""Return documents and spans as JSONL that doccano imports for sequence labeling.

    >>> write_doccano(Documents.from_texts(["Ada"], ids=["a"]), [[(0, 3, "PER")]])
    '{"id": "a", "text": "Ada", "label": [[0, 3, "PER"]]}\n'
    """
    lines = []
    for document, own in zip(documents, span_lists(spans, documents), strict=True):
        listed = [[int(start), int(end), label] for start, end, label, *_ in own]
        row = {"id": document.id, "text": document.text, "label": listed}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)


def read_label_studio(text: str, predictions: bool = False) -> Annotated:
    """Return the documents and spans of a Label Studio JSON export (the `labels` of a text).

    The first annotation of a task that was not canceled counts; a task without one has no spans.
    With `predictions`, the first prediction counts if there is no annotation.
    """
    rows, found = [], []
    for number, task in enumerate(json_records(text), start=1):
        if not is_label_studio(task):
            raise DataError(
                f"Task {number} is not a Label Studio task: it has no 'data'. Export as JSON, not "
                "as JSON-MIN."
            )
        with as_written_by(f"Task {number} of this Label Studio export"):
            row, spans = _label_studio_task(task, predictions)
            rows.append(row)
            found.append(spans)
    return _annotated(rows, found)


def _label_studio_task(
    task: dict[str, Any], predictions: bool
) -> tuple[dict[str, Any], list[Span]]:
    kept = [each for each in task.get("annotations", []) if not each.get("was_cancelled")]
    kept = kept or (task.get("predictions", []) if predictions else [])
    results: list[Any] = kept[0].get("result", []) if kept else []
    marks = [each for each in results if each.get("type", "labels") == "labels"]
    data = task.get("data", {})
    field = marks[0].get("to_name", "text") if marks else "text"
    text = data.get(field, data.get("text"))
    spans = [
        _as_code_points(_span(value["start"], value["end"], label), text, value.get("text"))
        for value in (mark["value"] for mark in marks)
        for label in value.get("labels", [])
    ]
    return {"id": task.get("id"), "text": text}, spans


def _as_code_points(span: Span, text: Any, marked: Any) -> Span:
    """The span in characters: old versions of Label Studio count an emoji as two (UTF-16)."""
    if not isinstance(text, str) or marked in (None, text[span.start : span.end]):
        return span
    try:
        wide = text.encode("utf-16-le")
        before = wide[: 2 * span.start].decode("utf-16-le")
        inside = wide[2 * span.start : 2 * span.end].decode("utf-16-le")
    except UnicodeDecodeError:  # it would begin or end within a character
        return span
    if inside != marked:
        return span
    return span._replace(start=len(before), end=len(before) + len(inside))


def write_label_studio(documents: Documents, spans: Sequence[Sequence[tuple[Any, ...]]]) -> str:
    """Return documents and spans as tasks with predictions, which Label Studio imports.

    The score of a region is the confidence of its span, if it has one.
    """
    tasks = []
    for document, own in zip(documents, span_lists(spans, documents), strict=True):
        result: list[dict[str, Any]] = [
            {
                "id": f"span{number}",
                "from_name": "label",
                "to_name": "text",
                "type": "labels",
                "value": {
                    "start": int(span[0]),
                    "end": int(span[1]),
                    "text": document.text[span[0] : span[1]],
                    "labels": [span[2]],
                },
            }
            for number, span in enumerate(own)
        ]
        for mark, span in zip(result, own, strict=True):
            if len(span) > 3 and span[3] is not None:
                mark["score"] = float(span[3])
        tasks.append(prediction_task(document.id, {"text": document.text}, result, "wiesel"))
    return json.dumps(tasks, ensure_ascii=False, indent=1)


def write_prodigy(documents: Documents, spans: Sequence[Sequence[tuple[Any, ...]]]) -> str:
    """Return documents and spans as JSONL that `prodigy db-in` imports for spans.manual.

    >>> line = write_prodigy(Documents.from_texts(["Ada"]), [[(0, 3, "PER")]])
    >>> json.loads(line)["spans"], json.loads(line)["answer"]
    ([{'start': 0, 'end': 3, 'label': 'PER'}], 'accept')
    """
    lines = []
    for document, own in zip(documents, spans, strict=True):
        row = {"text": document.text, "spans": _marks(own), "meta": {"id": document.id}}
        row |= {"answer": "accept", "_view_id": "spans_manual"}
        lines.append(json.dumps(row, ensure_ascii=False, default=str) + "\n")
    return "".join(lines)


def write_argilla(documents: Documents, spans: Sequence[Sequence[tuple[Any, ...]]]) -> str:
    """Return documents and spans as records with a suggestion for a span question `label`.

    >>> print(write_argilla(Documents.from_texts(["Ada"]), [[(0, 3, "PER")]]))
    [{"id": "0", "fields": {"text": "Ada"}, "metadata": {}, "suggestions": {"label": {"value": \
[{"start": 0, "end": 3, "label": "PER"}], "score": null, "agent": "wiesel"}}, "responses": {}, \
"vectors": {}}]
    """
    records = []
    for document, own in zip(documents, spans, strict=True):
        suggestion = {"value": _marks(own), "score": None, "agent": "wiesel"}
        record = {"id": str(document.id), "fields": {"text": document.text}, "metadata": {}}
        records.append(
            record | {"suggestions": {"label": suggestion}, "responses": {}, "vectors": {}}
        )
    return json.dumps(records, ensure_ascii=False)


def _marks(spans: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    names = ("start", "end", "label")
    return [
        dict(zip(names, (int(start), int(end), label), strict=True))
        for start, end, label, *_ in spans
    ]


def _span(start: Any, end: Any, label: Any) -> Span:
    """The span of values in a file: whole numbers, possibly as text, and a name."""
    numbers = int(start), int(end)
    if any(isinstance(given, float) and given not in numbers for given in (start, end)):
        raise ValueError(f"{start!r} to {end!r} are not whole numbers of characters")
    if not isinstance(label, (str, int)):
        raise TypeError(f"{label!r:.40} is not the name of a label")
    return Span(*numbers, str(label))


def _annotated(rows: Iterable[dict[str, Any]], spans: list[list[Span]]) -> Annotated:
    rows = list(rows)
    ids = [row.get("id") for row in rows]
    known = all(isinstance(value, (int, str)) for value in ids) and len(set(ids)) == len(ids)
    documents = Documents.from_texts([row["text"] for row in rows], ids if known and ids else None)
    return documents, spans


def read_documents(path: FilePath, text: str = "text", id: str | None = None) -> Documents:
    """Return the texts of a file: a table with a column of texts, or any file with spans.

    Ids come from the column `id`; None uses the column named `id` if there is one.
    """
    file = existing_file(path)
    if file.suffix in _FORMATS.keys() - {".jsonl"}:
        return read_annotated(file)[0]
    with explained(file):
        if id is None and "id" in scan_rows(file).collect_schema().names():
            id = "id"
        return Documents.from_rows(read_rows(file, [text, *([id] if id else [])]), text, id)


def read_annotated(path: FilePath, predictions: bool = False) -> Annotated:
    """Return the documents and spans of a file: doccano JSONL, CoNLL, Label Studio or DocBin.

    With `predictions`, Label Studio's predictions are used for tasks without an annotation.

    >>> read_annotated("gold.csv")
    Traceback (most recent call last):
    wiesel.errors.DataError: There is no file gold.csv...
    """
    file = existing_file(path)
    with explained(file):
        how = _FORMATS.get(file.suffix)
        if how is None:
            raise DataError(
                "Spans are read from .jsonl (text, label), .conll, .json of Label Studio and "
                f".spacy files; got {file.suffix!r}."
            )
        if how == "docbin":
            return read_docbin(file.read_bytes())
        if how == "label_studio":
            return read_label_studio(read_text(file), predictions)
        return (read_doccano if how == "doccano" else read_conll)(read_text(file))


def annotated_content(
    documents: Documents, spans: Sequence[Sequence[Span]], path: FilePath, how: str | None = None
) -> bytes:
    r"""Return the content of a file of spans, in the format of its name, so it can be read again.

    `how` names another format; a name without a known ending gives doccano JSONL.

    >>> annotated_content(Documents.from_texts(["Ada"]), [[Span(0, 3, "PER")]], "found.conll")
    b'Ada B-PER\n'
    """
    chosen = how or _FORMATS.get(Path(path).suffix, "doccano")
    content = _WRITERS[chosen](documents, spans)
    return content if isinstance(content, bytes) else content.encode()


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


_WRITERS: dict[str, Callable[[Documents, Sequence[Sequence[Span]]], str | bytes]] = {
    "doccano": write_doccano,
    "label_studio": write_label_studio,
    "conll": write_conll,
    "docbin": write_docbin,
    "prodigy": write_prodigy,
    "argilla": write_argilla,
}
