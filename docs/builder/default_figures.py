"""The paragraph of experiments/README.md about the default, from the result pages."""

import re
from pathlib import Path

__all__ = ["experiments_readme"]

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
_SECTION = re.compile(r"(?<=<!-- default -->\n).*?(?=<!-- /default -->)", re.DOTALL)
_GAIN = re.compile(
    r"^Committee against majority vote: ([+-][\d.]+) points on average .*"
    r"worst of the sets with 500 or more test items ([+-][\d.]+) on (\w+)",
    re.MULTILINE,
)


def experiments_readme() -> str:
    """Return experiments/README.md with the current figures of the default."""
    written = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    return _SECTION.sub(lambda _: _paragraph(), written, count=1)


def _paragraph() -> str:
    results = EXPERIMENTS / "results"
    blind, with_split, with_fifty = _GAIN.findall((results / "default.md").read_text("utf-8"))
    gain, lost = _on_tasks((results / "tasks.md").read_text("utf-8"))
    return f"""\
Gains over majority vote, in points, on the real sets:

| gold labels | mean gain | worst set with 500 or more test items |
|---|---|---|
| none | {blind[0]} | {blind[1]} ({blind[2]}) |
| the validation split | {with_split[0]} | {with_split[1]} ({with_split[2]}) |
| 50 items of it | {with_fifty[0]} | {with_fifty[1]} ({with_fifty[2]}) |

On the *confirm* half of the generated tasks, without gold, it gains {gain} points. It loses more
than two points on {lost} of them.
"""


def _on_tasks(page: str) -> tuple[str, str]:
    """The gain on the *confirm* tasks without gold, and the share that loses two points."""
    blind = page.split("\n## ")[1]
    row = re.search(r"^\| committee +\|(.*[+-][\d.]+ ±.*)\|$", blind, re.MULTILINE)
    if row is None:
        raise ValueError("experiments/results/tasks.md has no differences of the committee.")
    *_, gain, _, lost = [cell.strip() for cell in row.group(1).split("|")]
    return gain.split()[0], lost
