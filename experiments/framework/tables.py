"""Formats results: mean and standard deviation in percent, Markdown tables, files."""

from collections.abc import Iterable, Sequence

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.runner import RESULTS, Record

UNKNOWN = "-"


def percentages(records: Iterable[Record], column: str) -> np.ndarray:
    """Return one metric of several runs, in percent."""
    return 100 * np.array([record[column] for record in records])


def mean_of(records: Sequence[Record], column: str) -> str:
    """Return the mean and standard deviation of a metric over seeds, in percent."""
    return spread(percentages(records, column))


def spread(values: np.ndarray) -> str:
    """Return the mean and standard deviation; a single value has no deviation.

    >>> spread(np.array([1.0, 2.0])), spread(np.array([1.0])), spread(np.array([]))
    ('1.50 ± 0.50', '1.00, one seed', '-')
    """
    if len(values) < 2:
        return f"{values[0]:.2f}, one seed" if len(values) else UNKNOWN
    return f"{values.mean():.2f} ± {values.std():.2f}"


def figure_of_paper(value: float | tuple[float, float] | None) -> str:
    """Return a result as the paper prints it, with its deviation if it has one.

    >>> figure_of_paper(82.1), figure_of_paper((82.1, 0.45)), figure_of_paper(None)
    ('82.10', '82.10 ± 0.45', '-')
    """
    if value is None or isinstance(value, float):
        return UNKNOWN if value is None else f"{value:.2f}"
    mean, deviation = value
    return f"{mean:.2f} ± {deviation:.2f}"


def cost_sentence(n_runs: int, cpu_seconds: float) -> str:
    """Return a sentence about the computing time behind a page.

    >>> cost_sentence(3, 90.0)
    '3 runs are behind this table; they took 1.5 CPU minutes.'
    """
    return f"{n_runs} runs are behind this table; they took {cpu_seconds / 60:.1f} CPU minutes."


def f1_and_auc(
    header: Sequence[str], f1: Iterable[Sequence[str]], auc: Iterable[Sequence[str]]
) -> list[str]:
    """Return both tables of a page with their headings."""
    return [
        "## Test F1, threshold chosen on validation",
        "",
        markdown_table(header, f1),
        "",
        "## Test ROC-AUC",
        "",
        markdown_table(header, auc),
    ]


def write_page(name: str, command: str, lines: Iterable[str]) -> None:
    """Write `results/<name>.md`, headed by the command that made it, and print it."""
    made = f"Written by `{command}`."
    if "--recorded" in command:
        made += " Only finished runs are shown; a dash in our columns is an unfinished run."
    page = "\n".join([made, "", *lines]) + "\n"
    (RESULTS / f"{name}.md").write_text(f"# {name}\n\n{page}")
    print(f"\n{page}", flush=True)
