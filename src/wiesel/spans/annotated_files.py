"""Annotated text in files; the file name determines the format."""

from collections.abc import Callable, Sequence
from pathlib import Path

from wiesel.errors import DataError
from wiesel.io import FilePath, existing_file, explained, read_rows, scan_rows
from wiesel.io.files import read_text
from wiesel.spans.documents import Documents
from wiesel.spans.formats import (
    Annotated,
    read_conll,
    read_doccano,
    read_label_studio,
    write_argilla,
    write_conll,
    write_doccano,
    write_label_studio,
    write_prodigy,
)
from wiesel.spans.spacy_documents import read_docbin, write_docbin
from wiesel.spans.tags import Span

__all__ = ["annotated_content", "read_annotated", "read_documents"]

_FORMATS = {
    ".jsonl": "doccano",
    ".json": "label_studio",
    ".spacy": "docbin",
    **dict.fromkeys((".conll", ".txt", ".bio", ".iob"), "conll"),
}
_WRITERS: dict[str, Callable[[Documents, Sequence[Sequence[Span]]], str | bytes]] = {
    "doccano": write_doccano,
    "label_studio": write_label_studio,
    "conll": write_conll,
    "docbin": write_docbin,
    "prodigy": write_prodigy,
    "argilla": write_argilla,
}


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
