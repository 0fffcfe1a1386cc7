"""Worker processes: the same votes, the same errors, whatever a function refers to."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from functions_by_name import (
    LOCK,
    backtracking,
    deadly,
    endless,
    late,
    locked,
    named,
    word_count,
    words,
)

from wiesel import LabelSpace, apply_lfs, keywords, labeling_function, lookup, regex, threshold
from wiesel.errors import LabelingFunctionError, ParameterError, VoteError
from wiesel.io.exchange import write_exchanged
from wiesel.lfs import (
    FailureLog,
    LabelingFunction,
    LocalEngine,
    PythonFunction,
    VoteCache,
    load_lfs,
)
from wiesel.lfs.batch import Batch, ColumnVotes
from wiesel.lfs.engines import pool as pool_module
from wiesel.lfs.engines.pool import ChildWorker, DeathSearch, WorkerDied, WorkerPool, WorkerTooSlow
from wiesel.lfs.engines.portable import Share, is_portable, pack_lfs, unpack_lfs

LABELS = ["ham", "spam"]
ROWS = pl.DataFrame(
    {"id": [f"m{n}" for n in range(300)], "n": range(300), "text": ["free x"] * 300}
)
LIMIT = 40
WORDS = {"free", "prize"}
WEIGHTS = np.array([1.0, 2.0])
PATTERN = re.compile("^free")


def is_big(number):
    return number > LIMIT


def closed_over(limit):
    helper = lambda number: number > limit and is_big(number)  # noqa: E731 - a lambda on purpose

    @labeling_function(name=f"closed_over_{limit}")
    def lf(row, *, factor=1):
        known = WORDS & set(row["text"].split()) and PATTERN.search(row["text"])
        return "spam" if known and helper(row["n"] * factor * WEIGHTS[0]) else None

    return lf


ALL = [
    keywords("spam", ["free"], column="text"),
    regex("ham", "^f", column="text"),
    threshold("ham", "n", below=7),
    named,
    named.with_params(limit=250).renamed("named_250"),
    closed_over(60),
    word_count,
    locked,
]


def force() -> LocalEngine:
    """An engine that uses its workers from the first row on."""
    return LocalEngine(workers=2, start_after=0.0)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1) as running:
        yield running


def workers_vote(pool: WorkerPool, *lfs: LabelingFunction) -> tuple[Share, list[ColumnVotes]]:
    """Let workers alone vote on all rows; the share is incomplete where they refuse to."""
    share = Share(lfs, Batch(ROWS, 0, "id"), first_rows=100, n_takers=1)
    pool.help(share, LabelSpace(*LABELS))
    return share, share.votes()


def test_two_processes_give_the_votes_of_one() -> None:
    alone = apply_lfs(ALL, ROWS, labels=LABELS, ids="id", engine=LocalEngine(workers=1))
    shared = apply_lfs(ALL, ROWS, labels=LABELS, ids="id", engine=force())
    assert shared.dense().tolist() == alone.dense().tolist()
    assert shared.ids.tolist() == alone.ids.tolist()


def test_workers_go_from_batch_to_batch(tmp_path: Path) -> None:
    alone = apply_lfs(ALL, ROWS, labels=LABELS, ids="id", engine=LocalEngine(workers=1))
    engine = LocalEngine(workers=3, batch_rows=37, start_after=0.0)
    for _ in range(2):
        cache = VoteCache(tmp_path)
        shared = apply_lfs(ALL, ROWS, labels=LABELS, ids="id", engine=engine, cache=cache)
        assert shared.dense().tolist() == alone.dense().tolist()
        assert shared.ids.tolist() == alone.ids.tolist()
    assert cache.hits == len(ALL) * 9  # the second time, every batch is known


def test_a_share_is_over_when_those_who_took_pieces_are_done() -> None:
    share = Share([named], Batch(ROWS), first_rows=64, n_takers=2)
    taken = share.take(1000)
    assert taken == (0, 75)  # half of a fair part
    threading.Timer(0.01, share.put, (taken, [ColumnVotes.none()])).start()
    assert share.work(lambda first, count: [ColumnVotes.of_class(np.arange(count), 1)])
    (votes,) = share.votes()
    assert votes.rows.tolist() == list(range(75, 300))


def test_workers_vote_as_this_process_does(pool: WorkerPool) -> None:
    lfs = [*ALL[3:7], labeling_function(name="unsure")(lambda row: [0.5, 0.5])]
    share, votes = workers_vote(pool, *lfs)
    here = PythonFunction.run_together(lfs, Batch(ROWS), LabelSpace(*LABELS))
    assert share.complete
    assert [column.rows.tolist() for column in votes] == [c.rows.tolist() for c in here]
    assert [column.classes.tolist() for column in votes] == [c.classes.tolist() for c in here]
    assert votes[-1].distribution.tolist() == here[-1].distribution.tolist()


def test_keywords_are_searched_by_workers_too(pool: WorkerPool) -> None:
    _, votes = workers_vote(pool, ALL[0])
    assert votes[0].rows.tolist() == list(range(300))


def test_functions_are_packed_by_name_or_by_code_and_stay_what_they_are() -> None:
    lfs = [named.with_params(limit=3), closed_over(5), word_count, *ALL[:3]]
    again = unpack_lfs(pack_lfs(lfs))
    assert [lf.fingerprint for lf in again] == [lf.fingerprint for lf in lfs]
    assert [lf.name for lf in again] == [lf.name for lf in lfs]
    row = {"text": "free x", "n": 50}
    assert [lf(row) for lf in again] == [lf(row) for lf in lfs]
    assert again[1].function is not lfs[1].function


def test_a_function_that_calls_itself_is_packed() -> None:
    def depth(value):
        return 1 + depth(value[0]) if value else 0

    lf = labeling_function(name="deep")(lambda row: "spam" if depth(row["x"]) > 1 else None)
    (again,) = unpack_lfs(pack_lfs([lf]))
    assert again({"x": [[1]] and [[[]]]}) == "spam"


def test_users_of_one_preprocessor_share_it_after_packing_too() -> None:
    more = labeling_function(name="more", uses=words)(lambda row: None)
    first, second = unpack_lfs(pack_lfs([word_count, more]))
    assert first.uses[0] is second.uses[0]


@pytest.mark.parametrize("value", [LOCK, threading.local(), open, iter([1]), object()])
def test_what_cannot_be_sent_is_known_beforehand(value: object) -> None:
    lf = labeling_function(name="holds")(lambda row: value and None)
    assert is_portable(lf) is (value is open)


def test_a_function_that_fails_in_a_worker_tells_the_row(pool: WorkerPool) -> None:
    _, votes = workers_vote(pool, labeling_function(late))
    first, *others = votes[0].failures
    assert str(first).startswith("'late' failed on row 251 (id 'm251'): KeyError: 251. The row:")
    assert len(others) == 48


def test_a_wrong_vote_in_a_worker_is_refused_as_here(pool: WorkerPool) -> None:
    lf = labeling_function(name="typo")(lambda row: "spma" if row["n"] > 250 else None)
    with pytest.raises(VoteError, match=r"'typo' voted 'spma' on row 251 \(id 'm251'\); it must"):
        workers_vote(pool, lf)


def test_what_functions_write_does_not_disturb(pool: WorkerPool) -> None:
    lf = labeling_function(name="loud")(lambda row: sys.stdout.write("hello\n") and None)
    share, _ = workers_vote(pool, lf)
    assert share.complete


def test_functions_of_a_file_run_in_workers(pool: WorkerPool, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("LIMIT = 40\n")
    (tmp_path / "lfs.py").write_text(
        "import threading\n"
        "from wiesel import labeling_function\n"
        "from beside import LIMIT\n"
        "LOCK = threading.Lock()\n"
        "@labeling_function\n"
        "def big(row):\n"
        "    with LOCK:\n"
        "        return 'spam' if row['n'] > LIMIT else None\n"
    )
    (lf,) = load_lfs(tmp_path / "lfs.py")
    assert is_portable(lf)  # by its file, although it holds a lock
    _, votes = workers_vote(pool, lf)
    assert len(votes[0].rows) == 259


def test_a_rule_that_is_no_json_stays_here() -> None:
    assert not is_portable(lookup("spam", [date(2026, 1, 1)], columns="day"))


def test_a_file_that_was_edited_meanwhile_is_left_to_this_process(
    pool: WorkerPool, tmp_path: Path
) -> None:
    source = (
        "from wiesel import labeling_function\n"
        "@labeling_function\n"
        "def big(row):\n"
        "    return 'spam' if row['n'] > 40 else None\n"
    )
    (tmp_path / "lfs.py").write_text(source)
    (lf,) = load_lfs(tmp_path / "lfs.py")
    (tmp_path / "lfs.py").write_text(source.replace("> 40", "> 290"))
    share, _ = workers_vote(pool, lf)
    assert not share.complete
    (tmp_path / "lfs.py").write_text("import does_not_exist")
    share, _ = workers_vote(pool, lf)
    assert not share.complete


def test_a_failure_stops_all_and_nothing_incomplete_is_kept(tmp_path: Path) -> None:
    cache = VoteCache(tmp_path)
    with pytest.raises(LabelingFunctionError, match=r"'late' failed on row 2\d\d"):
        apply_lfs(
            [named, labeling_function(late)], ROWS, labels=LABELS, cache=cache, engine=force()
        )
    assert apply_lfs(named, ROWS, labels=LABELS, cache=cache).n_votes == 199


@pytest.mark.slow
def test_a_row_that_ends_its_process_is_named_or_set_aside_and_the_rest_is_done() -> None:
    """The first row, which this process would vote on itself if workers were not asked for."""
    options = {"engine": "isolated", "ids": "id"}
    words = r"'deadly' failed on row 0 \(id 'm0'\): it ended its process \(exit code 3\)"
    with pytest.raises(LabelingFunctionError, match=words):
        apply_lfs(deadly, ROWS[:1], labels=LABELS, **options)
    log, lfs = FailureLog(), [named.with_params(limit=-1), deadly]
    votes = apply_lfs(lfs, ROWS[:2], labels=LABELS, on_error=log, **options)
    assert votes.dense().tolist() == [[1, -1], [1, 0]]
    assert [(found.lf, found.item) for found in log.failures] == [("deadly", "row 0 (id 'm0')")]


@pytest.mark.slow
def test_a_row_on_which_a_function_never_ends_is_named() -> None:
    words = r"'backtracking' failed on row 0 \(id 'm0'\): no answer within 0\.1 s\. The row: .*abst"
    with pytest.raises(LabelingFunctionError, match=words):
        apply_lfs(backtracking, ROWS[:1], labels=LABELS, ids="id", engine="isolated", timeout=0.1)


@pytest.mark.slow
def test_a_row_on_which_a_function_never_ends_is_set_aside_and_the_rest_is_done() -> None:
    """A stall of the machine fails it only on this row: on others, a slow answer is tried again."""
    log, lfs = FailureLog(), [named.with_params(limit=-1), endless.with_params(on=2), ALL[1]]
    votes = apply_lfs(lfs, ROWS[:4], labels=LABELS, on_error=log, ids="id", timeout=2)
    assert votes.dense().tolist() == [[1, 0, 0], [1, 0, 0], [1, -1, 0], [1, 0, 0]]
    assert [(found.lf, found.item) for found in log.failures] == [("endless", "row 2 (id 'm2')")]


def test_the_clock_runs_only_while_a_worker_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks: list[float | None] = []

    class Noted(ChildWorker):
        def answer(self, timeout: float | None = None) -> dict[str, Any]:
            clocks.append(timeout)
            return super().answer(timeout)

    monkeypatch.setattr(pool_module, "ChildWorker", Noted)
    engine = LocalEngine(workers=1)
    votes = apply_lfs(named, ROWS, labels=LABELS, engine=engine, timeout=3600)
    assert votes.n_votes == 199
    loads, *pieces = clocks
    assert loads is None  # it starts, imports and loads the functions
    assert len(pieces) >= 4  # the first two pieces have one row
    assert pieces == [None, 3600] * (len(pieces) // 2)  # it begins, it answers


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_that_is_too_slow_ends_with_those_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os, time; print(os.getpid(), file=open({str(note)!r}, 'w')); time.sleep(9999)"
    lf = labeling_function(name="runs_another")(
        lambda row: subprocess.run([sys.executable, "-c", code], check=True) and None
    )
    rows = tmp_path / "rows.arrow"
    write_exchanged(ROWS[:1], rows)
    piece = {"file": str(rows), "answer": str(tmp_path / "votes"), "start": 0, "id_column": None}
    worker = ChildWorker()
    task = {"lfs": pack_lfs([lf]), "fingerprints": [lf.fingerprint], "labels": LABELS}
    worker.tell(task)
    assert worker.answer() == {"same": True}
    worker.tell(piece | {"stop_at_failure": True, "skipped": (), "timed": True})
    assert worker.answer() == {"began": True}
    while not note.exists() or not note.read_text().endswith("\n"):
        assert worker.alive
        time.sleep(0.05)
    with pytest.raises(WorkerTooSlow, match=r"no answer within 0\.01 s"):
        worker.answer(timeout=0.01)
    assert not worker.alive
    deadline = time.monotonic() + 600
    while is_running(note.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(note.read_text().strip())
    worker.close()


def test_as_many_workers_start_as_have_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many rows of a file follow is not known, so each batch may need one more worker."""
    file, started = tmp_path / "rows.parquet", []
    ROWS[:8].write_parquet(file)
    help_with = WorkerPool.help

    def counted(pool: WorkerPool, share: Share, labels: LabelSpace) -> None:
        help_with(pool, share, labels)
        started.append(len(pool._threads))

    monkeypatch.setattr(WorkerPool, "help", counted)
    engine = LocalEngine(workers=2, batch_rows=2, isolate=True)
    assert apply_lfs(named, file, labels=LABELS, ids="id", engine=engine).n_items == 8
    assert started == [1, 2, 2, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 3600}, "no timeout could stop them.*leave the timeout out"),
        ({"engine": "isolated"}, "a crash would end this program.*leave engine='isolated' out"),
    ],
)
def test_a_function_that_only_this_process_could_run_is_refused(
    options: dict[str, Any], words: str
) -> None:
    lf = labeling_function(name="by_lambda")(lambda row: LOCK and None)
    words = f"'by_lambda' cannot be sent to another process.*{words}"
    with pytest.raises(LabelingFunctionError, match=words):
        apply_lfs(lf, ROWS, labels=LABELS, **options)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "30"])
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(ParameterError, match="timeout is a number of seconds above 0; got"):
        apply_lfs(named, ROWS, labels=LABELS, timeout=timeout)


