"""LabelingFunction looks at a row and votes, or abstains; LabelRule is one without code."""

import copy
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.errors import DataError, ParameterError, VoteError, listed, suggest
from wiesel.labels import LabelSpace, is_name
from wiesel.lfs.batch import Batch, ColumnVotes
from wiesel.lfs.fingerprints import digest
from wiesel.tables import as_frame
from wiesel.threads import check_polars_threads

__all__ = [
    "LabelRule",
    "LabelingFunction",
    "Rule",
    "as_lfs",
    "build",
    "check_classes",
    "check_fields",
    "need_columns",
    "slug",
    "text_column",
    "true_rows",
]

Made = TypeVar("Made")


class LabelingFunction(ABC):
    """Votes for a class on some rows, and abstains on the others.

    Made by the decorator `labeling_function` or by a builder such as `keywords`; calling it with
    one row shows its vote.

    >>> from wiesel import keywords
    >>> lf = keywords("spam", ["free", "prize"], column="text")
    >>> lf.name, lf({"text": "A FREE lunch"}), lf({"text": "freedom"})
    ('spam_free_prize', 'spam', None)
    """

    name: str
    """The name of the voter."""
    automatic_name: bool = False
    """Whether the name was generated, so that it may be changed to be unique."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest that changes when the function may vote differently."""

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The columns it reads; None if it may read any."""
        return None

    @property
    def divisible(self) -> bool:
        """Whether it may vote on pieces of a batch, and in other processes."""
        return False

    @property
    def pass_key(self) -> Hashable:
        """Functions with equal keys are run together, in one pass over the rows."""
        return type(self)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes it can vote for; None if unknown in advance."""
        return None

    @classmethod
    @abstractmethod
    def run_together(
        cls, lfs: Sequence[Self], batch: Batch, labels: LabelSpace
    ) -> list[ColumnVotes]:
        """Return the votes of several functions of this class on a batch of rows."""

    @abstractmethod
    def __call__(self, row: Mapping[str, Any]) -> Any:
        """Return the vote on one row, None for abstain."""

    def renamed(self, name: str) -> Self:
        """Return the same labeling function under another name."""
        other = copy.copy(self)
        object.__setattr__(other, "name", name)
        object.__setattr__(other, "automatic_name", False)
        return other


def as_lfs(lfs: LabelingFunction | Iterable[Any]) -> list[LabelingFunction]:
    """Return labeling functions as a flat list with unique names.

    Repeated generated names get a number; repeated names given by the user are refused.
    """
    flat = list(_flattened(lfs))
    if not flat:
        raise ParameterError(
            "There are no labeling functions: the list is empty. Write one, such as "
            "keywords('spam', ['prize'], column='text'); suggest_lfs, or wiesel suggest PROJECT, "
            "proposes some."
        )
    broken = [lf.name for lf in flat if not is_name(lf.name)]
    if broken:
        raise ParameterError(f"The name of a labeling function is a text; got {broken[0]!r:.60}.")
    given = Counter(lf.name for lf in flat if not lf.automatic_name)
    repeated = sorted(name for name, count in given.items() if count > 1)
    if repeated:
        raise ParameterError(
            f"Labeling functions need unique names; {listed(repeated)} appear more than once. "
            "Pass name=... to one of them."
        )
    return _numbered(flat, set(given))


def _flattened(lfs: LabelingFunction | Iterable[Any]) -> Iterable[LabelingFunction]:
    if isinstance(lfs, LabelingFunction):
        yield lfs
    elif isinstance(lfs, Iterable) and not isinstance(lfs, (str, Mapping)):
        for lf in lfs:
            yield from _flattened(lf)
    else:
        hint = " Put @labeling_function above its definition." if callable(lfs) else ""
        hint = applied_elsewhere(lfs) or hint
        raise ParameterError(f"Expected a labeling function; got {lfs!r:.80}.{hint}")


def applied_elsewhere(value: object) -> str:
    """Return a hint for functions of another kind: multi-label or span functions."""
    by = getattr(value, "applied_by", None)
    return f" It is for {by}." if isinstance(by, str) else ""


def _numbered(lfs: list[LabelingFunction], taken: set[str]) -> list[LabelingFunction]:
    unique = []
    for lf in lfs:
        name, number = lf.name, 2
        while lf.automatic_name and name in taken:
            name, number = f"{lf.name}_{number}", number + 1
        taken.add(name)
        unique.append(lf if name == lf.name else lf.renamed(name))
    return unique


def check_classes(lfs: Sequence[LabelingFunction], labels: LabelSpace) -> None:
    """Refuse labeling functions that vote for an unknown class."""
    for lf in lfs:
        for name in lf.classes or ():
            if name not in labels:
                raise VoteError(
                    f"{lf.name!r} votes for {name!r}; it must be one of {listed(labels)}."
                )


def slug(text: str, width: int = 24) -> str:
    """Return words as part of a name.

    >>> slug("Won a prize!")
    'won_a_prize'
    """
    if not isinstance(text, str):
        raise ParameterError(f"Labels, words and columns are strings; got {text!r:.60}.")
    return re.sub(r"\W+", "_", text.casefold()).strip("_")[:width].rstrip("_")


