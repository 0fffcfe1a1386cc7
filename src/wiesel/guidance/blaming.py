"""Blame: which votes, by which voters, on which neighbors, led to a prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.table import Column, Table, count, text
from wiesel.errors import FeatureError, ParameterError
from wiesel.guidance.end_preview import EndPreview, preview_end_model
from wiesel.vote_entries import id_series
from wiesel.votes import VoteMatrix

__all__ = ["Blame", "blame"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Blame:
    """What led to a prediction: each voter's contribution, and the items it came through."""

    label: str
    """The class whose score is explained."""
    proba: Floats
    """P(class) of the item."""
    voters: Table
    """One row per voter and class: its votes that affect this item, and their contribution."""
    neighbors: Table
    """The items with the largest effect on the score, with the votes on them."""
    inputs: npt.NDArray[np.float32]
    """The features of the item."""
    data: tuple[Any, VoteMatrix, Any]
    """The data it was computed from: features, votes, gold."""

    def without(self, voters: Sequence[str] = (), rows: Sequence[int] = ()) -> Floats:
        """Return P(class) of the item without these voters, or without the votes on these rows.

        >>> X = np.array([[-1.0], [0.5], [1.0], [0.8]])
        >>> found = blame(X, votes, 3)
        >>> found.proba[1] > found.without(["link"])[1]
        np.True_
        """
        X, votes, gold = self.data
        kept = without_votes(votes, voters, rows)
        return preview_end_model(X, kept, gold).predict_proba(self.inputs[None])[0]

    def __repr__(self) -> str:
        share = self.proba[self.data[1].labels.index(self.label)]
        head = f"Why {self.label!r} ({100 * share:.0f} %):"
        return "\n".join(
            [head, self.voters.to_text(), "Most influential items:", str(self.neighbors)]
        )


def blame(
    X: Any,
    votes: VoteMatrix,
    item: int | npt.NDArray[Any],
    label: str | None = None,
    *,
    gold: Any = None,
    n: int = 10,
) -> Blame:
    """Return which votes on which neighbors make a linear model predict `label` for an item.

    `item` is the position of an item, or the features of another item, such as a test item.
    `label` is the class to explain, by default the predicted class. The attribution is exact for a
    ridge regression on the features: its score is a sum over the training items, each contributing
    its nearness times its soft label, and a soft label is divided among the votes that produced
    it. `without(...)` returns the prediction without some voters.

    >>> X = np.array([[-1.0], [0.5], [1.0], [0.8]])
    >>> blame(X, votes, 3).voters.frame.select("voter", "vote").rows()[0]
    ('link', 'spam')
    """
    preview = preview_end_model(X, votes, gold)
    inputs = _inputs(preview, item, votes)
    proba = preview.predict_proba(inputs[None])[0]
    name = label or votes.labels.names[int(proba.argmax())]
    place = votes.labels.index(name)
    near = preview.nearness(inputs)
    base = preview.weights @ preview.soft_labels / preview.weights.sum()
    pushes = near * (preview.soft_labels[:, place] - base[place])
    return Blame(
        name,
        proba,
        _voter_table(votes, preview, near, place),
        _neighbor_table(votes, pushes, near, n),
        inputs,
        (X, votes, gold),
    )


def without_votes(
    votes: VoteMatrix, voters: Sequence[str] = (), rows: Sequence[int] = ()
) -> VoteMatrix:
    """Return the votes without those of certain voters or on certain rows.

    >>> without_votes(votes, ["link"], [0]).n_votes
    4
    """
    unknown = [name for name in voters if name not in votes.voters]
    if unknown:
        raise ParameterError(f"There is no voter {unknown[0]!r} to leave out.")
    out = np.isin(votes.voter_index, [votes.voters.index(name) for name in voters])
    out |= np.isin(votes.item_index, np.asarray(rows, dtype=np.int64))
    kept = ~out
    indptr = np.concatenate(
        [[0], np.cumsum(np.bincount(votes.item_index[kept], minlength=len(votes)))]
    )
    parts = None if votes.distribution is None else votes.distribution[kept]
    return VoteMatrix(
        indptr.astype(np.int64),
        votes.voter_index[kept],
        votes.class_index[kept],
        votes.labels,
        votes.voters,
        votes.ids,
        parts,
    )


def _inputs(
    preview: EndPreview, item: int | npt.NDArray[Any], votes: VoteMatrix
) -> npt.NDArray[np.float32]:
    if isinstance(item, (int, np.integer)):
        if not 0 <= item < votes.n_items:
            raise ParameterError(f"There is no item {item}: there are {votes.n_items:,}.")
        return preview.inputs[int(item), :-1]
    inputs = np.asarray(item, dtype=np.float32).ravel()
    if len(inputs) != preview.inputs.shape[1] - 1:
        raise FeatureError(
            f"The item has {len(inputs)} features; the training items have "
            f"{preview.inputs.shape[1] - 1}."
        )
    return inputs


def _voter_table(votes: VoteMatrix, preview: EndPreview, near: Floats, place: int) -> Table:
    """Return the contribution of every voter's votes to the score of the class."""
    for_class = votes.class_index == place
    # The votes for the class share its probability mass on an item; the votes for other classes
    # share the mass missing to one.
    own = np.bincount(votes.item_index[for_class], minlength=len(votes))
    other = np.bincount(votes.item_index[~for_class], minlength=len(votes))
    mass = preview.soft_labels[:, place]
    item = votes.item_index
    share = np.where(
        for_class,
        mass[item] / np.maximum(own[item], 1),
        -(1 - mass[item]) / np.maximum(other[item], 1),
    )
    frame = pl.DataFrame(
        {
            "voter": np.array(votes.voters, dtype=object)[votes.voter_index].astype(str),
            "vote": np.array(votes.labels.names, dtype=object)[votes.class_index].astype(str),
            "push": near[item] * share,
        }
    )
    grouped = (
        frame.group_by("voter", "vote", maintain_order=True)
        .agg(pl.len().alias("votes"), pl.col("push").sum())
        .sort("push", descending=True, maintain_order=True)
    )
    return Table(grouped, (text("voter"), text("vote"), count("votes"), _signed("push")))


def _neighbor_table(votes: VoteMatrix, pushes: Floats, near: Floats, n: int) -> Table:
    order = np.argsort(-pushes, kind="stable")[:n]
    order = order[pushes[order] > 0]
    part = votes[order]
    vote_texts = [
        [
            f"{votes.voters[v]}: {votes.labels.names[c]}"
            for v, c in zip(
                part.voter_index[part.indptr[k] : part.indptr[k + 1]],
                part.class_index[part.indptr[k] : part.indptr[k + 1]],
                strict=True,
            )
        ]
        for k in range(len(order))
    ]
    frame = pl.DataFrame(
        {
            "item": id_series(votes.ids[order]),
            "row": order,
            "push": pushes[order],
            "nearness": near[order],
            "votes": vote_texts,
        },
        schema_overrides={"votes": pl.List(pl.String), "row": pl.Int64},
    )
    return Table(frame, (text("item"), _signed("push"), text("votes")))


def _signed(name: str) -> Column:
    return Column(name, lambda row: f"{row[name]:+.3f}")
