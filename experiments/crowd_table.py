"""How the crowd tables are shown: in the terminal, as Markdown and as a figure."""

from typing import Any

import numpy as np

from experiments.runner import RESULTS

Rows = list[dict[str, Any]]

_HEAD = (
    "| method | test accuracy | paper | validation | settings tried | chosen | "
    "best epoch chosen on test |"
)
_NOTES = {
    "labelme": (
        "",
        "The paper's figures are of other features (8,192 numbers; ours are averaged maps of 512),",
        "and of majority vote with hard labels. *Max-MIG, Dawid-Skene start* is ours: the first",
        "confusions are counted from Dawid-Skene's soft labels, where the paper counts them from",
        "the majority vote. *voting_only* is ours too: WeaSEL's weight is shared by those who",
        "voted, where in the paper's model those who abstain (56 of 59) take most of it, which",
        "leaves the soft labels vague: bad for cross-entropy, not for mutual information.",
    )
}


def print_table(rows: Rows) -> None:
    """Print one line for every method, and what all of it took."""
    print(f"\n{'':30} {'test accuracy':>15} {'paper':>7} {'best epoch on test':>19} {'options'}")
    for row in rows:
        paper = f"{row['paper']:7.2f}" if row["paper"] else f"{'-':>7}"
        columns = f"{_mean(row['accuracy']):>15} {paper} {_mean(row['best_on_test']):>19}"
        print(f"{row['method']:30} {columns} {_described(row['options'])}")
    print(f"\n{_cost(rows)}")


def write_markdown(name: str, rows: Rows) -> None:
    """Write the table as `results/<name>.md`, best first within each part."""
    lines = [
        f"# {name}: test accuracy of crowd methods",
        "",
        f"Written by `python -m experiments labelme --dataset {name}` from `{name}.jsonl`.",
        f"Mean and deviation over {len(rows[0]['accuracy'])} seeds. Options and epoch were chosen",
        "on validation (by accuracy; by ROC-AUC where there are two classes), the options among as",
        "many settings as the table says, over three seeds. The last column is from runs whose",
        "epoch was chosen **on test**, as in several published tables: it is no honest estimate.",
        *_NOTES.get(name, ()),
        "",
        f"![test accuracy]({name}.png)",
    ]
    for in_paper, heading in ((True, "The paper's list"), (False, "Further methods")):
        lines += ["", f"## {heading}", "", _HEAD, "|---|---|---|---|---|---|---|"]
        part = [row for row in rows if row["in_paper"] == in_paper]
        lines += [_line(row) for row in sorted(part, key=lambda row: -np.mean(row["accuracy"]))]
    lines += ["", _cost(rows)]
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


def _line(row: dict[str, Any]) -> str:
    paper = f"{row['paper']:.2f}" if row["paper"] else "-"
    return (
        f"| {row['method']} | {_mean(row['accuracy'])} | {paper} | {_mean(row['validation'])} | "
        f"{row['settings']} | {_described(row['options'])} | {_mean(row['best_on_test'])} |"
    )


def _cost(rows: Rows) -> str:
    runs, seconds = sum(row["runs"] for row in rows), sum(row["cpu_seconds"] for row in rows)
    return f"{runs} runs are behind this table; they took {seconds / 60:.1f} CPU minutes."


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def _described(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())
