"""The results of a run: every model on the rows with gold, and references without votes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.finding import Finding
from wiesel.analysis.table import Table
from wiesel.end_to_end import EndToEndModel
from wiesel.evaluation import (
    Comparison,
    Report,
    commonest_class,
    compare_paired_proba,
    evaluate_proba,
)
from wiesel.explain import Explanation
from wiesel.project.distilled import Distilled, distilled
from wiesel.project.insights import project_findings, with_examples
from wiesel.project.outputs import item_weights, soft_labels_of, voter_weights
from wiesel.project.preparing import Prepared
from wiesel.project.tables import comparison_table
from wiesel.project.training import Trained, TrainingSet, taken

__all__ = ["Outcome", "judge"]

_UNCERTAIN = ("members_disagree", "unknown_balance")
"""The findings that say how far the figures can be trusted: they come before these."""
RESAMPLES = 1000


@dataclass(frozen=True)
class Outcome:
    """The results of a run, for the terminal, the report and metrics.json."""

    prepared: Prepared
    trained: Sequence[Trained]
    reports: Mapping[str, Mapping[str, Report]]
    """Reports by method (first seed) and split."""
    rows: Sequence[Mapping[str, Any]]
    """The metrics of every method and seed, on the test rows if there are any, else on dev."""
    proba: Mapping[str, Any]
    """The main model's predictions for every split."""
    soft_labels: Any
    weights: Any
    """The weight of every voter (learned), or NaN."""
    paired: Comparison | None
    """The main model against the majority vote, on the same items."""
    references: Mapping[str, Report] = field(default_factory=dict)
    """References without votes on the same items: the most common class, and gold labels alone."""
    reference_rows: Sequence[Mapping[str, Any]] = ()
    """The metrics of the references, as in `rows`."""

    @property
    def main(self) -> Trained:
        """The first method with its first seed: the model that is saved."""
        return self.trained[0]

    @property
    def judged_on(self) -> str | None:
        """The split that the metrics refer to."""
        judged = next(iter(self.reports.values()))
        return next((name for name in ("test", "dev") if name in judged), None)

    def explanations(self, n_items: int) -> list[Explanation]:
        """Explain the labels of the first training items with a vote, if the method can."""
        data, model = self.prepared.data, self.main.model
        if not hasattr(model, "explain"):
            return []
        rows = np.flatnonzero(data.votes.covered)[:n_items]
        return [model.explain(taken(data.vectors.train, row), data.votes[int(row)]) for row in rows]

    @cached_property
    def findings(self) -> list[Finding]:
        """What to look at, most serious first."""
        data = self.prepared.data
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
        data = self.prepared.data
        rows, column = data.splits["train"].rows, data.project.features.column
        return [with_examples(found, rows, column) for found in self.findings]

    @property
    def first_voted(self) -> str:
        """The first training item with a vote, in the form that `wiesel explain` takes."""
        votes, splits = self.prepared.data.votes, self.prepared.data.splits
        item = str(votes.ids[int(np.argmax(votes.covered))])
        others = [split for name, split in splits.items() if name != "train"]
        twice = any(split.ids.cast(pl.String).index_of(item) is not None for split in others)
        return f"train:{item}" if twice else item

    @property
    def table(self) -> Table | None:
        """One row for each method."""
        if self.judged_on is None:
            return None
        reports = {name: found[self.judged_on] for name, found in self.reports.items()}
        both = [*self.rows, *self.reference_rows]
        return comparison_table(both, {**reports, **self.references}, self.judged_on)


def judge(
    prepared: Prepared, trained: Sequence[Trained], dev_gold: Trained | None = None
) -> Outcome:
    """Evaluate every model on the rows with gold; `dev_gold` was trained on dev rows only."""
    data = prepared.data
    judged = [name for name in ("dev", "test") if name in data.splits]
    reports: dict[str, dict[str, Report]] = {}
    rows: list[dict[str, Any]] = []
    by_method: dict[str, Any] = {}
    for run in trained:
        proba = {name: _predicted(data, run.model, name) for name in judged}
        first = run.method not in reports
        found = {name: _report(prepared, run, name, proba[name], first) for name in judged}
        if first:
            reports[run.method], by_method[run.method] = found, (run, proba)
        if judged:
            rows.append(_row(run.method, run.seed, run.seconds, found[judged[-1]]))
    main = trained[0]
    references = _references(prepared, judged, dev_gold)
    everything = {"train": main.model.predict_proba(data.vectors.train)}
    weights = item_weights(main.model, data)
    return Outcome(
        prepared=prepared,
        trained=trained,
        reports=reports,
        rows=rows,
        proba=everything | by_method[main.method][1],
        soft_labels=soft_labels_of(main.model, data),
        weights=voter_weights(main.model, data, weights),
        paired=_paired(prepared, main.method, by_method, judged),
        references={name: report for name, (report, _) in references.items()},
        reference_rows=[
            _row(name, main.seed, seconds, report) for name, (report, seconds) in references.items()
        ],
    )


def _predicted(data: TrainingSet, model: EndToEndModel, split: str) -> Any:
    """Return P(class) of the rows, those of dev by networks that have not learned their labels."""
    vectors = data.vectors.by_split[split]
    return model.out_of_fold_proba(vectors) if split == "dev" else model.predict_proba(vectors)


def _row(method: str, seed: int, seconds: float, report: Report) -> dict[str, Any]:
    figures = {name: float(score) for name, score in report.scores()}
    return {"method": method, "seed": seed, "seconds": seconds, **figures}


def _references(
    prepared: Prepared, judged: Sequence[str], dev_gold: Trained | None
) -> dict[str, tuple[Report, float]]:
    """Return the references without votes, by their names in tables: reports and seconds."""
    if not judged:
        return {}
    data, split = prepared.data, judged[-1]
    gold = data.splits[split].gold
    name, report = commonest_class(gold, data.labels, n_resamples=RESAMPLES)
    found = {f"always {name!r}": (report, 0.0)}
    if dev_gold is not None:
        proba = dev_gold.model.predict_proba(data.vectors.by_split[split])
        n_gold = int(np.sum(data.splits["dev"].gold >= 0))
        title = f"gold: {n_gold:,} dev rows"
        found[title] = (_report(prepared, dev_gold, split, proba, True), dev_gold.seconds)
    return found


def _report(
    prepared: Prepared, run: Trained, split: str, proba: Any, with_intervals: bool
) -> Report:
    votes = prepared.votes.by_split.get(split)
    return evaluate_proba(
        proba,
        prepared.data.splits[split].gold,
        prepared.data.labels,
        threshold=run.model.threshold_,
        covered=None if votes is None else votes.covered,
        n_resamples=RESAMPLES if with_intervals else 0,
    )


def _paired(
    prepared: Prepared, main: str, by_method: Mapping[str, Any], judged: Sequence[str]
) -> Comparison | None:
    """Compare the main method with the majority vote if both were trained and there is gold."""
    if not judged or main == "majority_vote" or "majority_vote" not in by_method:
        return None
    pair = [by_method[name] for name in (main, "majority_vote")]
    return compare_paired_proba(
        pair[0][1][judged[-1]],
        pair[1][1][judged[-1]],
        prepared.data.splits[judged[-1]].gold,
        prepared.data.labels,
        thresholds=(pair[0][0].model.threshold_, pair[1][0].model.threshold_),
    )