def test_a_timeout_that_is_too_short_for_many_rows_is_told() -> None:
    def vote(first: int, count: int, skipped: tuple[int, ...]) -> None:
        raise WorkerTooSlow(0.5)

    search = DeathSearch(vote, 1, lambda *what: None, most_deaths=5)
    with pytest.raises(LabelingFunctionError, match=r"no answer within 0\.5 s.*timeout too short"):
        search.votes(0, 1000)


def test_the_search_for_deadly_rows_ends() -> None:
    def vote(first: int, count: int, skipped: tuple[int, ...]) -> None:
        attempts.append(count)
        raise WorkerDied("signal 9")

    attempts: list[int] = []
    found: list[object] = []
    search = DeathSearch(vote, 1, lambda *what: found.append(what), most_deaths=5)
    with pytest.raises(LabelingFunctionError, match=r"keep crashing \(signal 9\).*memory"):
        search.votes(0, 1000)
    assert len(attempts) == 6


def test_the_search_does_not_wait_for_a_death_that_is_certain() -> None:
    def vote(first: int, count: int, skipped: tuple[int, ...]) -> int:
        attempts.append((first, count, skipped))
        if first + count == 8 and not skipped:
            raise WorkerDied("signal 11")
        return count

    attempts: list[tuple[int, int, tuple[int, ...]]] = []
    found: list[int] = []
    search = DeathSearch(vote, 1, lambda row, *_: found.append(row), most_deaths=2)
    assert search.votes(0, 8) == [(4, 4), (2, 2), (1, 1), (1, 1)]
    assert attempts == [(0, 8, ()), (0, 4, ()), (4, 2, ()), (6, 1, ()), (7, 1, ()), (7, 1, (0,))]
    assert found == [7]


