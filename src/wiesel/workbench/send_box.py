"""Sends rows with predictions or labels to an annotation tool, as a file that it imports."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from nicegui import ui

from wiesel.errors import DataError
from wiesel.io import write_predictions
from wiesel.labels import ABSTAIN
from wiesel.workbench.desk import Desk, work
from wiesel.workbench.layout import heading
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
        proba = self._proba(split, what)[rows]
        known = np.isfinite(proba).all(axis=1)
        if not known.any():
            raise DataError(f"None of these {len(rows):,} rows has {_WHAT[what]}.")
        frame = space.splits[split].rows[rows[known]].with_columns(pl.col("id").cast(pl.String))
        column = space.text_column
        if column is not None and column != "text" and "text" not in frame.columns:
            frame = frame.rename({column: "text"})  # what all tools show
        place = space.project.output_folder / "sent"
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{tool}-{split}-{what}{_TOOLS[tool][1]}"
        # Labels of people are answers when they come back; predictions of ours are not.
        name = "workbench" if what == "labels" else "wiesel"
        write_predictions(path, frame, proba[known], space.labels, tool=tool, name=name)
        return path, len(frame)

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
                best = proba.argmax(axis=1) != found.predicted
                proba[best] = np.eye(len(names))[found.predicted[best]]
        return proba
