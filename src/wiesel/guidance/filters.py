"""Filters for items: by votes, prediction, confidence, gold and words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel.analysis.counts import conflicted
from wiesel.errors import DataError, ParameterError, suggest
from wiesel.evaluation.metrics import predicted_classes
from wiesel.labels import ABSTAIN
from wiesel.votes import VoteMatrix

__all__ = ["ItemFacts", "ItemFilter", "LabelFacts"]

Mask = npt.NDArray[np.bool_]


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