def test_functions_that_die_only_together_are_set_aside_together() -> None:
    def vote(first: int, count: int, skipped: tuple[int, ...]) -> int:
        if first <= 1 < first + count and len(skipped) == 0:
            raise WorkerDied("signal 11")
        return count

    found: list[tuple[int, int, str]] = []
    search = DeathSearch(vote, 2, lambda *what: found.append(what))
    assert sum(count for _, count in search.votes(0, 4)) == 4
    reason = "it ended its process (signal 11)"
    assert found == [(1, 0, reason), (1, 1, reason)]


INTERRUPTED = """
import os, pathlib, time
import polars as pl
from wiesel import apply_lfs, labeling_function
from wiesel.lfs import LocalEngine

@labeling_function
def stuck(row, folder={folder!r}, first=os.getpid()):
    notes = pathlib.Path(folder)
    if os.getpid() == first:  # it leaves some rows to the worker
        while row["n"] > 70 and not list(notes.iterdir()):
            time.sleep(0.01)
        return None
    (notes / str(os.getpid())).touch()
    while True:
        time.sleep(0.01)

rows = pl.DataFrame({{"n": range(300)}})
try:
    apply_lfs(stuck, rows, labels=["ham", "spam"], engine=LocalEngine(2, start_after=0.0))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stuck_worker_neither_keeps_ctrl_c_from_working_nor_outlives_this_process(
    tmp_path: Path, how: signal.Signals
) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "script.py").write_text(INTERRUPTED.format(folder=str(tmp_path / "pids")))
    command = [sys.executable, str(tmp_path / "script.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            while not (pids := [file.name for file in (tmp_path / "pids").iterdir()]):
                assert running.poll() is None
                time.sleep(0.05)
            time.sleep(0.5)  # by now the first process waits for the worker
            running.send_signal(how)
            said, _ = running.communicate(timeout=600)
        finally:
            running.kill()
    assert said.split() == (["interrupted"] if how == signal.SIGINT else [])
    deadline = time.monotonic() + 600
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in pids)


def is_running(pid: str) -> bool:
    try:
        return "\nState:\tZ" not in Path("/proc", pid, "status").read_text()
    except OSError:
        return False


def test_modules_of_the_current_folder_are_not_imported_by_workers(tmp_path: Path) -> None:
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for name in ("polars", "numpy", "json", "wiesel"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\n")
    # The parent is safe by -P; what it starts must be safe by itself, even with "" in its path.
    code = """
