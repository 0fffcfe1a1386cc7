"""Shared by the two studies with random voters: rows, the table of AUCs, the learning curves.

One voter is the truth, the others are random; features and gold are those of imdb_136. A method
recovers if it matches the same network trained on the truth. The learning rate is 1e-4; the epoch
is selected by validation AUC. The curves show validation AUC, because test labels are used only
once, at the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import SIGNED, Choices, Effort, Row, chosen
from experiments.framework.figures import Panel, draw_panels
from experiments.framework.runner import Record
from experiments.framework.tables import percentages, spread, write_page

SET = "imdb_136"
EPOCHS = 30
SEEDS = {"full_seeds": 5}

GOLD = Row("gold", "gold")
METHODS = (
    Row("WeaSEL", "weasel", SIGNED),
    Row("WeaSEL, tau_2 of the code", "weasel", {**SIGNED, "tau_2": "sqrt_input"}),
    Row("Snorkel", "snorkel"),
    Row("Triplet", "triplet"),
    Row("Triplet-Mean", "triplet_mean"),
    Row("Triplet-Median", "triplet_median"),
    Row("majority vote", "majority_vote"),
)
VARIANTS = (
    Row("tau_1 = 1/5", "weasel", {**SIGNED, "tau_1": 1 / 5}),
    Row("tau_1 = 1/3", "weasel", {**SIGNED, "tau_1": 1 / 3}),
    Row("tau_1 = 2", "weasel", {**SIGNED, "tau_1": 2.0}),
    Row("tau_2 = 1", "weasel", {**SIGNED, "tau_2": 1.0}),
    Row("votes only", "weasel", {**SIGNED, "encoder_features": False}),
    Row("sigmoid", "weasel", {**SIGNED, "activation": "sigmoid"}),
    Row("no stop-gradient", "weasel", {**SIGNED, "loss": "no_stop_gradient"}),
    Row("CE(P_f, P_e), asymmetric", "weasel", {**SIGNED, "loss": "encoder_target"}),
)
"""WeaSEL itself has tau_1 = 1."""


Results = Mapping[tuple[str, int], list[Record]]
"""The runs of every seed by row and number of coins."""

NONE = np.empty(0)


@dataclass(frozen=True)
class Study:
    """One way of planting coins, and their numbers."""

    name: str
    option: str
    """The run option for the number of coins."""
    counts: tuple[int, ...]
    reduced: tuple[int, ...]
    """The counts in the reduced form."""
    shown: tuple[int, ...]
    """The counts whose learning curves are drawn; the variants always run at these counts."""
    extra: tuple[Row, ...] = ()
    """Further rows, without learning curves."""
    encoder_epochs: int = EPOCHS
    """The maximum number of epochs for rows with an encoder."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows of the table."""
        return (*METHODS, *self.extra, *VARIANTS)

    def counts_of(self, effort: Effort) -> tuple[int, ...]:
        """Return the number of coins in each column."""
        return self.counts if effort.full else self.reduced

    def choices_of(self, row: Row, count: int, effort: Effort) -> Choices:
        """Return the runs of one cell; the coins are the same for all seeds."""
        epochs = self.encoder_epochs if row.method == "weasel" else EPOCHS
        setting = {"epochs": epochs, self.option: count, "draw": 0}
        return row.runs(SET, effort.seeds, (1e-4,), setting)

    def definitions(self, effort: Effort) -> dict[tuple[str, int], Choices]:
        """Return the runs by row and count."""
        found: dict[tuple[str, int], Choices] = {}
        for count in self.counts_of(effort):
            with_variants = effort.full or count in self.shown
            rows = self.rows if with_variants else (*METHODS, *self.extra)
            found |= {(row.title, count): self.choices_of(row, count, effort) for row in rows}
        return found

    def main(self, argv: list[str], description: str | None) -> None:
        """Run what is missing, and write the table and the figure."""
        effort = Effort.parsed(argv, description, **SEEDS)
        found, gold = self.results(effort)
        self.write(found, gold, effort)
        self.draw(found, gold)

    def results(self, effort: Effort) -> tuple[Results, list[Record]]:
        """Run what is missing; return the runs by row and count, and those on gold."""
        rows = self.definitions(effort)
        gold = GOLD.runs(SET, effort.seeds, (1e-4,), {"epochs": EPOCHS})
        truth = chosen(gold, effort.obtain("duplicates", [gold]))  # shared by both studies
        done = effort.obtain(self.name, rows.values())
        return {place: chosen(choices, done) for place, choices in rows.items()}, truth

    def write(self, found: Results, gold: list[Record], effort: Effort) -> None:
        """Write AUC by row and count, and the distance to gold."""
        areas = {place: percentages(records, "auc") for place, records in found.items()}
        truth, counts = percentages(gold, "auc"), self.counts_of(effort)
        cells = [
            [row.title, *(spread(areas.get((row.title, count), NONE)) for count in counts)]
            for row in self.rows
        ]
        below = {n: truth.mean() - areas["WeaSEL", n] for n in counts if len(areas["WeaSEL", n])}
        gaps = ", ".join(f"{gap.mean():.2f} at {count:,}" for count, gap in below.items())
        lines = [
            f"Test ROC-AUC in percent, mean ± deviation over {effort.seeds} seeds, by the number "
            f"of coins; at most {EPOCHS} epochs, with an encoder {self.encoder_epochs}. The same "
            f"network trained on the truth: {spread(truth)}.",
            "",
            markdown_table(["", *(f"{count:,}" for count in counts)], cells),
            "",
            f"How far the mean of WeaSEL is below gold, in points: {gaps}.",
            "",
            f"![learning curves]({self.name}.png)",
        ]
        write_page(self.name, f"python -m experiments {self.name} {effort.words}", lines)

    def draw(self, found: Results, gold: list[Record]) -> None:
        """Draw the learning curves of methods, then variants, at the counts in `shown`."""
        level = {"gold (best epoch)": float(np.mean([record["validation"] for record in gold]))}
        panels = []
        for rows, what in ((METHODS, "methods"), ((METHODS[0], *VARIANTS), "variants of WeaSEL")):
            for count in self.shown:
                done = [row.title for row in rows if found[row.title, count]]
                lines = {title: _curves(found[title, count]) for title in done}
                panels.append(Panel(f"{count:,} coins, {what}", lines, level))
        draw_panels(self.name, panels, "epoch", "validation ROC-AUC")


def _curves(records: Sequence[Record]) -> np.ndarray:
    return np.array([record["curve"] for record in records])
