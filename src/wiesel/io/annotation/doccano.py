"""doccano: a text and its labels on each line, one file per annotator."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wiesel.errors import DataError
from wiesel.io.annotation.answered import Answered, Prediction, Target, is_ours, only_label

__all__ = ["doccano_records", "is_doccano", "labels_of", "read_doccano"]

_LABELS = ("label", "labels", "cats", "entities")
_PEOPLE = ("annotator", "username", "user", "annotation_approver")
_NOT_SHOWN = {*_LABELS, *_PEOPLE, "annotations", "Comments", "comments", "_file"}


def is_doccano(record: Mapping[str, Any]) -> bool:
    """Whether a record is from doccano: a text with a list of labels or annotations."""
    if not isinstance(record.get("text", record.get("data")), str):
        return False
    return isinstance(labels_of(record), list) or isinstance(record.get("annotations"), list)


def labels_of(record: Mapping[str, Any]) -> Any:
    """Return the labels of a line, under any of the names that doccano versions use."""
    return next((record[name] for name in _LABELS if name in record), None)


def read_doccano(records: Sequence[Mapping[str, Any]], question: str | None) -> Answered:
    """Return the answers; the annotator is named in the line or by the file (`_file`)."""
    found = Answered(question=question or "label")
    for number, record in enumerate(records, start=1):
        text = record.get("text", record.get("data"))
        key = record.get("id", text)
        if not isinstance(text, str):
            raise DataError(f"Line {number} of this doccano file has no text.")
        shown = {name: value for name, value in record.items() if name not in _NOT_SHOWN}
        meta = shown.pop("meta", None)
        shown.pop("data", None)
        more = meta if isinstance(meta, Mapping) else {}
        item = found.item(key, {"id": key, **shown, **more, "text": text})
        for voter, label in _answers(record, key):
            found.answer(item, voter, label)
    return found


def _answers(record: Mapping[str, Any], key: object) -> Iterator[tuple[str, str | None]]:
    listed = record.get("annotations")
    if isinstance(listed, list):
        chosen: dict[str, list[Any]] = {}
        for each in listed:
            chosen.setdefault(f"user {each.get('user')}", []).append(each.get("label"))
        for voter, labels in chosen.items():
            yield voter, only_label(labels, voter, key)
        return
    # doccano keeps our name beside a label that a person corrected: the file tells who it was.
    named = [str(record[name]) for name in (*_PEOPLE, "_file") if record.get(name)]
    voter = min(named, key=is_ours, default="doccano")
    labels = labels_of(record)
    if isinstance(labels, list) and any(isinstance(each, (list, Mapping)) for each in labels):
        raise DataError(
            "This doccano file marks parts of texts instead of classifying whole texts: read "
            "it with wiesel.spans.read_doccano."
        )
    yield voter, only_label(labels, voter, key)


def doccano_records(predictions: Iterable[Prediction], target: Target) -> Iterator[dict[str, Any]]:
    """Yield lines that doccano imports for text classification; scores become metadata."""
    for each in predictions:
        row, score = each.row, each.score
        text = row.get(target.field, row.get("text"))
        if not isinstance(text, str):
            raise DataError(f"doccano shows texts; the rows have no texts in {target.field!r}.")
        shown = {key: value for key, value in row.items() if key not in (target.field, "score")}
        named = {"annotator": target.name} | ({} if score is None else {"score": score})
        yield {**shown, "text": text, "label": each.chosen, **named}
