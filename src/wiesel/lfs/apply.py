"""Applies labeling functions to rows, and tries one on a few rows."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wiesel.errors import ParameterError, VoteError, listed, suggest
from wiesel.io import FilePath, VoteParts
from wiesel.io.vote_parts import vote_into_folder
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import Batch, RowSource, scalar
from wiesel.lfs.engines import Engine, Job, LocalEngine, RayEngine
from wiesel.lfs.failures import FailureLog
from wiesel.lfs.fingerprints import VoteCache, digest
from wiesel.lfs.function import LabelingFunction, as_lfs, check_classes
from wiesel.lfs.python_function import PythonFunction
from wiesel.lfs.text_rules import Keywords, Regex
from wiesel.parameters import check_number
from wiesel.tables import index_ids
from wiesel.threads import check_polars_threads
from wiesel.vote_entries import item_ids
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

__all__ = ["Trial", "TriedRow", "apply_lfs", "apply_lfs_to_folder", "try_lfs"]

ENGINES: dict[str, Callable[[], Engine]] = {
    "local": LocalEngine,
    "isolated": partial(LocalEngine, isolate=True),
    "ray": RayEngine,
}

OnError = Literal["raise", "abstain"] | FailureLog
Spans = list[tuple[int, int]]
"""Where matches start and end in a text."""

_AROUND = 60
"""Characters shown before and after a match in a long text."""
_LONG = 400


def apply_lfs(  # noqa: PLR0913 - keywords that most calls leave out
    lfs: LabelingFunction | Iterable[Any],
    rows: Any,
    *,
    labels: LabelSpace | Sequence[str],
    engine: str | Engine = "local",
    cache: VoteCache | str | os.PathLike[str] | None = None,
    on_error: OnError = "raise",
    ids: str | None = None,
    timeout: float | None = None,
) -> VoteMatrix:
    """Return the votes of labeling functions on rows: a `VoteMatrix`, one voter per function.

    `rows` is a Polars (eager or lazy), pandas or Arrow table, a list of dicts, or the path of a
    Parquet, CSV or JSONL file, which may be larger than memory. `ids` names the column of item
    ids; without it, they are the index of a pandas table, else row numbers. `cache` is a file that
    stores votes: a labeling function runs again only if it or the rows have changed. `on_error`
    decides what happens if a labeling function raises: stop, or abstain on that row and warn (a
    `FailureLog` collects the failures instead). `engine="isolated"` votes only in other processes,
    so a function that kills its process on a row (a crash in compiled code, too little memory) is
    an ordinary failure. `engine="ray"` votes on the machines of a Ray cluster, on rows in Parquet
    files.

    `timeout` is for functions that may never end on a row: the seconds that the functions may take
    for one batch of rows. Every engine then votes in other processes and kills one that takes
    longer. The row is found by trying smaller batches, down to one row, and is an ordinary failure.
    It is wall time, so be generous: a busy machine is slow. Functions of a row and keywords have
    this limit; other rules and functions of a frame have none.

    >>> from wiesel import keywords, labeling_function
    >>> @labeling_function
    ... def short(row):
    ...     return "ham" if len(row["text"]) < 12 else None
    >>> lfs = [keywords("spam", ["free", "prize"], column="text"), short]
    >>> rows = [{"text": "A free prize for you"}, {"text": "see you"}, {"text": "free at 8?"}]
    >>> apply_lfs(lfs, rows, labels=["ham", "spam"]).dense()
    array([[ 1, -1],
           [-1,  0],
           [ 1,  0]], dtype=int16)
    """
    job = _job(lfs, RowSource(rows, ids), labels, on_error, VoteCache.of(cache), timeout)
    votes = _voted(find_engine(engine), job)
    if ids is not None:
        item_ids(votes.ids, votes.n_items)
    elif (index := index_ids(rows)) is not None:
        votes = replace(votes, ids=item_ids(index, votes.n_items))
    _warn(job, on_error)
    return votes


def apply_lfs_to_folder(  # noqa: PLR0913 - keywords that most calls leave out
    lfs: LabelingFunction | Iterable[Any],
    rows: FilePath,
    folder: FilePath,
    *,
    labels: LabelSpace | Sequence[str],
    engine: Literal["local", "isolated", "ray"] | Engine | None = None,
    on_error: OnError = "raise",
    ids: str | None = None,
    timeout: float | None = None,
) -> VoteParts:
    """Write the votes on rows in many files to a folder, for votes larger than memory.

    The result can be passed to `fit` of a label model. `engine="local"` (or `"isolated"`) votes on
    this machine and writes one file of votes for each file of rows. Finished files are skipped, so
    an interrupted call can be resumed. Otherwise the machines of a Ray cluster vote on Parquet
    files, like `apply_lfs(..., engine="ray")`. Then the rows and the folder, which must be new, are
    on a file system that all machines share (see also `wiesel.io.RayVoteParts`). Ids must be
    unique in each part. `timeout` is that of `apply_lfs`.

    >>> from wiesel import keywords
    >>> spam = keywords("spam", ["free"], column="text")
    >>> apply_lfs_to_folder(spam, "mails.parquet", "votes", labels=["ham", "spam"])
    Traceback (most recent call last):
    wiesel.errors.DataError: There is no file mails.parquet. ...
    """
    if engine is not None and engine != "ray" and not isinstance(engine, RayEngine):
        functions, space = as_lfs(lfs), LabelSpace.of(labels)
        how = {"engine": find_engine(engine), "ids": ids, "timeout": timeout}
        return _write_locally(functions, rows, folder, space, on_error, how)
    job = _job(lfs, RowSource(rows, ids), labels, on_error, None, timeout)
    parts = (engine if isinstance(engine, RayEngine) else RayEngine()).write(job, folder)
    _warn(job, on_error)
    return parts


def _write_locally(
    lfs: Sequence[LabelingFunction],
    rows: FilePath,
    folder: FilePath,
    labels: LabelSpace,
    on_error: OnError,
    how: dict[str, Any],
) -> VoteParts:
    log = on_error if isinstance(on_error, FailureLog) else FailureLog()
    chosen: OnError = "raise" if _stops(on_error) else log

    def vote(file: Path) -> VoteMatrix:
        return apply_lfs(lfs, file, labels=labels, on_error=chosen, **how)

    key = digest([(lf.name, lf.fingerprint) for lf in lfs], list(labels), how["ids"])
    parts = vote_into_folder(vote, key, rows, folder, numbered=how["ids"] is None)
    if log.failures and log is not on_error:
        warnings.warn(log.warning(), stacklevel=3)
    return parts


def _job(
    lfs: LabelingFunction | Iterable[Any],
    source: RowSource,
    labels: LabelSpace | Sequence[str],
    on_error: OnError,
    cache: VoteCache | None,
    timeout: float | None,
) -> Job:
    check_polars_threads("apply_lfs")
    space = LabelSpace.of(labels)
    functions = as_lfs(lfs)
    check_classes(functions, space)
    log = on_error if isinstance(on_error, FailureLog) else FailureLog()
    source = replace(source, columns=needed_columns(functions))
    return Job(tuple(functions), source, space, cache, _stops(on_error), log, timeout)


def _voted(engine: Engine, job: Job) -> VoteMatrix:
    """The votes of an engine, which may be the user's own, checked to be those of the job."""
    votes = engine.apply(job)
    name = type(engine).__name__
    if not isinstance(votes, VoteMatrix):
        raise VoteError(f"{name}.apply must return a VoteMatrix; got {type(votes).__name__}.")
    if (votes.voters, votes.labels) != (job.voters, job.labels):
        raise VoteError(
            f"{name}.apply must return the votes of {listed(job.voters)} for {job.labels!r}, in "
            f"this order; got those of {listed(votes.voters)} for {votes.labels!r}."
        )
    n_rows = getattr(job.source.rows, "height", votes.n_items)
    if votes.n_items != n_rows:
        raise VoteError(f"{name}.apply got {n_rows:,} rows, and returned {votes.n_items:,} items.")
    return votes


