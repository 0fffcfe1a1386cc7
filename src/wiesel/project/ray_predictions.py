"""Predictions of a saved model for the rows of many Parquet files, on a cluster.

Each machine reads rows and computes their features and predictions; only row ranges are sent.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from wiesel.errors import DataError
from wiesel.io import FilePath, explained, write_rows
from wiesel.io.files import appearing_folder
from wiesel.lfs.engines.pieces import Piece, cut, part_name
from wiesel.lfs.engines.ray_engine import done_on_ray
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
