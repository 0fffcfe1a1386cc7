"""A project whose items have one label each."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from wiesel.analysis import summarize
from wiesel.compare import Judged, logistic_proba
from wiesel.end_to_end.fine_tuning import gold_folds
from wiesel.evaluation import Report, commonest_class, compare_paired_proba, evaluate_proba
from wiesel.evaluation.comparison import LABELS_ALONE
from wiesel.evaluation.metrics import predicted_classes
from wiesel.io import Split, explained, read_gold, write_votes
from wiesel.labels import ABSTAIN
from wiesel.lfs import prompt_records
from wiesel.lfs.loading import LoadedLFs
from wiesel.project.bundle import Bundle
from wiesel.project.judging import write_judge_errors
from wiesel.project.kinds import RESAMPLES, GoldFile, ProjectKind
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
from wiesel.project.rows import ProjectRows, project_classes, read_splits, with_ids
from wiesel.project.settings import Project
from wiesel.project.training import Trained, TrainingSet
from wiesel.project.vectors import rows_of_arrays
from wiesel.report.sections import sections
from wiesel.tables import Gold
from wiesel.tasks import OneLabelTask
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome

__all__ = ["OneLabelProject", "one_sided"]

_EXPLAINED, _FINDINGS = 1, 3


class OneLabelProject(ProjectKind):
    """Rows of a table or a data set, each of which has one of the classes."""

    task = OneLabelTask.kind
    best_by = "accuracy"
    best_in_words = "accuracy"
    classes = "classes"
    compares_models = True

    def read_gold(self, bundle: Bundle, data: Path, column: str, gold: Path | None) -> GoldFile:
        """Return the rows of a table or an array, and their classes."""
        rows, inputs = bundle.file_inputs(data)
        if rows is not None and "id" in rows.columns:
            with explained(data):
                with_ids(rows, None)
        return GoldFile(rows, inputs, read_gold(gold or data, bundle.labels, label_column=column))

    def evaluated(self, model: Any, found: GoldFile, covered: Any = None) -> Report:
        """Return the report on the predicted classes."""
        proba, threshold = model.predict_proba(found.inputs), model.threshold_
        return evaluate_proba(
            proba, found.gold, model.labels_, threshold=threshold, covered=covered
        )

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
        inputs = rows_of_arrays(data.vectors.by_split["dev"], known)
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
    ) -> dict[str, Any]:
        """Return soft labels, weights of the voters, and what the main method is compared with."""
        main, predicted = next(iter(first_runs.values()))
        weights = item_weights(main.model, data)
        found: dict[str, Any] = {
            "soft_labels": soft_labels_of(main.model, data),
            "weights": voter_weights(main.model, data, weights),
        }
        compared = split is not None and main.method != "majority_vote"
        if split is not None and compared and "majority_vote" in first_runs:
            other, their = first_runs["majority_vote"]
            found["paired"] = compare_paired_proba(
                predicted[split],
                their[split],
                data.truth[split],
                data.labels,
                thresholds=(main.model.threshold_, other.model.threshold_),
            )
        return found

    def right(self, data: TrainingSet, run: Trained, split: str, proba: Any) -> Any:
        """Return whether each row with gold is predicted right."""
        return _right(data.truth[split], proba, run.model.threshold_)

    def references(self, data: TrainingSet, main: Trained, split: str) -> list[tuple[Judged, Any]]:
        """Return the most common class, and logistic regression on the labels alone."""
        gold, seed = data.truth[split], main.seed
        name, report = commonest_class(gold, data.labels, n_resamples=RESAMPLES)
        right = gold[gold != ABSTAIN] == data.labels.index(name)
        found = [(Judged(f"always {name!r}", seed, 0.0, self.figures(report), right), report)]
        start = time.perf_counter()
        proba = _logistic(data, data.gold(), split)
        if proba is not None:
            seconds, title = time.perf_counter() - start, f"{LABELS_ALONE}: logistic"
            report = evaluate_proba(proba, gold, data.labels, n_resamples=RESAMPLES)
            right = _right(gold, proba, None)
            found.append((Judged(title, seed, seconds, self.figures(report), right), report))
        return found

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
            "labels": 0 if (gold := data.gold()) is None else len(gold),
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
                weights = np.asarray(outcome.weights)
            write_soft_labels(data, outcome.soft_labels, weights, folder / "soft_labels.parquet")
        write_judge_errors(outcome.distilled, folder)

    def reference(self, outcome: "Outcome") -> Mapping[str, Any] | None:
        """Return what the training rows look like."""
        return run_reference(outcome.main.model, outcome.data, outcome.data.votes_by_split)

    def sections(self, outcome: "Outcome") -> Mapping[str, str]:
        """Return the sections of the report."""
        return sections(report_data(outcome))

    def shown(self, outcome: "Outcome") -> list[str]:
        """Return voters, findings, the explanation of one item, and the table of methods."""
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
        parts += map(str, outcome.explanations(_EXPLAINED))
        parts += [] if outcome.distilled is None else [str(outcome.distilled)]
        # The table is last: it ends with the sentence on votes and labels.
        table = outcome.table
        return [*parts, "Not evaluated: there are no gold labels." if table is None else str(table)]


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


def _right(gold: Any, proba: Any, threshold: float | None) -> Any:
    known = gold != ABSTAIN
    return predicted_classes(np.asarray(proba)[known], threshold) == gold[known]


def _logistic(data: TrainingSet, gold: Gold | None, split: str) -> Any:
    """P(class) of the rows by logistic regression on the labels that models learn, and no votes.

    It reads TF-IDF of the texts, or else the project's features. Dev rows are predicted without
    their own labels. None if there is nothing to learn from.
    """
    if gold is None or len(np.unique(gold.y)) < 2:
        return None
    labeled_dev = data.splits["dev"].gold != ABSTAIN if "dev" in data.splits else None
    (known, new), n_classes = simple_inputs(data, gold, split, labeled_dev), len(data.labels)
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


def simple_inputs(data: TrainingSet, gold: Gold, split: str, labeled_dev: Any) -> tuple[Any, Any]:
    """Return the rows with labels and those of a split as matrices; None if they are none.

    Texts become TF-IDF. `labeled_dev` says which dev rows are among the labels.
    """
    column = data.project.features.column
    if data.vectors.kind not in ("tfidf", "tokens"):
        known, new = gold.X, data.vectors.by_split[split]
        return (None if isinstance(known, dict) or known.ndim != 2 else known), new
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = {name: part.rows[column].fill_null("") for name, part in data.splits.items()}
    parts = []
    if "dev" in data.splits:
        parts.append(texts["dev"].filter(labeled_dev))
    if data.train_gold is not None:
        parts.append(texts["train"].filter(data.kind.known(data.train_gold.y)))
    labeled = pl.concat(parts).to_list()
    try:
        words = TfidfVectorizer(sublinear_tf=True).fit(labeled)
    except ValueError:  # not a word in any text
        return None, None
    return words.transform(labeled), words.transform(texts[split].to_list())
