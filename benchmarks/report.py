"""The committed results as Markdown: benchmarks/results/README.md, and a short table to quote."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.harness import RESULTS, UNKNOWN, markdown_table, peak, read_results, seconds
from benchmarks.label_models import results_table
from benchmarks.parity import crowd_table, planted_table
from benchmarks.scaling import scaling_table

__all__ = ["quotable_table", "write_report"]

Rows = Sequence[dict[str, Any]]

SECTIONS: tuple[tuple[str, str, Callable[[Rows], str]], ...] = (
    ("label_models", "Speed and memory beside the peers", results_table),
    ("parity", "Accuracy on planted truth", planted_table),
    ("crowd", "Accuracy on crowd answers", crowd_table),
    ("scaling", "Scaling", scaling_table),
)


def write_report() -> str:
    """Write and return the page of all results that there are."""
    parts = ["# Benchmark results", "Written by `python -m benchmarks.report`; do not edit."]
    for name, title, table in SECTIONS:
        rows = read_results(name)
        if rows:
            parts += [f"## {title}", _measured(rows), table(rows)]
    page = "\n\n".join(parts) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "README.md").write_text(page)
    return page


def quotable_table() -> str:
    """Return the comparison with the peers as a README shows it: one line per case and stage."""
    header = ("votes and method", "Wiesel", "peer", "faster", "memory", "peer's memory")
    lines = [
        (
            f"{row['case']}: {entry['stage']}",
            seconds(entry["seconds"]),
            f"{row['peer']['package']} {seconds(entry['peer_seconds'])}",
            f"{entry['faster']:.0f}x",
            peak(entry["mb"]),
            peak(entry["peer_mb"]),
        )
        for row in read_results("label_models")
        if row["peer"]
        for entry in row["stages"]
        if entry["stage"] != "one step"
    ]
    return markdown_table(header, lines)


def _measured(rows: Rows) -> str:
    """When, at which commits and with what the rows were measured."""
    dates = sorted({row["date"] for row in rows})
    commits = sorted({row["commit"] or UNKNOWN for row in rows})
    runs = [run for row in rows for run in (row.get("ours"), row.get("peer"), row) if run]
    versions = sorted(
        {f"{name} {number}" for run in runs for name, number in run.get("versions", {}).items()}
    )
    period = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        f"{period}, commit {', '.join(commits)}, {rows[0]['machine']}, one thread; "
        f"{', '.join(versions)}."
    )


if __name__ == "__main__":
    print(write_report())
    print(quotable_table())
