"""Previews a labeling function before it is added, and filters items."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.summary import conflicted, wilson_interval
from wiesel.errors import DataError, ParameterError, suggest
from wiesel.evaluation.metrics import predicted_classes
from wiesel.labels import ABSTAIN
from wiesel.lfs.function import LabelRule, text_column, true_rows
from wiesel.lfs.text_rules import Keywords
from wiesel.votes import VoteMatrix

__all__ = [
    "ItemFacts",
    "ItemFilter",
    "LFPreview",
    "LabelFacts",
    "RuleEffect",
    "matching_rows",
    "preview_lf",
    "with_voter",
]

_FEW_KEYWORDS = 30
_UNKNOWN = float("nan")
Mask = npt.NDArray[np.bool_]


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


@dataclass(frozen=True, eq=False)
class ItemFacts:
    """Facts about all items; None if not known yet."""

    rows: pl.DataFrame
    votes: VoteMatrix | None = None
    proba: npt.NDArray[np.float64] | None = None
    """P(class) of every item, from whichever model predicts; NaN where it was not asked."""
    gold: npt.NDArray[np.int64] | None = None
    """Class indices, -1 where unknown."""
    decided: npt.NDArray[np.int64] | None = None
    """The predicted classes, if a threshold decides; None for the most probable ones. -1 where the
    model was not asked."""

    @property
    def predicted(self) -> npt.NDArray[np.int64] | None:
        """The predicted class of every item."""
        if self.decided is not None or self.proba is None:
            return self.decided
        return predicted_classes(self.proba)


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


@dataclass(frozen=True, eq=False)
class LabelFacts:
    """Facts about all items of a task in which an item may have several labels, or spans of them.

    All tables are (n_items, n_labels).
    """

    rows: pl.DataFrame
    labels: Sequence[str]
    voted: Callable[[str], Mask]
    """Returns whether a voter (with an empty name: any of them) votes for each label."""
    covered: Mask
    """(n_items,): whether there is a vote at all."""
    conflict: Mask
    """(n_items,): whether voters disagree."""
    gold: npt.NDArray[np.int64]
    """1 present, 0 absent, -1 unknown."""
    predicted: Mask | None = None
    wrong: Mask | None = None
    """(n_items,): whether the prediction differs from what is known."""
    confidence: npt.NDArray[np.float64] | None = None
    """(n_items,): the confidence in the answer that is least sure."""


@dataclass(frozen=True)
class ItemFilter:
    """Selects items that meet all given conditions; `rows(facts)` returns their positions.

    >>> facts = ItemFacts(pl.DataFrame({"text": ["hi", "see www", "win www", "www ok"]}), votes)
    >>> ItemFilter(conflict=True).rows(facts).tolist()
    [1, 3]
    >>> ItemFilter(search="WIN").rows(facts).tolist()
    [2]
    >>> ItemFilter(voter="keyword", vote="ham").rows(facts).tolist()
    [0, 1]
    """

    search: str = ""
    """Words that occur in one of the text columns, ignoring case."""
    covered: bool | None = None
    """True: at least one vote; False: none."""
    conflict: bool | None = None
    """True: two voters name different classes; False: none do."""
    voter: str = ""
    """A voter that voted on the item."""
    vote: str = ""
    """The class it (or, without `voter`, any voter) voted for."""
    predicted: str = ""
    """The predicted class."""
    least_confidence: float = 0.0
    most_confidence: float = 1.0
    """The probability of the predicted class lies between these."""
    gold: str = ""
    """A class; `known` or `unknown`; `wrong` where the prediction differs from the gold label."""
    gold_class: str = ""
    """A class, even if it is named like one of these words."""

    def rows(self, facts: "ItemFacts | LabelFacts") -> npt.NDArray[np.int64]:
        """Return the positions of the items that meet all conditions, in order."""
        if isinstance(facts, LabelFacts):
            found = _search(self, facts) & _voted_for(self, facts) & _answered(self, facts)
            return np.flatnonzero(found)
        mask = np.ones(len(facts.rows), dtype=bool)
        for condition in (_search, _votes, _prediction, _gold):
            mask &= condition(self, facts)
        return np.flatnonzero(mask)

    @property
    def is_empty(self) -> bool:
        """Whether the filter has no conditions."""
        return self == ItemFilter()

    @classmethod
    def of(cls, conditions: dict[str, Any]) -> "ItemFilter":
        """Return a filter from named conditions; an unknown name raises an error.

        >>> ItemFilter.of({"serch": "free"})
        Traceback (most recent call last):
        wiesel.errors.ParameterError: There is no filter 'serch'. Did you mean 'search'?
        """
        known = [field.name for field in fields(cls)]
        for name in conditions:
            if name not in known:
                raise ParameterError(f"There is no filter {name!r}. {suggest(name, known)}")
        return cls(**conditions)


def _search(wanted: ItemFilter, facts: "ItemFacts | LabelFacts") -> Mask:
    if not wanted.search:
        return np.ones(len(facts.rows), dtype=bool)
    pattern = "(?i)" + pl.escape_regex(wanted.search)
    texts = facts.rows.select(pl.col(pl.String))
    if not texts.width:
        raise DataError("There is no column of text to search.")
    found = texts.select(pl.any_horizontal(pl.all().str.contains(pattern)).fill_null(False))
    return found.to_series().to_numpy().astype(bool)


def _voted_for(wanted: ItemFilter, facts: LabelFacts) -> Mask:
    mask = np.ones(len(facts.rows), dtype=bool)
    if wanted.covered is not None:
        mask &= facts.covered == wanted.covered
    if wanted.conflict is not None:
        mask &= facts.conflict == wanted.conflict
    if wanted.voter or wanted.vote:
        voted = facts.voted(wanted.voter)
        mask &= voted[:, _place(facts, wanted.vote)] if wanted.vote else voted.any(axis=1)
    return mask


def _answered(wanted: ItemFilter, facts: LabelFacts) -> Mask:
    """Whether predictions and gold meet the conditions."""
    mask = np.ones(len(facts.rows), dtype=bool)
    limited = wanted.least_confidence > 0 or wanted.most_confidence < 1
    needs_model = wanted.predicted or limited or wanted.gold == "wrong"
    if needs_model and (facts.predicted is None or facts.wrong is None):
        raise DataError("There are no predictions yet to filter by.")
    if wanted.predicted and facts.predicted is not None:
        mask &= facts.predicted[:, _place(facts, wanted.predicted)]
    if limited and facts.confidence is not None:
        mask &= facts.confidence >= wanted.least_confidence
        mask &= facts.confidence <= wanted.most_confidence
    if wanted.gold == "wrong" and facts.wrong is not None:
        mask &= facts.wrong
    elif wanted.gold:
        mask &= (facts.gold != ABSTAIN).all(axis=1) == (wanted.gold == "known")
    if wanted.gold_class:
        mask &= facts.gold[:, _place(facts, wanted.gold_class)] == 1
    return mask


def _place(facts: LabelFacts, label: str) -> int:
    if label not in facts.labels:
        raise DataError(f"There is no label {label!r}. {suggest(label, facts.labels)}")
    return list(facts.labels).index(label)


def _votes(wanted: ItemFilter, facts: ItemFacts) -> Mask:
    mask = np.ones(len(facts.rows), dtype=bool)
    conditions = (wanted.covered, wanted.conflict, wanted.voter or None, wanted.vote or None)
    if all(each is None for each in conditions):
        return mask
    if facts.votes is None:
        raise DataError("There are no votes yet to filter by.")
    votes = facts.votes
    if wanted.covered is not None:
        mask &= votes.covered == wanted.covered
    if wanted.conflict is not None:
        mask &= conflicted(votes) == wanted.conflict
    if wanted.voter or wanted.vote:
        mask &= _voted(wanted, votes)
    return mask


def _voted(wanted: ItemFilter, votes: VoteMatrix) -> Mask:
    chosen = np.ones(votes.n_votes, dtype=bool)
    if wanted.voter:
        if wanted.voter not in votes.voters:
            hint = suggest(wanted.voter, votes.voters)
            raise ParameterError(f"There is no voter {wanted.voter!r}. {hint}")
        chosen &= votes.voter_index == votes.voters.index(wanted.voter)
    if wanted.vote:
        chosen &= votes.class_index == votes.labels.index(wanted.vote)
    return np.bincount(votes.item_index[chosen], minlength=votes.n_items) > 0


def _prediction(wanted: ItemFilter, facts: ItemFacts) -> Mask:
    mask = np.ones(len(facts.rows), dtype=bool)
    limited = wanted.least_confidence > 0 or wanted.most_confidence < 1
    if not wanted.predicted and not limited:
        return mask
    if facts.proba is None or facts.votes is None:
        raise DataError("There are no predictions yet to filter by.")
    predicted = facts.predicted
    if wanted.predicted:
        mask &= predicted == facts.votes.labels.index(wanted.predicted)
    confidence = facts.proba[np.arange(len(mask)), predicted]
    mask &= (confidence >= wanted.least_confidence) & (confidence <= wanted.most_confidence)
    return mask


def _gold(wanted: ItemFilter, facts: ItemFacts) -> Mask:
    mask = np.ones(len(facts.rows), dtype=bool)
    gold = np.full(len(facts.rows), ABSTAIN) if facts.gold is None else facts.gold
    if wanted.gold in ("known", "unknown"):
        mask &= (gold != ABSTAIN) == (wanted.gold == "known")
    elif wanted.gold == "wrong":
        if facts.proba is None:
            raise DataError("There are no predictions yet that could be wrong.")
        known = (gold != ABSTAIN) & (facts.predicted != ABSTAIN)
        mask &= known & (facts.predicted != gold)
    elif wanted.gold:
        mask &= _of_class(wanted.gold, gold, facts)
    if wanted.gold_class:
        mask &= _of_class(wanted.gold_class, gold, facts)
    return mask


def _of_class(name: str, gold: npt.NDArray[np.int64], facts: ItemFacts) -> Mask:
    if facts.votes is None:
        raise DataError("There are no votes yet that name the classes.")
    return gold == facts.votes.labels.index(name)
