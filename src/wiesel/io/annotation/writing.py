"""Writes soft labels as predictions that annotation tools can import."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from wiesel.errors import DataError, listed
from wiesel.io.annotation.answered import OUR_NAME, Prediction, Target
from wiesel.io.annotation.argilla import argilla_records
from wiesel.io.annotation.doccano import doccano_records
from wiesel.io.annotation.label_studio import label_studio_records
from wiesel.io.annotation.prodigy import prodigy_records
from wiesel.io.annotation.reading import tool_name
from wiesel.io.files import FilePath, replacing
from wiesel.labels import LabelSpace
from wiesel.tables import as_frame

__all__ = ["write_predictions"]

Writer = Callable[[Iterable[Prediction], Target], Iterator[dict[str, Any]]]

_WRITERS: dict[str, Writer] = {
    "label_studio": label_studio_records,
    "argilla": argilla_records,
    "prodigy": prodigy_records,
    "doccano": doccano_records,
}
_LINES = ("prodigy", "doccano")
"""The tools that read JSON lines; the others read a list."""


def write_predictions(  # noqa: PLR0913 - three of them are names in the tool
    path: FilePath,
    rows: Any,
    proba: Any,
    labels: LabelSpace | Sequence[str],
    *,
    tool: str,
    question: str = "label",
    field: str = "text",
    name: str = OUR_NAME,
    rating: bool = False,
) -> None:
    """Write the most probable class of each row, with its probability as score, for a tool.

    `rows` is a table with `id` and the data to show; `proba` has one row for each. `question` and
    `field` are the tool's names of the question and of the field it shows (`from_name` and
    `to_name` in Label Studio). `name` is the model version or annotator; if it starts with
    "wiesel", the predictions are not read as answers when they come back. `rating` writes the
    classes, which are numbers, as ratings of Label Studio. Leave out items without votes: for
    these, only the prior is known.

    >>> import tempfile, pathlib
    >>> from wiesel.io import read_annotations
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tasks.json"
    >>> rows = {"id": [1, 2], "text": ["win a prize", "see you"]}
    >>> write_predictions(path, rows, [[0.1, 0.9], [0.7, 0.3]], ["ham", "spam"], tool="argilla",
    ...                   name="bert")
    >>> read_annotations(path).votes.voters
    ('bert',)
    """
    chosen = tool_name(tool)
    space, frame = LabelSpace.of(labels), as_frame(rows)
    array = np.asarray(proba, dtype=np.float64)
    if array.shape != (len(frame), len(space)):
        raise DataError(
            f"Soft labels of {len(frame)} rows and {len(space)} classes are an array of that "
            f"shape; got {array.shape}."
        )
    if rating and len(space.named_values) < len(space):
        raise DataError(f"Ratings are numbers; the classes are {listed(space)}.")
    target = Target(space.names, question, field, name, rating)
    best = array.argmax(axis=1).tolist()
    predictions = (
        Prediction(row, space.names[k], round(float(array[place, k]), 6))
        for place, (row, k) in enumerate(zip(frame.iter_rows(named=True), best, strict=True))
    )
    records = _WRITERS[chosen](predictions, target)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        if chosen in _LINES:
            stream.writelines(f"{_json(record)}\n" for record in records)
        else:
            stream.write("[" + ",\n ".join(map(_json, records)) + "]\n")


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, default=str)
