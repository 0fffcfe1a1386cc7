"""Results: metrics that link to their rows, blame for errors, and a comparison of two runs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from nicegui import ui

from wiesel.evaluation.comparison import mcnemar
from wiesel.evaluation.intervals import paired_interval
from wiesel.io import Split
from wiesel.project.judged_items import ErrorBucket, error_buckets
from wiesel.project.labels import missing_dev_labels
from wiesel.project.next_steps import NextStep, next_steps
from wiesel.project.rows import part_of, positions
from wiesel.project.runs import KeptRun, RunView, compare_runs, effort_curves, kept_runs, view_run
from wiesel.votes import VoteMatrix
from wiesel.workbench.blame_box import BlameBox
from wiesel.workbench.chips import chip
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import AXIS, COLORS, GRAY, card, empty_state, table
from wiesel.workbench.send_box import SendBox
from wiesel.workbench.texts import cut, figure_name, percent, words

__all__ = ["ResultsPage"]

_FIGURES = ("accuracy", "f1", "macro_f1", "auc", "average_precision", "log_loss", "brier")
_CLASS_FIGURES = (
    ("name", "class"),
    ("precision", "precision"),
    ("recall", "recall"),
    ("f1", "F1"),
    ("n_gold", "errors of rows"),
)
_MATRIX = 9
"""With more classes, the largest confusions are listed instead of a matrix."""
_CONFUSIONS = 20
_CLASSES = 25
"""More classes are shown on request, the worst first."""
_LISTED = 12
_BEYOND_CHANCE = 0.05
_CONFIDENCE = """Confidence is the probability of the predicted class. In binary tasks it can be \
below 50 % if the decision threshold is not 50 %."""
_GO = {
    "train": ("train", "/train"),
    "label": ("label", "/label?way=random"),
    "rule": ("to the LFs", "/lfs"),
    "rows": ("look", "/"),
}
"""The button of each kind of next step, and where it leads."""
_FILES = {
    "predictions": "predictions.parquet",
    "soft labels": "soft_labels.parquet",
    "votes": "votes.parquet",
    "figures": "metrics.json",
}


class ResultsPage:
    """One run, and the rows behind its metrics."""

    beside: tuple[str, ...] = ("accuracy", "macro_f1", "auc")  # of other methods, the tested first

    def __init__(self, desk: Desk, name: str = "") -> None:
        self.desk, self.name, self.split = desk, name, ""
        self.all_classes = False
        self.places: Any = None
        """The training rows that are the dev rows of the run, because people labeled them here."""

    def build(self) -> None:
        """Show the page."""
        runs = kept_runs(self.desk.space.project)
        if not runs:
            empty_state(
                "There are no results yet",
                "Train a model first. Every run is kept here with all its figures.",
                "/train",
                "To training",
            )
            return
        self.runs = {run.name: run for run in runs}
        if self.name not in self.runs:
            self.name = runs[0].name
        with ui.element("div").classes("w-row"):
            self._choice("Run", {n: _title(r) for n, r in self.runs.items()}, self.name, self._run)
            self.splits = self._choice("Rows", {}, None, self._split)
            for title, file in self.files.items():
                ui.button(f"Download {title}", on_click=partial(self._download, file)).props(
                    "flat dense no-caps"
                )
            ui.button("Download model", on_click=self._download_model).props("flat dense no-caps")
            send = ui.button("Send to an annotation tool", on_click=self._send)
            send.props("flat dense no-caps").classes("send-rows")
        self.place = ui.element("div").classes("results").style("min-height: 400px; width: 100%")
        ui.timer(0.01, self.refresh, once=True)

    @property
    def files(self) -> dict[str, str]:
        """The files of the run that can be downloaded."""
        return _FILES

    def _choice(self, title: str, options: dict[str, str], value: Any, then: Any) -> ui.select:
        box = ui.select(options, value=value, label=title, on_change=lambda e: then(e.value))
        box.props("dense outlined options-dense").style("min-width: 160px")
        return box

    async def _run(self, name: str) -> None:
        if name != self.name:
            self.name, self.split = name, ""
            await self.refresh()

    async def _split(self, split: str | None) -> None:
        if split and split != self.split:
            self.split = split
            await self.refresh()

    async def refresh(self) -> None:
        """Show the chosen run."""
        found = await work(self._view)
        self.place.clear()
        if found is None:
            return
        view, report, splits, buckets, steps = found
        if self.splits.options != splits:
            self.splits.set_options(splits, value=self.split)
        with self.place:
            self._uncertain()
        with self.place, ui.element("div").classes("w-columns"):
            with ui.element("div").classes("w-stack"):
                if report is None:
                    empty_state(
                        "This run knows no gold labels of these rows",
                        self._advice(),
                        "/label",
                        "Label rows",
                    )
                else:
                    self._figures(report)
                    self._beside()
                    self._effort()
                    self._confusion(view, report)
                    self._classes(view, report)
                    self._calibration(view, report)
                    self._thresholds(view)
            with ui.element("div").classes("w-stack"):
                self._next(steps)
                self._errors(view)
                self._buckets(view, buckets)
                self.blame = BlameBox(self.desk)
                self.blame.build()
                self._compare()
                self._weights(self.runs[self.name])

    def _advice(self) -> str:
        space = self.desk.space
        if "dev" in space.splits:
            return "Choose the dev or test rows above."
        missing = missing_dev_labels(space.project, space.train, space.labels)
        if not missing:
            return "Enough randomly drawn rows are labeled now: train again to get figures."
        return f"{missing} Label more of them, and train again to get figures."

    def _next(self, steps: list[NextStep]) -> None:
        """Show what to do now, each with a button that leads there."""
        with card("What to do now"):
            if not steps:
                which = "the dev rows" if self.split == "test" else "these rows"
                words(f"Nothing stands out. Look at the errors of {which}, one by one.", "w-faint")
            for step in steps:
                with ui.element("div").classes("w-row next-step"):
                    title, page = _GO[step.kind]
                    button = ui.button(title, on_click=partial(self._go, step, page))
                    button.props("outline dense no-caps")
                    words(cut(step.text, 240)).style("flex: 1; min-width: 12em")

    def _go(self, step: NextStep, page: str) -> None:
        if step.kind == "rows":
            page = self.desk.select(*self._in_data(step.split, step.rows), step.text)
        ui.navigate.to(page)

    def _view(self) -> tuple[RunView, Any, list[str], list[ErrorBucket], list[NextStep]]:
        run, labels = self.runs[self.name], self.desk.space.labels
        there = run.predictions()["split"].unique(maintain_order=True).to_list()
        splits = [name for name in ("test", "dev", "train") if name in there]
        if self.split not in splits:
            self.split = splits[0]
        view = self.desk.space.view(run, self.split)
        self.places = None
        if self.split not in self.desk.space.splits:
            known = positions(self.desk.space.train.ids, view.ids.to_list())
            self.places = np.array([known.get(item, -1) for item in view.ids], dtype=np.int64)
        space = self.desk.space
        if not view.has_gold:
            return view, None, splits, [], next_steps(space, run, view, None, [])
        buckets = error_buckets(
            view.gold,
            view.predicted,
            self._data(view.split),
            self._votes(view.split),
            labels.names,
            space.text_column or "",
        )
        report = view.report()
        return view, report, splits, buckets, next_steps(space, run, view, report, buckets)

    def _metrics(self) -> dict[str, Any]:
        try:
            return dict(self.runs[self.name].metrics)
        except (OSError, ValueError):
            return {}

    def _uncertain(self) -> None:
        """Show what makes the figures below uncertain, and what would settle it."""
        if sentences := self._metrics().get("uncertain"):
            box = ui.element("div").style("margin-bottom: 14px")
            with box, card("Before you read the figures"):
                for sentence in sentences:
                    words(str(sentence), "run-uncertain", tag="p")

    def _data(self, split: str) -> Split:
        """Return the rows of a split; dev rows that people labeled here are training rows."""
        space = self.desk.space
        return space.splits[split] if self.places is None else part_of(space.train, self.places)

    def _votes(self, split: str) -> VoteMatrix | None:
        votes = self.desk.space.cast.by_split
        return votes.get(split) if self.places is None else votes["train"][self.places]

    def _in_data(self, split: str, rows: Any) -> tuple[str, Any]:
        """Return the split and the rows by which other pages know some rows of this view."""
        if self.places is None or split != self.split:
            return split, rows
        return "train", self.places[np.asarray(rows, dtype=np.int64)]

    def _beside(self) -> None:
        """Show all methods and baselines of the run, beside which a figure means something."""
        metrics = self._metrics()
        rows = [*metrics.get("methods", []), *metrics.get("references", [])]
        heads = [(figure_name(name), True) for name in self.beside]
        with card("Beside it: other methods and baselines, with 95 % intervals"):
            if metrics.get("verdict"):
                words(metrics["verdict"], "run-verdict")
            compared = [(f"{heads[0][0]}, to the first", True)] if any(map(_apart, rows)) else []
            with table(("method", False), *heads, *compared):
                for row in rows:
                    with ui.element("tr").classes("run-baseline"):
                        words(cut(row.get("method", ""), 40).replace("_", " "), tag="td")
                        for name in self.beside:
                            words(_with_limits(row, name), "w-number", tag="td")
                        if compared:
                            words(_apart(row), "w-number", tag="td")

    def _effort(self) -> None:
        """Show what labels have bought so far: the accuracy of each run against its labels."""
        found = effort_curves(list(self.runs.values()), self._metrics().get("judged_on"))
        if len(found.get("votes and labels", [])) > 1:
            with card("What your labels bought: accuracy by the number of labels"):
                chart = ui.echart(_lines(found, {}, {"scale": True})).classes("effort-chart")
                chart.style("height: 240px; width: 100%")

    def _figures(self, report: Any) -> None:
        heads = (("figure", False), ("value", True), ("95 % interval", True))
        with card(f"{report.n_items:,} rows with gold"), table(*heads):
            for name in _FIGURES:
                score = getattr(report, name)
                with ui.element("tr"):
                    words(figure_name(name), tag="td")
                    words("–" if score != score else f"{score:.3f}", "w-number", tag="td")  # noqa: RUF001
                    known = score.low == score.low
                    limits = f"{score.low:.3f} to {score.high:.3f}" if known else ""
                    words(limits, "w-number", tag="td")

    def _confusion(self, view: RunView, report: Any) -> None:
        if len(view.labels) > _MATRIX:
            self._largest_confusions(view, report)
            return
        names = view.labels.names
        with card("Confusion: click a cell to see its rows"):
            heads = [(f"predicted {cut(name, 20)}", True) for name in names]
            with table(("true class", False), *heads):
                for true, name in enumerate(names):
                    with ui.element("tr"):
                        words(cut(name, 30), tag="td")
                        for predicted, other in enumerate(names):
                            count = int(report.confusion[true, predicted])
                            title = f"{name} predicted as {other}"
                            rows = view.confusion_rows(true, predicted)
                            with ui.element("td").classes("w-number"):
                                self._open_button(view, f"{count:,}", rows, title, "confusion-cell")

    def _largest_confusions(self, view: RunView, report: Any) -> None:
        """Show the most frequent confusions: with many classes, nobody reads a matrix."""
        names, wrong = view.labels.names, report.confusion.copy()
        np.fill_diagonal(wrong, 0)
        with card("The largest confusions: click a number to see the rows"):
            heads = (("true class", False), ("predicted", False), ("rows", True), ("of", True))
            with table(*heads):
                for place in np.argsort(-wrong, axis=None, kind="stable")[:_CONFUSIONS]:
                    true, other = divmod(int(place), len(names))
                    if not wrong[true, other]:
                        break
                    rows = view.confusion_rows(true, other)
                    title = f"{names[true]} predicted as {names[other]}"
                    with ui.element("tr"):
                        words(cut(names[true], 40), tag="td")
                        words(cut(names[other], 40), tag="td")
                        with ui.element("td").classes("w-number"):
                            self._open_button(view, f"{len(rows):,}", rows, title, "confusion-cell")
                        words(f"{int(report.confusion[true].sum()):,}", "w-number", tag="td")

    def _classes(self, view: RunView, report: Any) -> None:
        with card("Classes: click a heading to sort"):
            self.classes = ui.element("div").classes("class-figures")
            self._show_classes(view, report, "f1")

    def _show_classes(self, view: RunView, report: Any, by: str) -> None:
        """Show precision, recall and F1 of each class, the worst first."""
        rows = sorted(
            report.per_class,
            key=lambda row: (getattr(row, by) != getattr(row, by), getattr(row, by)),
        )
        if by == "n_gold":
            rows.reverse()
        self.classes.clear()
        with (
            self.classes,
            ui.element("div").classes("w-scroll"),
            ui.element("table").classes("w-table"),
        ):
            with ui.element("thead"), ui.element("tr"):
                for name, title in _CLASS_FIGURES:
                    arrow = " ↑" if name == by else ""
                    number = [] if name == "name" else ["w-number"]
                    head = words(title + arrow, *number, tag="th")
                    head.props('tabindex="0" role="button"').style("cursor: pointer")
                    for event in ("click", "keydown.enter"):
                        head.on(event, partial(self._show_classes, view, report, name))
            with ui.element("tbody"):
                for row in rows if self.all_classes else rows[:_CLASSES]:
                    with ui.element("tr"):
                        words(cut(row.name, 40), tag="td")
                        for name in ("precision", "recall", "f1"):
                            words(percent(getattr(row, name), 1), "w-number", tag="td")
                        place = view.labels.index(row.name)
                        with ui.element("td").classes("w-number"):
                            errors = view.wrong_rows()
                            own = errors[view.gold[errors] == place]
                            text = f"{len(own):,} of {row.n_gold:,}"
                            self._open_button(view, text, own, f"errors on {row.name}")
        if len(rows) > _CLASSES and not self.all_classes:
            with self.classes:
                everything = partial(self._show_all_classes, view, report, by)
                more = ui.button(f"Show all {len(rows):,}", on_click=everything)
                more.props("flat dense no-caps").classes("classes-all")

    def _show_all_classes(self, view: RunView, report: Any, by: str) -> None:
        self.all_classes = True
        self._show_classes(view, report, by)

    def _buckets(self, view: RunView, buckets: list[ErrorBucket]) -> None:
        if not buckets:
            return
        with card("What errors have in common"):
            if view.split == "test":
                words(
                    "Rules written for errors on test rows make the figures of these rows too "
                    "good: use dev rows.",
                    "w-faint",
                )
            with table(("by", False), ("", False), ("errors", True), ("of", True)):
                for bucket in buckets:
                    with ui.element("tr").classes("error-bucket"):
                        words(cut(bucket.by, 20), tag="td")
                        words(cut(bucket.name, 60), tag="td")
                        with ui.element("td").classes("w-number"):
                            title = f"errors, {bucket.by}: {bucket.name}"
                            self._open_button(view, f"{len(bucket.rows):,}", bucket.rows, title)
                        words(f"{bucket.n_items:,}", "w-number", tag="td")

    def _open_button(self, view: RunView, text: str, rows: Any, title: str, name: str = "") -> None:
        button = ui.button(text, on_click=partial(self._open, view.split, rows, title))
        button.props("flat dense no-caps").classes(name)
        button.set_enabled(len(rows) > 0)

    def _open(self, split: str, rows: Any, title: str) -> None:
        ui.navigate.to(self.desk.select(*self._in_data(split, rows), title))

    def _calibration(self, view: RunView, report: Any) -> None:
        bins = report.calibration
        heads = (("confidence", False), ("rows", True), ("mean", True), ("accuracy", True))
        with card("Calibration: accuracy by confidence"):
            words(_CONFIDENCE, "w-faint")
            with table(*heads):
                self._bins(view, bins)

    def _bins(self, view: RunView, bins: Any) -> None:
        for number, size in enumerate(bins.n_items):
            if not size:
                continue
            low, high = bins.edges[number], bins.edges[number + 1]
            title = f"confidence {percent(low)} to {percent(high)}"
            with ui.element("tr"):
                words(title.removeprefix("confidence "), tag="td")
                with ui.element("td").classes("w-number"):
                    self._open_button(view, f"{size:,}", view.bin_rows(number), title)
                words(percent(bins.confidence[number]), "w-number", tag="td")
                words(percent(bins.accuracy[number]), "w-number", tag="td")

    def _thresholds(self, view: RunView) -> None:
        points = view.threshold_points()
        if not points:
            return
        name = cut(view.labels.names[1], 30)
        used = percent(0.5 if view.threshold is None else view.threshold)
        with card(f"Decision threshold of {name}, {used} in use: click a point to see its rows"):
            chart = ui.echart(_threshold_options(points), on_point_click=partial(self._point, view))
            chart.style("height: 240px; width: 100%")

    def _point(self, view: RunView, event: Any) -> None:
        threshold = float(event.value[0])
        rows = view.changed_rows(threshold)
        self._open(view.split, rows, f"predicted differently from {percent(threshold, 1)} on")

    def _errors(self, view: RunView) -> None:
        wrong = view.wrong_rows()
        with card("Errors, the most confident first"):
            if not len(wrong):
                words("No errors on the rows with gold labels.", "w-faint")
                return
            with ui.element("div"):
                self._open_button(view, f"all {len(wrong):,} errors", wrong, "errors")
            column = self.desk.space.text_column
            rows = self._data(view.split).rows
            for place in map(int, wrong[:_LISTED]):
                predicted = view.labels.names[view.predicted[place]]
                text = cut(rows[column][place], 90) if column else view.ids[place]
                with ui.element("div").classes("w-row"):
                    ask = partial(self._blame, view, place, predicted)
                    ui.button("why?", on_click=ask).props("flat dense no-caps").classes("ask-why")
                    words(f"{text} → {cut(predicted, 30)}").style("flex: 1; min-width: 0")

    async def _blame(self, view: RunView, place: int, label: str) -> None:
        cell = view.confusion_rows(view.gold[place], view.predicted[place])
        right = view.labels.names[view.gold[place]]
        split, rows = self._in_data(view.split, np.append(cell, place))
        await self.blame.show(split, int(rows[-1]), label, right, rows[:-1])

    def _compare(self) -> None:
        others = {name: _title(run) for name, run in self.runs.items() if name != self.name}
        with card("Compare with another run"):
            if not others:
                words("There is only one run so far.", "w-faint")
                return
            found = ui.element("div")
            self._choice("Other run", others, None, partial(self._compared, found))

    async def _compared(self, place: ui.element, name: str | None) -> None:
        if not name:
            return
        found = await work(self._apart, name)
        if found is None:
            return
        frame, rows, n_gold = found
        better = frame.filter(frame["first"] == frame["gold"]).height
        worse = frame.filter(frame["second"] == frame["gold"]).height
        place.clear()
        with place:
            words(
                f"They differ on {len(frame):,} rows: this run is right on {better:,}, the other "
                f"on {worse:,} of those with gold."
            )
            if n_gold:
                low, high = (100 * end for end in paired_interval(better, worse, n_gold))
                words(
                    f"On {n_gold:,} rows, the accuracy of this run is {low:+.1f} to {high:+.1f} "
                    f"points from the other's (95 % interval; McNemar p = "
                    f"{mcnemar(better, worse):.2g}).",
                    "run-paired",
                    tag="p",
                ).style("margin: 6px 0")
            changes = self.runs[self.name].changes(self.runs[name])
            words(f"Different here: {'; '.join(changes) or 'nothing'}.", "w-faint", tag="p")
            if rows:
                self._differences(frame.to_dicts())
                see = partial(self._open, self.split, rows, "two runs differ")
                ui.button("see all of them", on_click=see).props("flat dense no-caps")

    def _apart(self, name: str) -> tuple[pl.DataFrame, list[int], int]:
        """Return the items that two runs predict differently, their rows, and how many have gold.

        A column `text` has what the rows say, those that one of the two gets right first.
        """
        frame = compare_runs(self.runs[self.name], self.runs[name], self.split)
        split, column = self._data(self.split), self.desk.space.text_column
        places = positions(split.ids, frame["id"].to_list())
        texts = [
            cut(split.rows[column][places[item]], 160) if column and item in places else item
            for item in frame["id"].to_list()
        ]
        told = (pl.col("first") == pl.col("gold")) | (pl.col("second") == pl.col("gold"))
        frame = frame.with_columns(pl.Series("text", texts, dtype=pl.String))
        frame = frame.sort(told.fill_null(False), descending=True, maintain_order=True)
        n_gold = int(
            (view_run(self.runs[name], self.split, self.desk.space.labels).gold >= 0).sum()
        )
        return frame, list(places.values()), n_gold

    def _differences(self, rows: list[dict[str, Any]]) -> None:
        """Show the first items on which two runs differ, side by side."""
        heads = (("row", False), ("this run", False), ("other", False), ("gold", False))
        with table(*heads):
            for row in rows[:_LISTED]:
                with ui.element("tr").classes("run-difference"):
                    words(row["text"], tag="td").props('dir="auto"')
                    for name in ("first", "second", "gold"):
                        with ui.element("td"):
                            if row[name] is not None:
                                chip(self.desk, str(row[name]))

    def _weights(self, run: KeptRun) -> None:
        pairs = zip(run.about.get("voters", []), run.about.get("weights", []), strict=False)
        known = [(voter, weight) for voter, weight in pairs if weight is not None]
        if not known:
            return
        with card("Learned weights"), table(("voter", False), ("weight", True)):
            for voter, weight in sorted(known, key=lambda pair: -pair[1])[:40]:
                with ui.element("tr"):
                    words(cut(voter, 50), tag="td")
                    words(f"{weight:.2f}", "w-number", tag="td")

    def _send(self) -> None:
        if self.split:
            rows = np.arange(len(self._data(self.split)))
            SendBox(self.desk).ask(*self._in_data(self.split, rows))

    async def _download(self, file: str) -> None:
        path = self.runs[self.name].folder / file
        content = await work(path.read_bytes)
        if content is not None:
            ui.download.content(content, f"{self.name}-{file}")

    async def _download_model(self) -> None:
        content = await work(self.runs[self.name].model_archive)
        if content is not None:
            ui.download.content(content, f"{self.name}-model.zip")


def _title(run: KeptRun) -> str:
    methods = ", ".join(run.about.get("methods", [])[:2])
    return f"{run.title or run.name} {methods}"


def _with_limits(row: dict[str, Any], name: str) -> str:
    """A figure with its interval; runs of earlier versions have none."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    limits = "" if low is None or high is None else f" ({percent(low)} to {percent(high)})"
    return percent(row.get(name), 1) + limits


