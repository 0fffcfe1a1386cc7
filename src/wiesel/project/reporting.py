"""Turns the outcome of a run into the contents of its report."""

import platform
import shlex
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis import summarize
from wiesel.analysis.agreement import pair_counts
from wiesel.end_to_end.checks import is_classifier
from wiesel.errors import WieselError
from wiesel.evaluation import ThresholdCurve, threshold_curve
from wiesel.evaluation.metrics import predicted_classes
from wiesel.project.judged_items import (
    balance_rows,
    error_items,
    outcome_slices,
    shown_text,
    threshold_points,
)
from wiesel.project.settings import Project
from wiesel.report import Curve, Disagreement, ReportData, VoterRow, charts
from wiesel.training import History
from wiesel.version import __version__
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.project.judging import Outcome

__all__ = ["paragraphs", "report_data", "reproduce", "reproducing_lines", "training"]

_HEAT_VOTERS = 40
_LISTED_VOTERS = 100
_DISAGREEMENTS = 20
_MEASURES = {"auc": "ROC-AUC", "f1": "F1"}


def paragraphs(sentences: Iterable[str]) -> str:
    """Return texts as paragraphs."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def training(history: History, scores: Sequence[str]) -> str:
    """Return charts of the losses and selected scores over the epochs."""
    names = [name for name in history.records[0] if name.startswith("loss_")]
    groups = {"Losses": names, "Scores": [name for name in scores if name in history.records[0]]}
    shown = [
        charts.epochs(title, [_curve(history, name) for name in own], history.best_epoch)
        for title, own in groups.items()
    ]
    return f'<div class="figures">{"".join(shown)}</div>'


def _curve(history: History, name: str) -> Curve:
    title = name.removeprefix("loss_").removeprefix("validation_").replace("_", " ")
    return Curve(title, [record[name] for record in history.records])


def reproduce(project: Project, methods: Iterable[str], new: str) -> str:
    """Return the commands that reproduce the run, and the project file."""
    commands = "\n".join(reproducing_lines(project, methods, new))
    settings = project.file.read_text(encoding="utf-8")
    return (
        f"<pre>{escape(commands)}</pre>"
        f"<details><summary>wiesel.toml</summary><pre>{escape(settings)}</pre></details>"
    )


def reproducing_lines(project: Project, methods: Iterable[str], new: str) -> list[str]:
    """Return the commands that reproduce the run and predict for the rows of a file `new`."""
    seeds = ", ".join(str(seed) for seed in project.method.seeds)
    names = ",".join(dict.fromkeys(methods))
    return [
        f"# wiesel {__version__}, Python {platform.python_version()}, seeds {seeds}",
        shlex.join(["wiesel", "run", str(project.folder), "--method", names]),
        shlex.join(["wiesel", "predict", str(project.output_folder / "model"), new]),
    ]


def report_data(outcome: "Outcome") -> ReportData:
    """Return the contents of a run's report."""
    data, votes = outcome.data, outcome.prepared.votes
    split = outcome.judged_on
    reports = {} if split is None else {n: r[split] for n, r in outcome.reports.items()}
    names, shares = _agreement(votes.train)
    voters, caption = _voters(outcome)
    records = outcome.main.model.history_.records
    errors, n_errors = error_items(outcome)
    return ReportData(
        title=data.project.name,
        labels=data.labels,
        story=_summary(outcome),
        figures=_figures(outcome),
        uncertain=outcome.uncertain,
        voters=voters,
        voter_caption=caption,
        findings=outcome.finding_sentences,
        agreement_names=names,
        agreement=shares,
        losses=_curves(records, "loss_"),
        scores=_curves(records, "agreement") + _curves(records, "validation_"),
        kept_epoch=outcome.main.model.history_.best_epoch,
        methods=reports,
        judged_on=split or "",
        report=reports.get(outcome.main.method),
        paired=_paired(outcome),
        curve=_threshold_curve(outcome),
        threshold=outcome.main.model.threshold_,
        references=outcome.references,
        seconds=_seconds(outcome),
        thresholds=threshold_points(outcome),
        balance=balance_rows(outcome),
        slices=outcome_slices(outcome),
        errors=errors,
        n_errors=n_errors,
        disagreements=_disagreements(outcome),
        reproduce=reproducing_lines(
            data.project, [run.method for run in outcome.trained], "new.csv"
        ),
        settings=data.project.file.read_text(encoding="utf-8"),
        verdict=outcome.headline,
    )


