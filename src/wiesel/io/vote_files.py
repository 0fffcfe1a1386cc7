"""Votes in Parquet files: a table people can open, and exactly the same votes when read back."""

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, VoteError, listed, suggest
from wiesel.io.files import FilePath, existing_file, explained, replacing, table_format
from wiesel.io.rows import read_rows
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.tables import require_columns
from wiesel.vote_entries import id_series, item_ids
from wiesel.votes import VoteMatrix

__all__ = ["read_votes", "write_votes"]

Layout = Literal["auto", "wide", "list"]

_KEY = "wiesel"
_FORMAT = 1
_WIDE_VOTERS = 1_000
_WIDE_CELLS = 50_000_000


def write_votes(votes: VoteMatrix, path: FilePath, layout: Layout = "auto") -> None:
    """Write votes to a Parquet file; `read_votes` gives back exactly these.

    `wide` has a column per voter with the class names, null where it abstains: any tool opens it.
    `list` has one row per item with the positions of its voters and classes, and distributions
    where votes are probabilistic. `auto` takes `wide` for hard votes of up to 1,000 voters, unless
    the table would be enormous. Class and voter names are in the file's metadata.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.parquet"
    >>> write_votes(votes, path)
    >>> pl.read_parquet(path).rows()[1]
    (1, 'ham', 'spam', None)
    >>> read_votes(path).equals(votes)
    True
    """
    if table_format(path) != "parquet":
        raise DataError(f"Votes are written as Parquet; give {path} the extension .parquet.")
    chosen = _chosen_layout(votes, layout)
    id_column = _free_name("id", votes.voters if chosen == "wide" else ())
    items = _id_column(votes.ids, id_column)
    columns = _wide_columns(votes) if chosen == "wide" else _list_columns(votes)
    metadata = {
        "format": _FORMAT,
        "kind": "votes",
        "layout": chosen,
        "id_column": id_column,
        "labels": list(votes.labels),
        "voters": list(votes.voters),
        "probabilistic": votes.distribution is not None,
    }
    with replacing(path) as temporary:
        frame = pl.DataFrame([items, *columns])
        frame.write_parquet(temporary, metadata={_KEY: json.dumps(metadata)})


def read_votes(
    path: FilePath,
    *,
    labels: LabelSpace | Sequence[str] | None = None,
    id_column: str | None = None,
    voters: str | Sequence[str] | None = None,
) -> VoteMatrix:
    r"""Return the votes of a file written by `write_votes`, or of any table of votes.

    For tables of others, with a row per item and a column per voter: `labels` are the class names,
    the cells are names or indices (missing or -1 abstains), `voters` the columns to take, as a
    list or as a pattern such as `"lf_*"` (default: all but `id_column`).

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
    >>> _ = path.write_text("mail,lf_link,lf_free\nm1,spam,\nm2,,ham\n")
    >>> read_votes(path, labels=["ham", "spam"], id_column="mail", voters="lf_*").dense().tolist()
    [[1, -1], [-1, 0]]
    """
    file = existing_file(path)
    with explained(path):
        note = _metadata(file)
        if note is None:
            return _votes_of_table(read_rows(path), labels, id_column, voters)
        votes = _votes_of_note(pl.read_parquet(file, glob=False), note)
        if labels is not None and LabelSpace.of(labels) != votes.labels:
            raise VoteError(f"These votes have {votes.labels!r}; expected {labels!r}.")
        return votes if voters is None else votes.select(_matching(voters, votes.voters))


def _chosen_layout(votes: VoteMatrix, layout: str) -> str:
    if layout not in ("auto", "wide", "list"):
        allowed = ("auto", "wide", "list")
        raise DataError(f"There is no layout {layout!r}. {suggest(layout, allowed)}")
    if layout == "wide" and votes.distribution is not None:
        raise VoteError("Probabilistic votes need layout='list': a wide table holds class names.")
    if layout != "auto":
        return layout
    few = votes.n_voters <= _WIDE_VOTERS and votes.n_items * votes.n_voters <= _WIDE_CELLS
    return "wide" if few and votes.distribution is None else "list"


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name


def _id_column(ids: npt.NDArray[Any], name: str) -> pl.Series:
    item_ids(ids, len(ids))  # votes[[0, 0]] has an id twice, which could not be read back
    column = id_series(ids)
    if column.dtype == pl.Object:
        strange = next(value for value in ids if not isinstance(value, str))
        raise VoteError(f"Item ids in a file are numbers or text; got {strange!r}.")
    return column.alias(name)


def _wide_columns(votes: VoteMatrix) -> list[pl.Series]:
    kind = pl.Enum(votes.labels.names)
    by_voter = np.argsort(votes.voter_index, kind="stable")
    ends = np.searchsorted(votes.voter_index[by_voter], np.arange(votes.n_voters + 1))
    item, names = votes.item_index, pl.Series([*votes.labels, None], dtype=kind)
    columns = []
    for position, voter in enumerate(votes.voters):
        entries = by_voter[ends[position] : ends[position + 1]]
        cells = np.full(votes.n_items, votes.n_classes)  # the null after the last class
        cells[item[entries]] = votes.class_index[entries]
        columns.append(names.gather(cells).alias(voter))
    return columns


