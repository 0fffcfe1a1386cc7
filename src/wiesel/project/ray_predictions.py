"""Predictions of a saved model for the rows of many Parquet files, on the machines of a cluster.

Rows become features and predictions where they are read; what travels is which rows to read.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from wiesel.errors import DataError, ParameterError
from wiesel.io import FilePath, explained, scan_rows, write_rows
from wiesel.io.files import appearing_folder
from wiesel.io.ray_session import ray_session
from wiesel.lfs.engines.pieces import cut, part_name
from wiesel.lfs.engines.worker import error_message, error_of_message
from wiesel.lfs.sources import RowSource
from wiesel.project.bundle import load_bundle
from wiesel.project.outputs import prediction_frame
from wiesel.project.rows import with_ids

__all__ = ["predict_on_ray"]

_PART_ROWS = 20_000


def predict_on_ray(
    model: FilePath,
    rows: FilePath,
    folder: FilePath,
    id_column: str | None = None,
    address: str | None = None,
    part_rows: int = _PART_ROWS,
) -> dict[str, int]:
    """Write the predictions for rows in Parquet files to a new folder, and count the classes.

    A part has up to `part_rows` rows of one file; parts are in the order of the rows. Model, rows
    and folder are on storage that all machines share. The folder appears when all parts are there;
    a part whose machine is lost is predicted again, into the same file.
    """
    bundle = load_bundle(model)
    if bundle.features is None:
        raise DataError("This model was saved without features: it cannot read rows of a table.")
    pieces = cut(RowSource(str(rows)), part_rows)
    counts: Counter[str] = Counter()
    with appearing_folder(folder) as unfinished, ray_session(address) as ray:
        from ray import data

        n_cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        task = (str(Path(model).resolve()), str(unfinished.resolve()), id_column)
        done = data.from_items(pieces, override_num_blocks=len(pieces)).map_batches(
            PiecePredictor,
            fn_constructor_args=task,
            batch_size=1,
            num_cpus=1,
            compute=data.ActorPoolStrategy(min_size=1, max_size=min(n_cores, len(pieces))),
        )
        numbers = set()
        for record in done.iter_rows():
            report = json.loads(record["report"])
            if "error" in report:
                raise error_of_message(report)
            numbers.add(int(record["number"]))
            counts.update(report["counts"])
        if len(numbers) != len(pieces):
            raise ParameterError(f"Ray did {len(numbers)} of {len(pieces)} parts.")
    return dict(counts.most_common())


class PiecePredictor:
    """A process of the cluster that has loaded the model, and predicts one piece after another."""

    def __init__(self, model: str, folder: str, id_column: str | None) -> None:
        self._model, self._folder, self._id_column = model, Path(folder), id_column
        self._bundle: Any = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Predict the pieces of a batch; a problem is recorded, so that it arrives as it is."""
        numbers = [int(number) for number in batch["number"]]
        reports = []
        for k, number in enumerate(numbers):
            piece = {name: values[k] for name, values in batch.items()}
            try:
                report: dict[str, Any] = {"counts": self._predicted(piece, number)}
            except Exception as error:  # noqa: BLE001 - it is sent, and raised on the other side
                report = dict(error_message(error))
            reports.append(json.dumps(report))
        return {"number": numbers, "report": reports}

    def _predicted(self, piece: dict[str, Any], number: int) -> dict[str, int]:
        if self._bundle is None:
            self._bundle = load_bundle(self._model)
        file, first, count = str(piece["file"]), int(piece["first"]), int(piece["count"])
        with explained(file):
            frame = scan_rows(file).slice(first, count).collect()
            if len(frame) != count:
                raise DataError(f"{file} has changed: it has fewer rows than before.")
            if self._id_column is None and "id" not in frame.columns:
                index = frame.with_row_index("id", int(piece["start"]))
                frame = index.with_columns(pl.col("id").cast(pl.String))
            ids = with_ids(frame, self._id_column)["id"]
            proba = self._bundle.predict_proba(frame)
        predicted = prediction_frame(ids, self._bundle.model, proba)
        write_rows(predicted, self._folder / part_name(number))
        return dict(predicted["prediction"].value_counts().rows())
