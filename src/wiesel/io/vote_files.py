"""Votes in Parquet files: readable as tables, and read back exactly."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import Advice, Argument, DataError, VoteError, listed, suggest
from wiesel.io.files import (
    FilePath,
    existing_file,
    explained,
    read_unchanged,
    replacing,
    table_format,
)
from wiesel.io.rows import read_rows, refuse_oversized
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.tables import require_columns
from wiesel.threads import check_polars_threads
from wiesel.vote_entries import id_series, item_ids
from wiesel.votes import VoteMatrix, require_votes

__all__ = [
    "VoteNote",
    "id_array",
    "matching_names",
    "read_votes",
    "vote_note",
    "votes_as_bytes",
    "votes_of_bytes",
    "votes_of_table",
    "write_votes",
]

Layout = Literal["auto", "wide", "list"]

_KEY = "wiesel"
_FORMAT = 1
_WIDE_VOTERS = 1_000
_WIDE_CELLS = 50_000_000
_CELL_BYTES = 16
"""A cell while votes are read: a code, an index, a mask and the entries made from them."""


def write_votes(
    votes: VoteMatrix,
    path: FilePath,
    layout: Layout = "auto",
    *,
    sources: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write votes to a Parquet file; `read_votes` returns exactly the same votes.

    `wide` has a column per voter with the class names, null for abstentions; any tool can open it.
    `list` has one row per item with the indices of its voters and classes, and distributions if
    votes are probabilistic. `auto` uses `wide` for hard votes of up to 1,000 voters, unless the
    table would be enormous. Class and voter names are in the file's metadata, and so are `sources`:
    where the votes of a voter come from (see `wiesel.lfs.prompt_records`).

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.parquet"
    >>> write_votes(votes, path)
    >>> pl.read_parquet(path).rows()[1]
    (1, 'ham', 'spam', None)
    >>> read_votes(path).equals(votes)
    True
    """
    check_polars_threads(f"Writing {path}")
    check_votes_target(path)
    chosen = _chosen_layout(votes, layout)
    frame, note = _as_table(votes, chosen, sources)
    # Fits read large list files repeatedly: LZ4 is twice as large, but twice as fast.
    compression: Literal["lz4", "zstd"] = "lz4" if chosen == "list" else "zstd"
    with replacing(path) as temporary:
        frame.write_parquet(temporary, compression=compression, metadata={_KEY: note})


def check_votes_target(path: FilePath) -> None:
    """Refuse a path to which votes cannot be written, before hours are spent on them."""
    if table_format(path, writing=True) != "parquet":
        raise DataError(f"Votes are written as Parquet; give {path} the extension .parquet.")
    if not Path(path).parent.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {Path(path).parent}.")


