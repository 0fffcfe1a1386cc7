"""Would a wrong line be seen? Changes single tokens of the numeric code, and runs the tests.

`make mutants` draws 300 changes (`MUTANTS=300 SEED=1`) and prints those that no test sees. Each
change is made in a copy of the repository and tried by the tests that call the changed function:
those of the file, then those of its folder, the contracts and the rest of `TESTS`, until one fails
or those tried have taken 40 seconds. Which tests call what is noted first, once; that takes as long
as running them.

What was found is kept under `out/mutants`, so an interrupted run goes on where it was. A survivor
is tried again once its tests or its code have changed. `benchmarks/mutants.toml` lists changes that
no result depends on, with the reason.
"""

import argparse
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Collection, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.forks import Job, Outcome, import_libraries, run_all
from benchmarks.mutations import Mutation, drawn, mutations

REPOSITORY = Path(__file__).parents[1]
PACKAGE = "src/wiesel"
KEPT = REPOSITORY / "out/mutants"
ROOMS = [
    "analysis",
    "end_to_end",
    "evaluation",
    "label_models",
    "multilabel",
    "nn",
    "spans",
    "training",
]
"""The folders of the package whose code is changed."""
_PUBLIC_NAMES = "tests/architecture/test_public_names.py"
"""It compares all options and their defaults with a file, without calling anything."""
SINGLE_FILES = ("vote_entries.py", "votes.py")
TESTS = (
    *(f"tests/unit/{room}" for room in ROOMS),
    *(f"src/wiesel/{room}" for room in ROOMS),
    *(f"src/wiesel/{name}" for name in SINGLE_FILES),
    "tests/unit/test_aggregate.py",
    "tests/unit/test_compare.py",
    "tests/unit/test_explain.py",
    "tests/unit/test_option_bounds.py",
    "tests/unit/test_votes.py",
    "tests/unit/io/test_vote_parts.py",
    "tests/unit/io/test_votes_on_disk.py",
    "tests/unit/lfs/test_prompt_files.py",
    "tests/unit/project/test_exporting.py",
    _PUBLIC_NAMES,
    "tests/contracts",
    "tests/parity",
    "tests/properties",
)
_LOADED_BEFORE = "ignore::pytest.PytestAssertRewriteWarning"
_OPTIONS = ["-q", "-p", "no:xdist", "--timeout", "0", "-W", _LOADED_BEFORE]
_MOST_SECONDS = 40
"""Processor seconds of the tests of a change: those that are likeliest to see it."""
_SPARE = 30
"""Processor seconds that a changed package may take in addition to three times the usual ones."""