def _apart(row: dict[str, Any]) -> str:
    """The difference to the first method, in points, and whether it may be chance."""
    if row.get("difference") is None:
        return ""
    value, low, high = (100 * row[f"difference{end}"] for end in ("", "_low", "_high"))
    chance = "" if row["p_value"] < _BEYOND_CHANCE else ", may be chance"
    return f"{value:+.1f} ({low:+.0f} to {high:+.0f}){chance}"


def _threshold_options(points: list[Any]) -> dict[str, Any]:
    found = {
        name: [(round(p.threshold, 4), getattr(p, name)) for p in points]
        for name in ("precision", "recall", "f1")
    }
    return _lines(found, {"max": 1}, {"min": 0})


def _lines(
    found: Mapping[str, Sequence[tuple[float, float]]], x: dict[str, Any], y: dict[str, Any]
) -> dict[str, Any]:
    """The options of a chart of lines, each with points (x, y) and a name."""
    return {
        "animation": False,
        "color": COLORS,
        "grid": {"left": 40, "right": 10, "top": 30, "bottom": 26},
        "legend": {"top": 0, "textStyle": {"color": GRAY}},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {"type": "value", "min": 0, **x, **AXIS},
        "yAxis": {"type": "value", "max": 1, **y, **AXIS},
        "series": [
            {
                "name": name,
                "type": "line",
                "symbolSize": 7,
                "data": [[place, round(value, 4)] for place, value in own],
            }
            for name, own in found.items()
        ],
    }