import sys
from wiesel.lfs.engines.pool import ChildWorker

for place in (None, ""):
    if place is not None:
        sys.path.insert(0, place)
    worker = ChildWorker()
    lfs = '{"lfs": [], "functions": []}'
    worker.tell({"lfs": lfs, "fingerprints": [], "labels": ["a", "b"]})
    print(worker.answer())
    worker.kill()
    worker.close()
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["{'same': True}"] * 2, done.stderr
    assert not (tmp_path / "executed").exists()


SCRIPT = """
import os
import polars as pl
from wiesel import LabelSpace, apply_lfs, labeling_function
from wiesel.lfs import LocalEngine
print("once")
LIMIT = 40

def big(number):
    return number > LIMIT

@labeling_function
def lf(row):
    return "spam" if big(row["n"]) else None

rows = pl.DataFrame({"n": range(300)})
votes = apply_lfs(lf, rows, labels=["ham", "spam"], engine=LocalEngine(2, start_after=0.0))
print(votes.n_votes)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["once", "259"]


@pytest.mark.slow
def test_code_that_is_in_no_file_runs_in_workers_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["once", "259"]


def test_objects_in_a_column_keep_the_work_here() -> None:
    rows = ROWS.with_columns(pl.Series("o", [object()] * 300, dtype=pl.Object))
    assert apply_lfs(named, rows, labels=LABELS, engine=force()).n_votes == 199


def test_no_process_and_no_file_is_left_behind() -> None:
    # Other processes, such as those of other tests, may have files there meanwhile.
    own = f"wiesel-{os.getpid()}-*"
    before = set(Path("/dev/shm").glob(own))
    apply_lfs(named, ROWS, labels=LABELS, engine=force())
    assert set(Path("/dev/shm").glob(own)) <= before


def test_short_work_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    # Short is what takes less than `start_after`; on a busy machine a second may be too little.
    engine = LocalEngine(workers=2, start_after=600)
    assert apply_lfs(ALL, ROWS, labels=LABELS, engine=engine).n_items == 300
    assert LocalEngine().start_after >= 1


def test_a_number_of_workers_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LocalEngine(workers=0)
