"""A new model takes the place of the one in use, if it is not worse on the same rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.table import Table, count, percent, text
from wiesel.errors import DataError, ParameterError, listed
from wiesel.evaluation import Comparison, Report, compare_paired_proba, evaluate_proba
from wiesel.evaluation.metrics import predicted_classes
from wiesel.evaluation.report import TITLES
from wiesel.io import FilePath, explained, read_rows
from wiesel.labels import ABSTAIN
from wiesel.project.bundle import Bundle, load_bundle
from wiesel.project.monitoring import learned_rows
from wiesel.saving import read_folder, read_manifest, write_folder
from wiesel.tasks import OneLabelTask

__all__ = ["REFUSED", "Promotion", "promote", "versions_of"]

REFUSED = 3
"""The exit code if the model in use stays."""
METRICS = ("accuracy", "macro_f1")
_COLUMNS = (
    count("version"),
    text("promoted"),
    text("method"),
    percent("accuracy"),
    percent("macro_f1", "macro F1"),
    percent("gain"),
    count("rows", "on rows"),
    text("fingerprint", "data"),
)
_MADE_BY_WRITING = ("format", "files", "bytes", "sha256")


@dataclass(frozen=True)
class Promotion:
    """What was decided about a new model, and why."""

    outcome: str
    """`promoted`, `refused`, or `unchanged` if this very model is in use already."""
    why: str
    report: Report
    """How good the new model is."""
    paired: Comparison | None
    """The new model against the one in use; None if there was none."""
    changed: pl.DataFrame
    """The rows that the models predict differently, with both predictions and the gold label."""
    versions: Table
    """All versions that were in use, side by side."""
    warning: str = ""
    """How many of the rows one of the models has learned, if any."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
        return {
            "outcome": self.outcome,
            "why": self.why,
            "warning": self.warning or None,
            "report": self.report.to_dict(),
            "paired": None if self.paired is None else self.paired.to_dict(),
            "n_changed": len(self.changed),
            "versions": self.versions.frame.to_dicts(),
        }

    def __str__(self) -> str:
        shown = str(self.report if self.paired is None else self.paired)
        parts = [each for each in (self.warning, self.why, shown) if each]
        if self.paired is not None:
            n_changed = f"{len(self.changed):,} of {self.report.n_items:,} rows"
            parts.append(f"The first is the new model. It changes the class of {n_changed}.")
        return "\n\n".join([*parts, self.versions.to_text()])


def promote(
    new: FilePath,
    in_use: FilePath,
    rows: Any,
    *,
    label_column: str = "label",
    metric: str = "accuracy",
    allowed_loss: float = 0.0,
    end_model: Any = None,
) -> Promotion:
    """Put a new model in the place of the one in use, unless it is worse on labeled rows.

    It is worse if its accuracy (or `metric="macro_f1"`) on the same rows, a file or a frame, is
    lower by more than `allowed_loss`, a share such as 0.01. Each version is kept beside the model
    in use, in the folder `IN_USE-versions`; to go back, promote it again. `end_model` is as in
    `load_bundle`. Rows that a model was trained on are counted in a warning; if all were, it is an
    error.
    """
    _check(metric, allowed_loss)
    new, in_use = Path(new), Path(in_use)
    if new.resolve() == in_use.resolve():
        raise ParameterError(f"{new} is the model in use already: give the folder of a new one.")
    table = rows if isinstance(rows, pl.DataFrame) else read_rows(rows)
    bundle = _one_label(new, end_model)
    with explained("the rows" if table is rows else rows):
        if label_column not in table.columns:
            raise DataError(
                f"There is no column {label_column!r} of gold labels, which decide whether the new "
                f"model is worse. The columns are {listed(table.columns)}."
            )
        gold = bundle.labels.indices(table[label_column], allow_unknown=True)
        proba = bundle.predict_proba(table)
        report = evaluate_proba(proba, gold, bundle.labels, threshold=bundle.model.threshold_)
        models = {f"the new model, {new}": bundle}
        paired, changed = None, table.clear()
        # As everywhere where a model is written, an empty folder is free.
        is_free = not in_use.exists() or (in_use.is_dir() and not any(in_use.iterdir()))
        if not is_free:
            current = _one_label(in_use, end_model)
            models[f"the model in use, {in_use}"] = current
            paired, changed = _compared(bundle, current, table, proba, gold)
        warning = _learned(models, table.drop(label_column).filter(gold != ABSTAIN))
    outcome, why = _decided(paired, metric, allowed_loss, in_use)
    if not is_free and read_manifest(new)["files"] == read_manifest(in_use)["files"]:
        outcome, why = "unchanged", f"{in_use} is this model already."
    if outcome == "promoted":
        facts = {"rows": report.n_items, metric: float(dict(report.scores())[metric])}
        if paired is not None:
            facts["gain"] = float(paired.differences[metric])
        _put(new, in_use, facts)
    return Promotion(outcome, why, report, paired, changed, versions_of(in_use), warning)


def _check(metric: str, allowed_loss: float) -> None:
    if metric not in METRICS:
        raise ParameterError(
            f"metric is one of {listed(METRICS)}; got {metric!r}.", option="metric"
        )
    if not 0 <= allowed_loss <= 1:
        raise ParameterError(
            "allowed_loss is a share from 0 to 1, such as 0.01 for one point; got "
            f"{allowed_loss!r}.",
            option="allowed_loss",
        )


