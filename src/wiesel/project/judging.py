"""The results of a run: every model on the rows with gold, and references without votes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.finding import Finding
from wiesel.analysis.table import Table
from wiesel.compare import Judged, judged_rows, verdict_of
from wiesel.evaluation import Comparison
from wiesel.explain import Explanation
from wiesel.lfs import LabelingFunction
from wiesel.project.distilled import Distilled, distilled
from wiesel.project.insights import project_findings, with_examples
from wiesel.project.kinds import ProjectKind
from wiesel.project.rows import ProjectRows
from wiesel.project.training import Trained, TrainingSet
from wiesel.project.vectors import taken
from wiesel.project.voting import VotesBySplit
from wiesel.version import __version__

__all__ = ["Outcome", "Prepared", "judge"]

_UNCERTAIN = ("members_disagree", "unknown_balance")
"""The findings that say how far the figures can be trusted: they come before these."""
RESAMPLES = 1000


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
        return [model.explain(taken(data.vectors.train, row), data.votes[int(row)]) for row in rows]

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
        """One row for each method."""
        return None if self.judged_on is None else self.kind.table(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all metrics of the run as plain data."""
        main = self.reports.get(self.main.method, {})
        return {
            "wiesel": __version__,
            "project": self.data.project.name,
            "method": self.main.method,
            "seeds": list(self.data.project.method.seeds),
            **self.kind.about_data(self),
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
        references = kind.references(data, main, judged[-1], on_labels, on_votes)
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
        verdict=verdict_of(everything) if runs else "",
        **kind.more_results(data, first_runs, judged[-1] if judged else None),
    )
