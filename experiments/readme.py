"""Write the tables of README.md from committed results: `python -m experiments.readme`."""

import re
from pathlib import Path

from benchmarks.report import quotable_table

from experiments import duplicates, imdb
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
    return {"results": results_table(), "methods": methods_table(), "speed": quotable_table()}


def results_table() -> str:
    """Return the IMDB study and the study with duplicated coin flips."""
    lines = [
        "| 136 labeling functions, trained on | F1 | ROC-AUC | F1 in the paper |",
        "|---|---|---|---|",
    ]
    for name, chosen in imdb.chosen_runs(imdb.definitions(3, variants=True)).items():
        f1, auc = imdb.mean_of(chosen, "f1"), imdb.mean_of(chosen, "auc")
        paper = f"{imdb.ROWS[name][2]:.2f}" if name in imdb.ROWS else "-"
        lines.append(f"| {name} | {f1} | {auc} | {paper} |")
    lines += [
        "",
        "| ROC-AUC with one perfect voter and a coin flip, copied | " + _counts() + " |",
        "|---|" + "---|" * len(duplicates.COUNTS),
    ]
    areas = duplicates.areas_of(duplicates.definitions(3))
    for method, shown in (("weasel", "WeaSEL"), ("majority_vote", "majority vote")):
        cells = [f"{areas[f'{method}, {n} copies'].mean():.3f}" for n in duplicates.COUNTS]
        lines.append(f"| {shown} (gold: {areas['gold'].mean():.3f}) | {' | '.join(cells)} |")
    lines += [
        "",
        "`python -m experiments imdb duplicates` reruns both; every run is in "
        "[experiments/results](experiments/results).",
    ]
    return "\n".join(lines)


def methods_table() -> str:
    """Return every registered method with its paper."""
    lines = ["| method | class | what it does | from |", "|---|---|---|---|"]
    lines += [
        f"| `{method.name}` | `{method.cls.__name__}` | {method.summary} | {method.paper} |"
        for method in METHODS.values()
    ]
    return "\n".join(lines)


def _counts() -> str:
    return " | ".join(f"{count:,}x" for count in duplicates.COUNTS)


if __name__ == "__main__":
    main()
