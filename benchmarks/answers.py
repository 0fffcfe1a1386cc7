"""Majority vote and Dawid-Skene of `aggregate`, compared with crowd-kit's accuracy on the cards."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    UNKNOWN,
    arguments,
    markdown_table,
    merge_results,
    read_results,
    setting,
)

SLACK = 0.005
METHODS = ("majority_vote", "dawid_skene")


def main(argv: Sequence[str] = ()) -> None:
    """Label every answer set with and without repeated answers; store results unless `--quick`."""
    options = arguments(argv)
    rows = read_results("answers")
    if not options.show:
        rows = list(_rows(options.only))
        if not options.quick:
            merge_results("answers", rows)
    print(answers_table(rows))


def answers_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the Markdown table: one row per answer set and method."""
    header = ("answers", "repeated", "all kept", "last kept", "crowd-kit's card", "as good")
    return markdown_table(header, [_line(row) for row in rows])


def _rows(only: str) -> Iterator[dict[str, Any]]:
    root = os.environ.get("WIESEL_DATA")
    if not root:
        print("WIESEL_DATA is not set: the crowd answer sets are left out.")
        return
    for path in sorted(Path(root).glob("*/answers.parquet")):
        card = json.loads((path.parent / "card.json").read_text())
        for method in METHODS:
            name = f"{path.parent.name}, {method}"
            if only in name and card.get(f"{method}_accuracy") is not None:
                kept, n_answers = _accuracy(path.parent, method, "all")
                last, n_last = _accuracy(path.parent, method, "last")
                yield {
                    "case": name,
                    "all": round(kept, 4),
                    "last": round(last, 4),
                    "repeated": n_answers - n_last,
                    "card": card[f"{method}_accuracy"],
                    **setting(),
                }


def _accuracy(folder: Path, method: str, repeated: Any) -> tuple[float, int]:
    """Return the share of right labels of `aggregate`, and the number of answers that count."""
    import polars as pl

    from wiesel.aggregate import aggregate

    found = aggregate(pl.read_parquet(folder / "answers.parquet"), method=method, repeated=repeated)
    gold = pl.read_parquet(folder / "gold.parquet").rename({"label": "gold"})
    judged = found.labels.join(gold, on="task").drop_nulls("label")
    return float((judged["label"] == judged["gold"]).mean()), found.n_answers


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    figures = (f"{100 * row[name]:.2f} %" for name in ("all", "last", "card"))
    repeated = f"{row['repeated']:,}" if row["repeated"] else UNKNOWN
    return row["case"], repeated, *figures, "yes" if row["all"] >= row["card"] - SLACK else "NO"


if __name__ == "__main__":
    main()
