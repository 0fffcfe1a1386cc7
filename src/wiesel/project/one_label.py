"""A project whose items have one label each."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wiesel.analysis import Table, summarize
from wiesel.analysis.table import UNKNOWN
from wiesel.compare import score_table
from wiesel.evaluation import Report, Score, commonest_class, compare_paired_proba, evaluate_proba
from wiesel.evaluation.rendering import string_table
from wiesel.io import Split, write_votes
from wiesel.labels import ABSTAIN
from wiesel.lfs import prompt_records
from wiesel.lfs.loading import LoadedLFs
from wiesel.project.distilled import write_judge_errors
from wiesel.project.kinds import ProjectKind
from wiesel.project.labels import gold_of, with_labeled_dev
from wiesel.project.monitoring import run_reference
from wiesel.project.outputs import (
    item_weights,
    soft_labels_of,
    voter_weights,
    write_predictions,
    write_soft_labels,
)
from wiesel.project.reporting import report_data
from wiesel.project.rows import ProjectRows, project_classes, read_splits
from wiesel.project.settings import Project
from wiesel.project.training import Trained, TrainingSet
from wiesel.project.vectors import taken
from wiesel.report.sections import sections
from wiesel.tasks import OneLabelTask
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome

__all__ = ["OneLabelProject", "one_sided"]

_EXPLAINED, _FINDINGS = 1, 3
_RESAMPLES = 1000
_FIGURES = {"accuracy": "accuracy", "f1": "F1", "auc": "ROC-AUC"}


class OneLabelProject(ProjectKind):
    """Rows of a table or a data set, each of which has one of the classes."""

    task = OneLabelTask.kind
    best_by = "accuracy"
    classes = "classes"

    def read(self, project: Project, lfs: LoadedLFs | None = None) -> ProjectRows:
        """Return the rows of files, a data set or a module."""
        named = None if lfs is None else lfs.labels
        if project.classes:
            project_classes(project, named)
        labels, splits = read_splits(project, named)
        return ProjectRows(labels, splits, _truth(splits), lfs)

    def with_labels_of_people(self, project: Project, rows: ProjectRows) -> ProjectRows:
        """Return the rows with the labels from the workbench: dev rows, and what models learn."""
        found = with_labeled_dev(project, rows)
        gold = gold_of(project, found.splits["train"], rows.labels, found is not rows)
        return replace(found, truth=_truth(found.splits), train_gold=gold)

    def described_votes(self, votes: VoteMatrix) -> str:
        """Return the number of voters, and on how many rows there is a vote."""
        voters = "1 voter" if votes.n_voters == 1 else f"{votes.n_voters:,} voters"
        return f"{voters}, {100 * votes.covered.mean():.1f} % of train covered"

    def warning(self, votes: VoteMatrix) -> str:
        """Return a warning if all votes are for one class."""
        return one_sided(votes)

    def validation(self, data: TrainingSet) -> Any:
        """Return the dev rows with a known label, with the votes on them; None without any."""
        if "dev" not in data.splits:
            return None
        gold = data.splits["dev"].gold
        known = np.flatnonzero(gold != ABSTAIN)
        inputs = taken(data.vectors.by_split["dev"], known)
        if data.dev_votes is None:
            return inputs, gold[known]
        return inputs, gold[known], data.dev_votes[known]

    def report(
        self, data: TrainingSet, run: Trained, split: str, proba: Any, n_resamples: int
    ) -> Report:
        """Return the report on a split."""
        votes = data.votes_by_split.get(split)
        return evaluate_proba(
            proba,
            data.truth[split],
            data.labels,
            threshold=run.model.threshold_,
            covered=None if votes is None else votes.covered,
            n_resamples=n_resamples,
        )

    def more_results(
        self,
        data: TrainingSet,
        first_runs: Mapping[str, tuple[Trained, Mapping[str, Any]]],
        split: str | None,
        dev_gold: Trained | None,
    ) -> dict[str, Any]:
        """Return soft labels, weights of the voters, and what the main method is compared with."""
        main, predicted = next(iter(first_runs.values()))
        weights = item_weights(main.model, data)
        found: dict[str, Any] = {
            "soft_labels": soft_labels_of(main.model, data),
            "weights": voter_weights(main.model, data, weights),
        }
        if split is None:
            return found
        references = self._references(data, split, dev_gold)
        rows = [
            {"method": name, "seed": main.seed, "seconds": seconds, **self.figures(report)}
            for name, (report, seconds) in references.items()
        ]
        found |= {"references": {name: report for name, (report, _) in references.items()}}
        if main.method != "majority_vote" and "majority_vote" in first_runs:
            other, their = first_runs["majority_vote"]
            found["paired"] = compare_paired_proba(
                predicted[split],
                their[split],
                data.truth[split],
                data.labels,
                thresholds=(main.model.threshold_, other.model.threshold_),
            )
        return {**found, "reference_rows": rows}

    def _references(
        self, data: TrainingSet, split: str, dev_gold: Trained | None
    ) -> dict[str, tuple[Report, float]]:
        """Return the references without votes, by their names in tables: reports and seconds."""
        name, report = commonest_class(data.truth[split], data.labels, n_resamples=_RESAMPLES)
        found = {f"always {name!r}": (report, 0.0)}
        if dev_gold is not None:
            proba = dev_gold.model.predict_proba(data.vectors.by_split[split])
            title = f"gold: {int(np.sum(data.truth['dev'] >= 0)):,} dev rows"
            own = self.report(data, dev_gold, split, proba, _RESAMPLES)
            found[title] = (own, dev_gold.seconds)
        return found

    def table(self, outcome: "Outcome") -> Table:
        """Return one row for each method and reference: intervals, or the spread over seeds."""
        split, rows = str(outcome.judged_on), [*outcome.rows, *outcome.reference_rows]
        reports: dict[str, Report] = {name: own[split] for name, own in outcome.reports.items()}
        reports |= outcome.references
        caption = f"On {next(iter(reports.values())).n_items:,} {split} items"
        if len(rows) > len(reports):
            table = score_table(rows)
            return Table(table.frame, table.columns, f"{caption}, mean and spread over seeds")
        seconds = {row["method"]: row["seconds"] for row in rows}
        cells = [
            [
                name,
                *(_short(getattr(report, key)) for key in _FIGURES),
                f"{seconds[name]:.1f}" if seconds[name] else UNKNOWN,
            ]
            for name, report in reports.items()
        ]
        titles = ["method", *_FIGURES.values(), "seconds"]
        return string_table(titles, cells, f"{caption}, 95 % intervals")

    def about_data(self, outcome: "Outcome") -> dict[str, Any]:
        """Return classes, sizes of splits and votes, and the comparisons of the main method."""
        data = outcome.data
        judges = {"judges": outcome.distilled.to_dict()} if outcome.distilled else {}
        return {
            **judges,
            "classes": list(data.labels),
            "items": {name: len(split) for name, split in data.splits.items()},
            "votes": {
                "voters": data.votes.n_voters,
                "votes": data.votes.n_votes,
                "covered": float(data.votes.covered.mean()),
            },
            "uncertain": outcome.uncertain,
            "references": outcome.known_rows(outcome.reference_rows),
            "against_majority_vote": outcome.paired.to_dict() if outcome.paired else None,
        }

    def write(self, outcome: "Outcome", folder: Path) -> None:
        """Write votes, predictions, soft labels, and the errors of language models."""
        data, model = outcome.data, outcome.main.model
        lfs = outcome.prepared.rows.lfs
        sources = prompt_records(lfs.lfs, data.splits["train"].rows) if lfs else {}
        write_votes(data.votes, folder / "votes.parquet", sources=sources)
        write_predictions(data, model, outcome.proba, folder / "predictions.parquet")
        if outcome.soft_labels is None:
            # A file left by another method would be taken for this one's.
            (folder / "soft_labels.parquet").unlink(missing_ok=True)
        else:
            weights = item_weights(model, data)
            if weights is None:  # the method has one weight per voter, or none
                shape = (data.votes.n_items, data.votes.n_voters)
                weights = np.broadcast_to(outcome.weights, shape)
            write_soft_labels(data, outcome.soft_labels, weights, folder / "soft_labels.parquet")
        write_judge_errors(outcome.distilled, folder)

    def reference(self, outcome: "Outcome") -> Mapping[str, Any] | None:
        """Return what the training rows look like."""
        return run_reference(outcome.main.model, outcome.data, outcome.data.votes_by_split)

    def sections(self, outcome: "Outcome") -> Mapping[str, str]:
        """Return the sections of the report."""
        return sections(report_data(outcome))

    def shown(self, outcome: "Outcome") -> list[str]:
        """Return tables of voters, findings and methods, and the explanation of one item."""
        data, votes = outcome.data, outcome.data.votes_by_split
        judged = next((name for name in ("dev", "test") if name in votes), None)
        gold = None if judged is None else data.splits[judged].gold
        parts = [summarize(votes[judged or "train"], gold).to_text()]
        sentences = outcome.finding_sentences
        more = len(sentences) - _FINDINGS
        rest = f" ({more} more in the report)" if more > 0 else ""
        lines = [f"  {k}. {sentence}" for k, sentence in enumerate(sentences[:_FINDINGS], 1)]
        nothing = "Nothing stands out: no problems were found in these votes."
        parts.append("\n".join([f"Findings{rest}:", *lines]) if sentences else nothing)
        table = outcome.table
        parts += ["Not evaluated: there are no gold labels." if table is None else table.to_text()]
        parts += [] if outcome.distilled is None else [str(outcome.distilled)]
        return [*parts, *map(str, outcome.explanations(_EXPLAINED))]


def one_sided(votes: VoteMatrix) -> str:
    """Return a warning if all votes are for one class, else an empty text.

    >>> from wiesel import VoteMatrix
    >>> one_sided(VoteMatrix.from_dense([[1], [-1]], ["ham", "spam"], ["prize"]))
    "Every vote is for 'spam', none for 'ham': from these votes no method can learn what is not \
'spam'. Add a voter for 'ham'."
    """
    named = np.unique(votes.class_index)
    if len(named) != 1:
        return ""
    only = votes.labels.names[int(named[0])]
    others = " or ".join(repr(name) for name in votes.labels if name != only)
    return (
        f"Every vote is for {only!r}, none for {others}: from these votes no method can learn "
        f"what is not {only!r}. Add a voter for {others}."
    )


def _truth(splits: Mapping[str, Split]) -> dict[str, Any]:
    return {name: split.gold for name, split in splits.items() if (split.gold >= 0).any()}


def _short(score: Score) -> str:
    """Format a score with its interval, short enough for three in a row."""
    if math.isnan(score):
        return UNKNOWN
    if math.isnan(score.low):
        return f"{score:.3f}"
    return f"{score:.3f} ({score.low:.2f}{UNKNOWN}{score.high:.2f})"