def _warn(job: Job, on_error: OnError) -> None:
    if job.log.failures and not isinstance(on_error, FailureLog):
        warnings.warn(job.log.warning(), stacklevel=3)


def needed_columns(lfs: Sequence[LabelingFunction]) -> tuple[str, ...] | None:
    """Return the columns that labeling functions read, or None if one may read any."""
    known = [lf.reads for lf in lfs]
    if any(columns is None for columns in known):
        return None
    return tuple(dict.fromkeys(name for columns in known for name in columns or ()))


def find_engine(engine: str | Engine) -> Engine:
    """Return an engine by its name, or the engine given."""
    if isinstance(engine, Engine):
        return engine
    if engine not in ENGINES:
        raise ParameterError(f"There is no engine {engine!r}. {suggest(engine, ENGINES)}")
    return ENGINES[engine]()


def _stops(on_error: object) -> bool:
    if on_error not in ("raise", "abstain") and not isinstance(on_error, FailureLog):
        raise ParameterError(
            f"on_error must be 'raise', 'abstain' or a FailureLog; got {on_error!r}."
        )
    return on_error == "raise"


@dataclass(frozen=True)
class TriedRow:
    """One row, the votes on it, and the matched positions in its texts."""

    item: str
    row: Mapping[str, Any]
    votes: Mapping[str, Any]
    """The vote of each labeling function that did not abstain."""
    errors: Mapping[str, str]
    """The error of each labeling function that failed."""
    spans: Mapping[str, Spans]
    """The matched text in each column."""

    def to_dict(self) -> dict[str, Any]:
        """Return the row and the votes as plain data."""
        return {
            "item": self.item,
            "row": dict(self.row),
            "votes": dict(self.votes),
            "errors": dict(self.errors),
            "spans": {name: [list(span) for span in own] for name, own in self.spans.items()},
        }