@dataclass(frozen=True, repr=False)
class Rule(LabelingFunction):
    """A labeling function made of plain data: fields in, votes out."""

    kind: ClassVar[str]
    """The name of the kind in rules files."""
    name: str = field(default="", kw_only=True)
    automatic_name: bool = field(default=False, init=False, compare=False)

    def __post_init__(self) -> None:
        check_polars_threads(f"A rule ({self.kind})")
        check_fields(self, self.kind)
        if not self.name:
            object.__setattr__(self, "name", self.default_name())
            object.__setattr__(self, "automatic_name", True)

    @abstractmethod
    def default_name(self) -> str:
        """Return the name if none is given."""

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything but the name."""
        data = self.to_dict()
        data.pop("name", None)
        return digest(json.dumps(data, sort_keys=True, default=str))

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data; `wiesel.lfs.rule_from_dict` is the inverse."""
        data: dict[str, Any] = {"kind": self.kind}
        for name, value in self._changed_fields().items():
            data[name] = list(value) if isinstance(value, tuple) else value
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the rule that `to_dict` described."""
        given = {name: value for name, value in data.items() if name != "kind"}
        return build(cls, given, cls.kind)

    def _changed_fields(self) -> dict[str, Any]:
        """The fields that differ from their default."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        name = values.pop("name")
        defaults = {f.name: f.default for f in fields(self)}
        given = {key: value for key, value in values.items() if value != defaults[key]}
        return given if self.automatic_name else given | {"name": name}

    def __repr__(self) -> str:
        shown = [
            f"{name}={list(value) if isinstance(value, tuple) else value!r}"
            for name, value in self._changed_fields().items()
        ]
        return f"{self.kind}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class LabelRule(Rule):
    """Votes for one class on rows where a condition holds."""

    label: str

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label:
            raise ParameterError(
                f"The first argument of {self.kind} is the class it votes for, a non-empty string; "
                f"got {self.label!r}."
            )
        super().__post_init__()

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The one class."""
        return (self.label,)

    @classmethod
    @abstractmethod
    def matching_rows(cls, rules: Sequence[Self], frame: pl.DataFrame) -> list[npt.NDArray[Any]]:
        """Return for every rule the positions of the rows where its condition holds."""

    @classmethod
    def run_together(
        cls, lfs: Sequence[Self], batch: Batch, labels: LabelSpace
    ) -> list[ColumnVotes]:
        """Return the votes of several rules on a batch."""
        found = cls.matching_rows(lfs, batch.frame)
        return [
            ColumnVotes.of_class(rows, labels.index(lf.label))
            for lf, rows in zip(lfs, found, strict=True)
        ]

    def __call__(self, row: Mapping[str, Any]) -> str | None:
        """Return the vote on one row, None for abstain."""
        check_polars_threads(f"The rule {self.name!r}")
        read = self.reads
        if not set(read or ()) <= set(row):
            need_columns(pl.DataFrame(schema=[*row]), self)  # its message lists what the row has
        values = {name: row[name] for name in row if read is None or name in read}
        frame = as_frame([values])
        return self.label if len(self.matching_rows([self], frame)[0]) else None


def check_fields(made: Any, what: str) -> None:
    """Refuse a value that is not text, or not a boolean, where the field needs one."""
    for own in fields(made):
        value = getattr(made, own.name, None)
        if own.type is str and not isinstance(value, str):
            kind = "a text"
        elif own.type is bool and not isinstance(value, bool):
            kind = "true or false"
        elif own.type == tuple[str, ...] and not _is_texts(value):
            kind = "a list of texts"
        elif own.name == "column" and not value:
            kind = "the name of a column"
        else:
            continue
        raise ParameterError(f"{own.name} of {what} is {kind}; got {value!r:.60}.")
    for own in fields(made):
        _check_characters(getattr(made, own.name, None), own.name, what)


def _check_characters(value: Any, name: str, what: str) -> None:
    """Refuse a text, however deep in lists and tables, that cannot be stored or searched for."""
    if isinstance(value, (Mapping, list, tuple)):
        for part in (*value, *(value.values() if isinstance(value, Mapping) else ())):
            _check_characters(part, name, what)
    elif isinstance(value, str) and value and not is_name(value):
        raise ParameterError(
            f"{name} of {what} has half of a character, which no text in a table can contain: "
            f"{value!r:.60}. value.encode('utf-8', 'replace').decode() removes it."
        )


def _is_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, str) for each in value)


def build(cls: type[Made], given: Mapping[str, Any], what: str) -> Made:
    """Return a dataclass made from named values; a wrong or missing name is refused."""
    allowed = {f.name: f for f in fields(cls) if f.init}  # type: ignore[arg-type]
    for name in given:
        if name not in allowed:
            raise ParameterError(f"{what} has no option {name!r}. {suggest(name, allowed)}")
    missing = [name for name, f in allowed.items() if f.default is MISSING and name not in given]
    if missing:
        raise ParameterError(f"{what} needs {listed(missing)}.")
    return cls(**given)


def need_columns(frame: pl.DataFrame, rule: Rule) -> None:
    """Refuse a frame that lacks a column a rule reads."""
    for column in rule.reads or ():
        if column not in frame.columns:
            raise DataError(
                f"{rule.name!r} reads the column {column!r}, which is not there. "
                f"{suggest(column, frame.columns)} "
                f"The table has {listed(frame.columns) or 'no columns'}."
            )


def text_column(frame: pl.DataFrame, rule: Rule, column: str) -> pl.Series:
    """Return a column of text; raise an error if it is none."""
    need_columns(frame, rule)
    values = frame[column]
    if values.dtype in (pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String)
    if values.dtype != pl.String:
        raise DataError(
            f"{rule.name!r} needs text, but the column {column!r} holds {values.dtype}. "
            f"Cast it first: rows.with_columns(pl.col({column!r}).cast(pl.String))."
        )
    return values


def true_rows(mask: pl.Series) -> npt.NDArray[np.int64]:
    """Return the positions where a boolean column is true; missing is not true."""
    return mask.fill_null(False).arg_true().to_numpy().astype(np.int64)
