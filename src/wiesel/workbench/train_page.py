"""Train: choose methods and options, start, watch the curves, stop, and compare runs."""

import time
from typing import Any

from nicegui import ui

from wiesel.labels import ABSTAIN
from wiesel.project.runs import KeptRun, kept_runs
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.jobs import Progress
from wiesel.workbench.layout import AXIS, COLORS, GRAY, card, empty_state, table
from wiesel.workbench.texts import cut, figure_name, link, percent, shown, words

__all__ = ["TrainPage"]

_CURVE = "height: 230px; width: 100%"


class TrainPage:
    """Training, and the runs so far."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.name = desk.jobs.current()
        self.ended = self.name is None

    def build(self) -> None:
        """Show the page."""
        with ui.element("div").classes("w-columns"):
            with ui.element("div").classes("w-stack"):
                with card("Training"):
                    self.state = ui.element("div").classes("train-state").style("min-height: 30px")
                    self.losses = ui.echart(_curves({}, "loss")).style(_CURVE)
                    self.scores = ui.echart(_curves({}, "validation")).style(_CURVE)
                with card("Runs"):
                    self.runs = ui.element("div").classes("train-runs").style("min-height: 60px")
            with card("New run"):
                self._options()
        ui.timer(0.01, self._first, once=True)
        ui.timer(0.1, self.offer_all_methods, once=True)
        ui.timer(1.0, self._tick)

    def _options(self) -> None:
        project = self.desk.space.project
        chosen = dict.fromkeys([project.method.name, *project.method.baselines])
        # These names suffice to start. The list of all methods loads torch, which takes a second.
        options = {name: name for name in chosen if self._can_train(name)}
        self.methods = ui.select(
            options,
            value=list(options),
            multiple=True,
            label="Methods, the main one first",
        ).props("outlined dense use-chips options-dense")
        self.methods.style("width: 100%").classes("train-methods")
        self.title = ui.input("Name of this run (optional)").classes("train-title")
        self.title.props("outlined dense").style("width: 100%")
        training = project.training
        self.epochs = ui.number("Epochs", value=training.get("epochs"), min=1, precision=0)
        self.rate = ui.number("Learning rate", value=training.get("lr"), min=0)
        self.seed = ui.number("Seed", value=project.method.seeds[0], min=0, precision=0)
        for box in (self.epochs, self.rate, self.seed):
            box.props("outlined dense").style("width: 100%")
        words("Empty fields use the method's default.", "w-faint")
        with ui.element("div").classes("w-row"):
            self.begin = ui.button("Start", on_click=self.start).props("unelevated no-caps")
            self.begin.classes("train-start")
            self.stop = ui.button("Stop", on_click=self.cancel).props("outline no-caps")
            self.stop.classes("train-stop")
        self._enable()

    def _can_train(self, method: str) -> bool:
        return method != "supervised" or bool((self.desk.space.train.gold != ABSTAIN).any())

    async def offer_all_methods(self) -> None:
        """Show every method with its summary."""
        summaries = await work(_summaries, self.desk.space.project.task)
        if summaries is None:
            return
        # The browser names a choice by its position, so what it shows already keeps its place.
        names = dict.fromkeys([*self.methods.options, *summaries])
        labels = {
            name: f"{name} — {cut(summaries[name], 60)}" if name in summaries else name
            for name in names
            if self._can_train(name)
        }
        if labels != self.methods.options:
            self.methods.set_options(labels)

    async def _first(self) -> None:
        runs = await self._show_runs()
        if self.name is None and runs:
            self.name = runs[0].name
            await self._show_progress()
        elif self.name is None:
            self._show_charts(False)
            with self.state:
                words("No training is running.", "w-faint")
        self._enable()

    def _show_charts(self, there: bool) -> None:
        for chart in (self.losses, self.scores):
            chart.set_visibility(there)

    def _enable(self) -> None:
        is_running = self.desk.jobs.current() is not None
        self.begin.set_enabled(not is_running)
        self.stop.set_enabled(is_running)

    async def start(self) -> None:
        """Start a run with the chosen options."""
        training: dict[str, Any] = {}
        if self.epochs.value:
            training["epochs"] = int(self.epochs.value)
        if self.rate.value:
            training["lr"] = float(self.rate.value)
        seeds = [int(self.seed.value or 0)]
        name = await work(
            self.desk.jobs.start, self.methods.value, training, seeds, self.title.value or ""
        )
        if name is not None:
            self.name, self.ended = name, False
            self._show_charts(True)
            await self._show_progress()
        self._enable()

    async def cancel(self) -> None:
        """Stop training; the best weights are kept."""
        self.desk.jobs.cancel()
        ui.notify("Stopping; the best weights so far are kept.")

    async def _tick(self) -> None:
        current = self.desk.jobs.current()
        if current is not None and current != self.name:
            self.name, self.ended = current, False  # somebody else started it
            self._show_charts(True)
        self._enable()
        if self.name is None or self.ended:
            return
        await self._show_progress()
        if self.ended:
            self.desk.version += 1
            await self._show_runs()

    async def _show_progress(self) -> None:
        name = self.name or ""
        found = await work(self.desk.jobs.progress, name, quiet=True)
        if found is None or name != self.name:  # another run was started meanwhile
            return
        self.ended = bool(found.end)
        self.state.clear()
        with self.state:
            words(f"Run {name}: {_state(found)}", "w-bad" if found.error else "")
            if found.error:
                words(shown(found.error), "w-bad", tag="p")
        for chart, kind in ((self.losses, "loss"), (self.scores, "validation")):
            chart.options.clear()
            chart.options.update(_curves(found.epochs, kind))
            chart.update()

    async def _show_runs(self) -> list[KeptRun]:
        runs = await work(kept_runs, self.desk.space.project, quiet=True) or []
        voters = await work(self.desk.voters, quiet=True)
        self.runs.clear()
        with self.runs:
            if not runs:
                _no_run(bool(voters))
                return []
            heads = [
                ("run", False),
                ("method", False),
                *((figure_name(name), True) for name in self.desk.space.figures),
            ]
            with table(*heads, ("seconds", True)):
                for run, before in zip(runs, [*runs[1:], None], strict=True):
                    for row in run.about.get("rows") or [{}]:
                        self._run(run, row)
                    self._notes(run, before)
        return runs

    def _run(self, run: KeptRun, row: dict[str, Any]) -> None:
        with ui.element("tr"):
            with ui.element("td").classes("w-name-cell"):
                link(cut(run.title or run.name, 60), "/results", run=run.name)
                when = time.strftime("%d %b %H:%M", time.localtime(run.about.get("time", 0)))
                words(f" {when}", "w-faint", "w-wide")
                if run.about.get("interrupted"):
                    words(" stopped", "w-faint")
            method = str(row.get("method", ", ".join(run.about.get("methods", []))))
            words(method, "w-name-cell", tag="td")
            for name in self.desk.space.figures:
                words(percent(row.get(name), 1), "w-number", tag="td")
            seconds = row.get("seconds")
            words("–" if seconds is None else f"{seconds:.1f}", "w-number", tag="td")  # noqa: RUF001

    def _notes(self, run: KeptRun, before: KeptRun | None) -> None:
        """Show what is different from the run before, and the baselines of this run."""
        changes = ["the first run"] if before is None else run.changes(before)
        with ui.element("tr").classes("run-notes"):
            cell = words("", "w-faint", tag="td")
            cell.props["colspan"] = 3 + len(self.desk.space.figures)
            with cell:
                words("; ".join(changes) or "as the run before")
                for row in _references(run):
                    shown = self.desk.space.figures[:2]
                    figures = [f"{figure_name(n)} {percent(row.get(n), 1)}" for n in shown]
                    words(f"{row.get('method')}: {', '.join(figures)}", tag="div")


def _references(run: KeptRun) -> list[dict[str, Any]]:
    """Return the baselines of a run, such as the commonest class and the labels alone."""
    try:
        found = run.metrics.get("references", [])
    except (OSError, ValueError):
        return []
    return [row for row in found if isinstance(row, dict)]


def _summaries(task: str) -> dict[str, str]:
    """Return the methods that do a kind of task, each with what it does."""
    from wiesel.catalog import METHODS  # it loads torch

    found = METHODS.items()
    return {
        name: method.summary for name, method in found if task in getattr(method.cls, "tasks", ())
    }


def _no_run(has_votes: bool) -> None:
    if has_votes:
        what = (
            "Choose methods on the right and start. Training continues while you use other pages."
        )
        empty_state("No run yet", what)
        return
    what = "There are no votes to learn from: write a labeling function, or accept a proposed one."
    empty_state("No run yet", what, "/lfs", "To the labeling functions")


def _state(found: Progress) -> str:
    """Describe the state of a run in a few words."""
    if found.end:
        return found.end
    if not found.epochs:
        return found.within or (": ".join(found.stages[-1]) if found.stages else "starting")
    name, records = list(found.epochs.items())[-1]
    last = records[-1]
    done, total = int(last.get("epoch", len(records))), int(last.get("epochs", 0))
    said = f"{name}, epoch {done}"
    if done >= total:
        return said
    own = _networks(records)[-1]
    each = (own[-1]["time"] - own[0]["time"]) / (len(own) - 1) if len(own) > 1 else 0.0
    left = f", about {each * (total - done):.0f} s left" if each * (total - done) >= 1 else ""
    return f"{said} of {total}{left}"


def _networks(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Split the epochs by network: a new network begins when they restart at 1."""
    parts: list[list[dict[str, Any]]] = []
    last = 0
    for number, record in enumerate(records, start=1):
        epoch = int(record.get("epoch", number))
        if epoch <= last or not parts:
            parts.append([])
        parts[-1].append({**record, "epoch": epoch})
        last = epoch
    return parts


