"""apply_lfs: rows in, votes out."""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from wiesel.errors import ParameterError, VoteError, listed, suggest
from wiesel.io import FilePath, VoteParts
from wiesel.io.vote_parts import vote_into_folder
from wiesel.labels import LabelSpace
from wiesel.lfs.batch import RowSource
from wiesel.lfs.engines import Engine, Job, LocalEngine, RayEngine
from wiesel.lfs.failures import FailureLog
from wiesel.lfs.fingerprints import VoteCache, digest
from wiesel.lfs.function import LabelingFunction, as_lfs, check_classes
from wiesel.tables import index_ids
from wiesel.threads import check_polars_threads
from wiesel.vote_entries import item_ids
from wiesel.votes import VoteMatrix

__all__ = ["apply_lfs", "apply_lfs_to_folder"]

ENGINES: dict[str, Callable[[], Engine]] = {
    "local": LocalEngine,
    "isolated": partial(LocalEngine, isolate=True),
    "ray": RayEngine,
}

OnError = Literal["raise", "abstain"] | FailureLog


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