def _list_columns(votes: VoteMatrix) -> list[pl.Series]:
    entries = pl.DataFrame({"item": votes.item_index, "voters": votes.voter_index})
    entries = entries.with_columns(pl.Series("classes", votes.class_index))
    if votes.distribution is not None:
        kind = pl.Array(pl.Float32, votes.n_classes)
        entries = entries.with_columns(pl.Series("proba", votes.distribution, kind))
    lists = entries.group_by("item", maintain_order=True).agg(pl.exclude("item"))
    every = pl.DataFrame({"item": np.arange(votes.n_items)})
    lists = every.join(lists, on="item", how="left", maintain_order="left").drop("item")
    return lists.with_columns(pl.all().fill_null(pl.lit([]))).get_columns()


def _metadata(path: Path) -> dict[str, Any] | None:
    """What `write_votes` noted in the file; None for the files of others."""
    if table_format(path) != "parquet":
        return None
    text = pl.read_parquet_metadata(path).get(_KEY)
    if text is None:
        return None
    try:
        note = json.loads(text)
        if note["kind"] != "votes" or not set(note) >= {"layout", "id_column", "labels", "voters"}:
            raise KeyError(note["kind"])
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} is no file of votes: its metadata is {text[:80]!r}.") from error
    if note["format"] != _FORMAT:
        raise DataError(
            f"{path} has the format number {note['format']!r}; this version of Wiesel reads "
            f"{_FORMAT}. A newer Wiesel wrote it: upgrade."
        )
    return dict(note)


def _votes_of_note(frame: pl.DataFrame, note: dict[str, Any]) -> VoteMatrix:
    voters, labels = tuple(note["voters"]), LabelSpace(*note["labels"])
    if note["layout"] == "wide":
        return _votes_of_table(frame, labels, note["id_column"], voters)
    expected = ("voters", "classes", *(("proba",) if note["probabilistic"] else ()))
    require_columns(frame, (note["id_column"], *expected), "a part of the list layout")
    lengths = frame["voters"].list.len().fill_null(0).to_numpy()
    cast = frame.filter(pl.Series(lengths > 0))
    flat = {name: cast[name].explode() for name in expected}
    voter_index = flat["voters"].to_numpy().astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return VoteMatrix(
        indptr,
        voter_index,
        flat["classes"].to_numpy().astype(np.int16),
        labels,
        voters,
        item_ids(_ids(frame[note["id_column"]]), len(frame)),
        np.asarray(flat["proba"].to_numpy(), np.float32) if note["probabilistic"] else None,
    )


def _ids(column: pl.Series) -> npt.NDArray[Any]:
    if column.null_count():
        raise VoteError(f"Item ids must not be missing; {column.null_count()} are.")
    ids = column.to_numpy()
    return ids.astype(object) if column.dtype == pl.String else ids


def _votes_of_table(
    frame: pl.DataFrame,
    labels: LabelSpace | Sequence[str] | None,
    id_column: str | None,
    voters: str | Sequence[str] | None,
) -> VoteMatrix:
    if id_column is not None:
        require_columns(frame, (id_column,), "the ids")
    others = [name for name in frame.columns if name != id_column]
    chosen = others if voters is None else _matching(voters, others)
    require_columns(frame, chosen, "a voter")
    if labels is None:
        seen = sorted({str(value) for name in chosen for value in frame[name].unique()})
        raise DataError(
            "This table does not say what the classes are: give labels=[...], in order, and "
            f"voters=[...]. The cells hold {listed(seen)}."
        )
    labels = LabelSpace.of(labels)
    ids = None if id_column is None else _ids(frame[id_column])
    dense = _cells(frame.select(chosen), labels) if chosen else np.empty((len(frame), 0), np.int16)
    return VoteMatrix.from_dense(dense, labels, chosen, ids)


def _matching(voters: str | Sequence[str], names: Sequence[str]) -> list[str]:
    if not isinstance(voters, str):
        return list(voters)
    found = [name for name in names if fnmatchcase(name, voters)]
    if not found:
        raise DataError(f"No column matches the pattern {voters!r}. There are {listed(names)}.")
    return found


def _cells(frame: pl.DataFrame, labels: LabelSpace) -> npt.NDArray[Any]:
    """Indices where all cells are indices or class names, else the cells as they are."""
    kinds = set(frame.schema.dtypes())
    if all(kind.is_integer() or kind == pl.Null for kind in kinds):
        return frame.cast(pl.Int64).fill_null(ABSTAIN).to_numpy()
    named = frame.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
    if set(named.schema.dtypes()) <= {pl.String(), pl.Null()}:
        coded = named.cast(pl.Enum(labels.names), strict=False)
        if coded.null_count().row(0) == named.null_count().row(0):
            return coded.select(pl.all().to_physical().cast(pl.Int16)).fill_null(ABSTAIN).to_numpy()
    return named.to_numpy()  # `from_dense` names the voter and the row that are wrong