def _seconds(outcome: "Outcome") -> dict[str, float]:
    """Return the training time of every method's first seed; untrained references have none."""
    rows = [*reversed(outcome.rows), *outcome.reference_rows]
    return {row["method"]: row["seconds"] for row in rows if row["seconds"]}


def _figures(outcome: "Outcome") -> list[tuple[str, str]]:
    votes = outcome.prepared.votes.train
    tiles = [
        (f"{votes.n_items:,}", "training items without labels"),
        (f"{votes.n_voters:,}", "voters"),
        (f"{100 * votes.covered.mean():.0f} %", "of the items have a vote"),
    ]
    split = outcome.judged_on
    if split is not None:
        report = outcome.reports[outcome.main.method][split]
        tiles.append((f"{100 * report.accuracy:.1f} %", f"accuracy on {split}"))
        if not np.isnan(report.auc):
            tiles.append((f"{report.auc:.3f}", f"ROC-AUC on {split}"))
    return tiles


def _summary(outcome: "Outcome") -> list[str]:
    data, votes, main = outcome.data, outcome.prepared.votes.train, outcome.main
    chosen = main.model.selection_
    measure = _MEASURES.get(chosen["by"], chosen["by"])
    sentences = [
        f"{votes.n_voters:,} voters cast {votes.n_votes:,} votes on {votes.n_items:,} items, for "
        f"the classes {', '.join(data.labels)}. The method {main.method} trained an end model on "
        f"them ({data.project.end_model.name} on features: "
        f"{data.vectors.description})."
    ]
    if is_classifier(main.model.end_model):  # type: ignore[attr-defined]
        return sentences
    if "score" not in chosen:
        sentences.append("No rows were held out to choose an epoch: each network kept its last.")
    elif isinstance(chosen["epoch"], list):
        epochs = _flat(chosen["epoch"])
        first, last = min(epochs), max(epochs)
        sentences.append(
            f"The end model averages {len(epochs)} networks. Each kept its epoch with the best "
            f"{measure} on the dev rows (epochs {first} to {last}). Together they reach "
            f"{chosen['score']:.3f}."
        )
    else:
        sentences.append(
            f"Of {len(main.model.history_)} epochs, number {chosen['epoch']} was kept: it had the "
            f"best {measure} on the dev rows ({chosen['score']:.3f})."
        )
    return sentences


def _flat(epochs: Any) -> list[int]:
    """Return the epochs of all networks as one list; a committee gives nested lists."""
    return [e for part in epochs for e in _flat(part)] if isinstance(epochs, list) else [epochs]


def _dev_gold(outcome: "Outcome") -> tuple[VoteMatrix, Any] | None:
    """Return votes and gold of the dev rows, else of the test rows; None if neither has votes."""
    votes, splits = outcome.prepared.votes.by_split, outcome.data.splits
    for name in ("dev", "test"):
        if name in votes and name in splits:
            return votes[name], splits[name].gold
    return None


def _voters(outcome: "Outcome") -> tuple[list[VoterRow], str]:
    train = outcome.prepared.votes.train
    frame = summarize(train).frame.with_columns(weight=pl.Series(outcome.weights).fill_nan(None))
    gold = _dev_gold(outcome)
    caption = "Coverage and conflict on the training items."
    if gold is not None:
        known = summarize(*gold).frame
        columns = ["voter", "support", "precision", "precision_low", "precision_high"]
        frame = frame.join(known.select(columns), on="voter", how="left", maintain_order="left")
        caption = "Coverage and conflict on the training items, precision on rows with gold labels."
    if len(frame) > _LISTED_VOTERS:
        caption += f" The {_LISTED_VOTERS} with most votes of {len(frame):,}."
        frame = frame.sort("votes", descending=True).head(_LISTED_VOTERS)
    return [_voter_row(row) for row in frame.to_dicts()], caption


def _voter_row(row: dict[str, Any]) -> VoterRow:
    return VoterRow(
        name=row["voter"],
        classes=row["polarity"],
        coverage=row["coverage"],
        conflict=row["conflict"],
        precision=row.get("precision"),
        low=row.get("precision_low"),
        high=row.get("precision_high"),
        support=row.get("support") or 0,
        weight=row["weight"],
    )


