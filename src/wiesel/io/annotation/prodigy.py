"""Prodigy: one line per answer, which is accept, reject, or a choice among options."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wiesel.io.annotation.answered import Answered, Prediction, Target, only_label

__all__ = ["is_prodigy", "prodigy_records", "read_prodigy"]

_NOT_SHOWN = {
    "label", "options", "accept", "answer", "spans", "tokens", "config", "meta", "priority",
    "score",
}  # fmt: skip


def is_prodigy(record: Mapping[str, Any]) -> bool:
    """Whether a record is a Prodigy answer or task."""
    if any(name in record for name in ("_input_hash", "_task_hash", "_view_id")):
        return True
    return record.get("answer") in ("accept", "reject", "ignore")


def read_prodigy(records: Sequence[Mapping[str, Any]], question: str | None) -> Answered:
    """Return the answers of every annotator.

    A rejected label is a vote only if a single other class is left: the other of two labels, or
    'not SPAM' if SPAM is the only label. Otherwise it is an abstention.
    """
    found = Answered(question=question or "label")
    names = {str(record["label"]) for record in records if record.get("label") is not None}
    names |= {str(option["id"]) for record in records for option in record.get("options") or ()}
    found.classes = names | {f"not {name}" for name in names if len(names) == 1}
    accepted: dict[tuple[int, str], str] = {}
    rejected: dict[tuple[int, str], str] = {}
    for number, record in enumerate(records):
        key = record.get("_input_hash", record.get("text", number))
        item = found.item(key, _shown(record, key))
        voter = str(record.get("_annotator_id") or record.get("_session_id") or "prodigy")
        if record.get("answer") == "accept":
            label = only_label(record.get("accept", record.get("label")), voter, key)
            if label is not None:
                accepted[item, voter] = label
        elif record.get("answer") == "reject" and record.get("label") is not None:
            other = _other(str(record["label"]), names)
            if other is not None:
                rejected[item, voter] = other
    for (item, voter), label in {**rejected, **accepted}.items():
        found.answer(item, voter, label)
    return found


def _other(label: str, names: set[str]) -> str | None:
    others = names - {label}
    if not others:
        return f"not {label}"
    return others.pop() if len(others) == 1 else None


def _shown(record: Mapping[str, Any], key: object) -> dict[str, Any]:
    shown = {
        name: value
        for name, value in record.items()
        if name not in _NOT_SHOWN and not name.startswith("_")
    }
    meta = record.get("meta")
    more = dict(meta) if isinstance(meta, Mapping) else {}
    more.pop("score", None)
    return {"id": key, **more, **shown}


def prodigy_records(predictions: Iterable[Prediction], target: Target) -> Iterator[dict[str, Any]]:
    """Yield choice answers of one annotator, with the score shown below the text.

    `prodigy db-in` imports them unchanged. Without `answer`, they are tasks with a preset choice.
    """
    options = [{"id": name, "text": name} for name in target.labels]
    for each in predictions:
        shown = {key: value for key, value in each.row.items() if key != "id"}
        yield {
            **shown,
            "options": options,
            "accept": each.chosen,
            "answer": "accept",
            "meta": {} if each.score is None else {"score": each.score},
            "_annotator_id": target.name,
            "_session_id": target.name,
            "_view_id": "choice",
        }
