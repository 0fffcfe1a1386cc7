"""How the default performs, from the result pages: a paragraph of two pages."""

import re
from pathlib import Path
from statistics import median
from typing import NamedTuple

__all__ = ["defaults_page", "experiments_readme"]

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results"
_SECTION = re.compile(r"(?<=<!-- default -->\n).*?(?=<!-- /default -->)", re.DOTALL)
_ROW = re.compile(r"^\| (\w+) +\| (?:choose|confirm) .* ([+-][\d.]+) +\|$", re.MULTILINE)
_WORST = re.compile(r"worst of the sets with 500 or more test items ([+-][\d.]+) on (\w+)")


def experiments_readme() -> str:
    """Return experiments/README.md with the current figures of the default."""
    return _with_figures(ROOT / "experiments" / "README.md")


def defaults_page() -> str:
    """Return docs/understand/defaults.md with the current figures of the default."""
    return _with_figures(ROOT / "docs" / "understand" / "defaults.md")


def _with_figures(page: Path) -> str:
    return _SECTION.sub(lambda _: _paragraph(), page.read_text(encoding="utf-8"), count=1)


class _Gains(NamedTuple):
    """The committee's gains over majority vote in one section of results/default.md."""

    by_set: dict[str, float]
    worst: str

    @property
    def cells(self) -> str:
        """The cells of the table: mean, median, the best set, the worst large set, losses."""
        gains = self.by_set
        best = max(gains, key=lambda name: gains[name])
        mean = sum(gains.values()) / len(gains)
        lost = sum(gain < 0 for gain in gains.values())
        return (
            f"{mean:+.2f} | {median(gains.values()):+.2f} | {gains[best]:+.2f} ({best}) "
            f"| {self.worst} | {lost} of {len(gains)}"
        )


def _paragraph() -> str:
    blind, with_split, with_fifty = _gains((RESULTS / "default.md").read_text("utf-8"))
    gain, lost = _on_tasks((RESULTS / "tasks.md").read_text("utf-8"))
    rest = [value for value in blind.by_set.values() if value != max(blind.by_set.values())]
    return f"""\
Gains of the committee over majority vote on the real sets, in points of test ROC-AUC (binary) or
accuracy (multi-class). *Worst* leaves out sets with fewer than 500 test items.

| gold labels | mean | median | best set | worst set | sets that lose |
|---|---|---|---|---|---|
| none | {blind.cells} |
| the validation split | {with_split.cells} |
| 50 items of it | {with_fifty.cells} |

Leaving out the best set, the mean gain without gold is {sum(rest) / len(rest):+.2f}.
On the *confirm* half of the generated tasks, without gold, the committee gains {gain} points on
average and loses more than two points on {lost} of the tasks.
"""


def _gains(page: str) -> list[_Gains]:
    found = []
    for section in page.split("\n## ")[1:]:
        by_set = {name: float(gain) for name, gain in _ROW.findall(section)}
        worst = _WORST.search(section)
        if not by_set or worst is None:
            raise ValueError("experiments/results/default.md has no gains of the committee.")
        found.append(_Gains(by_set, f"{worst[1]} ({worst[2]})"))
    return found


def _on_tasks(page: str) -> tuple[str, str]:
    """The gain on the *confirm* tasks without gold, and the share that loses two points."""
    blind = page.split("\n## ")[1]
    row = re.search(r"^\| committee +\|(.*[+-][\d.]+ ±.*)\|$", blind, re.MULTILINE)
    if row is None:
        raise ValueError("experiments/results/tasks.md has no differences of the committee.")
    *_, gain, _, lost = [cell.strip() for cell in row.group(1).split("|")]
    return gain.split()[0], lost