def _agreement(votes: VoteMatrix) -> tuple[list[str], npt.NDArray[Any] | None]:
    """Return the pairwise agreement of the voters with the most votes."""
    counts = np.bincount(votes.voter_index, minlength=votes.n_voters)
    busiest = np.sort(np.argsort(-counts, kind="stable")[:_HEAT_VOTERS])
    if len(busiest) < 2:
        return [], None
    chosen = votes.select([votes.voters[place] for place in busiest])
    pairs = pair_counts(chosen)
    # Voters that never vote for the same class cannot agree, so their cell carries no information.
    rates = np.where(pairs.chance > 0, pairs.agree / pairs.both, np.nan)
    shares = np.full((chosen.n_voters, chosen.n_voters), np.nan)
    shares[pairs.first, pairs.second] = rates
    shares[pairs.second, pairs.first] = rates
    met = ~np.isnan(shares).all(axis=1)
    if met.sum() < 2:
        return [], None
    return [name for name, some in zip(chosen.voters, met, strict=True) if some], shares[met][
        :, met
    ]


def _curves(records: Sequence[dict[str, Any]], prefix: str) -> list[Curve]:
    titles = {"loss_end_model": "end model", "loss_encoder": "encoder of the votes"}
    titles |= {"agreement": "agreement", "validation_auc": "ROC-AUC on dev"}
    titles |= {"validation_accuracy": "accuracy on dev", "validation_f1": "F1 on dev"}
    names = [name for name in (records[0] if records else {}) if name.startswith(prefix)]
    return [
        Curve(titles.get(name, name.replace("_", " ")), [record[name] for record in records])
        for name in names
        if isinstance(records[0][name], (int, float))
    ]


def _paired(outcome: "Outcome") -> str:
    if outcome.paired is None:
        return ""
    paired, method = outcome.paired, outcome.main.method
    difference = paired.differences["accuracy"]
    return (
        f"Compared with an end model trained on the majority vote: only {method} is right on "
        f"{paired.only_first:,} items, only the majority vote on {paired.only_second:,}. The "
        f"difference in accuracy is {100 * difference:+.1f} points (95 % interval "
        f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}, McNemar p = "
        f"{paired.p_value:.3g})."
    )


def _threshold_curve(outcome: "Outcome") -> ThresholdCurve | None:
    data, split = outcome.data, outcome.judged_on
    if split is None or len(data.labels) != 2:
        return None
    gold = data.splits[split].gold
    known = gold >= 0
    try:
        return threshold_curve(outcome.proba[split][known], gold[known])
    except WieselError:  # no item of the second class: there is no curve
        return None


def _disagreements(outcome: "Outcome") -> list[Disagreement]:
    """Return the covered training items on which the end model and the soft label disagree."""
    soft, data = outcome.soft_labels, outcome.data
    if soft is None:
        return []
    proba = outcome.proba["train"]
    distance = np.abs(proba - soft).sum(axis=1) / 2
    named = predicted_classes(proba, outcome.main.model.threshold_)
    # Different confidence in the same class is no disagreement.
    distance[~data.votes.covered | (named == soft.argmax(axis=1))] = 0
    rows = np.argsort(-distance, kind="stable")[:_DISAGREEMENTS]
    return [_disagreement(outcome, int(row)) for row in rows if distance[row] > 0]


def _disagreement(outcome: "Outcome", row: int) -> Disagreement:
    data, votes = outcome.data, outcome.prepared.votes.train[row]
    proba, soft = outcome.proba["train"][row], outcome.soft_labels[row]
    names = data.labels.names
    predicted = int(predicted_classes(proba[None], outcome.main.model.threshold_)[0])
    cast = zip(votes.voter_index, votes.class_index, strict=True)
    return Disagreement(
        item=str(votes.ids[0]),
        text=shown_text(
            data.splits["train"].rows.row(row, named=True), data.project.features.column
        ),
        end_model=names[predicted],
        end_proba=float(proba[predicted]),
        soft_label=names[int(soft.argmax())],
        soft_proba=float(soft.max()),
        votes=[(votes.voters[voter], names[label]) for voter, label in cast],
    )
