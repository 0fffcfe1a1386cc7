"""Training in separate processes: start, watch, stop."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiesel.errors import ParameterError
from wiesel.project.labels import label_store
from wiesel.project.runs import claim_run, is_kept, run_folder
from wiesel.project.settings import Project
from wiesel.saving import write_json

__all__ = ["Jobs", "Progress"]

_PROGRESS = "progress.jsonl"
_STOP = {"asked": "stop"}


@dataclass
class Progress:
    """What a run has reported so far."""

    stages: list[tuple[str, str]] = field(default_factory=list)
    within: str = ""
    """How far slow work inside the stage that comes next is, such as sentence embeddings."""
    epochs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The epoch records of every method and seed, in order."""
    end: str = ""
    """How it ended; empty while it runs."""
    error: str = ""


class Jobs:
    """The runs that this server started; one at a time."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.running: tuple[str, subprocess.Popen[bytes]] | None = None
        self._starting = threading.Lock()

    def start(
        self,
        methods: Sequence[str],
        training: Mapping[str, Any],
        seeds: Sequence[int],
        title: str = "",
    ) -> str:
        """Start a run in a separate process and return its name; people see `title`."""
        if not methods:
            raise ParameterError("Choose a method to train.")
        with self._starting:
            if self.current() is not None:
                raise ParameterError("A run is training already: wait for it, or stop it.")
            folder = claim_run(self.project)
            labels = label_store(self.project).labels().drop_nulls("label")
            request = {
                "title": title[:80],
                "methods": list(methods),
                "training": dict(training),
                "seeds": list(seeds),
                "n_labels": len(labels),
            }
            write_json(request, folder / "request.json")
            self.running = (folder.name, self._worker(folder))
        return folder.name

    def _worker(self, folder: Path) -> subprocess.Popen[bytes]:
        module = ["-m", "wiesel.workbench.worker"]
        project = str(self.project.file)
        with (folder / "log.txt").open("wb") as log:
            # In a separate session, Ctrl-C at the server's terminal does not reach it.
            return subprocess.Popen(
                [sys.executable, *_import_options(), *module, project, folder.name],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
            )

    def current(self) -> str | None:
        """Return the name of the active run; None if there is none."""
        if self.running is None or self.running[1].poll() is not None:
            return None
        return self.running[0]

    def cancel(self) -> None:
        """Stop training; the best weights so far are kept."""
        if self.running is not None and self.running[1].poll() is None:
            name, worker = self.running
            # While its interpreter starts, the process cannot tell that it was stopped.
            with (run_folder(self.project) / name / _PROGRESS).open("a", encoding="utf-8") as log:
                log.write(json.dumps(_STOP) + "\n")
            worker.send_signal(signal.SIGINT)

    def progress(self, name: str) -> Progress:
        """Return what a run has reported so far."""
        folder = run_folder(self.project) / name
        # Before its lines are read: a run that ends in between has not failed.
        is_running = self.current() == name
        found = Progress()
        lines = _lines(folder / _PROGRESS)
        for line in lines:
            _add_line(found, line)
        if not found.end and not is_running and is_kept(folder):
            found.end = "finished"  # by Python code, which writes no progress
        elif not found.end and not is_running and _STOP in lines and not found.epochs:
            found.end = "stopped before training began"
        elif not found.end and not is_running:
            found.end = "failed"
            found.error = _last_line(folder / "log.txt") or "The process is gone; run it again."
        return found

    def close(self) -> None:
        """Stop the active run when the server shuts down."""
        self.cancel()
        if self.running is not None:
            try:
                self.running[1].wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.running[1].kill()


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # the last line may be half-written
            continue
    return found


def _add_line(found: Progress, line: Mapping[str, Any]) -> None:
    if "record" in line:
        found.epochs.setdefault(f"{line['method']}, seed {line['seed']}", []).append(
            {**line["record"], "time": line.get("seconds", 0.0)}
        )
    elif "stage" in line:
        found.stages.append((line["stage"], line["text"]))
        found.within = ""
    elif "progress" in line:
        found.within = line["progress"]
    elif "end" in line:
        found.end, found.error = line["end"], line.get("error", "")


def _last_line(path: Path) -> str:
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _import_options() -> list[str]:
    """Options of Python: like this process, the worker imports nothing from the current folder.

    `-m` alone would put that folder first, which may contain modules from untrusted sources.
    """
    return [] if {"", os.getcwd()} & set(sys.path) else ["-P"]
