"""Reads the files of annotation tools as rows, votes and gold labels."""

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Argument, DataError, ParameterError, listed, suggest
from wiesel.io.annotation.answered import OUR_NAME, Answered, Prediction, Target, is_ours
from wiesel.io.annotation.argilla import argilla_records, is_argilla, read_argilla
from wiesel.io.annotation.doccano import doccano_records, is_doccano, read_doccano
from wiesel.io.annotation.label_studio import (
    is_label_studio,
    label_studio_records,
    read_label_studio,
)
from wiesel.io.annotation.prodigy import is_prodigy, prodigy_records, read_prodigy
from wiesel.io.files import FilePath, existing_file, explained, read_text, replacing
from wiesel.io.lenient import as_written_by, json_records
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.tables import as_frame
from wiesel.vote_entries import item_ids
from wiesel.votes import VoteMatrix

__all__ = [
    "TOOLS",
    "Annotations",
    "is_annotation_file",
    "read_annotations",
    "tool_name",
    "write_predictions",
]

Writer = Callable[[Iterable[Prediction], Target], Iterator[dict[str, Any]]]

_WRITERS: dict[str, Writer] = {
    "label_studio": label_studio_records,
    "argilla": argilla_records,
    "prodigy": prodigy_records,
    "doccano": doccano_records,
}
_LINES = ("prodigy", "doccano")
"""The tools that read JSON lines; the others read a list."""


class _Tool(NamedTuple):
    recognizes: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Sequence[Mapping[str, Any]], str | None], Answered]


_READERS = {
    "label_studio": _Tool(is_label_studio, read_label_studio),
    "argilla": _Tool(is_argilla, read_argilla),
    "prodigy": _Tool(is_prodigy, read_prodigy),
    "doccano": _Tool(is_doccano, read_doccano),
}
TOOLS = tuple(_READERS)
"""The supported annotation tools."""

_EXTENSIONS = (".json", ".jsonl", ".ndjson", ".zip")
_UNPACKED = 2**28
"""How much text is unpacked from a zip file."""


@dataclass(frozen=True, eq=False, repr=False)
class Annotations:
    """The answers from an annotation tool; row `i` of every field belongs to the same item."""

    rows: pl.DataFrame
    """`id`, and the data that the tool has for the item."""
    votes: VoteMatrix
    """The answers: annotators and model versions are voters."""
    gold: npt.NDArray[np.int64]
    """Class indices if the tool knows the truth, otherwise -1."""
    tool: str
    question: str
    """The tool's name of the question."""
    field: str
    """The tool's name of the field that was shown."""
    rating: bool = False
    """Whether the answers are ratings; their classes are in order."""
    n_ours: int = 0
    """Predictions that Wiesel wrote, which are no answers."""

    def write(self, path: FilePath, proba: Any, name: str = OUR_NAME) -> None:
        """Write soft labels of items with votes as predictions for the same tool and question."""
        from wiesel.io.annotation.reading import write_predictions

        covered = self.votes.covered
        write_predictions(
            path,
            self.rows.filter(pl.Series(covered)),
            np.asarray(proba)[covered],
            self.votes.labels,
            tool=self.tool,
            question=self.question,
            field=self.field,
            name=name,
            rating=self.rating,
        )

    def __repr__(self) -> str:
        known = int((self.gold >= 0).sum())
        truth = f", {known:,} with a gold label" if known else ""
        return f"Annotations({self.tool}, question {self.question!r}{truth}, {self.votes!r})"


