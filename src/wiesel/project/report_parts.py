"""Parts of report.html that all kinds of runs share."""

import platform
import shlex
from collections.abc import Iterable, Sequence
from html import escape

from wiesel.project.settings import Project
from wiesel.report import Curve, charts
from wiesel.training import History
from wiesel.version import __version__

__all__ = ["paragraphs", "reproduce", "reproducing_lines", "training"]


def paragraphs(sentences: Iterable[str]) -> str:
    """Return texts as paragraphs."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def training(history: History, scores: Sequence[str]) -> str:
    """Return charts of the losses and selected scores over the epochs."""
    names = [name for name in history.records[0] if name.startswith("loss_")]
    groups = {"Losses": names, "Scores": [name for name in scores if name in history.records[0]]}
    shown = [
        charts.epochs(title, [_curve(history, name) for name in own], history.best_epoch)
        for title, own in groups.items()
    ]
    return f'<div class="figures">{"".join(shown)}</div>'


def _curve(history: History, name: str) -> Curve:
    title = name.removeprefix("loss_").removeprefix("validation_").replace("_", " ")
    return Curve(title, [record[name] for record in history.records])


def reproduce(project: Project, methods: Iterable[str], new: str) -> str:
    """Return the commands that reproduce the run, and the project file."""
    commands = "\n".join(reproducing_lines(project, methods, new))
    settings = project.file.read_text(encoding="utf-8")
    return (
        f"<pre>{escape(commands)}</pre>"
        f"<details><summary>wiesel.toml</summary><pre>{escape(settings)}</pre></details>"
    )


def reproducing_lines(project: Project, methods: Iterable[str], new: str) -> list[str]:
    """Return the commands that reproduce the run and predict for the rows of a file `new`."""
    seeds = ", ".join(str(seed) for seed in project.method.seeds)
    names = ",".join(dict.fromkeys(methods))
    return [
        f"# wiesel {__version__}, Python {platform.python_version()}, seeds {seeds}",
        shlex.join(["wiesel", "run", str(project.folder), "--method", names]),
        shlex.join(["wiesel", "predict", str(project.output_folder / "model"), new]),
    ]