@dataclass(frozen=True)
class Trial:
    """The result of `try_lfs`, with displays for the terminal and notebooks."""

    rows: tuple[TriedRow, ...]
    lfs: tuple[str, ...]

    def __iter__(self) -> Iterator[TriedRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Yield every row, matches reversed and votes below."""
        from rich.console import Group

        for tried in self.rows:
            yield Group(*_terminal_lines(tried))

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(no_color=True, width=100, force_terminal=False, force_jupyter=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get().rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "<div>" + "".join(_html(tried) for tried in self.rows) + "</div>"


def try_lfs(lfs: LabelingFunction | Iterable[Any], rows: Any, *, n: int = 10) -> Trial:
    """Return the votes of labeling functions on the first `n` rows, with the matching text.

    Nothing is raised: an error of a labeling function is shown next to the votes of the others.

    >>> from wiesel import keywords
    >>> spam = keywords("spam", ["free", "prize"], column="text", name="gifts")
    >>> print(try_lfs(spam, [{"text": "A free lunch"}, {"text": "see you"}]))
    row 0
      text: A [free] lunch
      spam: gifts
    row 1
      text: see you
      nobody votes
    """
    check_number(Trial, "n", n, low=1, whole=True)
    functions = as_lfs(lfs)
    batch = next(RowSource(rows).batches(size=n))
    tried = [_tried(functions, batch, position) for position in range(min(n, len(batch)))]
    return Trial(tuple(tried), tuple(lf.name for lf in functions))


def matched_spans(lf: LabelingFunction, row: Mapping[str, Any]) -> dict[str, Spans]:
    """Return where a text rule matches in a row, by column; nothing for other functions."""
    if not isinstance(lf, (Keywords, Regex)) or not isinstance(row.get(lf.column), str):
        return {}
    return {lf.column: lf.spans(row[lf.column])}


def _tried(lfs: Sequence[LabelingFunction], batch: Batch, position: int) -> TriedRow:
    row = batch.rows[position]
    votes: dict[str, Any] = {}
    errors: dict[str, str] = {}
    spans: dict[str, Spans] = {}
    for lf in lfs:
        try:
            vote = _vote(lf, batch, position)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            errors[lf.name] = f"{type(error).__name__}: {error}"
            continue
        if vote is not None:
            votes[lf.name] = vote
            for column, found in matched_spans(lf, row).items():
                spans[column] = _merged([*spans.get(column, []), *found])
    return TriedRow(batch.item(position), row, votes, errors, spans)


def _vote(lf: LabelingFunction, batch: Batch, position: int) -> Any:
    """The vote of a labeling function on a row; a vectorized one gets all tried rows."""
    if isinstance(lf, PythonFunction) and lf.vectorized:
        return scalar(list(lf(batch.frame))[position])
    return lf(batch.rows[position])


def _merged(spans: Spans) -> Spans:
    """Spans in order, those that touch or overlap as one."""
    merged: Spans = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _pieces(value: Any, spans: Spans) -> list[tuple[str, bool]]:
    """A value as pieces of text, each matched or not; long texts only around the matches."""
    text = value if isinstance(value, str) else repr(value)
    pieces: list[tuple[str, bool]] = []
    end = 0
    for start, stop in spans:
        pieces += [(_between(text[end:start], first=end == 0), False), (text[start:stop], True)]
        end = stop
    rest = text[end:]
    pieces.append((rest if len(rest) <= _LONG else rest[: _LONG // 2] + " …", False))
    return [(piece, matched) for piece, matched in pieces if piece]


def _between(text: str, first: bool) -> str:
    if len(text) <= _LONG // 2:
        return text
    return f"{'' if first else text[:_AROUND]} … {text[-_AROUND:]}"


def _verdicts(tried: TriedRow) -> list[tuple[str, str]]:
    """Classes with their voters, then failures."""
    by_vote: dict[str, list[str]] = {}
    for name, vote in tried.votes.items():
        by_vote.setdefault(vote if isinstance(vote, str) else str(vote), []).append(name)
    lines = [(vote, ", ".join(names)) for vote, names in by_vote.items()]
    return lines + [("failed", f"{name} ({error})") for name, error in tried.errors.items()]


def _terminal_lines(tried: TriedRow) -> "Iterator[Text]":
    from rich.text import Text

    yield Text(tried.item, style="bold")
    for column, value in tried.row.items():
        line = Text(f"  {column}: ", style="dim")
        for piece, matched in _pieces(value, tried.spans.get(column, [])):
            line.append(
                f"[{piece}]" if matched else piece, "bold reverse" if matched else "not dim"
            )
        yield line
    verdicts = _verdicts(tried)
    for vote, names in verdicts:
        yield Text.assemble("  ", (f"{vote}: ", "red" if vote == "failed" else "green"), names)
    if not verdicts:
        yield Text("  nobody votes", style="dim")


def _html(tried: TriedRow) -> str:
    cells = []
    for column, value in tried.row.items():
        pieces = _pieces(value, tried.spans.get(column, []))
        marked = "".join(f"<mark>{escape(p)}</mark>" if hit else escape(p) for p, hit in pieces)
        cells.append(f"<div><small>{escape(column)}</small> {marked}</div>")
    verdicts = [f"<b>{escape(vote)}</b> {escape(names)}" for vote, names in _verdicts(tried)]
    summary = "<br>".join(verdicts) or "<i>nobody votes</i>"
    return f"<p><b>{escape(tried.item)}</b>{''.join(cells)}<div>{summary}</div></p>"
