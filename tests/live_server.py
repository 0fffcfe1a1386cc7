"""A workbench in a process of its own, and the browser that opens it."""

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

UNUSED_FEATURES = [
    # These draw the suggestions below the address bar, which no test sees: pages of their own,
    # which cost more than the page under test.
    "AimEnabled",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
    # A renderer in reserve for every page.
    "SpareRendererForSitePerProcess",
    # Playwright turns these off, but a second list replaces the first.
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "MediaRouter",
    "OptimizationHints",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(UNUSED_FEATURES)}",
]


class Server:
    """`wiesel workbench` in a process of its own."""

    def __init__(self, project: Path, *options: str) -> None:
        self.project, self.options = project, options
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", "from wiesel.cli.main import main; main()", "workbench"]
        command += [str(self.project), "--port", "0", "--no-show", *self.options]
        self.log = self.project.parent / "server.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        line = self.process.stdout.readline()
        assert "http://" in line, self.log.read_text()
        self.address = line.split()[-1].rstrip("/")
        self._wait()

    def _wait(self) -> None:
        for _ in range(1200):
            try:
                urllib.request.urlopen(self.address + "/", timeout=60).close()
            except urllib.error.HTTPError:
                return  # it answers, if only with a refusal
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.1)
                continue
            return
        raise AssertionError("the server did not answer")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()


def chromium() -> str:
    path = os.environ.get("WIESEL_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium: run `apt-get install chromium`, or set WIESEL_CHROMIUM")
    return path