def _learned(models: Mapping[str, Bundle], rows: pl.DataFrame) -> str:
    """A warning that names how many rows each model has learned; all of them are an error."""
    known = {name: learned_rows(bundle, rows) for name, bundle in models.items()}
    parts = [f"{int(own.sum()):,} by {name}" for name, own in known.items() if own.any()]
    if not parts:
        return ""
    n_seen = int(np.any([*known.values()], axis=0).sum())
    if n_seen == len(rows):
        raise DataError(
            f"All {len(rows):,} rows were learned from ({'; '.join(parts)}): the comparison would "
            "flatter whoever knows them. Give rows that neither model has seen."
        )
    verb = "was" if n_seen == 1 else "were"
    return (
        f"Warning: {n_seen:,} of the {len(rows):,} rows {verb} learned from ({'; '.join(parts)}): "
        "the comparison flatters whoever knows them. Remove these rows."
    )


def _one_label(path: Path, end_model: Any) -> Bundle:
    bundle = load_bundle(path, end_model)
    if bundle.model.task_.kind != OneLabelTask.kind:
        raise DataError(
            f"{path} predicts {bundle.model.task_.kind}, and models are compared row by row with "
            "one label. Compare the reports of `wiesel evaluate`, then copy the folder."
        )
    return bundle


def _compared(
    new: Bundle, current: Bundle, table: pl.DataFrame, proba: Any, gold: Any
) -> tuple[Comparison, pl.DataFrame]:
    """The new model against the one in use, and the rows whose class changes."""
    if set(new.labels) != set(current.labels):
        raise DataError(
            f"The models have different classes, {listed(new.labels)} and in use "
            f"{listed(current.labels)}: put a model with other classes in a place of its own."
        )
    order = [current.labels.names.index(name) for name in new.labels]
    own = current.predict_proba(table)
    second, threshold = own[:, order], current.model.threshold_
    before = _names(current, predicted_classes(own, threshold))
    after = _names(new, predicted_classes(proba, new.model.threshold_))
    if threshold is not None and order == [1, 0]:
        threshold = 1 - threshold  # of the other class
    paired = compare_paired_proba(
        proba, second, gold, new.labels, thresholds=(new.model.threshold_, threshold)
    )
    sides = {"in use": before, "new": after, "gold": _names(new, gold)}
    changed = table.with_columns(**sides).filter(before.ne_missing(after))
    return paired, changed


def _names(bundle: Bundle, classes: Any) -> pl.Series:
    """The names of class indices, null where the class is unknown."""
    names = bundle.labels.names
    return pl.Series([names[k] if k >= 0 else None for k in classes], dtype=pl.String)


def _decided(
    paired: Comparison | None, metric: str, allowed_loss: float, in_use: Path
) -> tuple[str, str]:
    if paired is None:
        return "promoted", f"Promoted: there was no model at {in_use}."
    gain, title = paired.differences[metric], TITLES[metric]
    points = f"{title} changes by {100 * gain:+.1f} points"
    if not np.isnan(gain.low):
        points += f" ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
    points += f" on {paired.n_items:,} rows"
    if gain < -allowed_loss:
        return "refused", f"Refused: {points}. The model in use stays."
    chance = gain.low <= 0 <= gain.high
    return "promoted", f"Promoted: {points}{', which may be chance' if chance else ''}."


def _put(new: Path, in_use: Path, facts: Mapping[str, Any]) -> None:
    """Keep a copy of the new model as a version, and replace the model in use in one step."""
    manifest, files = read_folder(new)
    kept = {key: value for key, value in manifest.items() if key not in _MADE_BY_WRITING}
    folder = _versions_folder(in_use)
    number = max(_numbers(folder), default=0) + 1
    when = datetime.now(UTC).isoformat(timespec="seconds")
    kept["promoted"] = {"version": number, "at": when, **facts}
    write_folder(folder / str(number), kept, files)
    write_folder(in_use, kept, files)


def versions_of(in_use: FilePath) -> Table:
    """Return the versions of a model that were in use, side by side; the last is in use now."""
    folder = _versions_folder(Path(in_use))
    rows = []
    for version in _numbers(folder):
        manifest = read_manifest(folder / str(version))
        promoted, train = manifest.get("promoted", {}), manifest.get("data", {}).get("train", {})
        rows.append(
            {
                "version": version,
                "promoted": promoted.get("at", "")[:16].replace("T", " "),
                "method": manifest["class"],
                **{name: promoted.get(name) for name in (*METRICS, "gain", "rows")},
                "trained_on": train.get("rows"),
                "fingerprint": train.get("fingerprint", "")[:8],
            }
        )
    schema: dict[str, Any] = dict.fromkeys(["version", "rows", "trained_on"], pl.Int64)
    schema |= dict.fromkeys([*METRICS, "gain"], pl.Float64)
    schema |= dict.fromkeys(["promoted", "method", "fingerprint"], pl.String)
    return Table(pl.DataFrame(rows, schema), _COLUMNS)


def _versions_folder(in_use: Path) -> Path:
    place = in_use.resolve()
    return place.with_name(f"{place.name}-versions")


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())
