"""Previews a labeling function before it is added: hits, conflicts, fixes, precision."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.counts import wilson_interval
from wiesel.errors import ParameterError
from wiesel.guidance.filters import ItemFacts
from wiesel.labels import ABSTAIN
from wiesel.lfs.rules import LabelRule, text_column, true_rows
from wiesel.lfs.text_rules import Keywords
from wiesel.votes import VoteMatrix

__all__ = ["LFPreview", "RuleEffect", "matching_rows", "preview_lf", "with_voter"]

_FEW_KEYWORDS = 30
_UNKNOWN = float("nan")


@dataclass(frozen=True, eq=False)
class LFPreview:
    """The effect of a labeling function on the current items; NaN if unknown."""

    label: str
    rows: npt.NDArray[np.int64]
    """The items it would vote on."""
    n_items: int
    conflicts: int
    """The number of items on which an existing voter names another class."""
    newly_covered: int
    """The number of items without a vote so far."""
    fixes: npt.NDArray[np.int64]
    """Items with gold whose majority vote is wrong (or missing) and that it gets right."""
    breaks: npt.NDArray[np.int64]
    """Items with gold whose majority vote is right and that it gets wrong."""
    support: int
    """The number of its items with gold."""
    precision: float
    """The share of its items with gold that it gets right."""
    precision_low: float
    precision_high: float
    from_features: float
    """The mean probability of its class on its rows, from the end model's preview."""
    from_voters: float
    """The share of the other voters' votes on its rows that name its class."""

    @property
    def coverage(self) -> float:
        """The share of items it would vote on."""
        return len(self.rows) / max(self.n_items, 1)

    @property
    def estimate(self) -> float:
        """The precision estimated from gold, features and other voters together.

        Each source is weighted by the number of items it covers. Features and voters make
        correlated errors, so they count as at most ten and five items.
        """
        parts = [(self.precision, float(self.support))]
        parts += [(self.from_features, min(10.0, len(self.rows)))]
        parts += [(self.from_voters, min(5.0, len(self.rows)))]
        known = [(value, weight) for value, weight in parts if not np.isnan(value) and weight > 0]
        total = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / total if total else _UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data; unknown is None."""
        data = asdict(self) | {"coverage": self.coverage, "estimate": self.estimate}
        plain = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in data.items()
        }
        return {
            name: None if isinstance(value, float) and np.isnan(value) else value
            for name, value in plain.items()
        }


@dataclass(frozen=True, eq=False)
class RuleEffect:
    """What a rule would change in the preview of the end model."""

    gained: npt.NDArray[np.int64]
    """The rows that had no vote and would have one."""
    lost: npt.NDArray[np.int64]
    """The rows whose only vote would go, if the rule replaces another."""
    changed: npt.NDArray[np.int64]
    """The rows whose predicted class would change."""
    n_labeled: int
    """The number of labeled rows that the interval is about."""
    points: tuple[float, float] | None
    """The 95 % interval of the change in accuracy; None without labeled rows."""


def preview_lf(lf: LabelRule, facts: ItemFacts) -> LFPreview:
    """Return the effect of a rule on items, given the current votes, predictions and gold.

    >>> from wiesel import keywords
    >>> facts = ItemFacts(pl.DataFrame({"text": ["hi", "see www", "win www", "www ok"]}), votes)
    >>> found = preview_lf(keywords("spam", ["www"], column="text"), facts)
    >>> found.rows.tolist(), found.conflicts, found.newly_covered
    ([1, 2, 3], 2, 0)
    """
    if not isinstance(lf, LabelRule):
        raise ParameterError(
            f"Only rules that vote for one class are previewed; got {type(lf).__name__}. "
            "A Python labeling function is run with try_lfs or apply_lfs."
        )
    rows = matching_rows(lf, facts.rows)
    votes, gold = facts.votes, facts.gold
    place = None if votes is None else votes.labels.index(lf.label)
    right, judged = _judged(rows, gold, place)
    low, high = wilson_interval(np.array([right]), np.array([judged]))
    others = (0, 0, _UNKNOWN) if votes is None or place is None else _beside(votes, rows, place)
    fixes, breaks = _changes(votes, gold, rows, place)
    features = _UNKNOWN
    if facts.proba is not None and len(rows) and place is not None:
        features = float(facts.proba[rows, place].mean())
    return LFPreview(
        lf.label,
        rows,
        len(facts.rows),
        others[0],
        others[1],
        fixes,
        breaks,
        judged,
        right / judged if judged else _UNKNOWN,
        float(low[0]) if judged else _UNKNOWN,
        float(high[0]) if judged else _UNKNOWN,
        features,
        others[2],
    )


def with_voter(votes: VoteMatrix, name: str, rows: npt.NDArray[np.int64], label: str) -> VoteMatrix:
    """Return votes with one more voter, which votes for one class on some rows.

    >>> more = with_voter(votes, "new", np.array([0]), "ham")
    >>> (more.n_voters - votes.n_voters, more.n_votes - votes.n_votes, more.voters[-1])
    (1, 1, 'new')
    """
    place = votes.labels.index(label)
    counts = np.diff(votes.indptr)
    more = counts.copy()
    more[rows] += 1
    indptr = np.concatenate([[0], np.cumsum(more)])
    ends = indptr[1:][rows] - 1  # the new voter is the last, so its vote is the last of its item
    is_new = np.zeros(int(indptr[-1]), dtype=bool)
    is_new[ends] = True
    voter = np.full(len(is_new), votes.n_voters, dtype=votes.voter_index.dtype)
    classes = np.full(len(is_new), place, dtype=votes.class_index.dtype)
    voter[~is_new], classes[~is_new] = votes.voter_index, votes.class_index
    shares = None
    if votes.distribution is not None:
        shares = np.zeros((len(is_new), votes.n_classes), dtype=np.float32)
        shares[is_new, place] = 1
        shares[~is_new] = votes.distribution
    return VoteMatrix(
        indptr.astype(votes.indptr.dtype),
        voter,
        classes,
        votes.labels,
        (*votes.voters, name),
        votes.ids,
        shares,
    )


def matching_rows(lf: LabelRule, frame: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the positions of the rows on which a rule votes.

    For a few keywords, Polars' own engine is several times faster than the single pass that
    `apply_lfs` makes for hundreds of them; both find the same rows.
    """
    if not isinstance(lf, Keywords) or len(lf.keywords) > _FEW_KEYWORDS:
        return np.asarray(type(lf).matching_rows([lf], frame)[0], dtype=np.int64)
    texts = text_column(frame, lf, lf.column)
    found = pl.DataFrame([texts]).select(
        pl.sum_horizontal(
            pl.first().str.contains(pattern).cast(pl.Int32) for pattern in set(lf.patterns)
        )
        >= lf.min_matches
    )
    return true_rows(found.to_series())


