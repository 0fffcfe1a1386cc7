"""Write the tables of README.md from committed results: `python -m experiments.readme`."""

import re
from pathlib import Path

from benchmarks.report import quotable_table

from experiments.studies import default

QUOTED_CASES = (
    ("dawid_skene, 1M x 10 at 10-50 %", "fit and predict"),
    ("snorkel, 1M x 100 at 10-50 %", "fit"),
)
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
        "speed": quotable_table(QUOTED_CASES),
    }


if __name__ == "__main__":
    main()
