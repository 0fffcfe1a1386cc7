"""Write the tables of README.md from committed results: `python -m experiments.readme`."""

import re
from pathlib import Path

from benchmarks.harness import markdown_table
from benchmarks.report import quotable_table

from experiments.framework.definitions import Effort
from experiments.framework.tables import mean_of
from experiments.studies import crowd_table, default, duplicates, labelme, random_voters, table1
from wiesel.catalog import METHODS

README = Path(__file__).resolve().parents[1] / "README.md"


def main() -> None:
    """Replace what stands between the markers."""
    text = README.read_text()
    for name, content in tables().items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
        text = re.sub(pattern, lambda m, c=content: f"{m[1]}{c}\n{m[2]}", text, flags=re.DOTALL)
    README.write_text(text)


def tables() -> dict[str, str]:
    """Return every table by the name of its marker."""
    return {
        "default": default.quoted(),
        "results": results_table(),
        "crowds": crowds_table(),
        "methods": methods_table(),
        "speed": quotable_table(),
    }


def results_table() -> str:
    """Return table 1 on the data sets with the paper's LFs, and the duplicated coin flips."""
    effort = Effort(recorded=True)
    found = table1.results(effort, table1.OF_PAPER)
    rows = [
        [
            row.title + " (ours)" * row.ours,
            *(table1.f1_cell(found, n, row) for n in table1.OF_PAPER),
        ]
        for row in table1.ROWS
        if any(found[name].get(row.title) for name in table1.OF_PAPER)
    ]
    study = duplicates.STUDY
    areas, gold = study.results(effort)
    counts = [f"{count:,}x" for count in study.reduced]
    planted = [
        [row.title, *(mean_of(areas[row.title, count], "auc") for count in study.reduced)]
        for row in (*random_voters.METHODS, *study.extra)
        if any(areas[row.title, count] for count in study.reduced)
    ]
    return "\n".join(
        [
            markdown_table(["test F1 in % (the paper's)", *table1.OF_PAPER], rows),
            "",
            markdown_table(
                ["ROC-AUC in %, one perfect voter and a coin, copied", *counts], planted
            ),
            "",
            f"Gold reaches {mean_of(gold, 'auc')} in the second. `wiesel reproduce table1` and "
            "`wiesel reproduce duplicates` rerun them; [experiments](experiments/README.md) has "
            "all tables and every run.",
        ]
    )


def crowds_table() -> str:
    """Return the paper's LabelMe list, beside the paper's figures."""
    rows = labelme.run_table("labelme", list(labelme.METHODS), seeds=7, jobs=1)
    return crowd_table.quoted(rows)


def methods_table() -> str:
    """Return every registered method with its paper."""
    lines = ["| method | class | what it does | from |", "|---|---|---|---|"]
    lines += [
        f"| `{method.name}` | `{method.cls.__name__}` | {method.summary} | {method.paper} |"
        for method in METHODS.values()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
