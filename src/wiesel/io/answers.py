"""Reads long tables: crowd answers with one row each, and gold labels by item id."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, listed
from wiesel.io.files import FilePath, explained
from wiesel.io.rows import read_rows
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.votes import VoteMatrix

__all__ = ["read_answers", "read_gold"]


def read_answers(
    path: FilePath,
    *,
    item: str = "task",
    voter: str = "worker",
    label: str = "label",
    labels: LabelSpace | Sequence[str] | None = None,
    items: Any = None,
    duplicates: Literal["refuse", "first", "last", "all"] = "refuse",
) -> VoteMatrix:
    r"""Return the votes in a file with one row per answer; see `VoteMatrix.from_long`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = path.write_text("task,worker,label\nt1,ann,cat\nt1,bob,dog\nt2,bob,dog\n")
    >>> read_answers(path)
    VoteMatrix(2 items x 2 voters, 2 classes, 3 votes, 100.0 % of the items covered)
    """
    rows = read_rows(path, columns=(item, voter, label))
    with explained(path):
        return VoteMatrix.from_long(
            rows,
            item=item,
            voter=voter,
            label=label,
            labels=labels,
            items=items,
            duplicates=duplicates,
        )


def read_gold(
    path: FilePath,
    labels: LabelSpace | Sequence[str],
    ids: Any = None,
    *,
    id_column: str = "id",
    label_column: str = "label",
) -> npt.NDArray[np.int64]:
    r"""Return gold labels as class indices; -1 if unknown.

    The labels are in the order of `ids` if given (an id that is not in the file is unknown),
    otherwise in the order of the file.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "gold.csv"
    >>> _ = path.write_text("id,label\nm2,spam\nm1,ham\n")
    >>> read_gold(path, ["ham", "spam"], ids=["m1", "m2", "m3"])
    array([ 0,  1, -1])
    """
    columns = (label_column,) if ids is None else (id_column, label_column)
    rows = read_rows(path, columns)
    with explained(path):
        space = LabelSpace.of(labels)
        gold = space.indices(rows[label_column], allow_unknown=True)
        return gold if ids is None else space.from_indices(_aligned(rows[id_column], gold, ids))


def _aligned(known_ids: pl.Series, gold: npt.NDArray[np.int64], ids: Any) -> npt.NDArray[np.int64]:
    """The gold labels of `ids`; ids of different types are compared as text."""
    known, wanted = known_ids.cast(pl.String), pl.Series(ids).cast(pl.String)
    table = pl.DataFrame({"id": known, "gold": gold}).unique(maintain_order=True)
    repeated = table["id"].filter(table["id"].is_duplicated()).unique(maintain_order=True)
    if len(repeated):
        raise DataError(f"The ids {listed(repeated, limit=3)} have two different gold labels.")
    found = pl.DataFrame({"id": wanted}).join(table, on="id", how="left", maintain_order="left")
    if len(wanted) and found["gold"].null_count() == len(wanted):
        raise DataError(
            f"None of the {len(wanted)} ids has a gold label: they look like {wanted[0]!r}, "
            f"those of the gold labels like {known[0]!r}."
        )
    return found["gold"].fill_null(ABSTAIN).to_numpy().astype(np.int64)
