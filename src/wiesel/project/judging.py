"""The results of a run: every model on the rows with gold, and references without votes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.finding import Finding
from wiesel.analysis.table import Table
from wiesel.compare import (
    LABELS_ALONE,
    Judged,
    judged_rows,
    logistic_proba,
    score_table,
    verdict_of,
    without_labels,
)
from wiesel.end_to_end import EndToEndModel
from wiesel.end_to_end.fine_tuning import gold_folds
from wiesel.evaluation import (
    Comparison,
    Report,
    commonest_class,
    compare_paired_proba,
    evaluate_proba,
)
from wiesel.evaluation.metrics import predicted_classes
from wiesel.explain import Explanation
from wiesel.labels import ABSTAIN
from wiesel.project.distilled import Distilled, distilled
from wiesel.project.insights import project_findings, with_examples
from wiesel.project.outputs import item_weights, soft_labels_of, voter_weights
from wiesel.project.preparing import Prepared
from wiesel.project.training import Trained, TrainingSet, taken

__all__ = ["Outcome", "judge"]

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
    """Baselines on the same items: the most common class, labels alone, votes alone."""
    reference_rows: Sequence[Mapping[str, Any]] = ()
    """The metrics of the references, as in `rows`."""
    verdict: str = ""
    """Whether votes beat labels, in a sentence; empty without labels."""

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
        n_items = self.reports[self.main.method][self.judged_on].n_items
        both = [*self.rows, *self.reference_rows]
        return score_table(both, f"On {n_items:,} {self.judged_on} items", self.verdict)


def judge(
    prepared: Prepared,
    trained: Sequence[Trained],
    on_labels: Trained | None = None,
    on_votes: Trained | None = None,
) -> Outcome:
    """Evaluate every model on the rows with gold, and the baselines on the last of these splits."""
    data = prepared.data
    judged = [name for name in ("dev", "test") if name in data.splits]
    reports: dict[str, dict[str, Report]] = {}
    runs: list[Judged] = []
    by_method: dict[str, Any] = {}
    for run in trained:
        proba = {name: _predicted(data, run.model, name) for name in judged}
        found = {
            name: _report(prepared, run.model.threshold_, name, proba[name]) for name in judged
        }
        if run.method not in reports:
            reports[run.method], by_method[run.method] = found, (run, proba)
        if judged:
            split = judged[-1]
            right = _right(data, split, proba[split], run.model.threshold_)
            runs.append(Judged(run.method, run.seed, run.seconds, found[split], right))
    main = trained[0]
    references = _references(prepared, judged, main, on_labels, on_votes)
    rows = judged_rows([*runs, *references])
    weights = item_weights(main.model, data)
    return Outcome(
        prepared=prepared,
        trained=trained,
        reports=reports,
        rows=rows[: len(runs)],
        proba={"train": main.model.predict_proba(data.vectors.train), **by_method[main.method][1]},
        soft_labels=soft_labels_of(main.model, data),
        weights=voter_weights(main.model, data, weights),
        paired=_paired(prepared, main.method, by_method, judged),
        references={each.method: each.report for each in references},
        reference_rows=rows[len(runs) :],
        verdict=verdict_of([*runs, *references]) if runs else "",
    )


def _predicted(data: TrainingSet, model: EndToEndModel, split: str) -> Any:
    """Return P(class) of the rows, those of dev by networks that have not learned their labels."""
    vectors = data.vectors.by_split[split]
    return model.out_of_fold_proba(vectors) if split == "dev" else model.predict_proba(vectors)


def _references(
    prepared: Prepared,
    judged: Sequence[str],
    main: Trained,
    on_labels: Trained | None,
    on_votes: Trained | None,
) -> list[Judged]:
    """The baselines: the most common class, models of the labels alone, and of votes alone."""
    if not judged:
        return []
    data, split, seed = prepared.data, judged[-1], main.seed
    gold = data.splits[split].gold
    name, report = commonest_class(gold, data.labels, n_resamples=RESAMPLES)
    right = gold[gold != ABSTAIN] == data.labels.index(name)
    found = [Judged(f"always {name!r}", seed, 0.0, report, right)]
    start = time.perf_counter()
    proba = _logistic(data, split)
    if proba is not None:
        seconds = time.perf_counter() - start
        title = f"{LABELS_ALONE}: logistic"
        report, right = _report(prepared, None, split, proba), _right(data, split, proba, None)
        found.append(Judged(title, seed, seconds, report, right))
    for title, run in (
        (f"{LABELS_ALONE}: end model", on_labels),
        (without_labels(main.method), on_votes),
    ):
        if run is not None:
            proba = run.model.predict_proba(data.vectors.by_split[split])
            threshold = run.model.threshold_
            report = _report(prepared, threshold, split, proba)
            right = _right(data, split, proba, threshold)
            found.append(Judged(title, seed, run.seconds, report, right))
    return found


def _logistic(data: TrainingSet, split: str) -> Any:
    """P(class) of the rows by logistic regression on the labels that models learn, and no votes.

    It reads TF-IDF of the texts, or else the project's features. Dev rows are predicted without
    their own labels. None if there is nothing to learn from.
    """
    gold: Any = data.gold
    if gold is None or len(np.unique(gold.y)) < 2:
        return None
    known, new, n_classes = _simple_inputs(data, split)
    if known is None:
        return None
    if split != "dev":
        return logistic_proba(known, gold.y, new, n_classes)
    rows = np.flatnonzero(data.splits["dev"].gold != ABSTAIN)  # the first of the labels
    proba = np.full((len(data.splits["dev"]), n_classes), 1 / n_classes)
    if len(rows) < 2:
        return None
    for fold in gold_folds(gold.y[: len(rows)], seed=0):
        rest = np.setdiff1d(np.arange(len(gold.y)), fold)
        proba[rows[fold]] = logistic_proba(known[rest], gold.y[rest], known[fold], n_classes)
    return proba


def _simple_inputs(data: TrainingSet, split: str) -> tuple[Any, Any, int]:
    """The rows with labels and those of a split as matrices; None if they are none."""
    n_classes, column = len(data.labels), data.project.features.column
    if data.vectors.kind not in ("tfidf", "tokens"):
        known, new = data.gold.X, data.vectors.by_split[split]  # type: ignore[union-attr]
        return (None if isinstance(known, dict) or known.ndim != 2 else known), new, n_classes
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = {name: part.rows[column].fill_null("") for name, part in data.splits.items()}
    parts = []
    if "dev" in data.splits:
        parts.append(texts["dev"].filter(data.splits["dev"].gold != ABSTAIN))
    if data.train_gold is not None:
        parts.append(texts["train"].filter(data.train_gold.y != ABSTAIN))
    labeled = pl.concat(parts).to_list()
    try:
        words = TfidfVectorizer(sublinear_tf=True).fit(labeled)
    except ValueError:  # not a word in any text
        return None, None, n_classes
    return words.transform(labeled), words.transform(texts[split].to_list()), n_classes


def _report(prepared: Prepared, threshold: float | None, split: str, proba: Any) -> Report:
    votes = prepared.votes.by_split.get(split)
    return evaluate_proba(
        proba,
        prepared.data.splits[split].gold,
        prepared.data.labels,
        threshold=threshold,
        covered=None if votes is None else votes.covered,
        n_resamples=RESAMPLES,
    )


def _right(data: TrainingSet, split: str, proba: Any, threshold: float | None) -> Any:
    """Whether each row with a gold label is predicted right."""
    gold = data.splits[split].gold
    known = gold != ABSTAIN
    return predicted_classes(np.asarray(proba)[known], threshold) == gold[known]


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