def _as_table(
    votes: VoteMatrix, chosen: str, sources: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[pl.DataFrame, str]:
    """The table of a vote file, and its metadata."""
    id_column = _free_name("id", votes.voters if chosen == "wide" else ())
    items = _id_column(votes.ids, id_column)
    columns = _wide_columns(votes) if chosen == "wide" else _list_columns(votes)
    metadata: dict[str, Any] = {
        "format": _FORMAT,
        "kind": "votes",
        "layout": chosen,
        "id_column": id_column,
        "labels": list(votes.labels),
        "voters": list(votes.voters),
        "probabilistic": votes.distribution is not None,
    }
    metadata |= {"ordered": True} if votes.labels.ordered else {}
    metadata |= {"sources": sources} if sources else {}
    return pl.DataFrame([items, *columns]), json.dumps(metadata)


def read_votes(
    path: FilePath,
    *,
    labels: LabelSpace | Sequence[str] | None = None,
    id_column: str | None = None,
    voters: str | Sequence[str] | None = None,
) -> VoteMatrix:
    r"""Return the votes in a file written by `write_votes`, or in any table of votes.

    Other tables have a row per item and a column per voter. `labels` are the class names; cells are
    names or indices (missing or -1 is an abstention). `voters` are the columns to read, as a list
    or as a pattern such as `"lf_*"` (default: all except `id_column`).

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
    >>> _ = path.write_text("mail,lf_link,lf_free\nm1,spam,\nm2,,ham\n")
    >>> read_votes(path, labels=["ham", "spam"], id_column="mail", voters="lf_*").dense().tolist()
    [[1, -1], [-1, 0]]
    """
    check_polars_threads(f"Reading {path}")
    file = existing_file(path).absolute()  # Polars would take `file:votes.parquet` for an address
    return read_unchanged(file, partial(_read_votes, path, file, labels, id_column, voters))


def _read_votes(
    path: FilePath,
    file: Path,
    labels: LabelSpace | Sequence[str] | None,
    id_column: str | None,
    voters: str | Sequence[str] | None,
) -> VoteMatrix:
    with explained(path):
        note = vote_note(file)
        if note is None:
            return votes_of_table(read_rows(path), labels, id_column, voters)
        refuse_oversized([file], _CELL_BYTES)
        votes = _votes_of(pl.read_parquet(file, glob=False), note)
        if labels is not None and LabelSpace.of(labels) != votes.labels:
            raise VoteError(f"These votes have {votes.labels!r}; expected {labels!r}.")
        if isinstance(labels, LabelSpace) and labels.ordered:
            votes = replace(votes, labels=labels)
        return votes if voters is None else votes.select(matching_names(voters, votes.voters))


def votes_as_bytes(votes: VoteMatrix) -> bytes:
    """Return votes as the content of a Parquet file."""
    frame, note = _as_table(votes, _chosen_layout(votes, "auto"))
    content = BytesIO()
    frame.write_parquet(content, metadata={_KEY: note})
    return content.getvalue()


def votes_of_bytes(content: bytes) -> VoteMatrix:
    """Return the votes that `votes_as_bytes` wrote."""
    what = "what was kept of the votes"
    with explained(what):
        note = _note_in(pl.read_parquet_metadata(BytesIO(content)), what)
        if note is None:
            raise DataError(f"{what} is not a file of votes.")
        return _votes_of(pl.read_parquet(BytesIO(content)), note)


def _votes_of(frame: pl.DataFrame, note: "VoteNote") -> VoteMatrix:
    if note.layout == "wide":
        return votes_of_table(frame, note.labels, note.id_column, note.voters)
    return _votes_of_lists(frame, note)


def _chosen_layout(votes: VoteMatrix, layout: str) -> str:
    require_votes(votes)
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
    item_ids(ids, len(ids))  # votes[[0, 0]] has a duplicate id, which could not be read back
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


class VoteNote(NamedTuple):
    """The metadata that `write_votes` stores in its file."""

    layout: str
    id_column: str
    labels: LabelSpace
    voters: tuple[str, ...]
    probabilistic: bool
    sources: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """Where the votes of a voter come from, by its name."""


def vote_note(path: Path) -> VoteNote | None:
    """Return the metadata that `write_votes` stored in the file; None for other files."""
    if table_format(path) != "parquet":
        return None
    return _note_in(pl.read_parquet_metadata(path), path)


def _note_in(metadata: Mapping[str, str], path: FilePath) -> VoteNote | None:
    text = metadata.get(_KEY)
    if text is None:
        return None
    try:
        found = json.loads(text)
        number, kind = found["format"], found["kind"]
        if kind == "votes" and number == _FORMAT:
            return VoteNote(
                str(found["layout"]),
                str(found["id_column"]),
                LabelSpace(*found["labels"], ordered=found.get("ordered", False)),
                tuple(found["voters"]),
                bool(found["probabilistic"]),
                {str(name): dict(own) for name, own in dict(found.get("sources", {})).items()},
            )
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} is not a file of votes: its metadata is {text[:80]!r}.") from error
    if kind == "votes":
        raise DataError(
            f"{path} has the format number {number!r}; this version of Wiesel reads {_FORMAT}. "
            "A newer Wiesel wrote it: upgrade."
        )
    raise DataError(f"{path} is not a file of votes but of {kind!r}.")


def _votes_of_lists(frame: pl.DataFrame, note: VoteNote) -> VoteMatrix:
    kinds: dict[str, pl.DataType] = {"voters": pl.Int32(), "classes": pl.Int16()}
    if note.probabilistic:
        kinds["proba"] = pl.Array(pl.Float32, len(note.labels))
    require_columns(frame, (note.id_column, *kinds), "a part of the list layout")
    lengths = frame["voters"].list.len().fill_null(0).to_numpy()
    cast = frame if lengths.all() else frame.filter(pl.Series(lengths > 0))
    flat = {name: cast[name].explode() for name in kinds}
    for name in ("voters", "classes"):
        if not flat[name].dtype.is_integer() and len(flat[name]):
            raise VoteError(f"The lists of {name} hold {flat[name].dtype}, not whole numbers.")
    # Use a strict cast: a number too large for its type must not wrap around to a valid one.
    flat = {name: flat[name].cast(kind) for name, kind in kinds.items()}
    if any(column.null_count() for column in flat.values()):
        raise VoteError("A voter, a class or a distribution is missing.")
    votes = VoteMatrix(
        np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        flat["voters"].to_numpy(),
        flat["classes"].to_numpy(),
        note.labels,
        note.voters,
        item_ids(id_array(frame[note.id_column]), len(frame)),
        flat["proba"].to_numpy() if note.probabilistic else None,
    )
    if note.probabilistic:
        _check_distributions(votes)
    return votes


