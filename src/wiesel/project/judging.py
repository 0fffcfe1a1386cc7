"""The results of a run: every model on the rows with gold, and references without votes."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.findings import Finding
from wiesel.analysis.table import Table, count, number, percent, text
from wiesel.compare import Judged, judged_rows, score_table, verdict_of
from wiesel.end_to_end.linear_models import held_out_proba
from wiesel.errors import DataError
from wiesel.evaluation import Comparison, corrected_shares
from wiesel.evaluation.comparison import LABELS_ALONE, without_labels
from wiesel.evaluation.metrics import predicted_classes
from wiesel.explain import Explanation
from wiesel.io import write_rows
from wiesel.labels import ABSTAIN
from wiesel.lfs import LabelingFunction, prompt_records
from wiesel.lfs.costs import prompts_of
from wiesel.project.insights import project_findings, with_examples
from wiesel.project.judged_items import slice_rows
from wiesel.project.kinds import RESAMPLES, ProjectKind
from wiesel.project.rows import ProjectRows, part_of
from wiesel.project.training import Trained, TrainingSet
from wiesel.project.vectors import rows_of_arrays
from wiesel.project.voting import VotesBySplit
from wiesel.training import as_inputs
from wiesel.version import __version__

__all__ = ["Distilled", "Outcome", "Prepared", "distilled", "judge", "write_judge_errors"]

_UNCERTAIN = ("members_disagree", "unknown_balance")
"""The findings that say how far the figures can be trusted: they come before these."""
_TIMED = 2_000
"""Items whose prediction is timed."""
_MOST_ERRORS = 100
_SLICES = 5


@dataclass(frozen=True)
class Prepared:
    """Everything up to training."""

    data: TrainingSet
    votes: VotesBySplit
    rows: ProjectRows

    @property
    def lfs(self) -> Sequence[LabelingFunction]:
        """The labeling functions; none if votes come from another source."""
        return () if self.rows.lfs is None else tuple(self.rows.lfs)


@dataclass(frozen=True)
class Distilled:
    """The small model against the judges, and what the judges probably got wrong."""

    judges: Table
    """A row for each judge: its accuracy and the model's on the same items, refusals, price."""
    slices: Table
    """The slices on which the model loses or gains most against the best judge."""
    shares: Table | None
    """The share of each class in all rows, corrected by the gold labels; None if unknown."""
    shares_problem: str
    """Why it is unknown; empty if it is known."""
    errors: pl.DataFrame
    """Votes of judges that a model not trained on the item finds unlikely, most unlikely first."""
    items_per_second: float
    """How many items the network predicts in a second, without making their features."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "judges": self.judges.to_records(),
            "slices": self.slices.to_records(),
            "class_shares": None if self.shares is None else self.shares.to_records(),
            "n_errors": len(self.errors),
            "items_per_second": self.items_per_second,
            "cost_per_prediction": 0.0,
        }

    def __str__(self) -> str:
        parts = [self.judges.to_text()]
        parts += [self.slices.to_text()] if len(self.slices) else []
        unknown = f"Class shares of all rows are unknown. {self.shares_problem}"
        parts += [unknown if self.shares is None else self.shares.to_text()]
        parts.append(
            f"A prediction costs nothing now; the network makes about "
            f"{self.items_per_second:,.0f} a second. {len(self.errors):,} votes of judges look "
            "wrong to a linear model that was not trained on their items: judge_errors.csv."
        )
        return "\n\n".join(parts)


@dataclass(frozen=True)
class Outcome:
    """The results of a run, for the terminal, the report and metrics.json."""

    prepared: Prepared
    trained: Sequence[Trained]
    reports: Mapping[str, Mapping[str, Any]]
    """Reports by method (first seed) and split."""
    rows: Sequence[Mapping[str, Any]]
    """The metrics of every method and seed, on the test rows if there are any, else on dev."""
    choice: Mapping[str, float]
    """The mean over seeds of each method's main metric, on the dev rows if there are any.

    Test rows serve to evaluate a choice, not to make it.
    """
    proba: Mapping[str, Any]
    """The main model's predictions for every split: probabilities, or spans."""
    soft_labels: Any = None
    weights: Any = ()
    """The weight of every voter (learned), or NaN."""
    paired: Comparison | None = None
    """The main model against the majority vote, on the same items."""
    references: Mapping[str, Any] = field(default_factory=dict)
    """Baselines on the same items: the most common class, labels alone, votes alone."""
    reference_rows: Sequence[Mapping[str, Any]] = ()
    """The metrics of the references, as in `rows`."""
    verdict: str = ""
    """Whether votes beat labels, in a sentence; empty without labels."""

    @property
    def data(self) -> TrainingSet:
        """What the models were trained on."""
        return self.prepared.data

    @property
    def kind(self) -> ProjectKind:
        """What the kind of task means for the project."""
        return self.data.kind

    @property
    def main(self) -> Trained:
        """The first method with its first seed: the model that is saved."""
        return self.trained[0]

    @property
    def judged_on(self) -> str | None:
        """The split that the metrics refer to."""
        judged = next(iter(self.reports.values()))
        return next((name for name in ("test", "dev") if name in judged), None)

    @property
    def headline(self) -> str:
        """How good the main model is and whether it beats the labels, in at most two sentences."""
        split, kind = self.judged_on, self.kind
        if split is None:
            return (
                "Nobody knows yet how good this model is: there are no labels to judge it. "
                "Label 20 random rows."
            )
        score = kind.figures(self.reports[self.main.method][split])[kind.best_by]
        low, high = (100 * getattr(score, name, math.nan) for name in ("low", "high"))
        limits = "" if math.isnan(low) else f" (95 % interval {low:.1f} to {high:.1f})"
        on = f"{len(self.data.splits[split]):,} {split} {kind.items}"
        first = f"{self.main.method}: {kind.best_in_words} {100 * score:.1f} %{limits} on {on}."
        return f"{first} {self.verdict}".strip()

    def explanations(self, n_items: int) -> list[Explanation]:
        """Explain the labels of the first training items with a vote, if the method can."""
        data, model = self.data, self.main.model
        if not hasattr(model, "explain"):
            return []
        rows = self.voted[:n_items]
        return [
            model.explain(rows_of_arrays(data.vectors.train, row), data.votes[int(row)])
            for row in rows
        ]

    @cached_property
    def findings(self) -> list[Finding]:
        """What to look at, most serious first."""
        data = self.data
        inputs = data.vectors.train
        is_matrix = hasattr(inputs, "ndim") and inputs.ndim == 2 and inputs.dtype.kind == "f"
        return project_findings(
            self.prepared.votes.by_split,
            data.splits,
            inputs if is_matrix else None,
            data.project.features.column,
            data.project.class_balance,
            self.main.model.selection_.get("agreement"),
        )

    @cached_property
    def distilled(self) -> Distilled | None:
        """The model against the language models it learned from; None if there are none."""
        return distilled(self)

    @property
    def uncertain(self) -> list[str]:
        """What makes all figures uncertain, and what would settle it."""
        return [found.sentence for found in self.findings if found.kind in _UNCERTAIN]

    @property
    def finding_sentences(self) -> list[str]:
        """The findings as sentences, each with an example row if there is one."""
        data = self.data
        rows, column = data.splits["train"].rows, data.project.features.column
        return [with_examples(found, rows, column) for found in self.findings]

    @property
    def first_voted(self) -> str:
        """The first training item with a vote, in the form that `wiesel explain` takes."""
        splits = self.data.splits
        item = str(self.data.votes.ids[self.voted[0]])
        others = [split for name, split in splits.items() if name != "train"]
        twice = any(split.ids.cast(pl.String).index_of(item) is not None for split in others)
        return f"train:{item}" if twice else item

    @property
    def voted(self) -> Any:
        """The training items with a vote."""
        covered = self.data.votes.covered
        return np.flatnonzero(covered.any(axis=1) if covered.ndim == 2 else covered)

    @property
    def table(self) -> Table | None:
        """One row for each method and reference, and the sentence on votes and labels."""
        split = self.judged_on
        if split is None:
            return None
        n_items = int(self.kind.known(self.data.truth[split]).sum())
        caption = f"On {n_items:,} {split} {self.kind.items}"
        return score_table([*self.rows, *self.reference_rows], caption, self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """Return all metrics of the run as plain data."""
        main = self.reports.get(self.main.method, {})
        return {
            "wiesel": __version__,
            "project": self.data.project.name,
            "method": self.main.method,
            "seeds": list(self.data.project.method.seeds),
            **self.kind.about_data(self),
            "references": self.known_rows(self.reference_rows),
            "verdict": self.verdict or None,
            "judged_on": self.judged_on,
            "splits": {name: report.to_dict() for name, report in main.items()},
            "methods": self.known_rows(self.rows),
            "reused": {
                "votes": self.prepared.votes.known,
                "features": self.data.vectors.reused,
                "models": sum(run.reused for run in self.trained),
            },
        }

    def known_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return metrics with None for those that are unknown."""
        return [
            {
                key: None if isinstance(value, float) and np.isnan(value) else value
                for key, value in row.items()
            }
            for row in rows
        ]

    def __str__(self) -> str:
        return "\n\n".join(self.kind.shown(self))


def _reference(data: Any, title: str, run: Trained, split: str) -> tuple[Judged, Any]:
    """A trained baseline on a split, with its report."""
    kind = data.kind
    predicted = kind.predicted(data, run.model, split)
    report = kind.report(data, run, split, predicted, RESAMPLES)
    right = kind.right(data, run, split, predicted)
    return Judged(title, run.seed, run.seconds, kind.figures(report), right), report


def judge(
    prepared: Prepared,
    trained: Sequence[Trained],
    on_labels: Trained | None = None,
    on_votes: Trained | None = None,
) -> Outcome:
    """Evaluate every model on the rows with gold, and the baselines on the last of these splits.

    `on_labels` learned gold labels and no votes, `on_votes` votes and no labels.
    """
    data, kind = prepared.data, prepared.data.kind
    judged = [name for name in ("dev", "test") if name in data.truth]
    reports: dict[str, dict[str, Any]] = {}
    runs: list[Judged] = []
    first_runs: dict[str, Any] = {}
    chosen_by: dict[str, list[float]] = {}
    for run in trained:
        predicted = {name: kind.predicted(data, run.model, name) for name in judged}
        found = {name: kind.report(data, run, name, predicted[name], RESAMPLES) for name in judged}
        if run.method not in reports:
            reports[run.method], first_runs[run.method] = found, (run, predicted)
        if judged:
            split = judged[-1]
            right = kind.right(data, run, split, predicted[split])
            figures = kind.figures(found[split])
            runs.append(Judged(run.method, run.seed, run.seconds, figures, right))
            best_by = float(kind.figures(found[judged[0]])[kind.best_by])
            chosen_by.setdefault(run.method, []).append(0.0 if np.isnan(best_by) else best_by)
    main = trained[0]
    others = [name for name in data.splits if name not in judged]
    unjudged = {name: kind.predicted(data, main.model, name) for name in others}
    references: list[tuple[Judged, Any]] = []
    if judged:
        references = kind.references(data, main, judged[-1])
        titles = f"{LABELS_ALONE}: end model", without_labels(main.method)
        for title, model in zip(titles, (on_labels, on_votes), strict=True):
            if model is not None:
                references.append(_reference(data, title, model, judged[-1]))
    everything = [*runs, *(each for each, _ in references)]
    rows = judged_rows(everything)
    return Outcome(
        prepared=prepared,
        trained=trained,
        reports=reports,
        rows=rows[: len(runs)],
        choice={name: float(np.mean(scores)) for name, scores in chosen_by.items()},
        proba={**unjudged, **first_runs[main.method][1]},
        references={each.method: report for each, report in references},
        reference_rows=rows[len(runs) :],
        verdict=verdict_of(everything, kind.best_in_words) if runs else "",
        **kind.more_results(data, first_runs, judged[-1] if judged else None),
    )


def distilled(outcome: "Outcome") -> Distilled | None:
    """Return the comparison with the prompts behind a run; None if there are none."""
    judges = [lf.name for lf in prompts_of(outcome.prepared.lfs)] if outcome.prepared.lfs else []
    if not judges:
        return None
    records = prompt_records(outcome.prepared.lfs, outcome.data.splits["train"].rows)
    right = _right(outcome, judges)
    return Distilled(
        _judge_table(judges, right, records),
        _slice_table(outcome, judges, right),
        *_class_shares(outcome),
        _judge_errors(outcome, judges),
        _speed(outcome),
    )


def write_judge_errors(found: Distilled | None, folder: Path) -> None:
    """Write the votes that look wrong, or remove those of an earlier run."""
    path = folder / "judge_errors.csv"
    if found is None:
        path.unlink(missing_ok=True)
    else:
        write_rows(found.errors, path)


def _right(outcome: "Outcome", judges: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
    """Whether each judge, and the model as '', is right on the items with gold; NaN: abstains."""
    split = outcome.judged_on
    votes = outcome.prepared.votes.by_split.get(split or "")
    if split is None or votes is None:
        return {}
    gold = outcome.data.splits[split].gold
    known = np.flatnonzero(gold != ABSTAIN)
    dense = votes[known].select(list(judges)).dense()
    predicted = predicted_classes(outcome.proba[split], outcome.main.model.threshold_)[known]
    found = {"": (predicted == gold[known]).astype(float)}
    for place, judge in enumerate(judges):
        own = dense[:, place]
        found[judge] = np.where(own == ABSTAIN, np.nan, own == gold[known])
    return found


def _judge_table(
    judges: Sequence[str],
    right: Mapping[str, npt.NDArray[np.float64]],
    records: Mapping[str, Mapping[str, Any]],
) -> Table:
    rows = []
    for judge in judges:
        record = records[judge]
        voted = ~np.isnan(right[judge]) if right else np.zeros(0, bool)
        cost, n_rows = record.get("cost"), record.get("rows", 0)
        rows.append(
            {
                "judge": judge,
                "model": record["model"],
                "items": int(voted.sum()),
                "accuracy": float(right[judge][voted].mean()) if voted.any() else None,
                "small_model": float(right[""][voted].mean()) if voted.any() else None,
                "unreadable": sum(record.get("unreadable", {}).values()),
                "cost_per_1000": 1000 * cost / n_rows if cost is not None and n_rows else None,
            }
        )
    kinds = {"accuracy": pl.Float64, "small_model": pl.Float64, "cost_per_1000": pl.Float64}
    columns = (text("judge"), text("model"), count("items"), percent("accuracy"))
    more = (percent("small_model", "small model"), count("unreadable"))
    caption = "The small model against the judges it learned from, on the items with gold."
    last = number("cost_per_1000", "price of 1,000")
    return Table(pl.DataFrame(rows, schema_overrides=kinds), (*columns, *more, last), caption)


def _slice_table(
    outcome: "Outcome", judges: Sequence[str], right: Mapping[str, npt.NDArray[np.float64]]
) -> Table:
    """Slices of the items with gold: the best judge and the model, the largest losses first."""
    rows: list[dict[str, Any]] = []
    voted = [judge for judge in judges if right and np.isfinite(right[judge]).any()]
    if voted:
        best = max(voted, key=lambda judge: float(np.nanmean(right[judge])))
        data, split = outcome.data, str(outcome.judged_on)
        known = np.flatnonzero(data.splits[split].gold != ABSTAIN)[~np.isnan(right[best])]
        part, column = part_of(data.splits[split], known), data.project.features.column
        both = ~np.isnan(right[best])
        of_model = slice_rows(right[""][both] == 1, part, None, column)
        of_judge = slice_rows(right[best][both] == 1, part, None, column)
        for own, other in zip(of_model, of_judge, strict=True):
            name = f"{own.by}: {own.name}"
            row = {"slice": name, "items": own.n_items, "judge": best, "accuracy": other.accuracy}
            rows.append({**row, "small_model": own.accuracy})
    rows.sort(key=lambda row: row["small_model"] - row["accuracy"])
    kinds: dict[str, Any] = {"slice": pl.String, "items": pl.Int64, "judge": pl.String}
    kinds |= dict.fromkeys(("accuracy", "small_model"), pl.Float64)
    columns = (text("slice"), count("items"), text("judge"), percent("accuracy"))
    frame = pl.DataFrame(rows[:_SLICES], schema=kinds)
    caption = "Where the small model loses most against the best judge:" if rows else ""
    return Table(frame, (*columns, percent("small_model", "small model")), caption)


def _class_shares(outcome: "Outcome") -> tuple[Table | None, str]:
    """The share of each class in the training rows, or why it is unknown."""
    split, threshold = outcome.judged_on, outcome.main.model.threshold_
    if split is None:
        return None, "There are no gold labels."
    data = outcome.data
    gold = data.splits[split].gold
    known = np.flatnonzero(gold != ABSTAIN)
    predicted = predicted_classes(outcome.proba[split], threshold)[known]
    try:
        found = corrected_shares(
            predicted_classes(outcome.proba["train"], threshold),
            predicted,
            gold[known],
            data.labels,
        )
    except DataError as problem:  # too few labels of a class, or predictions that say nothing
        return None, str(problem)
    return found, ""


def _judge_errors(outcome: "Outcome", judges: Sequence[str]) -> pl.DataFrame:
    """Votes that held-out predictions of the soft labels from the features contradict."""
    data, votes = outcome.data, outcome.prepared.votes.train
    kinds: dict[str, Any] = {"id": pl.String, "judge": pl.String, "vote": pl.String}
    kinds |= {"small_model": pl.String, "probability": pl.Float64}
    soft = outcome.soft_labels
    targets = votes.counts() if soft is None else soft
    rows = np.flatnonzero(votes.covered)
    targets = targets / np.maximum(targets.sum(axis=1, keepdims=True), 1e-12)
    held_out = held_out_proba(as_inputs(data.vectors.train), rows, targets)
    if held_out is None:
        return pl.DataFrame(schema=kinds)
    proba = np.zeros_like(targets)
    proba[rows] = held_out
    dense, names, found = votes.select(list(judges)).dense(), data.labels.names, []
    best = proba.argmax(axis=1)
    for place, judge in enumerate(judges):
        for row in rows[(dense[rows, place] != ABSTAIN) & (dense[rows, place] != best[rows])]:
            voted = int(dense[row, place])
            item, likely = str(votes.ids[row]), float(proba[row, voted])
            found.append((item, judge, names[voted], names[int(best[row])], likely))
    frame = pl.DataFrame(found, schema=kinds, orient="row")
    return frame.sort("probability", maintain_order=True).head(_MOST_ERRORS)


def _speed(outcome: "Outcome") -> float:
    model, inputs = outcome.main.model, outcome.data.vectors.train
    some = rows_of_arrays(inputs, np.arange(min(_TIMED, outcome.prepared.votes.train.n_items)))
    started = time.perf_counter()
    n_items = len(model.predict_proba(some))
    return n_items / max(time.perf_counter() - started, 1e-9)