def _curves(epochs: dict[str, list[dict[str, Any]]], kind: str) -> dict[str, Any]:
    """Return one curve for each method and metric of a kind."""
    series = []
    for run, records in epochs.items():
        names = [key for key in (records[0] if records else {}) if key.startswith(kind)]
        for key in names[:2]:
            title = f"{run.removesuffix(', seed 0')}: {key.removeprefix(kind).strip('_') or kind}"
            longest = max(_networks(records), key=len)[-1]
            total = max(int(longest.get("epochs", 0)), longest["epoch"])
            title += f", epoch {longest['epoch']} of {total}"
            for part in _networks(records):
                points = [[record["epoch"], record.get(key)] for record in part]
                few = len(part) < 3
                series.append({"name": title, "type": "line", "showSymbol": few, "data": points})
    return {
        "animation": False,
        "color": COLORS,
        "grid": {"left": 48, "right": 10, "top": 44, "bottom": 26},
        "title": {
            "left": 0,
            "text": "loss by epoch" if kind == "loss" else "score on dev rows by epoch",
            "textStyle": {"fontSize": 13, "color": GRAY},
        },
        "legend": {"top": 2, "left": 200, "type": "scroll", "textStyle": {"color": GRAY}},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {"type": "value", "minInterval": 1, "min": 1, **AXIS},
        "yAxis": {"type": "value", "scale": True, **AXIS},
        "series": series,
    }