def read_annotations(
    source: FilePath | Sequence[Mapping[str, Any]],
    tool: str | None = None,
    *,
    question: str | None = None,
    labels: LabelSpace | Sequence[str] | None = None,
) -> Annotations:
    """Return the answers in a file from Label Studio, doccano, Prodigy or Argilla.

    Parameters
    ----------
    source
        A JSON or JSONL file, or its records as a list of dicts. For doccano also its zip file or
        a folder, with one file per annotator.
    tool
        One of `TOOLS`; by default, detected from the records.
    question
        The question to read if there are several; in Label Studio, the `from_name`.
    labels
        The classes in order; by default, the answered classes, sorted.

    >>> task = {"id": 7, "data": {"text": "win a prize"}, "annotations": [], "predictions": []}
    >>> for person, label in ((1, "spam"), (2, "ham")):
    ...     chosen = {"from_name": "kind", "to_name": "text", "type": "choices"}
    ...     chosen["value"] = {"choices": [label]}
    ...     task["annotations"].append({"completed_by": person, "result": [chosen]})
    >>> found = read_annotations([task])
    >>> found.tool, found.votes.voters, found.votes.to_long()["label"].to_list()
    ('label_studio', ('annotator 1', 'annotator 2'), ['spam', 'ham'])
    """
    place = source if isinstance(source, (str, Path)) else "the records"
    with explained(place):
        records = _records(source)
        if not records:
            raise DataError("There are no records.")
        chosen = _recognized(records) if tool is None else tool_name(tool)
        with as_written_by(f"This {chosen} file"):
            answered = _READERS[chosen].read(records, question)
            return _annotations(answered, chosen, labels)


def is_annotation_file(path: FilePath) -> bool:
    """Whether a file is from an annotation tool, judged by its extension and first record.

    >>> is_annotation_file("votes.parquet")
    False
    """
    found = Path(path)
    if found.is_dir():  # doccano's, with a file for each annotator
        files = _annotators_files(found)
        is_own = any((found / name).exists() for name in ("manifest.json", "wiesel.toml"))
        return not is_own and bool(files) and _is_from_a_tool(files[0])
    if found.suffix.lower() not in _EXTENSIONS or not found.is_file():
        return False
    return found.suffix.lower() in (".json", ".zip") or _is_from_a_tool(found)


def _is_from_a_tool(file: Path) -> bool:
    """Whether the first record of a JSON or JSONL file is one of a tool."""
    with file.open("rb") as stream:
        first = stream.read() if file.suffix.lower() == ".json" else stream.readline(2**24)
    try:
        records = json_records(first.decode("utf-8"))
    except (DataError, UnicodeDecodeError):
        return False
    return bool(records) and _tool_of(records[0]) is not None


def _annotators_files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.suffix.lower() in _EXTENSIONS[:3])


def tool_name(tool: str) -> str:
    """Return the normalized name of a tool: `label-studio` becomes `label_studio`."""
    name = tool.lower().replace("-", "_").replace(" ", "_")
    if name not in TOOLS:
        raise ParameterError(f"There is no tool {tool!r}. {suggest(name, TOOLS)}")
    return name


def _records(source: Any) -> list[dict[str, Any]]:
    if not isinstance(source, (str, Path)):
        return [dict(record) for record in source]
    path = Path(source)
    if path.is_dir():
        files = _annotators_files(path)
        if not files:
            raise DataError("The folder has no .json or .jsonl files.")
        return [record for file in files for record in _named_after(file.stem, read_text(file))]
    if path.suffix.lower() != ".zip":
        return json_records(read_text(path))
    try:
        with zipfile.ZipFile(io.BytesIO(existing_file(path).read_bytes())) as archive:
            _refuse_large_archive(archive)
            return [
                record
                for name in sorted(archive.namelist())
                if Path(name).suffix.lower() in _EXTENSIONS[:3]
                for record in _named_after(Path(name).stem, archive.read(name).decode("utf-8"))
            ]
    # RuntimeError: it has a password. The others: damage that `zipfile` passes on.
    except (zipfile.BadZipFile, zlib.error, UnicodeDecodeError, RuntimeError, EOFError) as error:
        raise DataError(f"This is not a doccano zip file: {error}.") from error


def _refuse_large_archive(archive: zipfile.ZipFile) -> None:
    """Reject archives that unpack to very much; a few bytes can become gigabytes."""
    size = sum(member.file_size for member in archive.infolist())
    if size > _UNPACKED:
        raise DataError(
            f"It unpacks to {size / 2**20:,.0f} MB, and {_UNPACKED // 2**20} are read from a zip "
            "file at most. Unpack it, and give the folder."
        )


def _named_after(annotator: str, text: str) -> list[dict[str, Any]]:
    """The records of one of several files, each named after its annotator."""
    return [{**record, "_file": annotator} for record in json_records(text)]


