"""Annotated text in files: which format a file has, by its name."""

from wiesel.errors import DataError
from wiesel.io import FilePath, existing_file, explained, read_rows, scan_rows
from wiesel.io.files import read_text
from wiesel.spans.documents import Documents
from wiesel.spans.formats import Annotated, read_conll, read_doccano, read_label_studio
from wiesel.spans.spacy_documents import read_docbin

__all__ = ["read_annotated", "read_documents"]

_READERS = {
    ".jsonl": read_doccano,
    ".json": read_label_studio,
    **dict.fromkeys((".conll", ".txt", ".bio", ".iob"), read_conll),
}


def read_documents(path: FilePath, text: str = "text", id: str | None = None) -> Documents:
    """Return the texts of a file: a table with a column of texts, or any file with spans.

    Ids come from the column `id`; None takes the column named `id` if there is one.
    """
    file = existing_file(path)
    if file.suffix == ".spacy" or file.suffix in _READERS.keys() - {".jsonl"}:
        return read_annotated(file)[0]
    with explained(file):
        if id is None and "id" in scan_rows(file).collect_schema().names():
            id = "id"
        return Documents.from_rows(read_rows(file, [text, *([id] if id else [])]), text, id)


def read_annotated(path: FilePath, predictions: bool = False) -> Annotated:
    """Return the documents and spans of a file: JSONL as of doccano, CoNLL, Label Studio, DocBin.

    `predictions` takes those of Label Studio where there is no annotation.

    >>> read_annotated("gold.csv")
    Traceback (most recent call last):
    wiesel.errors.DataError: There is no file gold.csv...
    """
    file = existing_file(path)
    with explained(file):
        if file.suffix == ".spacy":
            return read_docbin(file.read_bytes())
        if file.suffix not in _READERS:
            raise DataError(
                "Spans are read from .jsonl (text, label), .conll, .json of Label Studio and "
                f".spacy files; got {file.suffix!r}."
            )
        if file.suffix == ".json":
            return read_label_studio(read_text(file), predictions)
        return _READERS[file.suffix](read_text(file))
