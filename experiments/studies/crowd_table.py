"""Shows the crowd tables: in the terminal, as Markdown and as a figure."""

from typing import Any

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.runner import RESULTS
from experiments.framework.tables import UNKNOWN, cost_sentence, figure_of_paper, spread

Rows = list[dict[str, Any]]

GOLD = "gold labels"
NEWEST = ("COINNet", "annot-mix")
"""Methods whose authors report better results than all earlier methods."""
_HEAD = ("method", "test accuracy", "paper", "validation", "settings tried", "chosen")
_ON_TEST = "best epoch chosen on test"
_NOTES = {
    "labelme": (
        "",
        "The paper's figures are of other features (8,192 numbers; ours are averaged maps of 512),",
        "and of majority vote with hard labels. *Max-MIG, Dawid-Skene start* is ours: the first",
        "confusions are counted from Dawid-Skene's soft labels, where the paper counts them from",
        "the majority vote. Of the two, the one with the higher validation score is what a Max-MIG",
        "that may choose its start would show. *voting_only* is ours too: the weight is shared by",
        "those who voted, where in the paper's model those who abstain (56 of 59) take most of",
        "it, which leaves the soft labels vague.",
        "",
        "The search was not equal: WeaSEL has more settings than the others, and for WeaSEL + CE",
        "alone 46 settings were tried on validation (three seeds each) before `tau_2=200` and",
        "the scales of *voting_only* were put on the list. Those runs are not counted below.",
    )
}


def print_table(rows: Rows) -> None:
    """Print one line per method, and the total cost."""
    print(f"\n{_table(rows)}\n\n{_cost(rows)}")


def write_markdown(name: str, rows: Rows, missing: list[str]) -> None:
    """Write the table as `results/<name>.md`, best first within each part."""
    seeds = len(rows[0]["accuracy"])
    command = f"python -m experiments labelme --dataset {name} --seeds {seeds}"
    lines = [
        f"# {name}: test accuracy of crowd methods",
        "",
        f"Written by `{command}` from `{name}.jsonl`.",
        f"Mean and deviation over {seeds} seeds. Options and epoch were chosen",
        "on validation (by accuracy; by ROC-AUC where there are two classes), the options among as",
        "many settings as the table says, over three seeds. The last column is from runs whose",
        "epoch was chosen **on test**, as in several published tables: it is no honest estimate.",
        *_NOTES.get(name, ()),
        "",
        first_of_all(rows),
        "",
        _margin([row for row in rows if row["in_paper"]]),
        "",
        f"![test accuracy]({name}.png)",
    ]
    for in_paper, heading in ((True, "The paper's list"), (False, "Further methods")):
        part = [row for row in rows if row["in_paper"] == in_paper]
        lines += ["", f"## {heading}", "", _table(part)] if part else []
    lines += ["", f"Not run on these data: {', '.join(missing)}."] if missing else []
    lines += ["", "## What the scale of WeaSEL's weights does, on validation", "", _scales(rows)]
    (RESULTS / f"{name}.md").write_text("\n".join([*lines, "", _cost(rows)]) + "\n")


def quoted(rows: Rows) -> str:
    """Return the paper's list with the paper's results, as shown in the README."""
    part = sorted(
        (row for row in rows if row["in_paper"]), key=lambda row: -np.mean(row["accuracy"])
    )
    cells = [
        [row["method"], spread(np.array(row["accuracy"])), figure_of_paper(row["paper"])]
        for row in part
    ]
    return markdown_table(["59 workers, 8 classes of images", "test accuracy in %", "paper"], cells)


def draw(name: str, rows: Rows) -> None:
    """Draw the table as `results/<name>.png`: ours with its deviation, next to the paper's."""
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
            axes.plot(row["paper"].mean, height, "x", color="tab:red")
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


def _table(rows: Rows) -> str:
    ordered = sorted(rows, key=lambda row: -np.mean(row["accuracy"]))
    return markdown_table([*_HEAD, _ON_TEST], [_cells(row) for row in ordered])


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["method"],
        spread(np.array(row["accuracy"])),
        figure_of_paper(row["paper"]),
        spread(np.array(row["validation"])),
        str(len(row["tuning"])),
        ", ".join(f"{name}={value}" for name, value in row["options"].items()),
        spread(np.array(row["best_on_test"])),
    ]


def _margin(rows: Rows) -> str:
    """Describe the first method's lead over the second by seed, and their numbers of settings."""
    first, second, *_ = sorted(rows, key=lambda row: -np.mean(row["accuracy"]))
    above = spread(np.subtract(first["accuracy"], second["accuracy"]))
    return (
        f"Of the paper's list, {first['method']} (the best of {len(first['tuning'])} settings) is "
        f"{above} points above {second['method']} (the best of {len(second['tuning'])}), seed by "
        "seed."
    )


def first_of_all(rows: Rows) -> str:
    """Describe which method that learns from answers is first, and the newest methods' ranks."""
    others = [row for row in rows if row["method"] != GOLD]
    mean = {row["method"]: float(np.mean(row["accuracy"])) for row in others}
    ordered = sorted(mean, key=mean.__getitem__, reverse=True)
    first, ours = ordered[0], "WeaSEL + MIG"
    said = f"Of all {len(mean)} methods that learn from answers, **{first}** is first on test with "
    said += f"{mean[first]:.2f}"
    if ours in mean:
        said += "" if ours == first else f"; {ours} is {mean[first] - mean[ours]:.2f} below"
    chosen = max(others, key=lambda row: np.mean(row["validation"]))["method"]
    said += f". By validation one would take {chosen} ({mean[chosen]:.2f} on test)."
    places = [
        f"{name} is number {ordered.index(name) + 1} ({mean[name] - mean[first]:+.2f})"
        for name in NEWEST
        if name in mean
    ]
    return " ".join([said, f"{', '.join(places)}."] if places else [said])


def _scales(rows: Rows) -> str:
    """Describe the effect of WeaSEL's scale: the best validation score for each scale."""
    scaled = [row for row in rows if "tau_2" in row["options"]]
    values = list(dict.fromkeys(o["tau_2"] for row in scaled for o, _ in row["tuning"]))
    cells = []
    for row in scaled:
        found = [[s for o, s in row["tuning"] if o["tau_2"] == value] for value in values]
        cells.append([row["method"], *(f"{max(s):.2f}" if s else UNKNOWN for s in found)])
    return markdown_table(["", *(f"tau_2 = {value}" for value in values)], cells)


def _cost(rows: Rows) -> str:
    runs, seconds = sum(row["runs"] for row in rows), sum(row["cpu_seconds"] for row in rows)
    return cost_sentence(runs, seconds)
