"""What a second `wiesel run` of examples/movies costs: after one labeling function is edited, and
with nothing changed.

    python examples/time_second_run.py

Seconds are those of the processor, which other programs on the machine do not change much; the
clock is given beside them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOVIES = Path(__file__).resolve().parent / "movies"
PROGRAM = "from wiesel.cli.main import main; main()"


def main() -> None:
    """Print a line for each of three runs, with what it says about itself."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "movies"
        shutil.copytree(MOVIES, project, ignore=shutil.ignore_patterns("out", "__pycache__"))
        timed("first run", project)
        lfs = project / "lfs.py"
        text = lfs.read_text(encoding="utf-8")
        lfs.write_text(text.replace('"magnificent"', '"splendid"'), encoding="utf-8")
        timed("one labeling function edited", project)
        timed("nothing changed", project)


def timed(title: str, project: Path) -> None:
    """Run a project in a process of its own and print what that took."""
    start, before = time.perf_counter(), os.times()
    command = [sys.executable, "-c", PROGRAM, "run", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after, clock = os.times(), time.perf_counter() - start
    used = sum(after[2:4]) - sum(before[2:4])
    reused = [line for line in done.stderr.splitlines() if line.startswith("reused")]
    print(f"{title}: {used:.0f} s of the processor, {clock:.0f} s by the clock")
    for line in reused:
        print(f"  {line}")


if __name__ == "__main__":
    main()
