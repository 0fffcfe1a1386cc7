"""Sends rows with predictions or labels to an annotation tool, as a file that it imports."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from nicegui import ui

from wiesel.errors import DataError
from wiesel.io import write_predictions
from wiesel.labels import ABSTAIN
from wiesel.project.settings import SEVERAL_LABELS, SPANS
from wiesel.saving import write_file
from wiesel.spans.formats import annotated_content
from wiesel.spans.tags import Span
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import heading
from wiesel.workbench.mark_page import longest
from wiesel.workbench.texts import words

__all__ = ["SendBox"]

_TOOLS = {
    "label_studio": ("Label Studio", ".json", "In the project: Import, then this file."),
    "doccano": ("doccano", ".jsonl", "In the project: Dataset, Import, format JSONL."),
    "prodigy": ("Prodigy", ".jsonl", "prodigy db-in my-dataset this-file.jsonl"),
    "argilla": ("Argilla", ".json", "Read the list with json.load, and log its records."),
}
"""Each tool: its name, the suffix of its files, and what to do with one."""
_WHAT = {
    "predicted": "what the model predicts",
    "votes": "what the votes say, for rows with a vote",
    "labels": "the labels that people gave",
}


class SendBox:
    """Asks for a tool, and writes the file."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self, split: str, rows: Any) -> None:
        """Ask to which tool the rows go."""
        rows = np.asarray(rows)
        with ui.context.client.content, ui.dialog() as dialog, ui.card() as box:
            box.style("max-width: 560px; width: 100%")
            heading(f"Send {len(rows):,} {split} rows to an annotation tool")
            tools = {name: title for name, (title, *_) in _TOOLS.items()}
            tool = ui.select(tools, value="label_studio", label="Tool").classes("send-tool")
            what = ui.select(_WHAT, value="predicted", label="With").classes("send-what")
            for choice in (tool, what):
                choice.props("outlined dense options-dense").style("width: 100%")
            words(
                "This writes a file that the tool imports; nothing is sent over the network. "
                "Answers come back with `wiesel inspect` or as votes in wiesel.toml.",
                "w-faint",
            )
            button = ui.button("Write the file").props("unelevated no-caps")
            button.classes("send-go")
            done = ui.element("div").classes("send-done w-stack")
            button.on_click(partial(self._send, split, rows, tool, what, done))
        dialog.on("hide", dialog.delete)
        dialog.open()

    async def _send(self, split: str, rows: Any, tool: Any, what: Any, done: Any) -> None:
        if tool.value not in _TOOLS or what.value not in _WHAT:
            return
        found = await work(self._write, split, rows, tool.value, what.value)
        done.clear()
        if found is None:
            return
        path, n_rows = found
        with done:
            words(f"{n_rows:,} rows are in {path}.", "w-bad" if not n_rows else "")
            words(_TOOLS[tool.value][2], "w-code", tag="pre")
        ui.download.file(path, path.name)

    def _write(self, split: str, rows: Any, tool: str, what: str) -> tuple[Path, int]:
        space = self.desk.space
        place = space.project.output_folder / "sent"
        path = place / f"{tool}-{split}-{what}{_TOOLS[tool][1]}"
        if space.project.task == SPANS:
            marked = list(self._marked(split, rows, what))
            _require(marked, rows, what)
            documents = space.documents[split].select([row for row, _ in marked])  # type: ignore[attr-defined]
            content = annotated_content(documents, [found for _, found in marked], path, tool)
            place.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
            return path, len(marked)
        several = space.project.task == SEVERAL_LABELS
        proba = (self._sets if several else self._proba)(split, what)[rows]
        known = np.isfinite(proba).all(axis=1)
        _require(known.any(), rows, what)
        frame = space.splits[split].rows[rows[known]].with_columns(pl.col("id").cast(pl.String))
        column = space.text_column
        if column is not None and column != "text" and "text" not in frame.columns:
            frame = frame.rename({column: "text"})  # what all tools show
        place.mkdir(parents=True, exist_ok=True)
        # Labels of people are answers when they come back; predictions of ours are not.
        name = "workbench" if what == "labels" else "wiesel"
        write_predictions(path, frame, proba[known], space.labels, tool=tool, name=name)
        return path, len(frame)

    def _marked(self, split: str, rows: Any, what: str) -> Iterator[tuple[int, list[Span]]]:
        """Yield the spans of every row of which they are known."""
        space: Any = self.desk.space
        found = self.desk.predictions(split) if what == "predicted" else None
        for row in rows.tolist():
            if found is not None:
                yield row, [Span(*span) for span in found.predicted[row]]
            elif what == "labels" and space.gold_of(split)[row] is not None:
                yield row, space.gold_of(split)[row]
            elif what == "votes":
                marked = longest([span for _, span in space.spans_on(split, row)])
                if marked:
                    yield row, marked

    def _sets(self, split: str, what: str) -> Any:
        """Return 1 for each label that a row of a split has, 0 for others; NaN if not known."""
        space = self.desk.space
        found = np.full((len(space.splits[split]), len(space.labels)), np.nan)
        if what == "labels":
            gold = space.gold_of(split)
            known = (gold >= 0).all(axis=1)
            found[known] = gold[known]
        elif what == "votes" and split in space.cast.by_split:
            counts = [own.counts() for own in space.cast.by_split[split].matrices]
            more = np.stack([own[:, 1] > own[:, 0] for own in counts], axis=1)
            voted = np.stack([own.sum(axis=1) > 0 for own in counts], axis=1).any(axis=1)
            found[voted] = more[voted]
        elif what == "predicted":
            predictions = self.desk.predictions(split)
            found = found if predictions is None else np.array(predictions.predicted, dtype=float)
        return found

    def _proba(self, split: str, what: str) -> Any:
        """Return P(class) of every row of a split; NaN where it is not known."""
        space = self.desk.space
        names, n_rows = space.labels.names, len(space.splits[split])
        proba = np.full((n_rows, len(names)), np.nan)
        if what == "labels":
            gold = space.gold if split == "train" else space.splits[split].gold
            known = gold != ABSTAIN
            proba[known] = np.eye(len(names))[gold[known]]
        elif what == "votes":
            votes = space.cast.by_split.get(split)
            if votes is not None:
                counts = votes.counts()
                known = counts.sum(axis=1) > 0
                proba[known] = counts[known] / counts[known].sum(axis=1, keepdims=True)
        else:
            found = self.desk.predictions(split)
            if found is not None:
                # The tool gets the predicted class, which a threshold may have decided.
                proba = np.array(found.proba)
                asked = found.predicted >= 0  # of a million rows, a preview knows some
                best = asked & (proba.argmax(axis=1) != found.predicted)
                proba[best] = np.eye(len(names))[found.predicted[best]]
        return proba


def _require(known: Any, rows: Any, what: str) -> None:
    if not known:
        raise DataError(f"None of these {len(rows):,} rows has {_WHAT[what]}.")