def _recognized(records: Sequence[Mapping[str, Any]]) -> str:
    name = _tool_of(records[0])
    if name is None:
        raise DataError(
            f"The first record has {listed(records[0], limit=6) or 'nothing'}, which matches "
            "none of "
            f"{listed(TOOLS)}. A table with one row per answer is read from CSV, Parquet or "
            "JSONL."
        )
    return name


def _tool_of(record: Mapping[str, Any]) -> str | None:
    return next((name for name, tool in _READERS.items() if tool.recognizes(record)), None)


def _annotations(
    found: Answered, tool: str, labels: LabelSpace | Sequence[str] | None
) -> Annotations:
    answers = [each for each in found.answers if not is_ours(each.voter)]
    n_ours = len(found.answers) - len(answers)
    if not answers and not found.gold:
        ours = f", only {n_ours:,} predictions that Wiesel wrote" if n_ours else ""
        raise DataError(f"Nobody has answered yet: there are items, but no answers{ours}.")
    answered = {each.label for each in answers}
    seen = sorted(answered | found.classes | set(found.gold.values()))
    if labels is None and len(seen) < 2:
        problem = f"All answers are {listed(seen)}: name all classes, "
        raise DataError(problem, Argument("labels", [...]), ".")
    if found.rating and labels is None:
        seen.sort(key=float)
    space = LabelSpace.of(seen if labels is None else labels)
    space = LabelSpace(*space, ordered=space.ordered or found.rating)
    schema = {"item": pl.Int64, "voter": pl.String, "label": pl.String}
    votes = VoteMatrix.from_long(
        pl.DataFrame(answers, schema=schema, orient="row"),
        item="item",
        voter="voter",
        label="label",
        labels=space,
        items=np.arange(len(found.rows)),
        duplicates="last",
    )
    gold = np.full(len(found.rows), ABSTAIN, dtype=np.int64)
    for item, name in found.gold.items():
        gold[item] = space.index(name)
    rows = _table(found.rows)
    votes = replace(votes, ids=item_ids(rows["id"], len(rows)))
    indices = space.from_indices(gold)
    return Annotations(
        rows, votes, indices, tool, found.question, found.field, found.rating, n_ours
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as a table with the union of their columns; mixed types become text."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame([_column(name, [row.get(name) for row in rows]) for name in names])


def _column(name: str, values: list[Any]) -> pl.Series:
    try:
        return pl.Series(name, values, strict=True)
    except (TypeError, pl.exceptions.PolarsError):
        return pl.Series(name, [None if value is None else str(value) for value in values])


def write_predictions(  # noqa: PLR0913 - three of them are names in the tool
    path: FilePath,
    rows: Any,
    proba: Any,
    labels: LabelSpace | MultiLabelSpace | Sequence[str],
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
    these, only the prior is known. With a `MultiLabelSpace`, the labels with a probability above
    one half are written, without scores.

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
    several = isinstance(labels, MultiLabelSpace)
    space = labels if isinstance(labels, MultiLabelSpace) else LabelSpace.of(labels)
    frame = as_frame(rows)
    array = np.asarray(proba, dtype=np.float64)
    if array.shape != (len(frame), len(space)):
        raise DataError(
            f"Soft labels of {len(frame)} rows and {len(space)} classes are an array of that "
            f"shape; got {array.shape}."
        )
    if rating and (several or len(LabelSpace.of(labels).named_values) < len(space)):
        raise DataError(f"Ratings are numbers; the classes are {listed(space)}.")
    target = Target(space.names, question, field, name, rating)
    best = array.argmax(axis=1).tolist()
    predictions = (
        Prediction(row, tuple(name for name, p in zip(space, own, strict=True) if p > 0.5), None)
        if several
        else Prediction(row, space.names[k], round(float(own[k]), 6))
        for row, own, k in zip(frame.iter_rows(named=True), array, best, strict=True)
    )
    records = _WRITERS[chosen](predictions, target)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        if chosen in _LINES:
            stream.writelines(f"{_json(record)}\n" for record in records)
        else:
            stream.write("[" + ",\n ".join(map(_json, records)) + "]\n")


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, default=str)
