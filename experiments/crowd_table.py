"""How the crowd tables are shown: in the terminal, as Markdown and as a figure."""

from typing import Any

import numpy as np

from experiments.runner import RESULTS

Rows = list[dict[str, Any]]


def print_table(rows: Rows) -> None:
    """Print one line for every method."""
    print(f"\n{'':30} {'test accuracy':>15} {'paper':>7} {'best epoch on test':>19} {'options'}")
    for row in rows:
        paper = f"{row['paper']:7.2f}" if row["paper"] else f"{'-':>7}"
        columns = f"{_mean(row['accuracy']):>15} {paper} {_mean(row['best_on_test']):>19}"
        print(f"{row['method']:30} {columns} {_described(row['options'])}")


def write_markdown(name: str, rows: Rows) -> None:
    """Write the table as `results/<name>.md`, best first within each part."""
    lines = [
        f"# {name}: test accuracy of crowd methods",
        "",
        f"Written by `python -m experiments.labelme --dataset {name}` from `{name}.jsonl`.",
        f"Mean and deviation over {len(rows[0]['accuracy'])} seeds. Options and epoch were chosen",
        "on validation; the last column is what the same runs would report had the epoch been",
        "chosen on test, as in several published tables.",
        "",
        "| method | test accuracy | paper | validation score | options | epoch chosen on test |",
        "|---|---|---|---|---|---|",
    ]
    for in_paper in (True, False):
        part = [row for row in rows if row["in_paper"] == in_paper]
        for row in sorted(part, key=lambda row: -np.mean(row["accuracy"])):
            paper = f"{row['paper']:.2f}" if row["paper"] else "-"
            lines.append(
                f"| {row['method']} | {_mean(row['accuracy'])} | {paper} | "
                f"{_mean(row['validation'])} | {_described(row['options'])} | "
                f"{_mean(row['best_on_test'])} |"
            )
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")


def draw(name: str, rows: Rows) -> None:
    """Draw the table as `results/<name>.png`: ours with its deviation, the paper's beside it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ordered = sorted(rows, key=lambda row: np.mean(row["accuracy"]))
    figure, axes = plt.subplots(figsize=(7, 0.32 * len(rows) + 1), layout="constrained")
    for height, row in enumerate(ordered):
        color = "tab:blue" if row["in_paper"] else "tab:gray"
        axes.errorbar(
            np.mean(row["accuracy"]), height, xerr=np.std(row["accuracy"]), fmt="o", color=color
        )
        axes.plot(np.mean(row["best_on_test"]), height, "|", color=color, markersize=10)
        if row["paper"]:
            axes.plot(row["paper"], height, "x", color="tab:red")
    axes.set_yticks(range(len(ordered)), [row["method"] for row in ordered])
    axes.set_xlabel(f"test accuracy on {name}, %")
    for label, style in (
        ("in the paper's table", "o tab:blue"),
        ("further methods", "o tab:gray"),
        ("the paper's figure", "x tab:red"),
        ("best epoch on test", "| tab:blue"),
    ):
        marker, color = style.split()
        axes.plot([], [], marker, color=color, label=label)
    axes.legend(loc="lower right", fontsize="small")
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(RESULTS / f"{name}.png", dpi=130)
    plt.close(figure)


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def _described(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())