def main() -> None:
    """Draw changes, try each, and print those that no test sees."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="draws other changes")
    parser.add_argument("--size", type=int, default=300, help="how many changes")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", default="", help="changes whose file and line hold this text")
    options = parser.parse_args()
    os.nice(10)
    KEPT.mkdir(parents=True, exist_ok=True)
    import_libraries()
    with tempfile.TemporaryDirectory(prefix="wiesel-mutants-") as place:
        root = Path(place) / "as it is"  # what others change meanwhile changes nothing here
        _copy_repository(root)
        copies = [Path(place) / str(number) for number in range(options.workers)]
        for copy in copies:
            shutil.copytree(root, copy)
        tests = noted_tests(root, copies)
        sample = drawn(mutations(root / PACKAGE, changed_files(root)), options.seed, options.size)
        sample = [one for one in sample if options.only in f"{one.path}:{one.line} {one.text}"]
        _try_all(sample, tests, root, copies)
    print(summary(sample, _read(KEPT / "tried.jsonl"), _known()))


def changed_files(root: Path) -> list[str]:
    """Return the files whose code is changed, from the folder of the package."""
    package = root / PACKAGE
    found = [path for room in ROOMS for path in (package / room).rglob("*.py")]
    return [*(path.relative_to(package).as_posix() for path in found), *SINGLE_FILES]


def summary(sample: list[Mutation], tried: list[Outcome], known: Collection[str]) -> str:
    """Return the survivors and the shares of the sample, in lines."""
    outcomes = {one["key"]: one for one in tried}
    done = [one for one in sample if one.key in outcomes]
    unseen = [one for one in done if outcomes[one.key]["seen_by"] is None]
    survivors = [one for one in unseen if _in_list(one) not in known]
    lines = [
        f"{one.path}:{one.line}: {one.old} -> {one.new} in `{one.text}` "
        f"({outcomes[one.key]['n_tests']} tests)"
        for one in sorted(survivors)
    ]
    seen, n = len(done) - len(unseen), max(1, len(done))
    return "\n".join(
        (
            *lines,
            f"{len(done)} changes tried: {seen} seen ({seen / n:.0%}), {len(unseen)} not seen, of "
            f"which {len(unseen) - len(survivors)} are listed as changing no result.",
        )
    )


def _known() -> set[str]:
    listed = tomllib.loads((REPOSITORY / "benchmarks/mutants.toml").read_text(encoding="utf-8"))
    return {f"{one['file']}|{one['line']}|{one['change']}" for one in listed["same_results"]}


def _in_list(one: Mutation) -> str:
    return f"{one.path}|{one.text}|{one.old} -> {one.new}"


def noted_tests(root: Path, copies: list[Path]) -> dict[str, Outcome]:
    """Return the tests of every file: their seconds, and the functions that each calls.

    What is known of a test file is kept until the file, or a file of the package that it calls,
    changes.
    """
    path, files = KEPT / "tests.jsonl", _test_files(root)
    noted = {one["file"]: one for one in _read(path) if _is_current(one, root)}
    jobs = [
        Job(file, lambda copy: None, partial(_note, file), 1200)
        for file in files
        if file not in noted
    ]
    for name, outcome in run_all(jobs, copies):
        if "tests" not in outcome:
            sys.exit(f"{name} did not finish without a change: {outcome['ended']}")
        failed = [test for test, one in outcome["tests"].items() if not one["passed"]]
        if failed:
            print("left out, as they fail or are skipped without a change:", *failed, flush=True)
        noted[name] = {"file": name, "tests": outcome["tests"], "sums": outcome["sums"]}
        _append(path, noted[name])
        print(f"noted {len(outcome['tests'])} tests of {name}", flush=True)
    return {file: noted[file] for file in files}


def _is_current(one: Outcome, root: Path) -> bool:
    return all(
        (root / file).exists() and _sum(root / file) == value for file, value in one["sums"].items()
    )


def _test_files(root: Path) -> list[str]:
    found: set[Path] = set()
    for place in TESTS:
        top = root / place
        found |= {
            file
            for file in ([top] if top.is_file() else top.rglob("*.py"))
            if file.name.startswith("test_") or (place.startswith("src") and ">>>" in _text(file))
        }
    return sorted(file.relative_to(root).as_posix() for file in found)


class _Calls:
    """A plug-in of pytest: the functions of the package that each test calls."""

    def __init__(self, package: Path) -> None:
        self.package = f"{package}/"
        self.tests: dict[str, dict[str, Any]] = {}
        self.called: set[Any] = set()
        self.failed: set[str] = set()

    def trace(self, frame: Any, event: str, argument: Any) -> None:
        """Note which function is called: a trace function of Python."""
        self.called.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note what a test calls and costs."""
        before = time.process_time()
        result = yield
        calls = {
            f"{code.co_filename[len(self.package) :]}|{code.co_qualname.partition('.<')[0]}"
            for code in list(self.called)
            if code.co_filename.startswith(self.package) and not code.co_name.startswith("<mod")
        }
        self.called.clear()  # what importing the tests calls counts for the first
        self.tests[item.nodeid] = {
            "passed": item.nodeid not in self.failed,
            "seconds": round(time.process_time() - before, 3),
            "calls": sorted(calls),
        }
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note failures."""
        if report.outcome != "passed":
            self.failed.add(report.nodeid)


def _note(file: str, copy: Path) -> Outcome:
    calls = _Calls(copy / PACKAGE)
    threading.settrace(calls.trace)
    sys.settrace(calls.trace)
    code = pytest.main([*_OPTIONS, file], plugins=[calls])
    sys.settrace(None)
    if code not in (0, 1, 5):  # passed, failed, no tests
        sys.exit(f"pytest ended with {code!r}")
    called = {call.partition("|")[0] for one in calls.tests.values() for call in one["calls"]}
    files = (file, *(f"{PACKAGE}/{name}" for name in sorted(called)))
    return {"tests": calls.tests, "sums": {name: _sum(copy / name) for name in files}}


def _try_all(
    sample: list[Mutation], tests: dict[str, Outcome], root: Path, copies: list[Path]
) -> None:
    path = KEPT / "tried.jsonl"
    done = {one["key"]: one for one in _read(path)}
    known, jobs, of_name = _known(), [], {}
    for one in sample:
        chosen, seconds = chosen_tests(one, tests)
        before = done.get(one.key)
        sum_of_tests = _sum_of(chosen, tests)
        if before and (before["seen_by"] or _in_list(one) in known):
            continue
        if before and before["tests"] == sum_of_tests:
            continue
        of_name[one.key] = (one, chosen, sum_of_tests)
        jobs.append(_trial(one, chosen, seconds, root))
    jobs.sort(key=lambda job: job.seconds)
    print(f"{len(jobs)} of {len(sample)} changes to try", flush=True)
    for key, outcome in run_all(jobs, copies):
        one, chosen, sum_of_tests = of_name[key]
        seen_by = outcome["failed"] if "failed" in outcome else f"ended: {outcome['ended']}"
        row = {"key": key, "seen_by": seen_by, "n_tests": len(chosen), "tests": sum_of_tests}
        _append(path, row | {"seconds": outcome["seconds"]})
        print(
            f"{'seen  ' if seen_by else 'UNSEEN'} {one.path}:{one.line}: {one.old} -> {one.new} in "
            f"`{one.text}` ({len(chosen)} tests, {outcome['seconds']:.0f} s) {seen_by or ''}",
            flush=True,
        )


def _trial(one: Mutation, chosen: list[str], seconds: float, root: Path) -> Job:
    def prepare(copy: Path) -> None:
        for file in changed_files(root):  # undo what was changed before
            if (copy / PACKAGE / file).stat().st_mtime < 1e9:
                shutil.copy2(root / PACKAGE / file, copy / PACKAGE / file)
        changed = copy / PACKAGE / one.path
        changed.write_text(one.apply(_text(root / PACKAGE / one.path)), encoding="utf-8")
        # Compiled files are kept by the time of their source: another one for every change.
        moment = 1e8 + int(hashlib.sha256(one.key.encode()).hexdigest()[:7], 16)
        os.utime(changed, (moment, moment))

    return Job(one.key, prepare, lambda copy: _run_tests(chosen), _SPARE + 3 * seconds)


def _run_tests(chosen: list[str]) -> Outcome:
    class FirstFailure:
        name: str | None = None

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                self.name = self.name or report.nodeid

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                self.name = self.name or f"{report.nodeid} (import)"

    first = FirstFailure()
    code = pytest.main([*_OPTIONS, "-x", *chosen], plugins=[first]) if chosen else 0
    if code == pytest.ExitCode.USAGE_ERROR:  # a test is named after an option that was changed
        files = dict.fromkeys(name.partition("::")[0] for name in chosen)
        code = pytest.main([*_OPTIONS, "-x", *files], plugins=[first])
    return {"failed": first.name or (f"pytest: {code!r}" if code else None)}


def chosen_tests(one: Mutation, tests: dict[str, Any]) -> tuple[list[str], float]:
    """Return the tests that can see a change, the likeliest first, and their seconds.

    A fixture or a cached fit serves several tests of a file, and only the first calls the function:
    the others are run, too. In `tests/contracts`, a test is a method, so the others are left out.
    """
    calls = f"{one.path}|{one.function}"
    found: list[tuple[bool, int, float, float, str]] = []
    for file, noted in tests.items():
        passed = {name: test for name, test in noted["tests"].items() if test["passed"]}
        direct = {
            name
            for name, test in passed.items()
            if any(c == calls if one.function else c.startswith(calls) for c in test["calls"])
            or (not one.function and file in (_PUBLIC_NAMES, f"{PACKAGE}/{one.path}"))
        }
        chosen = direct if not direct or "contracts" in file else passed.keys()
        near, total = _distance(file, one), sum(passed[name]["seconds"] for name in chosen)
        found += [(n not in direct, near, total, passed[n]["seconds"], n) for n in chosen]
    found.sort()  # the quicker files of a folder first, tests that do not call it last
    sums = itertools.accumulate(seconds for *_, seconds, _ in found)
    kept = [test for test, total in zip(found, sums, strict=True) if total <= _MOST_SECONDS]
    kept = kept or found[:1]
    return [name for *_, name in kept], sum(seconds for *_, seconds, _ in kept)


def _distance(file: str, one: Mutation) -> int:
    place = Path(one.path)
    if place.stem in file:
        return 0
    if f"/{place.parts[0]}/" in file:
        return 1
    return 2 if "contracts" in file else 3


def _sum_of(chosen: list[str], tests: dict[str, Any]) -> str:
    files = sorted({name.partition("::")[0] for name in chosen})
    text = "".join(file + json.dumps(tests[file]["sums"], sort_keys=True) for file in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _copy_repository(place: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if (REPOSITORY / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, place / name)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _read(path: Path) -> list[Outcome]:
    return [json.loads(line) for line in _text(path).splitlines()] if path.exists() else []


def _append(path: Path, row: Outcome) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
