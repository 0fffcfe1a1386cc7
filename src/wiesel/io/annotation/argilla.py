"""Argilla: records with people's responses and models' suggestions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wiesel.io.annotation.answered import Answered, Prediction, Target, only_label, pick_question

__all__ = ["argilla_records", "is_argilla", "read_argilla"]


def is_argilla(record: Mapping[str, Any]) -> bool:
    """Whether a record is from Argilla: fields, with responses or suggestions."""
    parts = "responses" in record or "suggestions" in record
    return isinstance(record.get("fields"), Mapping) and parts


def read_argilla(records: Sequence[Mapping[str, Any]], question: str | None) -> Answered:
    """Return the answers: users and agents are voters."""
    every = [name for record in records for name, _, _ in _answers(record)]
    found = Answered(question=pick_question(every, question, "Argilla"))
    fields = [name for record in records for name in record.get("fields") or {}]
    found.field = "text" if "text" in fields or not fields else fields[0]
    for number, record in enumerate(records):
        key = record.get("id") or number
        metadata = record.get("metadata") or {}
        item = found.item(key, {"id": key, **metadata, **(record.get("fields") or {})})
        for name, voter, value in _answers(record):
            if name == found.question:
                found.answer(item, voter, only_label(value, voter, key))
    return found


def _answers(record: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The question, voter and value of each response and suggestion."""
    yield from _responses(record)
    suggestions = record.get("suggestions") or {}
    if isinstance(suggestions, Mapping):
        pairs = list(suggestions.items())
    else:
        pairs = [(each.get("question_name"), each) for each in suggestions]
    for name, each in pairs:
        yield str(name), str(each.get("agent") or "suggestion"), each.get("value")


def _responses(record: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    responses = record.get("responses") or {}
    if isinstance(responses, Mapping):  # version 2
        for name, given in responses.items():
            for each in given:
                yield name, str(each.get("user_id")), each.get("value")
    else:  # version 1: a response has all answers of one user
        for each in responses:
            if each.get("status", "submitted") == "submitted":
                for name, value in (each.get("values") or {}).items():
                    yield name, str(each.get("user_id")), value.get("value")


def argilla_records(predictions: Iterable[Prediction], target: Target) -> Iterator[dict[str, Any]]:
    """Yield records with one suggestion each, for `dataset.records.from_json`."""
    for each in predictions:
        row = each.row
        others = {key: value for key, value in row.items() if key not in ("id", target.field)}
        yield {
            "id": None if row.get("id") is None else str(row["id"]),
            "fields": {target.field: row.get(target.field)},
            "metadata": {key: value for key, value in others.items() if value is not None},
            "suggestions": {
                target.question: {
                    "value": each.label if isinstance(each.label, str) else each.chosen,
                    "score": each.score,
                    "agent": target.name,
                }
            },
            "responses": {},
            "vectors": {},
        }