def _judged(
    rows: npt.NDArray[np.int64], gold: npt.NDArray[np.int64] | None, place: int | None
) -> tuple[int, int]:
    if gold is None or place is None:
        return 0, 0
    known = gold[rows]
    known = known[known != ABSTAIN]
    return int((known == place).sum()), len(known)


def _beside(votes: VoteMatrix, rows: npt.NDArray[np.int64], place: int) -> tuple[int, int, float]:
    """Return conflicts with existing votes, items without any, and the voters' agreement."""
    counts = votes.counts()[rows]
    total = counts.sum(axis=1)
    against = total - counts[:, place]
    agreeing = float(counts[:, place].sum() / total.sum()) if total.sum() else _UNKNOWN
    return int((against > 0).sum()), int((total == 0).sum()), agreeing


def _changes(
    votes: VoteMatrix | None,
    gold: npt.NDArray[np.int64] | None,
    rows: npt.NDArray[np.int64],
    place: int | None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    none = np.empty(0, dtype=np.int64)
    if votes is None or gold is None or place is None:
        return none, none
    counts = votes.counts()[rows]
    leading = np.where(counts.sum(axis=1) > 0, counts.argmax(axis=1), ABSTAIN)
    known = gold[rows] != ABSTAIN
    fixes = rows[known & (gold[rows] == place) & (leading != place)]
    breaks = rows[known & (gold[rows] != place) & (leading == gold[rows])]
    return fixes, breaks
