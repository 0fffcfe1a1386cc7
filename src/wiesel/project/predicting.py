"""Predicts rows in pieces: files larger than memory, bad rows as records, work that resumes."""

import itertools
import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, WieselError, WieselWarning, suggest, warn_user
from wiesel.io import FilePath, explained, write_rows
from wiesel.io.files import appearing_folder, content_of, table_format
from wiesel.io.lenient import lenient_rows
from wiesel.io.rows import matching_files, read_batches, write_lazy_rows
from wiesel.lfs.batch import RowSource
from wiesel.lfs.engines.pieces import Piece, cut, part_name
from wiesel.lfs.engines.ray_engine import done_on_ray
from wiesel.lfs.fingerprints import digest
from wiesel.progress import progress
from wiesel.project.bundle import Bundle, load_bundle
from wiesel.project.outputs import predicted_names, prediction_frame
from wiesel.project.rows import with_ids
from wiesel.runtime import category_text
from wiesel.saving import write_file
from wiesel.tables import require_columns

__all__ = [
    "BAD_ROWS",
    "PIECE_ROWS",
    "Predicted",
    "predict_file",
    "predict_on_ray",
    "predict_records",
    "predict_table",
]

Places = npt.NDArray[np.int64]

PIECE_ROWS = 10_000
"""The number of rows that are in memory together."""
BAD_ROWS = 3
"""The exit code if some rows could not be predicted."""
_ERROR = "error"
_SHOWN = 5
_JOB = "job.json"
_PART_ROWS = 20_000


@dataclass
class Predicted:
    """What became of the rows: how many of each class, and what was wrong with the others."""

    counts: Counter[str] = field(default_factory=Counter)
    n_items: int = 0
    n_errors: int = 0
    examples: list[str] = field(default_factory=list)
    """The problems of the first bad rows."""
    frame: pl.DataFrame | None = None
    """The predictions, if they were not written to a file."""

    def add(self, frame: pl.DataFrame) -> None:
        """Count the rows of a table that `predict_table` returned."""
        self.n_items += len(frame)
        bad = frame.filter(pl.col(_ERROR).is_not_null())
        self.n_errors += len(bad)
        room = _SHOWN - len(self.examples)
        self.examples += bad[_ERROR].head(room).to_list()
        self.counts.update(dict(frame["prediction"].drop_nulls().value_counts().iter_rows()))


def predict_table(
    bundle: Bundle,
    rows: pl.DataFrame,
    id_column: str | None = None,
    start: int = 0,
    known_problems: Sequence[str] = (),
) -> pl.DataFrame:
    """Return id, prediction and probabilities of every row, and an `error` where there are none.

    A row without a text, or with a word where a number is needed, is not predicted. `start` is the
    number of the first row, which is its id if the table has no ids.
    """
    if id_column is not None:
        require_columns(rows, [id_column], "named as id")
    name = id_column or "id"
    numbers = pl.Series("id", [str(start + k) for k in range(len(rows))], pl.String)
    ids = rows[name].alias("id") if name in rows.columns else numbers
    problems = [*(known_problems or [""] * len(rows))]
    rows = _checked(bundle, rows, problems)
    good = np.array([k for k, problem in enumerate(problems) if not problem], dtype=np.int64)
    proba = np.full((len(rows), len(bundle.labels)), 0.0)

    def predict(places: Places) -> npt.NDArray[np.float64]:
        return bundle.predict_proba(rows if len(places) == len(rows) else rows[places])

    _predict(predict, good, proba, problems)
    frame = prediction_frame(ids, bundle.model, proba)
    frame = frame.with_columns(pl.Series(_ERROR, [text or None for text in problems], pl.String))
    is_good = pl.col(_ERROR).is_null()
    values = [column for column in frame.columns if column not in ("id", _ERROR)]
    return frame.with_columns(pl.when(is_good).then(pl.col(values)))