def _check_distributions(votes: VoteMatrix) -> None:
    """Reject invalid distributions, and those whose largest entry is not the stored class.

    The sum is 1, or the number of answers if a voter answered the item several times.
    """
    rows = votes.vote_rows()
    total = rows.sum(axis=1)
    n_answers = np.maximum(np.rint(total), 1)
    fits = np.isfinite(rows).all(axis=1) & (rows >= 0).all(axis=1)
    fits &= np.abs(total - n_answers) < 1e-3
    fits &= rows[np.arange(len(rows)), votes.class_index] == rows.max(axis=1, initial=0)
    if not fits.all():
        first = int(np.flatnonzero(~fits)[0])
        raise VoteError(
            f"The distribution {rows[first].tolist()} of a vote for class "
            f"{votes.class_index[first]} does not sum to 1, or has another largest entry."
        )


def id_array(column: pl.Series) -> npt.NDArray[Any]:
    """Return a column of ids in the form that `VoteMatrix` uses; none may be missing."""
    if column.null_count():
        raise VoteError(f"Item ids must not be missing; {column.null_count()} are.")
    ids = column.to_numpy()
    return ids.astype(object) if column.dtype == pl.String else ids


def votes_of_table(
    frame: pl.DataFrame,
    labels: LabelSpace | Sequence[str] | None,
    id_column: str | None,
    voters: str | Sequence[str] | None,
) -> VoteMatrix:
    """Return the votes in the cells: class names or indices, missing or -1 for an abstention.

    >>> table = pl.DataFrame({"mail": ["m1", "m2"], "link": ["spam", None], "free": [None, "ham"]})
    >>> votes_of_table(table, ["ham", "spam"], "mail", None).dense().tolist()
    [[1, -1], [-1, 0]]
    """
    if id_column is not None:
        require_columns(frame, (id_column,), "the ids")
    others = [name for name in frame.columns if name != id_column]
    chosen = others if voters is None else matching_names(voters, others)
    require_columns(frame, chosen, "a voter")
    if labels is None:
        seen = sorted({str(value) for name in chosen for value in frame[name].unique()})
        raise DataError(
            "This table does not say what the classes are: give their names in order, ",
            Argument("labels", [...]),
            Advice(", and ", Argument("voters", [...])),
            f". The cells hold {listed(seen)}.",
        )
    labels = LabelSpace.of(labels)
    ids = None if id_column is None else id_array(frame[id_column])
    # Do not use `select`, which reads a voter named "*" as all columns.
    voted = pl.DataFrame([frame.get_column(name) for name in chosen])
    dense = _cells(voted, labels) if chosen else np.empty((len(frame), 0), np.int16)
    return VoteMatrix.from_dense(dense, labels, chosen, ids)


def matching_names(voters: str | Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the given voters, or the names that match a pattern such as `lf_*`."""
    if not isinstance(voters, str):
        return list(voters)
    found = [name for name in names if fnmatchcase(name, voters)]
    if not found:
        raise DataError(f"No column matches the pattern {voters!r}. There are {listed(names)}.")
    return found


def _cells(frame: pl.DataFrame, labels: LabelSpace) -> npt.NDArray[Any]:
    """Indices if all cells are class names, otherwise the unchanged cells."""
    kinds = set(frame.schema.dtypes())
    whole = all(kind.is_integer() or kind == pl.Null for kind in kinds)
    if whole and ABSTAIN not in labels.named_values:
        return frame.cast(pl.Int64).fill_null(ABSTAIN).to_numpy()
    if kinds == {pl.Enum(labels.names)}:  # written by `write_votes`: the codes are the indices
        return _codes(frame, labels)
    named = frame.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
    if set(named.schema.dtypes()) <= {pl.String(), pl.Null()}:
        coded = named.cast(pl.Enum(labels.names), strict=False)
        if coded.null_count().row(0) == named.null_count().row(0):
            return _codes(coded, labels)
    return named.to_numpy()  # `from_dense` reads numbers, and reports the wrong voter and row


def _codes(frame: pl.DataFrame, labels: LabelSpace) -> npt.NDArray[Any]:
    codes = frame.select(pl.all().to_physical().cast(pl.Int16)).fill_null(ABSTAIN)
    return labels.from_indices(codes.to_numpy())
