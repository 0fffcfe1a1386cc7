"""How much each person labeled, their agreement, and the disagreements to resolve."""

from collections import Counter
from functools import partial
from typing import Any

import polars as pl
from nicegui import ui

from wiesel.analysis.workers import label_disagreements
from wiesel.io import RESOLVED
from wiesel.project.labels import people_labels
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import card, table
from wiesel.workbench.row_view import open_row
from wiesel.workbench.texts import cut, percent, words

__all__ = ["PeopleBox"]

_LISTED = 10


class PeopleBox:
    """Counts, agreement and disagreements."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.apart: list[dict[str, Any]] = []

    def build(self) -> None:
        """Show the boxes."""
        with card("Labels"):
            self.counts = ui.element("div").classes("label-counts").style("min-height: 90px")
        with card("Agreement"), ui.element("div").style("min-height: 60px"):
            self.agreement = ui.element("div")
            self.open = ui.element("div")

    async def refresh(self) -> None:
        """Show the current state."""
        found = await work(self._figures, quiet=True)
        if found is None:
            return
        people, labels, pairs, apart = found
        self.counts.clear()
        with self.counts:
            self._counts(people, labels)
        self.agreement.clear()
        with self.agreement:
            self._pairs(pairs)
        if apart == self.apart:
            return  # do not redraw under a user who is about to press a button
        self.apart = apart
        self.open.clear()
        with self.open:
            self._apart(apart)

    def _figures(self) -> tuple[Any, ...]:
        store = self.desk.space.store
        answers = store.answers()
        own = answers.filter(pl.col("person") != RESOLVED)
        people = own.filter(pl.col("label").is_not_null())["person"].value_counts(sort=True)
        labels = people_labels(store, self.desk.space.answers)
        settled = set(labels.filter(pl.col("agreed"))["item"])
        apart = [row for row in label_disagreements(own).to_dicts() if row["item"] not in settled]
        for row in apart:
            there = own.filter((pl.col("item") == row["item"]) & pl.col("label").is_not_null())
            row["said"] = there.select("person", "label").rows()
        pairs = self.desk.space.answers.agreement(own)
        return people.to_dicts(), labels, pairs, apart

    def _counts(self, people: list[dict[str, Any]], labels: pl.DataFrame) -> None:
        known = labels.drop_nulls("label")
        if not len(known):
            words("No row is labeled yet.", "w-faint")
            return
        honest = known.filter(pl.col("purpose") == "evaluate")
        words(
            f"{len(known):,} row{'' if len(known) == 1 else 's'} labeled, {len(honest):,} of them "
            "drawn at random to evaluate on"
        )
        answers = self.desk.space.answers
        counts = Counter(name for text in known["label"] for name in answers.labels_in(text))
        for name, count in counts.most_common():
            words(f"{cut(name, 40)}: {count:,}", "w-faint", tag="div")
        for row in people:
            words(f"by {cut(row['person'], 40)}: {row['count']:,}", "w-faint", tag="div")

    def _pairs(self, pairs: Any) -> None:
        words(pairs.caption, "w-faint")
        if "agreement" not in pairs.frame.columns or not len(pairs.frame):
            return
        heads = [("", False), ("", False), ("both", True), ("agree", True)]
        has_kappa = "kappa" in pairs.frame.columns
        with table(*heads, *([("kappa", True)] if has_kappa else [])):
            for row in pairs.to_records()[:_LISTED]:
                with ui.element("tr"):
                    words(cut(row["first"], 24), tag="td")
                    words(cut(row["second"], 24), tag="td")
                    words(str(row["both"]), "w-number", tag="td")
                    words(percent(row["agreement"]), "w-number", tag="td")
                    if not has_kappa:
                        continue
                    kappa = "–" if row["kappa"] is None else f"{row['kappa']:.2f}"  # noqa: RUF001
                    words(kappa, "w-number", tag="td")

    def _apart(self, apart: list[dict[str, Any]]) -> None:
        if not apart:
            return
        answers = self.desk.space.answers
        words(f"{len(apart)} row{'' if len(apart) == 1 else 's'} to resolve", "w-h3", tag="h3")
        for row in apart[:_LISTED]:
            with ui.element("div").classes("w-row settle"):
                ui.button(cut(row["item"], 24), on_click=partial(self._open, row["item"])).props(
                    "flat dense no-caps"
                )
                said = [f"{person}: {answers.shown(text)}" for person, text in row["said"]]
                words(cut(", ".join(said), 100), "w-faint")
                for text in answers.choices([text for _, text in row["said"]]):
                    settle = partial(self._settle, row["item"], text)
                    ui.button(cut(answers.shown(text), 40), on_click=settle).props(
                        "outline dense no-caps"
                    )

    async def _open(self, item: str) -> None:
        place = await work(self.desk.place_of, item)
        if place is not None:
            await open_row(self.desk, "train", place)

    async def _settle(self, item: str, label: str) -> None:
        await work(self.desk.space.store.resolve, item, label)
        self.desk.changed(labels_only=True)
        await self.refresh()
