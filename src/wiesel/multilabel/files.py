"""Multi-label votes and labeling functions in files."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from wiesel.errors import DataError, LabelingFunctionError, ParameterError, listed
from wiesel.io import FilePath, existing_file, explained, read_rows, replacing, scan_rows
from wiesel.io.files import FORMATS, read_unchanged, table_format
from wiesel.io.rows import is_pattern, refuse_oversized
from wiesel.label_sets import MultiLabelSpace
from wiesel.lfs.access import Access
from wiesel.lfs.function import LabelingFunction
from wiesel.lfs.loading import module_functions, voting_and_off
from wiesel.lfs.rules_file import read_each_rule, read_rules_beside
from wiesel.multilabel.functions import MultiLabelFunction, as_multilabel_lfs
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.vote_entries import id_series, item_ids

__all__ = [
    "LoadedMultiLabelLFs",
    "is_multilabel_votes",
    "load_each_multilabel_lf",
    "load_multilabel_lfs",
    "read_multilabel_votes",
    "write_multilabel_votes",
]

_KEY, _KIND, _FORMAT = "wiesel", "multilabel votes", 1
_BESIDE = ("exhaustive", "against")
"""The multi-label options that an entry of a rules file may have."""
_HOW = (
    "Put @multilabel_function above a function, or assign what a builder such as keywords(...) "
    "returns."
)


def write_multilabel_votes(votes: MultiLabelVotes, path: FilePath) -> None:
    """Write votes as a Parquet table of (item, voter, label, present) that any tool can open.

    Items without a vote have a row without a voter. Voters and labels are in the metadata, so
    `read_multilabel_votes` returns exactly these votes.

    >>> import tempfile, pathlib
    >>> votes = MultiLabelVotes.from_dense([[[1, 0]], [[-1, -1]]], ["sports", "money"], ["ann"])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.parquet"
    >>> write_multilabel_votes(votes, path)
    >>> read_multilabel_votes(path).equals(votes)
    True
    """
    if table_format(path, writing=True) != "parquet":
        raise DataError(f"Votes are written as Parquet; give {path} the extension .parquet.")
    ids = id_series(item_ids(votes.ids, votes.n_items))
    if ids.dtype == pl.Object:
        raise DataError("Item ids in a file are numbers or text; these are of mixed kinds.")
    every = pl.DataFrame({"item": ids}).join(
        votes.to_long(), on="item", how="left", maintain_order="left"
    )
    note = {
        "format": _FORMAT,
        "kind": _KIND,
        "labels": list(votes.labels),
        "voters": list(votes.voters),
    }
    with replacing(path) as temporary:
        every.write_parquet(temporary, metadata={_KEY: json.dumps(note)})


def read_multilabel_votes(
    path: FilePath,
    *,
    labels: Sequence[str] | None = None,
    item: str = "item",
    voter: str = "voter",
    label: str = "label",
    present: str = "present",
) -> MultiLabelVotes:
    r"""Return the votes of a file with a row for each (item, voter, label, present).

    Files written by `write_multilabel_votes` are restored exactly. Other tables (Parquet, CSV,
    JSONL) are read as by `MultiLabelVotes.from_long`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
    >>> _ = path.write_text("item,voter,label,present\n7,ann,sports,1\n7,ann,money,0\n")
    >>> read_multilabel_votes(path)
    MultiLabelVotes(1 items x 1 voters, labels 'money', 'sports', 2 votes)
    """
    file = existing_file(path)
    names = {"item": item, "voter": voter, "label": label, "present": present}
    return read_unchanged(file, partial(_read_votes, path, file, labels, names))


def _read_votes(
    path: FilePath, file: Path, labels: Sequence[str] | None, names: dict[str, str]
) -> MultiLabelVotes:
    with explained(path):
        note = _note(file)
        if note is None:
            return MultiLabelVotes.from_long(read_rows(path), labels=labels, **names)
        refuse_oversized([file.absolute()], 16)
        votes = MultiLabelVotes.from_long(
            pl.read_parquet(file, glob=False), labels=note["labels"], voters=note["voters"]
        )
        if labels is not None and MultiLabelSpace.of(labels) != votes.labels:
            raise DataError(f"These votes have {votes.labels!r}; expected {listed(labels)}.")
        return votes


def is_multilabel_votes(path: FilePath) -> bool:
    """Return whether a file contains votes on several labels, from its metadata or columns.

    A file of votes with the column `present` does; folders, patterns and files of other tools do
    not.
    """
    if Path(path).is_dir() or is_pattern(path) or Path(path).suffix.lower() not in FORMATS:
        return False
    file = existing_file(path)
    with explained(path):
        if _note(file) is not None:
            return True
        return "present" in scan_rows(file).collect_schema().names()


def _note(file: Path) -> dict[str, Any] | None:
    """The metadata of `write_multilabel_votes` in a file; None for other files."""
    if table_format(file) != "parquet":
        return None
    text = pl.read_parquet_metadata(file).get(_KEY)
    try:
        note = None if text is None else json.loads(text)
        if not isinstance(note, dict) or note.get("kind") != _KIND:
            return None
        MultiLabelSpace(*note["labels"])
        if not all(isinstance(voter, str) for voter in note["voters"]):
            raise TypeError("a voter without a name")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{file} is not a file of votes: its metadata is damaged.") from error
    if note.get("format") != _FORMAT:
        raise DataError(
            f"{file} has the format number {note.get('format')!r}; this version of Wiesel reads "
            f"{_FORMAT}. A newer Wiesel wrote it: upgrade."
        )
    return note


@dataclass(frozen=True)
class LoadedMultiLabelLFs:
    """The labeling functions of files, and the labels if a file names them."""

    lfs: tuple[MultiLabelFunction, ...]
    labels: MultiLabelSpace | None = None

    def __iter__(self) -> Iterator[MultiLabelFunction]:
        return iter(self.lfs)

    def __len__(self) -> int:
        return len(self.lfs)


def load_multilabel_lfs(*paths: FilePath, access: Access | None = None) -> LoadedMultiLabelLFs:
    r"""Return the multi-label labeling functions of `.py` and `.toml` files.

    In a rules file, an entry may set `exhaustive = true` (or a list of labels) and
    `against = true`. In a Python file, all labeling functions at module level are loaded,
    multi-label or not, and a `MultiLabelSpace` gives the labels. Loading a Python file runs its
    code.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "rules.toml"
    >>> _ = file.write_text('[[lf]]\nkind="regex"\nlabel="sports"\npattern="goal"\n'
    ...                     'column="text"\nexhaustive=["money"]')
    >>> [(lf.name, lf.exhaustive) for lf in load_multilabel_lfs(file)]
    [('sports_goal', ('money',))]
    """
    found: list[Any] = []
    spaces: list[MultiLabelSpace] = []
    for path in paths:
        lfs, labels = _read(existing_file(path), access)
        found += lfs
        spaces += [] if labels is None else [labels]
    if len(set(spaces)) > 1:
        raise LabelingFunctionError(f"The files name different labels: {listed(set(spaces))}.")
    voting, _ = voting_and_off(as_multilabel_lfs(found), paths)
    return LoadedMultiLabelLFs(tuple(voting), spaces[0] if spaces else None)


def load_each_multilabel_lf(
    path: FilePath,
) -> tuple[list[MultiLabelFunction | LabelingFunctionError], MultiLabelSpace | None]:
    """Return the labeling functions of one file in order, on or off, and its labels.

    In a rules file, an error is in the place of a broken rule. Other errors are raised.
    """
    file = existing_file(path)
    if file.suffix != ".toml":
        functions, labels = _read(file, None)
        wrapped = [
            each if isinstance(each, MultiLabelFunction) else MultiLabelFunction(each)
            for each in functions
        ]
        return list(wrapped), labels
    entries, space = read_each_rule(file, _BESIDE)
    found: list[MultiLabelFunction | LabelingFunctionError] = []
    for rule, beside in entries:
        try:
            found.append(
                rule
                if isinstance(rule, LabelingFunctionError)
                else MultiLabelFunction(rule, **_checked(beside))
            )
        except ParameterError as error:
            found.append(LabelingFunctionError(f"{file}: {error}"))
    return found, None if space is None else MultiLabelSpace(*space)


def _read(file: Path, access: Access | None) -> tuple[list[Any], MultiLabelSpace | None]:
    if file.suffix == ".toml":
        return _rules(file, access)
    kinds = (LabelingFunction, MultiLabelFunction)
    functions, values = module_functions(file, kinds, "labeling functions", _HOW)
    wrapped = {id(lf.lf) for lf in functions if isinstance(lf, MultiLabelFunction)}
    functions = [lf for lf in functions if id(lf) not in wrapped]
    labels = next((value for value in values if isinstance(value, MultiLabelSpace)), None)
    return functions, labels


def _rules(file: Path, access: Access | None) -> tuple[list[Any], MultiLabelSpace | None]:
    entries, labels = read_rules_beside(file, _BESIDE, access)
    functions = []
    for rule, beside in entries:
        try:
            functions.append(MultiLabelFunction(rule, **_checked(beside)))
        except ParameterError as error:
            raise LabelingFunctionError(f"{file}, {rule.name!r}: {error}") from None
    return functions, None if labels is None else MultiLabelSpace(*labels)


def _checked(beside: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(beside.get("against", False), bool):
        raise ParameterError(f"against is true or false; got {beside['against']!r}.")
    return beside
