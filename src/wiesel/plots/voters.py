"""Plots of votes and voters: coverage, agreement, trust."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wiesel.analysis.agreement import pair_counts
from wiesel.analysis.summary import class_counts, gold_counts, gold_indices, ratio, summarize
from wiesel.errors import DataError, ParameterError
from wiesel.label_models import LabelModel
from wiesel.labels import ABSTAIN
from wiesel.plots.drawing import (
    COLORS,
    LINE,
    MOST_VOTERS,
    add_legend,
    color_of,
    empty_figure,
    name_rows,
    plot_title,
    rows_figure,
)
from wiesel.scikit_learn import require_model
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["agreement", "voter_weights", "votes_per_voter"]

_NUMBERED = 12
"""Above this number of voters, the cells of a heat map show no numbers."""
_BAND = (10, 90)
_EXPLAINED = 300


def votes_per_voter(votes: VoteMatrix, gold: Any = None) -> "Figure":
    """Plot each voter's votes by class; with `gold`, also how often it is right.

    The plot shows the 40 voters with the most votes.

    >>> votes_per_voter(votes, gold=["ham", "spam", "spam", None]).axes[0].get_xlabel()
    'share of the items'
    """
    _check_votes(votes)
    counts = class_counts(votes)
    order = np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_VOTERS]
    figure, axes = rows_figure(len(order))
    shares = counts[order] / max(1, votes.n_items)
    start = np.zeros(len(order))
    for index, name in enumerate(votes.labels.names):
        axes.barh(
            range(len(order)), shares[:, index], left=start, color=color_of(index), label=name
        )
        start += shares[:, index]
    name_rows(axes, [votes.voters[place] for place in order])
    title = plot_title("Votes by class", len(order), votes.n_voters)
    axes.set(xlabel="share of the items", title=title)
    axes.set_xlim(0, (1.05 if gold is None else 1.25) * max(start.max(initial=0), 0.01))
    if gold is not None:
        found = gold_counts(votes, gold_indices(votes, gold))
        right = ratio(found.correct.sum(axis=1), found.support.sum(axis=1))[order]
        for row, (end, share) in enumerate(zip(start, right, strict=True)):
            words = "no gold" if math.isnan(share) else f"{100 * share:.0f} % right"
            axes.annotate(words, (end, row), (4, 0), textcoords="offset points", va="center")
    add_legend(axes)
    return figure


def agreement(votes: VoteMatrix) -> "Figure":
    """Plot a heat map of pairwise agreement; gray if two voters never vote on the same item.

    >>> agreement(votes).axes[0].images[0].get_array().shape
    (3, 3)
    """
    _check_votes(votes)
    pairs, n_voters = pair_counts(votes), votes.n_voters
    shares = np.full((n_voters, n_voters), np.nan)
    shares[pairs.first, pairs.second] = pairs.agree / pairs.both
    shares[pairs.second, pairs.first] = pairs.agree / pairs.both
    busiest = np.sort(np.argsort(-class_counts(votes).sum(axis=1), kind="stable")[:MOST_VOTERS])
    shares, names = shares[np.ix_(busiest, busiest)], [votes.voters[place] for place in busiest]
    size = min(3.2 + 0.42 * len(names), 14)
    figure = empty_figure(size + 0.8, size, layout="compressed")
    axes = figure.subplots()
    axes.set_facecolor(LINE)
    image = axes.imshow(np.ma.masked_invalid(shares), cmap="RdBu", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    if len(names) <= _NUMBERED:
        _number_cells(axes, shares)
    axes.set_title(plot_title("Agreement of voters that vote together", len(names), n_voters))
    figure.colorbar(image, label="share of the same votes", fraction=0.046, pad=0.04)
    return figure


def voter_weights(model: Any, X: Any = None, votes: VoteMatrix | None = None) -> "Figure":
    """Plot the trust of a fitted model in every voter.

    For label models, trust is the voter's estimated accuracy. Other methods weight voters per item,
    so they need `X` and `votes`; the plot shows the median over the items that a voter votes on,
    and the range of the middle 80 %. Methods without an encoder explain items one by one, at most
    300 of them.

    >>> from wiesel import OneCoin
    >>> voter_weights(OneCoin().fit(votes)).axes[0].get_xlabel()
    'accuracy estimated by OneCoin'
    """
    require_model(model, "model")
    if isinstance(model, LabelModel):
        values = np.asarray(_learned_accuracies(model, votes), dtype=np.float64)
        return _dots(model, values, None, f"accuracy estimated by {type(model).__name__}")
    if not hasattr(model, "accuracies") and not hasattr(model, "vote_effects"):
        raise ParameterError(f"{type(model).__name__} has no voters, so there are no weights.")
    if X is None or votes is None:
        raise ParameterError(
            f"The weights of {type(model).__name__} differ from item to item: call "
            "voter_weights(model, X, votes)."
        )
    weights = _weights_by_item(model, X, votes)
    voting = ~np.isnan(weights).all(axis=0)
    middle = np.full((3, votes.n_voters), np.nan)
    middle[:, voting] = np.nanpercentile(weights[:, voting], (_BAND[0], 50, _BAND[1]), axis=0)
    title = f"weight of {type(model).__name__}, median and middle 80 % of the items"
    return _dots(model, middle[1], middle[[0, 2]], title)


def _weights_by_item(model: Any, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """Return the weight of each vote, (items, n_voters); NaN if the voter abstains."""
    if hasattr(model, "accuracies"):
        weights = np.asarray(model.accuracies(X, votes))
        weights = weights.mean(axis=2) if weights.ndim == 3 else weights
        return np.where(votes.dense() != ABSTAIN, weights, np.nan)
    from wiesel.training import as_inputs

    model.check_votes(votes)
    covered = np.flatnonzero(votes.covered)
    rows = covered[np.linspace(0, len(covered) - 1, min(len(covered), _EXPLAINED)).astype(int)]
    weights = np.full((len(rows), votes.n_voters), np.nan)
    inputs = model.inputs_of(X, votes)
    for row, item in enumerate(rows):
        one, own = as_inputs(inputs.take(np.array([item]))), votes[[item]]
        weights[row, own.voter_index] = model.vote_effects(one, own).weights
    return weights


def _learned_accuracies(model: LabelModel, votes: VoteMatrix | None) -> Any:
    """Return the accuracies from `summarize`, which takes votes of the same voters, here empty."""
    if votes is None:
        silent = [[None] * len(model.voters_)]
        votes = VoteMatrix.from_dense(silent, model.labels_, model.voters_)
    learned = summarize(votes, label_model=model).frame["learned"].fill_null(math.nan)
    if learned.is_nan().all():
        raise ParameterError(f"{type(model).__name__} learns nothing about single voters.")
    return learned.to_numpy()


def _dots(
    model: Any, values: npt.NDArray[np.float64], ends: npt.NDArray[np.float64] | None, title: str
) -> "Figure":
    """Plot a dot per voter, the most trusted on top, with a line between `ends`."""
    order = np.argsort(-np.nan_to_num(values, nan=-math.inf), kind="stable")[:MOST_VOTERS]
    figure, axes = rows_figure(len(order))
    if ends is not None:
        axes.hlines(range(len(order)), *ends[:, order], color=COLORS[0], alpha=0.35, linewidth=5)
    axes.plot(values[order], range(len(order)), "o", color=COLORS[0])
    name_rows(axes, [model.voters_[place] for place in order])
    axes.set(xlabel=title, title=plot_title("Trust in voters", len(order), len(values)))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color=LINE)
    axes.set_axisbelow(True)
    return figure


def _number_cells(axes: "Axes", shares: npt.NDArray[np.float64]) -> None:
    for row, column in np.argwhere(~np.isnan(shares)):
        share = shares[row, column]
        color = "white" if abs(share - 0.5) > 0.35 else "black"
        axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=color)


def _check_votes(votes: Any) -> None:
    if not isinstance(votes, VoteMatrix):
        raise DataError(f"votes must be a VoteMatrix; got {type(votes).__name__}.")
