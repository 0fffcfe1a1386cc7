"""Labeling functions and preprocessors in Python: decorators, and running them on a batch."""

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, overload

from wiesel.errors import LabelingFunctionError, ParameterError, suggest
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch, ColumnVotes, as_row, read_ballots, read_column
from wiesel.lfs.failures import Failure, timed
from wiesel.lfs.fingerprints import digest
from wiesel.lfs.function import LabelingFunction, as_lfs

__all__ = [
    "BrokenRow",
    "Preprocessor",
    "PythonFunction",
    "as_preprocessors",
    "labeling_function",
    "preprocessor",
    "rows_with",
    "votes_by_index",
]

_BLOCK = 128
Share = Callable[[object, Callable[[], list[Any]]], list[Any]]
"""Caches the column of a key: `Batch.share`."""


@dataclass(frozen=True)
class BrokenRow:
    """Marks a row on which a preprocessor raised; functions that use the value fail there."""

    error: Exception


@dataclass(frozen=True, eq=False)
class Preprocessor:
    """A value computed from a row and added to it under a name; made by `preprocessor`."""

    function: Callable[[dict[str, Any]], Any]
    name: str
    uses: tuple["Preprocessor", ...] = ()
    is_function: bool = False
    """Whether it calls a labeling function, so that errors need not name it."""

    @property
    def fingerprint(self) -> str:
        """A digest of the code and its dependencies, as they are now."""
        return digest(*self.fingerprint_parts)

    @property
    def fingerprint_parts(self) -> tuple[Any, ...]:
        """What the fingerprint is made of."""
        return (self.function, self.name, self.uses)

    def __call__(self, row: dict[str, Any]) -> Any:
        """Return the value for one row."""
        return self.function(rows_with(self.uses, [row])[0] if self.uses else row)

    def values(self, rows: Sequence[Any], share: Share) -> list[Any]:
        """Return the value of every row, a `BrokenRow` where it raised."""
        rows = rows_with(self.uses, rows, share) if self.uses else rows
        return share(self, lambda: [self._value(row) for row in rows])

    def _value(self, row: Any) -> Any:
        if isinstance(row, BrokenRow):
            return row
        try:
            return self.function(row)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            if not self.is_function:
                error.add_note(f"in the preprocessor {self.name!r}")
            return BrokenRow(error)


@overload
def preprocessor(function: Callable[..., Any], /) -> Preprocessor: ...


@overload
def preprocessor(
    *, name: str = "", uses: Preprocessor | Iterable[Preprocessor] = ()
) -> Callable[[Callable[..., Any]], Preprocessor]: ...


def preprocessor(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    uses: Preprocessor | Iterable[Preprocessor] = (),
) -> Preprocessor | Callable[[Callable[..., Any]], Preprocessor]:
    """Make a value that is computed once per row and shared (a decorator).

    Labeling functions that list it in `uses` find the value in the row under its name. It may be
    any Python object, for instance a parsed document.

    >>> from wiesel import labeling_function
    >>> @preprocessor
    ... def words(row):
    ...     return row["text"].lower().split()
    >>> @labeling_function(uses=words)
    ... def greeting(row):
    ...     return "ham" if row["words"][0] in {"hi", "hello"} else None
    >>> greeting({"text": "Hello you"})
    'ham'
    """
    if function is None:
        return functools.partial(_named, name=name, uses=as_preprocessors(uses))
    return _named(function, name, as_preprocessors(uses))


def _named(function: Callable[..., Any], name: str, uses: tuple[Preprocessor, ...]) -> Preprocessor:
    """Return the preprocessor of a function, named like it unless a name is given."""
    return Preprocessor(function, name or function.__name__, uses)


def as_preprocessors(uses: Preprocessor | Iterable[Preprocessor]) -> tuple[Preprocessor, ...]:
    """Return one or several preprocessors as a tuple, refusing anything else."""
    several = tuple(uses) if isinstance(uses, Iterable) else (uses,)
    for use in several:
        if not isinstance(use, Preprocessor):
            raise ParameterError(
                f"uses=... takes preprocessors; got {use!r:.60}. Decorate it with @preprocessor."
            )
    return several


def rows_with(
    uses: Sequence[Preprocessor], rows: Sequence[Any], share: Share | None = None
) -> list[Any]:
    """Return the rows with the values of preprocessors added (a `BrokenRow` where one raised)."""
    kept: dict[object, list[Any]] = {}

    def keep(key: object, compute: Callable[[], list[Any]]) -> list[Any]:
        return kept[key] if key in kept else kept.setdefault(key, compute())

    columns = [use.values(rows, share or keep) for use in uses]
    names = [use.name for use in uses]
    return [_row_with(row, names, values) for row, *values in zip(rows, *columns, strict=True)]


