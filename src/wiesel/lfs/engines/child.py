"""One worker process on this machine: safe start, messages, and reliable termination."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from wiesel.lfs.engines.deaths import WorkerDied, WorkerTooSlow
from wiesel.lfs.engines.messages import read_message, write_message

__all__ = ["ChildWorker"]

_CODE = (
    "import sys; sys.path.extend(place for place in sys.argv[2:] if place not in sys.path); "
    "import gc; gc.disable(); from wiesel.lfs.engines.worker import main; gc.enable(); main()"
)
"""The search path of this process is appended at the end, so that a polars.py in the current
folder, or next to a script, is not imported instead of Polars. Imports leave no garbage: the
search for it would take a tenth of the time to start."""


class ChildWorker:
    """A new Python process that votes; it can be restarted after a crash."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._ended = False
        self._process = _started()

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def start(self) -> None:
        """Replace a process that has died; not possible after `kill`."""
        with self._changing:
            if self._ended:
                raise WorkerDied("it was ended")
            self._close_pipes()
            self._process = _started()

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message."""
        try:
            write_message(self._process.stdin, message)  # type: ignore[arg-type]
        except OSError:
            raise WorkerDied(self.how_it_ended()) from None

    def answer(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for a message. A process that sends none within `timeout` seconds is killed."""
        deadline = None if timeout is None else _Deadline(timeout, self._process)
        message = None
        with suppress(EOFError, OSError):
            message = read_message(self._process.stdout)  # type: ignore[arg-type]
        if timeout is not None and deadline is not None and not deadline.is_met():
            self._wait()
            raise WorkerTooSlow(timeout)
        if message is None:
            raise WorkerDied(self.how_it_ended())
        return message

    def how_it_ended(self) -> str:
        """Return the exit code or the signal of a process that closed its pipe."""
        self._wait()
        code = self._process.returncode
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    def kill(self) -> None:
        """Kill the process; it cannot be restarted."""
        with self._changing:
            self._ended = True
            self._process.kill()

    def close(self) -> None:
        """Wait until a killed process has ended."""
        self._wait()
        self._close_pipes()

    def _wait(self) -> None:
        while True:  # Ctrl-C does not interrupt a wait without a timeout
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.1)
                return

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class _Deadline:
    """Kills a process, and the processes it started, unless `is_met` is called in time."""

    def __init__(self, seconds: float, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._changing = threading.Lock()
        self._over = self._passed = False
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True
        self._timer.start()

    def is_met(self) -> bool:
        """Stop the clock. Return whether it was still running."""
        with self._changing:
            self._over = True
            self._timer.cancel()
            return not self._passed

    def _pass(self) -> None:
        with self._changing:
            if not self._over:
                self._passed = True
                _kill_session(self._child)


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    """Kill a process and those it started, which are in the process group that it leads."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()


def _started() -> subprocess.Popen[bytes]:
    # -P: the current folder may contain data and modules from untrusted sources.
    options = ["-P"]
    options += ["-E"] if sys.flags.ignore_environment else []
    options += ["-s"] if sys.flags.no_user_site else []
    places = [place for place in sys.path if place] + [os.getcwd()] * ("" in sys.path)
    return subprocess.Popen(
        [sys.executable, *options, "-c", _CODE, str(os.getpid()), *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # One thread for each process: there is a process for each core.
        env={"OPENBLAS_NUM_THREADS": "1", **os.environ, "POLARS_MAX_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is for this process, which then ends the workers
    )
