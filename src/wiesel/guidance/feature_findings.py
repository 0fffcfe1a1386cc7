"""Findings from features: LFs to blame, voters they contradict, groups without votes."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.findings import Finding, as_text
from wiesel.analysis.summary import class_counts
from wiesel.analysis.table import Column, Table, count, text
from wiesel.errors import DataError, FeatureError, ParameterError
from wiesel.guidance.end_preview import EndPreview, features_of, preview_end_model
from wiesel.guidance.terms import TermIndex, distinctive_terms
from wiesel.parameters import check_number
from wiesel.tables import in_order_of
from wiesel.threads import one_thread
from wiesel.vote_entries import id_series
from wiesel.votes import VoteMatrix, require_votes

__all__ = ["Blame", "Cluster", "blame", "feature_findings", "uncovered_clusters"]

_SAMPLE = 5000
"""The sample size: large enough to find common patterns, in a second or two."""
_VOTERS = 30
"""The maximum number of voters to check: those with the lowest trust from the features."""
_FEW_VOTES = 20
_SURE = 3.0
_CLUSTERS = 3
_LARGE_CLUSTER = 0.03
"""The minimum share of all items for an uncovered group to be worth a voter."""
_LIFT, _WORD_SHARE, _LEAST_WORDS = 3.0, 0.1, 2
"""A word characterizes a group if it is three times as frequent there as elsewhere and in a tenth
of its texts. A group with fewer than two such words has nothing a voter could look for."""
_SHOWN_ROWS, _SHOWN_WORDS = 6, 4
_CLUSTERED = 20_000
"""Cluster centers are computed on at most this many items; then all items are assigned."""
_STARTS = 3

Points = npt.NDArray[np.float32]
"""(n_points, n_features)"""
Floats = npt.NDArray[np.float64]


def feature_findings(
    X: Any, votes: VoteMatrix, texts: Sequence[str] | pl.Series | None = None, *, seed: int = 0
) -> list[Finding]:
    """Return voters contradicted by features and other voters, and groups of items without votes.

    `X` contains the features of all items, `texts` their texts, if any. With texts, each group
    comes with the words that distinguish it. Large data sets are sampled.

    >>> X = [[0.0], [0.1], [5.0], [5.0], [5.0]] * 20
    >>> votes = VoteMatrix.from_dense([[0], [1], [-1], [-1], [-1]] * 20, ["ham", "spam"], ["a"])
    >>> texts = ["hi", "hello", "win cash", "win cash", "win cash"] * 20
    >>> found = feature_findings(X, votes, texts)
    >>> found[0].kind, found[0].words[0]
    ('uncovered_cluster', 'cash')
    """
    require_votes(votes)
    check_number(VoteMatrix, "seed", seed, low=0, whole=True)
    rng = np.random.default_rng(seed)
    n_items = votes.n_items
    rows = np.arange(n_items)
    if n_items > _SAMPLE:
        rows = np.sort(rng.choice(n_items, _SAMPLE, replace=False))
    part, features = votes[rows], features_of(X, votes, rows=rows)
    index = None
    if texts is not None:
        ordered = in_order_of(votes, texts, "texts")
        texts = ordered if isinstance(ordered, pl.Series) else list(ordered)
        if len(texts) != n_items:
            raise DataError(f"There are {len(texts):,} texts but votes on {n_items:,} items.")
        index = TermIndex.of([texts[int(row)] for row in rows], phrases=False)
    return [*_contradicted(features, part, rows), *_uncovered(features, part, index, rows, n_items)]


def _contradicted(
    X: npt.NDArray[np.float32], votes: VoteMatrix, rows: npt.NDArray[np.int64]
) -> Iterator[Finding]:
    """Yield voters for whose items the other voters, via the features, predict another class.

    Each voter is compared with a model trained on all other voters. The items it votes on should
    be at least as likely to have its class as a random item.
    """
    if votes.n_voters < 2 or len(np.unique(votes.class_index)) < 2:
        return
    by_class = class_counts(votes)
    trust = preview_end_model(X, votes).trust
    least_trusted = np.argsort(np.where(by_class.sum(axis=1) >= _FEW_VOTES, trust, np.inf))[
        :_VOTERS
    ]
    for j in least_trusted:
        others = by_class.sum(axis=0) - by_class[j]
        own = votes.voter_index == j
        # If nobody else votes for a class, there is nothing to compare a vote for it with.
        own &= others[votes.class_index] > 0
        if own.sum() < _FEW_VOTES or (others > 0).sum() < 2:
            continue
        rest = without_votes(votes, [votes.voters[j]])
        proba = preview_end_model(X, rest).proba
        for found in _judged(votes, proba, own, votes.voters[j]):
            yield found._replace(rows=[int(rows[row]) for row in found.rows])


def _judged(
    votes: VoteMatrix, proba: npt.NDArray[np.float64], own: npt.NDArray[np.bool_], name: str
) -> Iterator[Finding]:
    voted = votes.class_index[own]
    expected = proba[votes.item_index[own], voted]
    chance = proba.mean(axis=0)[voted].mean()
    error = expected.std() / np.sqrt(len(expected))
    if expected.mean() + _SURE * error >= chance:
        return
    worst = votes.item_index[own][np.argsort(expected, kind="stable")[:_SHOWN_ROWS]]
    classes = sorted({votes.labels.names[k] for k in voted})
    sentence = (
        f"{name!r} is contradicted by the features and the other voters: they give its classes a "
        f"probability of {as_text(float(expected.mean()))} on the items it votes on, and of "
        f"{as_text(float(chance))} on all items. Check what it matches."
    )
    yield Finding(
        "contradicted",
        sentence,
        [name],
        classes,
        float(expected.mean() - chance),
        rows=[int(row) for row in worst],
    )


def _uncovered(
    X: npt.NDArray[np.float32],
    votes: VoteMatrix,
    index: TermIndex | None,
    rows: npt.NDArray[np.int64],
    n_items: int,
) -> Iterator[Finding]:
    found = uncovered_clusters(X, votes, index)
    large = [each for each in found if len(each) >= max(5, _LARGE_CLUSTER * votes.n_items)]
    if index is not None:
        # Nobody can write a voter for a group without characteristic words.
        described = [replace(each, words=_distinctive_words(index, each.rows)) for each in large]
        large = [each for each in described if len(each.words) >= _LEAST_WORDS]
    large = large[:_CLUSTERS]
    if not large:
        return
    about = "about " if n_items > votes.n_items else ""
    share = sum(map(len, large)) / votes.n_items
    groups = [_group(each, n_items / votes.n_items) for each in large]
    sentence = (
        f"{about}{round(share * n_items):,} items ({as_text(share)}) without votes form "
        f"{'one group' if len(large) == 1 else f'{len(large)} groups'}: {'; '.join(groups)}. "
        "Voters for them would increase coverage."
    )
    yield Finding(
        "uncovered_cluster",
        sentence[0].upper() + sentence[1:],
        value=share,
        words=[word for each in large for word in _words(each)],
        rows=[int(rows[row]) for row in _in_turn(large)],
    )


def _distinctive_words(index: TermIndex, rows: npt.NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(distinctive_terms(index, rows, least_lift=_LIFT, least_share=_WORD_SHARE))


@dataclass(frozen=True, eq=False)
class Cluster:
    """Similar items without a vote."""

    rows: npt.NDArray[np.int64]
    """Positions of the items, nearest to the center first."""
    words: tuple[str, ...]
    """Terms that distinguish these items from all others; empty without texts."""

    def __len__(self) -> int:
        return len(self.rows)


def _group(cluster: Cluster, scale: float) -> str:
    words = ", ".join(_words(cluster))
    count = f"{round(len(cluster) * scale):,} items"
    return f"{words} ({count})" if words else count


def _words(cluster: Cluster) -> list[str]:
    return [word for word in cluster.words if len(word) > 1][:_SHOWN_WORDS]


def _in_turn(clusters: Sequence[Cluster]) -> list[int]:
    """Return the rows nearest to the centers, taking the groups in turn."""
    depth = range(-(-_SHOWN_ROWS // len(clusters)))
    return [int(each.rows[k]) for k in depth for each in clusters if k < len(each)][:_SHOWN_ROWS]


@one_thread()
def uncovered_clusters(
    X: Any,
    votes: VoteMatrix,
    index: TermIndex | None = None,
    *,
    n_clusters: int = 8,
    seed: int = 0,
) -> list[Cluster]:
    """Return clusters of the items without a vote, the largest first.

    `X` contains the features of all items, `index` the terms of their texts for the words.

    >>> from wiesel import VoteMatrix
    >>> some = VoteMatrix.from_dense([[0], [-1], [-1], [-1]], ["ham", "spam"], ["keyword"])
    >>> index = TermIndex.of(["hi", "win cash", "cash now", "lunch"], min_count=1)
    >>> found = uncovered_clusters([[0.0], [5.0], [5.1], [-5.0]], some, index, n_clusters=2)
    >>> [(cluster.words[:1], len(cluster)) for cluster in found]
    [(('cash',), 2), (('lunch',), 1)]
    """
    require_votes(votes)
    features = features_of(X, votes)
    rows = np.flatnonzero(~votes.covered)
    if not len(rows):
        return []
    from scipy.cluster.vq import vq

    check_number(VoteMatrix, "seed", seed, low=0, whole=True)
    rng = np.random.default_rng(seed)
    sample = rows if len(rows) <= _CLUSTERED else np.sort(rng.choice(rows, _SAMPLE, replace=False))
    centers = _centers(features[sample], min(n_clusters, len(sample)), rng)
    group, distance = vq(features[rows], centers)
    found = [_cluster(rows, distance, group == k, index) for k in range(len(centers))]
    return sorted((each for each in found if len(each)), key=len, reverse=True)


def _centers(points: Points, n_clusters: int, rng: np.random.Generator) -> Points:
    """The centers of k-means clusters, from the best of a few random starts."""
    from scipy.cluster.vq import kmeans2, vq  # scikit-learn's takes longer to import

    # Neither fewer distinct points than clusters nor an empty cluster is an error.
    n_clusters = min(n_clusters, len(np.unique(points, axis=0)))
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        tries = [kmeans2(points, n_clusters, minit="++", rng=rng)[0] for _ in range(_STARTS)]
    return min(tries, key=lambda centers: float(np.square(vq(points, centers)[1]).sum()))


def _cluster(
    rows: npt.NDArray[np.int64],
    distance: npt.NDArray[np.floating[Any]],
    own: npt.NDArray[np.bool_],
    index: TermIndex | None,
) -> Cluster:
    nearest = np.argsort(distance[own], kind="stable")
    chosen = rows[own][nearest]
    return Cluster(chosen, () if index is None else tuple(distinctive_terms(index, chosen)))


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
    try:
        inputs = np.asarray(item, dtype=np.float32).ravel()
    except (TypeError, ValueError):
        raise FeatureError(
            f"item is the position of an item, or its features; got {item!r:.60}."
        ) from None
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
