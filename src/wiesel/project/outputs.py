"""The output files of a run: soft labels and predictions as tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis import summarize
from wiesel.end_to_end import EndToEndModel, WeaSEL
from wiesel.io import write_rows
from wiesel.io.rows import write_lazy_rows
from wiesel.labels import LabelSpace
from wiesel.project.training import TrainingSet
from wiesel.unfinished import locked, remove_abandoned, remove_entry

__all__ = [
    "item_weights",
    "joined_labels",
    "one_at_a_time",
    "prediction_frame",
    "remove_leftovers",
    "soft_labels_of",
    "voter_weights",
    "write_predictions",
    "write_soft_labels",
]

_WIDE_VOTERS = 200
"""Above this number, voters share one column of lists."""
_STALE = 24 * 3600.0
"""Seconds after which an unused checkpoint is removed."""


def soft_labels_of(model: EndToEndModel, data: TrainingSet) -> npt.NDArray[np.float64] | None:
    """Return the soft labels of the training items; None if the method has none."""
    if not hasattr(model, "soft_labels"):
        return None
    soft: npt.NDArray[np.float64] = model.soft_labels(data.vectors.train, data.votes)
    return soft


def item_weights(model: EndToEndModel, data: TrainingSet) -> npt.NDArray[np.float64] | None:
    """Return every voter's weight on every training item, if the method learns such weights."""
    if not isinstance(model, WeaSEL):
        return None
    weights = model.accuracies(data.vectors.train, data.votes)
    return weights.mean(axis=2) if weights.ndim == 3 else weights


def voter_weights(
    model: EndToEndModel, data: TrainingSet, weights: npt.NDArray[np.float64] | None
) -> npt.NDArray[np.float64]:
    """Return the method's trust in each voter; NaN if unknown.

    Trust is the mean weight on the items the voter voted on, or its estimated accuracy.
    """
    votes = data.votes
    if weights is not None:
        cast = weights[votes.item_index, votes.voter_index]
        total = np.bincount(votes.voter_index, cast, minlength=votes.n_voters)
        count = np.bincount(votes.voter_index, minlength=votes.n_voters)
        unknown = np.full(votes.n_voters, np.nan)
        return np.divide(total, count, out=unknown, where=count > 0)
    owner: Any = getattr(model, "label_model_", model)
    if not hasattr(owner, "class_balance_"):
        return np.full(votes.n_voters, np.nan)
    learned = summarize(votes, label_model=owner).frame["learned"]
    return learned.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def write_soft_labels(
    data: TrainingSet,
    soft: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    path: Path,
) -> None:
    """Write id, the probability of every class, and the weight of every voter; null if unknown.

    `weights` are (n_items, n_voters), or (n_voters,) if they are the same for all items.
    """
    columns = [data.splits["train"].ids.alias("id"), *proba_columns(soft, data.labels)]
    numbers = weights.astype(np.float32)
    is_narrow = len(data.votes.voters) <= _WIDE_VOTERS
    if weights.ndim == 1 and is_narrow:
        # A million times the same number is no column to hold in memory.
        same = [
            pl.lit(None if np.isnan(number) else float(number), pl.Float32).alias(
                f"weight: {voter}"
            )
            for voter, number in zip(data.votes.voters, numbers, strict=True)
        ]
        write_lazy_rows(pl.DataFrame(columns).lazy().with_columns(same), path)
        return
    if weights.ndim == 1:
        numbers = np.broadcast_to(numbers, (len(soft), len(numbers)))
    if is_narrow:
        columns += [
            pl.Series(f"weight: {voter}", numbers[:, place]).fill_nan(None)
            for place, voter in enumerate(data.votes.voters)
        ]
    else:
        columns.append(pl.Series("weights", numbers, pl.Array(pl.Float32, numbers.shape[1])))
    write_rows(pl.DataFrame(columns), path)


def prediction_frame(
    ids: pl.Series, model: EndToEndModel, proba: npt.NDArray[np.float64]
) -> pl.DataFrame:
    """Return id, the predicted class, and the probability of every class."""
    predicted = predicted_names(model, proba)
    named = [ids.alias("id"), pl.Series("prediction", predicted, pl.String)]
    return pl.DataFrame([*named, *proba_columns(proba, model.labels_)])


def write_predictions(
    data: TrainingSet, model: EndToEndModel, proba: Mapping[str, Any], path: Path
) -> None:
    """Write the predictions on all splits, with the gold labels if known."""
    names = pl.Series(data.labels.names, dtype=pl.String)
    parts = []
    for split, values in proba.items():
        gold = pl.Series(data.splits[split].gold).replace(-1, None)
        frame = prediction_frame(data.splits[split].ids.cast(pl.String), model, values)
        parts.append(
            frame.insert_column(1, pl.lit(split).alias("split")).with_columns(
                names.gather(gold).alias("gold")
            )
        )
    write_rows(pl.concat(parts), path)


def predicted_names(model: EndToEndModel, proba: npt.NDArray[np.float64]) -> list[str]:
    """Return the class that `model.predict` gives for these probabilities.

    Several labels are written as `sports|money`, no label as `-`.
    """
    named = model.task_.decide(proba, model.threshold_)
    return [name if isinstance(name, str) else joined_labels(name) for name in named]


def joined_labels(labels: Sequence[str]) -> str:
    """Return labels joined into one text, as in files.

    >>> joined_labels(["sports", "money"]), joined_labels([])
    ('sports|money', '-')
    """
    return "|".join(labels) or "-"


def proba_columns(proba: npt.NDArray[np.float64], labels: LabelSpace) -> list[pl.Series]:
    """Return one column of probabilities for each class."""
    return [pl.Series(f"p: {name}", proba[:, place]) for place, name in enumerate(labels)]


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let only one run at a time write to an output folder, so that its files belong together."""
    cache = folder / ".cache"
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache):
        yield


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove half-written files and folders of dead runs, and return what was removed.

    Their names begin with a dot and contain the id of the writing process; they are removed once
    that process has ended. A checkpoint is removed once its model is finished, or after a day.
    Links and all other files are left alone.
    """
    places = [folder, folder / ".cache", *sorted((folder / ".cache").glob("*/"))]
    removed = [entry for place in places for entry in remove_abandoned(place)]
    return removed + [
        file
        for file in sorted((folder / ".cache" / "models").glob("*.checkpoint*"))
        if not file.is_symlink() and _is_over(file) and remove_entry(file)
    ]


def _is_over(checkpoint: Path) -> bool:
    """Whether the model of a checkpoint is finished, or the checkpoint is too old."""
    name = checkpoint.name.partition(".checkpoint")[0]
    # The note is written last: if it exists, the model is complete.
    if checkpoint.with_name(f"{name}.json").is_file():
        return True
    try:
        return time.time() - checkpoint.stat().st_mtime > _STALE
    except FileNotFoundError:  # its writer has just finished
        return False
