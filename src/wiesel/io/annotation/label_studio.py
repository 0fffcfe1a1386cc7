"""Label Studio: tasks with people's annotations and models' predictions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wiesel.errors import DataError
from wiesel.io.annotation.answered import Answered, Prediction, Target, only_label, pick_question

__all__ = ["is_label_studio", "label_studio_records", "prediction_task", "read_label_studio"]

_TITLE = "Label Studio"
_CHOSEN = {"choices": "choices", "rating": "rating"}
"""The types of answers that name one class, and the key of their value."""
_ABOUT_THE_ANNOTATION = ("annotation_id", "annotator", "created_at", "updated_at", "lead_time")


def is_label_studio(record: Mapping[str, Any]) -> bool:
    """Whether a record is a Label Studio task, or a line of its short export (JSON-MIN)."""
    if isinstance(record.get("data"), Mapping):
        return True
    return "annotation_id" in record and "annotator" in record


def read_label_studio(records: Sequence[Mapping[str, Any]], question: str | None) -> Answered:
    """Return the answers: annotators and model versions are voters, ground truth is gold."""
    if records and not isinstance(records[0].get("data"), Mapping):
        return _read_short(records, question)
    every = [result for task in records for _, _, result in _results(task)]
    found = Answered(question=_question(every, question))
    found.field = next(
        (str(each["to_name"]) for each in every if each.get("from_name") == found.question), "text"
    )
    kinds = {each.get("type") for each in every if each.get("from_name") == found.question}
    found.rating = kinds == {"rating"}
    for number, task in enumerate(records, start=1):
        data = task.get("data")
        if not isinstance(data, Mapping):
            raise DataError(f"Task {number} of this Label Studio file has no 'data'.")
        key = task.get("id", number)
        item = found.item(key, {"id": key, **data})
        for voter, is_truth, result in _results(task):
            if result.get("from_name") != found.question:
                continue
            label = only_label(_value(result), voter, key)
            if is_truth and label is not None:
                found.gold[item] = label
            else:
                found.answer(item, voter, label)
    return found


def _question(results: Sequence[Mapping[str, Any]], wanted: str | None) -> str:
    names = [str(each.get("from_name")) for each in results if each.get("type") in _CHOSEN]
    if not names and any(each.get("type") == "labels" for each in results):
        raise DataError(
            "This Label Studio file marks parts of texts instead of classifying whole items: "
            "read it with wiesel.spans.read_label_studio."
        )
    return pick_question(names, wanted, _TITLE)


def _results(task: Mapping[str, Any]) -> Iterator[tuple[str, bool, Mapping[str, Any]]]:
    """The voter, whether it is ground truth, and one result; people come first."""
    for annotation in task.get("annotations") or task.get("completions") or ():
        if isinstance(annotation, Mapping) and not annotation.get("was_cancelled"):
            truth = bool(annotation.get("ground_truth"))
            for result in annotation.get("result") or ():
                yield _person(annotation.get("completed_by")), truth, result
    for prediction in task.get("predictions") or ():
        if isinstance(prediction, Mapping):  # short exports only list numbers
            version = str(prediction.get("model_version") or "model")
            for result in prediction.get("result") or ():
                yield version, False, result


def _person(completed_by: Any) -> str:
    if isinstance(completed_by, Mapping):
        known = (completed_by.get(name) for name in ("email", "username"))
        named = next((str(name) for name in known if name), None)
        return named or _person(completed_by.get("id"))
    return "annotator" if completed_by is None else f"annotator {completed_by}"


def _value(result: Mapping[str, Any]) -> Any:
    kind = _CHOSEN.get(str(result.get("type")))
    value = result.get("value")
    return value.get(kind) if kind is not None and isinstance(value, Mapping) else None


def _read_short(records: Sequence[Mapping[str, Any]], question: str | None) -> Answered:
    """JSON-MIN: one record per annotation, with data and answers side by side."""
    if question is None:
        # Columns after `id` that differ between annotations of one task are answers.
        question = pick_question(_answered_columns(records), None, _TITLE)
    found = Answered(question=question)
    for number, record in enumerate(records, start=1):
        shown = {
            name: value
            for name, value in record.items()
            if name not in (question, *_ABOUT_THE_ANNOTATION)
        }
        key = record.get("id", number)
        item = found.item(key, {**shown, "id": key})
        chosen = record.get(question)
        if isinstance(chosen, Mapping):
            chosen = chosen.get("choices")
        voter = _person(record.get("annotator"))
        found.answer(item, voter, only_label(chosen, voter, key))
    if not found.answers:
        raise DataError(f"No annotation in this {_TITLE} file has an answer to {question!r}.")
    return found


def _answered_columns(records: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """The columns that may contain answers: few distinct values, each repeated often."""
    names = [name for name in records[0] if name not in ("id", "text", *_ABOUT_THE_ANNOTATION)]
    by_task: dict[Any, dict[str, set[str]]] = {}
    for number, record in enumerate(records):
        seen = by_task.setdefault(record.get("id", number), {name: set() for name in names})
        for name in names:
            seen[name].add(str(record.get(name)))
    varying = [name for name in names if any(len(seen[name]) > 1 for seen in by_task.values())]
    return varying or names


def label_studio_records(
    predictions: Iterable[Prediction], target: Target
) -> Iterator[dict[str, Any]]:
    """Yield tasks with one prediction each, for import into Label Studio."""
    for number, each in enumerate(predictions):
        result = {
            "id": f"choice{number}",
            "from_name": target.question,
            "to_name": target.field,
            **_chosen(each.chosen, target.rating),
        }
        data = {key: value for key, value in each.row.items() if key != "id"}
        yield prediction_task(each.row.get("id"), data, [result], target.name, each.score)


def _chosen(labels: list[str], rating: bool) -> dict[str, Any]:
    if not rating:
        return {"type": "choices", "value": {"choices": labels}}
    number = float(labels[0])
    whole = int(number) if number.is_integer() else number
    return {"type": "rating", "value": {"rating": whole}}


def prediction_task(
    item: Any, data: Mapping[str, Any], result: Sequence[Any], name: str, score: float | None = None
) -> dict[str, Any]:
    """Return a task with the prediction of one model version.

    >>> prediction_task(1, {"text": "hi"}, [], "wiesel")["predictions"]
    [{'model_version': 'wiesel', 'result': []}]
    """
    prediction: dict[str, Any] = {"model_version": name, "result": list(result)}
    if score is not None:
        prediction["score"] = score
    return {"id": item, "data": dict(data), "predictions": [prediction]}