def predict_records(
    bundle: Bundle, records: Sequence[Mapping[str, Any] | None], known_problems: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the answer for each record: `id` if it has one, `prediction` and `proba`, or `error`.

    A missing record has a problem. Needs no threads of Polars, so it runs in a forked process.
    """
    names = bundle.labels.names
    problems = [*(known_problems or [""] * len(records))]
    needed = _needed(bundle)
    for place, record in enumerate(records):
        problems[place] = problems[place] or _record_problem(bundle, record, needed)
    good = np.array([k for k, problem in enumerate(problems) if not problem], dtype=np.int64)
    proba = np.zeros((len(records), len(names)))

    def predict(places: Places) -> npt.NDArray[np.float64]:
        rows: list[Any] = [records[k] for k in places]
        return bundle.predict_proba({name: [row[name] for row in rows] for name in needed})

    _predict(predict, good, proba, problems)
    predicted = predicted_names(bundle.model, proba) if len(proba) else []
    answers = []
    for record, problem, name, values in zip(
        records, problems, predicted, proba.tolist(), strict=True
    ):
        known = {"id": record["id"]} if record and "id" in record else {}
        found = {"prediction": name, "proba": dict(zip(names, values, strict=True))}
        answers.append({**known, **({"error": problem} if problem else found)})
    return answers


def _record_problem(bundle: Bundle, record: Mapping[str, Any] | None, needed: Sequence[str]) -> str:
    """What is wrong with a record; empty if it can be predicted."""
    if record is None:
        return "This is no row."
    missing = next((name for name in needed if name not in record), None)
    if missing is not None:
        close = suggest(missing, record)
        return f"There is no column {missing!r}. {close if close.startswith('Did') else ''}".strip()
    if bundle.manifest["inputs"]["kind"] == "tabular":
        return _cell_problem(bundle, record)
    text = record[needed[0]]
    if text is not None and not isinstance(text, str):
        return f"{needed[0]!r} is {text!r:.80}, not a text."
    return "" if text and not text.isspace() else f"There is no text in {needed[0]!r}."


def _cell_problem(bundle: Bundle, record: Mapping[str, Any]) -> str:
    for name in bundle.features.numeric:
        value = record[name]
        is_number = isinstance(value, (int, float)) and not math.isinf(value)
        if value is not None and not is_number:
            return f"{name!r} is {value!r:.80}, not a finite number."
    for name in bundle.features.categorical:
        if isinstance(record[name], (dict, list)):
            return f"{name!r} is {record[name]!r:.80}, not a category."
    return ""


def _predict(
    predict: Callable[[Places], npt.NDArray[np.float64]],
    places: Places,
    proba: npt.NDArray[np.float64],
    problems: list[str],
) -> None:
    """Predict the rows at some places; those that cannot be are found by halving."""
    if not len(places):
        return
    try:
        proba[places] = predict(places)
    except WieselError as error:
        if len(places) == 1:
            problems[int(places[0])] = " ".join(str(error).split())
            return
        middle = len(places) // 2
        for part in (places[:middle], places[middle:]):
            _predict(predict, part, proba, problems)


def _checked(bundle: Bundle, rows: pl.DataFrame, problems: list[str]) -> pl.DataFrame:
    """Note the rows that cannot be predicted; numbers that were read as texts become numbers."""
    needed = _needed(bundle)
    require_columns(rows, needed, "which this model reads")
    if bundle.manifest["inputs"]["kind"] == "tabular":
        for name in bundle.features.numeric:
            rows = _with_numbers(rows, name, problems)
        return rows
    for name in needed:
        column = rows[name]
        if column.dtype in (pl.String, pl.Null):
            empty = column.is_null() | (column.cast(pl.String).str.strip_chars() == "")
            for k in np.flatnonzero(empty.fill_null(True).to_numpy()):
                problems[k] = problems[k] or f"There is no text in {name!r}."
    return rows


def _with_numbers(rows: pl.DataFrame, name: str, problems: list[str]) -> pl.DataFrame:
    column = rows[name]
    if column.dtype == pl.String:
        # One wrong cell makes a whole column texts.
        texts = column.str.strip_chars()
        numbers = texts.cast(pl.Float64, strict=False)
        wrong = (texts != "") & (numbers.is_null() | numbers.is_infinite())
        rows = rows.with_columns(numbers.alias(name))
    elif column.dtype.is_float():
        wrong = column.is_infinite()
    else:
        return rows
    for k in np.flatnonzero(wrong.fill_null(False).to_numpy()):
        value = str(column[int(k)])
        problems[k] = problems[k] or f"{name!r} is {value[:80]!r}, not a finite number."
    return rows


def _needed(bundle: Bundle) -> tuple[str, ...]:
    """The columns that a model reads; an error if it reads none."""
    if bundle.features is None or bundle.manifest["inputs"]["kind"] in ("images", "given"):
        bundle.inputs(pl.DataFrame())  # says that it takes arrays
    if bundle.manifest["inputs"]["kind"] == "tabular":
        return (*bundle.features.numeric, *bundle.features.categorical)
    return (bundle.manifest["inputs"]["column"],)


def predict_file(
    bundle: Bundle,
    data: FilePath,
    output: FilePath | None = None,
    id_column: str | None = None,
    errors: FilePath | None = None,
) -> Predicted:
    """Predict all rows of a file, a folder or a pattern, piece by piece.

    With `output`, the predictions are written there. Bad rows have an `error` in the table, or are
    written to `errors`. Finished pieces are kept beside the output until it is complete, so that
    the same call continues after an interruption.
    """
    job = _Job(bundle, data, id_column)
    pieces = _Pieces(None if output is None else Path(output), job.key())
    try:
        found = job.done(pieces)
    except DataError as error:
        if pieces.damaged or not _has_lines(data):
            raise
        pieces.start_over()
        try:
            found = job.done(pieces, cause=error)
        except WieselError:
            pieces.remove()
            raise
    if found.n_errors == found.n_items:
        pieces.remove()
        raise DataError(f"{data}: no row of it can be predicted. {found.examples[0]}")
    found.frame = pieces.finish(None if errors is None else Path(errors), found.n_errors)
    return found


class _Piece(NamedTuple):
    """Some rows, as they were read."""

    start: int
    rows: pl.DataFrame
    problems: Sequence[str] = ()
    """For each row, why its line is none; empty if all are."""


@dataclass(frozen=True)
class _Job:
    bundle: Bundle
    data: FilePath
    id_column: str | None

    def key(self) -> str:
        """Changes when the model or the rows change."""
        files = [(str(file), *_version(file)) for file in matching_files(self.data)]
        return digest(self.bundle.manifest["sha256"], files, self.id_column, PIECE_ROWS)

    def done(self, pieces: "_Pieces", cause: DataError | None = None) -> Predicted:
        """Predict all pieces that are not known yet, and count all rows."""
        found, ids, n_without = Predicted(), [], 0
        read = self._damaged() if pieces.damaged else self._batches()
        with progress("predict") as show:
            for number, piece in enumerate(read):
                frame = pieces.known(number)
                if frame is None:
                    with explained(str(self.data)):
                        frame = predict_table(
                            self.bundle, piece.rows, self.id_column, piece.start, piece.problems
                        )
                    pieces.keep(number, frame)
                found.add(frame)
                n_without += frame.filter(pl.col(_ERROR).is_null())["id"].null_count()
                ids.append(frame["id"].drop_nulls().hash(0).to_numpy())
                show(found.n_items, f"{found.n_errors:,} with errors" if found.n_errors else "")
        if cause is not None and found.n_errors == found.n_items:
            raise cause  # there is not one row: the file is something else
        _warn_of_ids(np.concatenate(ids), n_without)
        return found

    def _batches(self) -> Iterator[_Piece]:
        start = 0
        for batch in read_batches(self.data, batch_size=PIECE_ROWS):
            for place in range(0, len(batch), PIECE_ROWS):
                rows = batch[place : place + PIECE_ROWS]
                yield _Piece(start, rows)
                start += len(rows)

    def _damaged(self) -> Iterator[_Piece]:
        """Rows read line by line, as texts."""
        needed, start = _needed(self.bundle), 0
        read, name, names = lenient_rows(self.data), self.id_column or "id", dict[str, None]()
        while found := list(itertools.islice(read, PIECE_ROWS)):
            names |= dict.fromkeys(column for one in found for column in one.row)
            if names:
                known = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
                require_columns(known, needed, "which this model reads")
            columns = [*needed, *([name] if name in names else [])]
            cells = {
                column: pl.Series([_cell(one.row.get(column)) for one in found], dtype=pl.String)
                for column in dict.fromkeys(columns)
            }
            rows = _with_known_categories(self.bundle, pl.DataFrame(cells))
            yield _Piece(start, rows, [one.problem or self._no_text(one.row) for one in found])
            start += len(found)

    def _no_text(self, row: Mapping[str, Any]) -> str:
        """Say that a text is a number or a list, as only JSON can have it; empty if it is none."""
        if self.bundle.manifest["inputs"]["kind"] == "tabular":
            return ""
        name = self.bundle.manifest["inputs"]["column"]
        value = row.get(name)
        is_text = value is None or isinstance(value, str)
        return "" if is_text else f"{name!r} is {value!r:.80}, not a text."


def _cell(value: Any) -> str | None:
    return None if value in (None, "") else category_text(value)


def _with_known_categories(bundle: Bundle, rows: pl.DataFrame) -> pl.DataFrame:
    """Categories that look like numbers, as they were read in training: `7` for `07`."""
    if bundle.manifest["inputs"]["kind"] != "tabular":
        return rows
    changed = [
        pl.Series(name, [_category(cell, known) for cell in rows[name]], pl.String)
        for name, known in bundle.features.categories_.items()
    ]
    return rows.with_columns(changed)


def _category(cell: str | None, known: Sequence[str | None]) -> str | None:
    if cell is None or cell in known:
        return cell
    spellings = [cell.lower()]
    for number in (int, float):
        try:
            spellings.append(str(number(cell)))
        except (OverflowError, ValueError):
            continue
    return next((spelling for spelling in spellings if spelling in known), cell)


def _has_lines(data: FilePath) -> bool:
    """Whether files consist of lines, of which a single one may be wrong."""
    return table_format(matching_files(data)[0]) != "parquet"


def _version(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


def _warn_of_ids(hashes: npt.NDArray[np.uint64], n_without: int) -> None:
    repeated = len(hashes) - len(np.unique(hashes))
    if repeated:
        warn_user(f"{repeated:,} rows have an id that another row has, too.", WieselWarning)
    if n_without:
        warn_user(f"{n_without:,} rows have no id.", WieselWarning)


class _Pieces:
    """The finished pieces: in a folder beside the output, or in memory if there is no output."""

    def __init__(self, target: Path | None, key: str) -> None:
        self.target, self.key, self.damaged = target, key, False
        self._frames: dict[int, pl.DataFrame] = {}
        self._folder = Path() if target is None else target.with_name(f".{target.name}.pieces")
        if target is not None:
            known = _read_job(self._folder)
            if known.get("key") == key:
                self.damaged = bool(known.get("damaged"))
            else:
                self._begin()

    def known(self, number: int) -> pl.DataFrame | None:
        """Return a piece that an interrupted call has finished."""
        file = self._file(number)
        return pl.read_parquet(file) if self.target is not None and file.is_file() else None

    def keep(self, number: int, frame: pl.DataFrame) -> None:
        """Keep a finished piece."""
        if self.target is None:
            self._frames[number] = frame
        else:
            write_rows(frame, self._file(number))

    def start_over(self) -> None:
        """Forget all pieces; from now on the file is read line by line."""
        self.damaged = True
        self._frames.clear()
        if self.target is not None:
            self._begin()

    def finish(self, errors: Path | None, n_errors: int) -> pl.DataFrame | None:
        """Write the output from the pieces, or return it."""
        if self.target is None:
            lazy = pl.concat(list(self._frames.values()), how="vertical_relaxed").lazy()
        else:
            lazy = pl.scan_parquet(sorted(self._folder.glob("*.parquet")), glob=False)
        if errors is not None:
            bad = lazy.select(pl.row_index("row"), "id", _ERROR).filter(
                pl.col(_ERROR).is_not_null()
            )
            write_rows(bad.collect(), errors)
            lazy = lazy.filter(pl.col(_ERROR).is_null())
        if errors is not None or not n_errors:
            lazy = lazy.drop(_ERROR)
        if self.target is None:
            return lazy.collect()
        write_lazy_rows(lazy, self.target)
        self.remove()
        return None

    def remove(self) -> None:
        """Remove the folder of pieces."""
        if self.target is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self) -> None:
        self.remove()
        self._folder.mkdir(parents=True)
        content = json.dumps({"key": self.key, "damaged": self.damaged}).encode()
        write_file(self._folder / _JOB, content)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:06}.parquet"


def _read_job(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads(content_of(folder / _JOB) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def predict_on_ray(
    model: FilePath,
    rows: FilePath,
    folder: FilePath,
    id_column: str | None = None,
    address: str | None = None,
    part_rows: int = _PART_ROWS,
) -> dict[str, int]:
    """Write the predictions for rows in Parquet files to a new folder, and count the classes.

    A part has up to `part_rows` rows of one file; parts follow the order of the rows. The model,
    the rows and the folder must be on shared storage. The folder appears once all parts are
    complete. If a machine is lost, its parts are predicted again, into the same files.
    """
    if load_bundle(model).features is None:
        raise DataError("This model was saved without features: it cannot read rows of a table.")
    pieces = cut(RowSource(str(rows)), part_rows)
    counts: Counter[str] = Counter()
    with appearing_folder(folder) as unfinished:
        job = PredictJob(str(Path(model).resolve()), str(unfinished.resolve()), id_column)
        for content in done_on_ray(job, pieces, address):
            counts.update(json.loads(content))
    return dict(counts.most_common())


@dataclass
class PredictJob:
    """Predicts pieces with a saved model; every process loads the model once."""

    model: str
    folder: str
    id_column: str | None
    columns: list[str] | None = None
    _bundle: Any = field(default=None, init=False)

    def __call__(self, piece: Piece, rows: pl.DataFrame) -> bytes:
        """Write the predictions for a piece, and return the count of each predicted class."""
        if self._bundle is None:
            self._bundle = load_bundle(self.model)
        with explained(piece["file"]):
            if self.id_column is None and "id" not in rows.columns:
                index = rows.with_row_index("id", piece["start"])
                rows = index.with_columns(pl.col("id").cast(pl.String))
            ids = with_ids(rows, self.id_column)["id"]
            proba = self._bundle.predict_proba(rows)
        predicted = prediction_frame(ids, self._bundle.model, proba)
        write_rows(predicted, Path(self.folder) / part_name(piece["number"]))
        return json.dumps(dict(predicted["prediction"].value_counts().rows())).encode()
