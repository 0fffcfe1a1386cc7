"""Runs jobs in forks of this process, each in a copy of the repository, with bounded resources.

A fork has imported all libraries, so a job on tests costs seconds less than a process of its own.
"""

import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Job", "Outcome", "import_libraries", "run_all"]

_REPOSITORY = Path(__file__).parents[1]
_PATIENCE = 10
"""A process that waits for something is ended after this many times its processor seconds."""
_MOST_BYTES = 8 * 2**30
"""Bytes that a process may reserve; a change may make it ask for any number of them."""
_LIBRARIES = """numpy pandas polars scipy.optimize scipy.stats sklearn.linear_model sklearn.metrics
sklearn.model_selection torch typer.testing"""

Outcome = dict[str, Any]


class Job(NamedTuple):
    """What a process does in a copy of the repository."""

    name: str
    prepare: Callable[[Path], None]
    """Change the copy before, in the main process."""
    run: Callable[[Path], Outcome]
    seconds: float
    """Of processor time, after which it is ended."""


def import_libraries() -> None:
    """Import what Wiesel imports, once for all forks of this process, but not Wiesel itself."""
    for name in _LIBRARIES.split():
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)  # threads do not survive a fork
    if "wiesel" in sys.modules:
        sys.exit("Wiesel is imported already: the jobs would not import their copies of it.")


def run_all(jobs: list[Job], copies: list[Path]) -> Iterator[tuple[str, Outcome]]:
    """Run every job in a fork of this process, one in each copy at a time."""
    waiting, free = list(reversed(jobs)), list(copies)
    running: dict[int, tuple[Job, Path, float]] = {}
    while waiting or running:
        while waiting and free:
            job, copy = waiting.pop(), free.pop()
            running[_start(job, copy)] = (job, copy, time.monotonic())
        time.sleep(0.05)
        for process, (job, copy, start) in list(running.items()):
            ended, status, used = os.wait4(process, os.WNOHANG)
            if not ended and time.monotonic() - start > _PATIENCE * job.seconds:
                os.killpg(process, signal.SIGKILL)
            if ended:
                del running[process]
                free.append(copy)
                outcome = _outcome(copy, status)
                yield job.name, outcome | {"seconds": used.ru_utime + used.ru_stime}


def _start(job: Job, copy: Path) -> int:
    result = copy.with_suffix(".json")
    result.unlink(missing_ok=True)
    job.prepare(copy)
    process = os.fork()
    if process:
        return process
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(job.seconds) + 1, int(job.seconds) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    log = os.open(copy.with_suffix(".log"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.chdir(copy)
    sys.path[:] = [str(copy / "src"), *(p for p in sys.path if Path(p) != _REPOSITORY / "src")]
    os.environ |= {"PYTHONPATH": f"{copy / 'src'}", "PYTHONDONTWRITEBYTECODE": ""}
    sys.dont_write_bytecode = False
    sys.argv = ["pytest"]
    tempfile.tempdir = None
    os.environ["TMPDIR"] = str(copy.with_suffix(".tmp"))
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    Path(os.environ["TMPDIR"]).mkdir()
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]
    code = 1
    try:
        result.write_text(json.dumps(job.run(copy)))
        code = 0
    finally:  # never back into the loop of the main process
        if code:
            traceback.print_exc()
        os._exit(code)


def _outcome(copy: Path, status: int) -> Outcome:
    result = copy.with_suffix(".json")
    if result.exists():
        found: Outcome = json.loads(result.read_text())
        return found
    code = os.waitstatus_to_exitcode(status)
    ended = (
        signal.Signals(-code).name
        if code < 0
        else copy.with_suffix(".log").read_text(encoding="utf-8")[-2000:]
    )
    return {"ended": ended}
