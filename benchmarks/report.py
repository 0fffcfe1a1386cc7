"""The committed results as Markdown: benchmarks/results/README.md, and a short table to quote."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.beyond_memory import results_table as beyond_memory_table
from benchmarks.curves import write_curves
from benchmarks.end_to_end import quotable_lines
from benchmarks.end_to_end import results_table as end_to_end_table
from benchmarks.first_classifier import results_table as first_classifier_table
from benchmarks.harness import RESULTS, UNKNOWN, markdown_table, peak, read_results, seconds
from benchmarks.label_models import DEFAULT_THREADS, results_table
from benchmarks.large_training import results_table as large_training_table
from benchmarks.lfs import results_table as lfs_table
from benchmarks.parity import crowd_table, planted_table
from benchmarks.runs import results_table as runs_table
from benchmarks.scaling import scaling_table
from benchmarks.serving import results_table as serving_table
from benchmarks.spans import results_table as spans_table
from benchmarks.stacks import results_table as stacks_table
from benchmarks.threads import results_table as threads_table
from benchmarks.workbench import results_table as workbench_table
from benchmarks.workers import results_table as workers_table

__all__ = ["quotable_table", "write_report"]

Rows = Sequence[dict[str, Any]]


class Section(NamedTuple):
    """A part of the page: its results, how they are shown, and notes for the reader."""

    results: str
    title: str
    table: Callable[[Rows], str]
    note: str = ""


SECTIONS = (
    Section(
        "label_models",
        "Speed and memory beside the peers",
        results_table,
        "CPU seconds of all threads together. Cases have one thread unless their name says that "
        "they have default threads: nothing limits those of Wiesel or of the peer.",
    ),
    Section(
        "threads",
        "Threads as a user has them",
        threads_table,
        "Defaults set no limit to the threads; one thread is OMP_NUM_THREADS=1 and its like. Busy: "
        "another process counts without end beside it.",
    ),
    Section(
        "lfs",
        "Labeling functions",
        lfs_table,
        "Rows of 2.2 KB per second of one core's CPU time, or of wall-clock time with two cores "
        "beside one. A hundred times as many functions find many times as many votes in a text: "
        "RE2 itself takes more than twice as long, Polars' regular expressions four times, and "
        "what is flat from 136 on (`find_many`) is slower than either throughout.",
    ),
    Section(
        "parity",
        "Accuracy on planted truth",
        planted_table,
        "Means of five seeds. As good: to half a point, in labels and in accuracies.",
    ),
    Section(
        "crowd",
        "Accuracy on crowd answers",
        crowd_table,
        "As good: as crowd-kit on the same votes, to half a point. Where a worker answered a task "
        "repeatedly, the last answer counts here; the cards count all of them "
        "(zencrowd has 1,730 repeated answers). crowd-kit's one-coin model learns the class "
        "balance by EM; ours does so if asked, and takes `estimate_class_balance` otherwise.",
    ),
    Section(
        "spans",
        "Spans",
        spans_table,
        "Planted names in documents of 500 tokens; CPU seconds of one thread.",
    ),
    Section(
        "stacks",
        "Committee and stacks",
        stacks_table,
        "CPU seconds of one thread. Bare products: the matrix products of every layer, forward and "
        "backward. Bare steps: all that a step computes, as torch calls with nothing around them "
        "(benchmarks/bare_steps.py). Networks this small leave little to products: dropout draws "
        "32,000 random numbers a step, Adam and the average go through 95,000 weights, and every "
        "call takes some microseconds. The bare steps are the fastest loop of plain torch calls "
        "that was written for this; faster ones may exist. The parts of a fit add up to all of it; "
        "they were timed beside other processes, so their shares count more than their seconds.",
    ),
    Section(
        "workers",
        "Ten thousand crowd workers",
        workers_table,
        "2,000 items, three answers each, one epoch. About 85 MB are modules that fitting loads; "
        "dense votes of all items would be 320 MB at 4 classes and 1.6 GB at 20.",
    ),
    Section(
        "runs",
        "The default method end to end",
        runs_table,
        "`wiesel run` on examples/movies: 20,000 reviews, 51 labeling functions.",
    ),
    Section(
        "end_to_end",
        "From texts to a classifier, beside Snorkel's pipeline",
        end_to_end_table,
        "`wiesel run` with the label model `snorkel`, and Snorkel's applier and label model with "
        "TF-IDF of scikit-learn and a loop of plain torch, on the same 30-word texts and 30 "
        "keyword functions, with the same network and number of steps. CPU seconds of the first "
        "call in a fresh process, and of a second one on a copy of the files. The peak is that of "
        "the process. Wiesel's last stage also writes the report page, Snorkel's only "
        "predictions. Of more than 50,000 texts, Wiesel's TF-IDF learns its directions from "
        "50,000, scikit-learn's from all. The pipeline was not run on a million rows: its applier "
        "alone would take three minutes of CPU time.",
    ),
    Section(
        "serving",
        "Answers of `wiesel serve`",
        serving_table,
        "Requests of one row to a committee, on 20 open connections, from when each was due; "
        "client and server share two cores with other processes.",
    ),
    Section(
        "workbench",
        "The workbench",
        workbench_table,
        "`wiesel workbench` in a process of its own, driven by headless Chromium; wall-clock time "
        "in the browser, from the navigation, the marked words or the click until what was asked "
        "for stands on the page. The load is that of the machine before the measurement; it has "
        "two cores, and server and browser ran at raised priority (nice -15 to -19) because of it.",
    ),
    Section(
        "first_classifier",
        "From a file to a classifier",
        first_classifier_table,
        "`wiesel workbench reviews.csv` with 5,000 movie reviews; headless Chromium follows the "
        "first steps as a person does who takes 5 seconds to read a row or a proposal, 2 for any "
        "other decision and 0.15 for a key. Other work shared the machine's two cores, as the load "
        "shows: the processor time is what the steps would take beside the person.",
    ),
    Section(
        "beyond_memory",
        "Votes larger than memory",
        beyond_memory_table,
        "136 keyword functions on short texts, and 10 Python functions on those of one file; one "
        "file is in memory at a time. Where a number of files is given, the stage was killed after "
        "so many and started again: its CPU seconds are those of both processes. Else all stages "
        "ran in one process, whose peak is that of the stages so far.",
    ),
    Section(
        "large_training",
        "Training beyond memory",
        large_training_table,
        "Features in a memory-mapped file of float16 numbers, ten voters, one network.",
    ),
    Section(
        "scaling",
        "Scaling",
        scaling_table,
        "CPU seconds of fit and predict, at 200,000 items x 50 voters, 2 classes and 10 % coverage "
        "but for the axis. The number of EM steps varies along it.\n\n"
        "![CPU seconds against items, voters, classes and votes](scaling.svg)",
    ),
)


def write_report() -> str:
    """Write and return the page of all stored results."""
    parts = ["# Benchmark results", "Written by `python -m benchmarks.report`; do not edit."]
    write_curves(read_results("scaling"))
    for section in SECTIONS:
        rows = read_results(section.results)
        if rows:
            parts += [f"## {section.title}", _measured(rows)]
            parts += [section.note] if section.note else []
            parts += [section.table(rows)]
    page = "\n\n".join(parts) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "README.md").write_text(page)
    return page


def quotable_table(cases: Sequence[tuple[str, str]]) -> str:
    """Return these cases and stages for the README, with threads as a user has them."""
    header = ("votes and method", "Wiesel", "peer", "faster", "memory", "peer's memory")
    lines = [
        (
            f"{case}: {stage}",
            seconds(entry["seconds"]),
            f"{row['peer']['package']} {seconds(entry['peer_seconds'])}",
            f"{entry['faster']:.0f}x",
            peak(entry["mb"]),
            peak(entry["peer_mb"]),
        )
        for case, stage in cases
        for row in read_results("label_models")
        if row["case"] == case + DEFAULT_THREADS
        for entry in row["stages"]
        if entry["stage"] == stage
    ]
    lines += quotable_lines(read_results("end_to_end"))
    return markdown_table(header, lines)


def _measured(rows: Rows) -> str:
    """Return when, at which commits and with which versions the rows were measured."""
    dates = sorted({row["date"] for row in rows})
    commits = sorted({row["commit"] or UNKNOWN for row in rows})
    runs = [run for row in rows for run in (row.get("ours"), row.get("peer"), row) if run]
    versions = sorted(
        {f"{name} {number}" for run in runs for name, number in run.get("versions", {}).items()}
    )
    period = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    kinds = list(dict.fromkeys(row["threads"] for row in rows))
    threads = ", ".join({1: "one thread", "defaults": "default threads"}.get(k, k) for k in kinds)
    with_what = f"; {', '.join(versions)}" if versions else ""
    return f"{period}, commit {', '.join(commits)}, {rows[0]['machine']}, {threads}{with_what}."


if __name__ == "__main__":
    print(write_report())
