"""An adversarial labeling function on imdb_12, in up to ten copies: the F1 of every method.

    python -m experiments adversarial [--full] [--seeds N] [--jobs N]

The LF that votes positive on the word "excellent" is right four times out of five. The adversary
votes the same, and negative where that LF abstains. Its copies are added to the twelve LFs.
The learning rate is 1e-4; the epoch is selected by validation AUC, the threshold by validation F1.
"""

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Choices, Effort, Row, chosen
from experiments.framework.figures import Panel, draw_panels
from experiments.framework.runner import Record
from experiments.framework.tables import UNKNOWN, mean_of, percentages, write_page
from experiments.studies.table1 import LABEL_FREE, ROWS, setting_of

SET = "imdb_12"
METHODS = tuple(row for row in ROWS if row.title in (*LABEL_FREE, "WeaSEL, averaged weights"))
COUNTS = tuple(range(11))
REDUCED_COUNTS = (0, 1, 3, 10)

Results = dict[tuple[str, int], list[Record]]


def main(argv: list[str]) -> None:
    """Run what is missing, and write the table and the figure."""
    effort = Effort.parsed(argv, __doc__)
    found = results(effort)
    write(found, counts_of(effort), effort)
    draw(found, counts_of(effort))


def results(effort: Effort) -> Results:
    """Run what is missing, and return the runs by row and number of copies."""
    found: Results = {}
    for count in counts_of(effort):
        rows = {row.title: choices_of(row, count, effort) for row in METHODS}
        # Without an adversary the runs are those of table 1 and are stored there.
        done = effort.obtain("adversarial" if count else SET, rows.values())
        found |= {(title, count): chosen(choices, done) for title, choices in rows.items()}
    return found


def counts_of(effort: Effort) -> tuple[int, ...]:
    """Return the number of copies at each point of the figure."""
    return COUNTS if effort.full else REDUCED_COUNTS


def choices_of(row: Row, count: int, effort: Effort) -> Choices:
    """Return the runs of one point of the figure."""
    planted = {"adversaries": count} if count else {}
    setting = {**setting_of(SET, row, effort), **planted}
    return row.runs(SET, effort.seeds, (1e-4,), setting)


def write(found: Results, counts: tuple[int, ...], effort: Effort) -> None:
    """Write F1 by row and number of copies, and the drop of each row."""
    rows = []
    for row in METHODS:
        records = [found[row.title, count] for count in counts]
        cells = [mean_of(point, "f1") for point in records]
        rows.append([row.title, *cells, change(records[0], records[-1])])
    lines = [
        f"Test F1 in percent, mean ± deviation over {effort.seeds} seeds, by the number of copies.",
        "",
        markdown_table(["", *map(str, counts), f"{counts[-1]} against none"], rows),
        "",
        "![F1 by the number of copies](adversarial.png)",
    ]
    write_page("adversarial", f"python -m experiments adversarial {effort.words}", lines)


def change(before: list[Record], after: list[Record]) -> str:
    """Return the difference of two mean F1s in points; a dash if one was not run."""
    if not before or not after:
        return UNKNOWN
    return f"{percentages(after, 'f1').mean() - percentages(before, 'f1').mean():+.2f}"


def draw(found: Results, counts: tuple[int, ...]) -> None:
    """Draw F1 against the number of copies, for methods with as many points as WeaSEL."""
    counts = tuple(count for count in counts if found["WeaSEL", count])
    lines = {
        row.title: np.array([percentages(found[row.title, count], "f1") for count in counts]).T
        for row in METHODS
        if all(found[row.title, count] for count in counts)
    }
    panel = Panel("imdb_12 with an adversary", lines, positions=counts)
    draw_panels("adversarial", [panel], "copies of the adversary", "test F1, %")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
