"""What a user sees of a starter project of each kind, without the figures.

`python tests/golden/starter_projects.py` writes `starter_projects.json` anew.
"""

import json
import re
from contextlib import chdir
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tiny_project import run_wiesel

EXPECTED = Path(__file__).parent / "starter_projects.json"
KINDS = {"one label": (), "several labels": ("--multi",), "spans": ("--spans",)}
_QUICK = {
    "one label": "epochs = 8\n[options.committee]\nnetworks = 1\n",
    "several labels": "epochs = 8\n[options.committee]\nnetworks = 1\n",
    "spans": "epochs = 2\nlr = 0.01\n",
}
"""Less training than the starter asks for: what is shown, and not the figures, is compared."""


def seen(kind: str, place: Path) -> dict[str, Any]:
    """Run a starter project in a folder, and return what its files and commands show."""
    with chdir(place):
        return _seen(kind, place)


def _seen(kind: str, place: Path) -> dict[str, Any]:
    project, model = Path("starter"), Path("starter/out/model")
    commands = {"init": _shown(place, "init", project, *KINDS[kind])}
    settings = project / "wiesel.toml"
    text = re.sub(r"\[training\]\nepochs = .*\n", "", settings.read_text(encoding="utf-8"))
    settings.write_text(f"{text}\n[training]\n{_QUICK[kind]}", encoding="utf-8")
    commands["run"] = _shown(place, "run", project)
    commands["run again"] = _shown(place, "run", project)
    test = next(project.glob("test.*"))
    of_model: dict[str, tuple[object, ...]] = {
        "predict": (model, test),
        "evaluate": (model, test),
        "explain": (model, "--item", "test-4"),
        "inspect": (model,),
    }
    for name, words in of_model.items():
        commands[name] = _shown(place, name, *words)
    metrics = json.loads((project / "out" / "metrics.json").read_text(encoding="utf-8"))
    return {
        "files": sorted(file.name for file in (project / "out").iterdir()),
        "metrics.json": structure(metrics),
        "report": headings((project / "out" / "report.html").read_text(encoding="utf-8")),
        "commands": commands,
        "json": {name: structure(_answer(name, *words)) for name, words in of_model.items()},
    }


def structure(value: Any) -> Any:
    """Return plain data with the type in place of every value, and lists by their first entry."""
    if isinstance(value, dict):
        return {key: structure(part) for key, part in value.items()}
    if isinstance(value, list):
        return [structure(value[0])] if value else []
    # A figure that cannot be computed is None; which these are depends on the predictions.
    return "number" if isinstance(value, (int, float, type(None))) else type(value).__name__


_IF_THERE_ARE_ANY = ("Where end model and votes disagree",)
"""Sections that some machines leave out, because their predictions differ a little."""


def headings(page: str) -> list[str]:
    """Return the headings that every report has, without those of single items."""
    found = _Headings()
    found.feed(page)
    return [text for text in found.texts if text not in _IF_THERE_ARE_ANY]


class _Headings(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.inside = tag in ("h1", "h2")

    def handle_data(self, data: str) -> None:
        if self.inside and data.strip():
            self.texts.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


_MASKS = (
    (r"(digest|fingerprint) \S+", r"\1 HASH"),
    (r"[+-]?\d[\d,.]*(e[+-]\d+)?", "#"),
    (r"#( #)+", "#"),
    (r"( [+-]+)$", " BAR"),
    ("─+", "─"),
    (" +", " "),
    (r"^(test#)\t[^\t]*", r"\1\tPREDICTION"),
    (r"^(test#): .*\(.*%\).*", r"\1: SPANS"),
    (r"^(test#): .*\[.* [A-Z]+\].*", r"\1: MARKED"),
    (r"^ ([A-Z]+ \(# %\)|missed:|passed over:) .*", " SPAN"),
    (r" \(its threshold is # %\)", ""),
    (r"'(not )?(billing|technical|urgent)'(, '(billing|technical|urgent)')*", "CLASS"),
    (r"(Soft labels of the members for CLASS:).*", r"\1 MEMBERS"),
    # Who wins may differ where training is short.
    (r"^(Your votes|Cannot tell yet).*", "VERDICT"),
    (r"form one group.*", "form one group ..."),
)
"""Figures, widths and bars; and predictions, which may differ on another machine."""


def masked(text: str, place: Path) -> list[str]:
    """Return the lines of a command without what depends on figures; equal neighbors are one."""
    text = text.replace(str(place), "PLACE")
    for pattern, replacement in _MASKS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    lines = [line.rstrip() for line in text.splitlines()]
    # The strongest effect comes first; which one that is may differ on another machine.
    groups = groupby(lines, lambda line: line.endswith(" BAR"))
    ordered = [line for effects, group in groups for line in (sorted(group) if effects else group)]
    return [line for line, _ in groupby(ordered)]


def _shown(place: Path, *words: object) -> list[str]:
    result = run_wiesel(*words, env={"COLUMNS": "200"})
    return [f"exit code {result.exit_code}", *masked(result.output, place)]


def _answer(*words: object) -> Any:
    return json.loads(run_wiesel(*words, "--json").stdout)


def main() -> None:
    """Write what the starter projects show."""
    found = {}
    for kind in KINDS:
        with TemporaryDirectory() as folder:
            found[kind] = seen(kind, Path(folder))
    EXPECTED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
