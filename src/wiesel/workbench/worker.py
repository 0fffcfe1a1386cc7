"""Trains one run in a separate process: `python -m wiesel.workbench.worker PROJECT RUN`.

It reads the request from the run's request.json and writes to its progress.jsonl: one line per
stage and epoch, and some about slow work inside a stage. An interrupt (SIGINT) ends training and
keeps the best weights so far.
"""

import json
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wiesel.errors import WieselError
from wiesel.progress import listening
from wiesel.project.runs import keep_run, run_folder
from wiesel.project.settings import Project, read_project
from wiesel.threads import collect_seldom

__all__ = ["main"]

_OFTEN = 1.0
"""Seconds between two lines about slow work inside a stage, such as sentence embeddings."""


def main(project_file: str, name: str) -> int:
    """Run the request and return the exit code."""
    project = read_project(project_file)
    folder = run_folder(project) / name
    request = json.loads((folder / "request.json").read_bytes())
    with (folder / "progress.jsonl").open("a", encoding="utf-8") as log:

        def tell(**what: Any) -> None:
            log.write(json.dumps(what, allow_nan=False) + "\n")
            log.flush()

        try:
            _run(project, name, request, tell)
        except KeyboardInterrupt:
            tell(end="stopped before training began")
        except (WieselError, OSError) as error:
            tell(end="failed", error=str(error))
        except Exception as error:  # noqa: BLE001 - the page must show whatever went wrong
            tell(end="failed", error=f"{type(error).__name__}: {error}")
            traceback.print_exc()
            return 1
    return 0


def _run(project: Project, name: str, request: Mapping[str, Any], tell: Any) -> None:
    # It loads torch: here, so that the progress file exists before, and an interrupt is reported.
    from wiesel.project.pipeline import run_project

    training = {**project.training, **request["training"]}
    configured = replace(
        project, training=training, method=replace(project.method, seeds=tuple(request["seeds"]))
    )

    started = time.monotonic()

    def watch(method: str, seed: int, record: Mapping[str, Any]) -> None:
        numbers = {
            key: value
            for key, value in record.items()
            if isinstance(value, (int, float)) and value == value
        }
        tell(method=method, seed=seed, record=numbers, seconds=time.monotonic() - started)

    def say(stage: str, text: str) -> None:
        tell(stage=stage, text=text)

    told = ("", 0.0)

    def hear(text: str) -> None:
        nonlocal told
        what, now = text.partition(":")[0], time.monotonic()
        if what != told[0] or now - told[1] > _OFTEN:
            told = (what, now)
            tell(progress=text)

    with warnings.catch_warnings(), listening(hear):
        warnings.simplefilter("ignore")
        outcome = run_project(configured, request["methods"], say, watch)
    kept = keep_run(outcome, name, {"request": dict(request)})
    tell(end="stopped, best weights kept" if kept.about["interrupted"] else "finished")


if __name__ == "__main__":
    collect_seldom()
    sys.exit(main(sys.argv[1], sys.argv[2]))