def _row_with(row: dict[str, Any], names: list[str], values: list[Any]) -> Any:
    for value in values:
        if isinstance(value, BrokenRow):
            return value
    return row | dict(zip(names, values, strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class PythonFunction(LabelingFunction):
    """A labeling function written in Python; made by `labeling_function`."""

    function: Callable[..., Any]
    name: str
    vectorized: bool = False
    uses: tuple[Preprocessor, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that differ from the function's defaults."""
    by_index: bool = False
    """Whether it votes with class indices, -1 to abstain; see `votes_by_index`."""
    automatic_name: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.vectorized and self.uses:
            raise ParameterError(
                f"{self.name!r} is vectorized: it gets a frame, so it cannot use preprocessors, "
                "which add values to rows. Compute the column in the function itself."
            )
        defaults = parameter_defaults(self.function, self.name)
        for name in self.params:
            if name not in defaults:
                problem = f"{self.name!r} has no parameter {name!r}."
                raise ParameterError(f"{problem} {suggest(name, defaults)}")
        for attribute in ("__doc__", "__module__"):
            object.__setattr__(self, attribute, getattr(self.function, attribute, None))

    @property
    def pass_key(self) -> Hashable:
        """Functions of a row share the rows; functions of a frame run one by one."""
        return (type(self), self.name) if self.vectorized else type(self)

    @property
    def divisible(self) -> bool:
        """Functions of a row vote on any piece of a batch; those of a frame may use other rows."""
        return not self.vectorized

    @property
    def parameters(self) -> dict[str, Any]:
        """Every tunable parameter with its value."""
        return parameter_defaults(self.function, self.name) | dict(self.params)

    def with_params(self, **params: Any) -> Self:
        """Return the same labeling function with other values of its keyword parameters.

        >>> @labeling_function
        ... def short(row, limit=4):
        ...     return "ham" if len(row["text"].split()) < limit else None
        >>> short.with_params(limit=2)({"text": "see you"}) is None
        True
        """
        return replace(self, params=dict(self.params) | params)

    @property
    def fingerprint(self) -> str:
        """A digest of the code, its dependencies and the parameters, as they are now."""
        return digest(*self.fingerprint_parts)

    @property
    def fingerprint_parts(self) -> tuple[Any, ...]:
        """What the fingerprint is made of."""
        meaning = ["by index"] if self.by_index else []
        return (self.function, self.parameters, self.vectorized, self.uses, *meaning)

    def __call__(self, row: Any) -> Any:
        """Return the vote on one row (on one frame, if vectorized)."""
        if self.uses and not self.vectorized:
            return _unbroken(self.bound)(rows_with(self.uses, [as_row(row)])[0])
        return self.bound(as_row(row))

    @property
    def bound(self) -> Callable[[Any], Any]:
        """The function with its parameters filled in."""
        return functools.partial(self.function, **self.params) if self.params else self.function

    @classmethod
    def run_together(
        cls, lfs: Sequence[Self], batch: Batch, labels: LabelSpace
    ) -> list[ColumnVotes]:
        """Return the votes of several functions on a batch; an exception is a failure."""
        if lfs[0].vectorized:
            return [lf._run_on_frame(batch, labels) for lf in lfs]
        calls = [_Calls(lf, batch) for lf in lfs]
        # Function by function within blocks of rows that stay in the processor's cache.
        for first in range(0, len(batch), _BLOCK):
            for call in calls:
                call.run(first, first + _BLOCK)
        return [call.votes(labels) for call in calls]

    def _run_on_frame(self, batch: Batch, labels: LabelSpace) -> ColumnVotes:
        try:
            with timed(self.name):
                column = self.bound(batch.frame)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            reason = f"{type(error).__name__}: {error}"
            where = f"rows {batch.start} to {batch.start + len(batch) - 1}"
            return ColumnVotes.none([Failure(self.name, where, reason)])
        return read_column(column, labels, self.name, batch, self.by_index)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"<labeling function {self.name}({shown})>"


class _Calls:
    """The calls of one function on the rows of a batch, and their results so far."""

    def __init__(self, lf: PythonFunction, batch: Batch) -> None:
        self.name = lf.name
        self.by_index = lf.by_index
        self.batch = batch
        self.function = _unbroken(lf.bound) if lf.uses else lf.bound
        self.rows = batch.rows
        if lf.uses:
            rows = batch.rows
            self.rows = batch.share(lf.uses, lambda: rows_with(lf.uses, rows, batch.share))
        self.ballots: list[Any] = []
        self.failures: list[Failure] = []

    def run(self, first: int, end: int) -> None:
        """Call the function on some rows; raise at once if failures stop the job."""
        with timed(self.name):
            self._run(first, end)

    def _run(self, first: int, end: int) -> None:
        for position, error in failing_calls(
            self.function, iter(self.rows[first:end]), self.ballots
        ):
            failure = self.batch.failure(self.name, position, error)
            if self.batch.stop_at_failure:
                raise failure.error() from error
            self.failures.append(failure)

    def votes(self, labels: LabelSpace) -> ColumnVotes:
        """Return the answers as votes."""
        votes = read_ballots(self.ballots, labels, self.name, self.batch, self.by_index)
        return replace(votes, failures=tuple(self.failures)) if self.failures else votes


def _unbroken(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, which raises the exception of a preprocessor that failed on the row."""

    def call(row: Any) -> Any:
        if isinstance(row, BrokenRow):
            raise row.error
        return function(row)

    return call


@overload
def labeling_function(function: Callable[..., Any], /) -> PythonFunction: ...


@overload
def labeling_function(
    *,
    name: str = "",
    vectorized: bool = False,
    uses: Preprocessor | Iterable[Preprocessor] = (),
) -> Callable[[Callable[..., Any]], PythonFunction]: ...


def labeling_function(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    vectorized: bool = False,
    uses: Preprocessor | Iterable[Preprocessor] = (),
) -> PythonFunction | Callable[[Callable[..., Any]], PythonFunction]:
    """Turn a Python function into a labeling function (a decorator, with or without parentheses).

    It gets a row (a dict, not to be changed; `row.text` is `row["text"]`) and returns a class
    name, a distribution over the classes (a dict by name, or one number for each), or None to
    abstain; NaN and `wiesel.ABSTAIN` abstain too. With `vectorized` it gets
    a Polars frame and returns a Series with one vote per row. Keyword parameters with defaults can
    be tuned: `lf.with_params(limit=3)`. `uses` names preprocessors whose values it finds in the
    row.

    >>> @labeling_function
    ... def very_short(row):
    ...     return "ham" if len(row["text"].split()) < 4 else None
    >>> very_short({"text": "see you"})
    'ham'
    """
    if function is None:
        return functools.partial(
            _decorated, name=name, vectorized=vectorized, uses=as_preprocessors(uses)
        )
    return _decorated(function, name=name, vectorized=vectorized, uses=as_preprocessors(uses))


def votes_by_index(lfs: LabelingFunction | Iterable[Any]) -> list[LabelingFunction]:
    """Return labeling functions that vote with class indices: 0 is the first class, -1 abstains.

    Numbers are class indices only if you declare it. Rules name their class and stay unchanged.

    >>> from wiesel import apply_lfs
    >>> @labeling_function
    ... def free(row):
    ...     return 1 if "free" in row.text else -1
    >>> apply_lfs(votes_by_index([free]), [{"text": "free"}], labels=["ham", "spam"]).dense()
    array([[1]], dtype=int16)
    """
    return [
        replace(lf, by_index=True) if isinstance(lf, PythonFunction) else lf for lf in as_lfs(lfs)
    ]


def _decorated(
    function: Callable[..., Any], name: str, vectorized: bool, uses: tuple[Preprocessor, ...]
) -> PythonFunction:
    if not callable(function):
        raise ParameterError(
            f"labeling_function decorates a function; got {function!r:.60}. "
            "Its options are given by name: @labeling_function(name=...)."
        )
    own_name = getattr(function, "__name__", type(function).__name__)
    return PythonFunction(function, name or own_name, vectorized, uses)


def parameter_defaults(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the tunable parameters of a function: all but the row, each with its default."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise LabelingFunctionError(f"{name!r} takes no arguments; it must take a row.")
    plain = [p for p in parameters[1:] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    for parameter in plain:
        if parameter.default is parameter.empty:
            raise LabelingFunctionError(
                f"The parameter {parameter.name!r} of {name!r} has no default. A labeling function "
                "is called with a row only, so give it one."
            )
    return {parameter.name: parameter.default for parameter in plain}


def failing_calls(
    function: Callable[[Any], Any], rows: Iterator[Any], results: list[Any]
) -> Iterator[tuple[int, Exception]]:
    """Call the function on every row into `results`; yield where it raised (the result is None)."""
    while True:
        try:
            # `extend` keeps the results before an exception, and is as fast as a loop can be.
            results.extend(map(function, rows))
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            results.append(None)
            yield len(results) - 1, error
        else:
            return
