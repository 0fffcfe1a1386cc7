"""Findings: actionable problems of the votes, in plain sentences with the evidence."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from wiesel.analysis.agreement import PairCounts, agreement, majority_agreement, pair_counts
from wiesel.analysis.summary import (
    class_counts,
    gold_counts,
    gold_indices,
    item_counts,
    voter_counts,
    wilson_interval,
)
from wiesel.analysis.table import Table, text
from wiesel.labels import ABSTAIN, IntArray, class_prior
from wiesel.threads import check_polars_threads
from wiesel.votes import Statistics, VoteMatrix, VoteSource, require_votes

__all__ = [
    "Finding",
    "as_text",
    "balance_finding",
    "finding_frame",
    "findings",
    "gold_findings",
    "majority_agreement",
    "most_serious_first",
    "pair_findings",
    "peer_findings",
    "vote_findings",
]

FEW_VOTES = 10
"""With fewer votes, the quality of a voter cannot be judged."""

_LOW_COVERAGE = 0.5
_LOW_OVERLAP = 0.05
_RARE_VOTER = 0.1
_CONSTANT = 0.99
_SKEWED = 0.9
_MANY_ITEMS, _SELDOM = 0.4, 0.1
"""A catch-all votes on so many items, and with others so much less often than by chance."""
_OFTEN_ALONE = 0.2
"""If at least this share of the votes is alone on its item, being alone is normal."""
_SHARED_ITEMS = 10
_CONFLICTS = 5
_SURE = 3.5
"""Standard deviations beyond chance: high enough that none of hundreds of pairs passes by luck."""
_OPPOSED = 0.3
"""The minimum share of a voter's votes that another voter contradicts, to be worth a look."""
_ENOUGH_MEETINGS = 50
_HARDLY_AGREE = 0.1
_BARELY = 0.1
_COMPARED_ITEMS = 30
_FEW_ITEMS = 10
"""With fewer gold items of a class, its coverage cannot be judged."""
_REACHED = 0.1
"""A class counts as missed if a smaller share of its items has a vote for it."""
_NEAR, _TIMES = 0.03, 3.0
"""A share that the user gave is contradicted by votes with three times or a third of it."""
_FAR = 0.15
"""The difference between two estimates of a class share from which one is misleading."""
_NAMED = 3

_GRAVITY = (
    ("no_votes", "one_sided", "leak"),
    ("missing_class", "worse_than_chance", "uncovered_class"),
    ("contradicted", "contrary", "class_balance", "members_disagree", "unknown_balance"),
    ("catch_all", "duplicate"),
    ("near_duplicate", "uncovered_cluster", "conflict", "spammer", "high_conflict"),
    ("never_votes", "constant", "skewed", "low_coverage"),
    ("copies", "single_voter_class", "low_overlap", "never_alone", "few_votes"),
)
"""Kinds of findings, the most serious first: wrong results come before wasted votes."""
_TIER = {kind: tier for tier, kinds in enumerate(_GRAVITY) for kind in kinds}


class Finding(NamedTuple):
    """An actionable problem of the votes, with the evidence for it."""

    kind: str
    """The kind of finding, such as `duplicate` or `one_sided`."""
    sentence: str
    voters: Sequence[str] = ()
    classes: Sequence[str] = ()
    value: float | None = None
    """The number behind it: a share, a rate or a count."""
    words: Sequence[str] = ()
    """Words that distinguish the items it is about from all others."""
    rows: Sequence[int] = ()
    """The positions of the items to look at first."""


def finding_frame(found: Iterable[Finding]) -> pl.DataFrame:
    """Return findings as a table with one row each.

    >>> finding_frame([Finding("no_votes", "No voter votes on any item.")])["kind"].to_list()
    ['no_votes']
    """
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "kind": pl.String,
        "sentence": pl.String,
        "voters": pl.List(pl.String),
        "classes": pl.List(pl.String),
        "value": pl.Float64,
        "words": pl.List(pl.String),
        "rows": pl.List(pl.Int64),
    }
    records: list[dict[str, Any]] = [
        {name: list(v) if isinstance(v, (list, tuple)) else v for name, v in each._asdict().items()}
        for each in found
    ]
    return pl.DataFrame(records, schema=schema, orient="row")


def most_serious_first(found: Iterable[Finding]) -> list[Finding]:
    """Return findings ordered by how serious they are.

    >>> few, none = Finding("few_votes", "Few."), Finding("no_votes", "None.")
    >>> [each.kind for each in most_serious_first([few, none])]
    ['no_votes', 'few_votes']
    """
    return sorted(found, key=lambda each: _TIER.get(each.kind, len(_GRAVITY)))


def as_text(value: float | Sequence[str]) -> str:
    """Return a share or some voter names, formatted for a sentence.

    >>> as_text(0.123), as_text(["a", "b"]), as_text(["a", "b", "c", "d", "e"])
    ('12.3 %', "'a' and 'b'", "'a', 'b', 'c' and 2 more")
    >>> as_text(["a", "b", "c"]), as_text(["a", "b", "c", "d"])
    ("'a', 'b' and 'c'", "'a', 'b', 'c' and 'd'")
    """
    if not isinstance(value, Sequence):
        return f"{100 * value:.1f} %"
    names = [repr(name) for name in value]
    if len(names) > _NAMED + 1:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def findings(votes: VoteSource, gold: Any = None, class_balance: Any = None) -> Table:
    """Return problems of the votes, the most serious first.

    Each row has a `kind`, a `sentence`, the `voters` and `classes` it is about, the `value` behind
    it, and, if there are any, characteristic `words` and `rows` to look at. `gold` (class names or
    indices, None if unknown) adds voters that are worse than the class balance and classes that
    the votes miss. Without `gold`, the votes' class shares are compared with `class_balance`
    (shares, or shares by name). `disagreements(votes, rows, finding=...)` lists the items behind a
    row. `wiesel.guidance.feature_findings` also uses features and texts.

    >>> from wiesel import VoteMatrix
    >>> votes = VoteMatrix.from_dense([[0, 0], [1, 1], [0, 0]] * 2, ["ham", "spam"], ["a", "b"])
    >>> print(findings(votes).frame["sentence"][0])
    'a' and 'b' always vote the same: they count twice in a majority vote. Keep one of them.
    """
    found = vote_findings(votes, gold, class_balance)
    many = "1 finding" if len(found) == 1 else f"{len(found)} findings"
    caption = many if found else "No problems were found in these votes."
    return Table(finding_frame(found), (text("kind"), text("sentence")), caption)


def vote_findings(votes: VoteSource, gold: Any = None, class_balance: Any = None) -> list[Finding]:
    """Return the `Finding` objects, the most serious first."""
    check_polars_threads("findings")
    require_votes(votes)
    found = [*_class_findings(votes), *_voter_findings(votes)]
    trusted: set[str] = set()
    if gold is not None:
        known = gold_indices(votes, gold)
        judged, trusted = gold_findings(votes, known)
        found += judged
    elif class_balance is not None:
        found += balance_finding(votes, class_prior(votes.labels, class_balance), 0)
    accused = [each for each in peer_findings(votes) if not set(each.voters) & trusted]
    # A voter that contradicts all others conflicts with each of them: report it only once.
    suspects = {name for each in accused for name in each.voters}
    found += pair_findings(votes, suspects)
    found += accused
    found += _coverage_findings(votes)
    return most_serious_first(found)


def _class_findings(votes: VoteSource) -> Iterator[Finding]:
    """Classes with no votes, with only one voter, or with nearly all votes."""
    by_class = class_counts(votes)
    total = by_class.sum(axis=0)
    if not total.sum():
        yield Finding("no_votes", "No voter votes on any item.")
        return
    share, top = float(total.max() / total.sum()), votes.labels.names[int(total.argmax())]
    if share == 1:
        others = as_text([name for name in votes.labels if name != top])
        sentence = (
            f"One-sided: all voters vote {top!r}, and no voter votes against it. Add a voter for "
            f"{others}."
        )
        yield Finding("one_sided", sentence, classes=[top], value=1.0)
        return
    if share >= _SKEWED:
        sentence = f"{as_text(share)} of the votes are for {top!r}."
        yield Finding("skewed", sentence, classes=[top], value=share)
    for label, name in enumerate(votes.labels):
        yield from _supporters(name, [votes.voters[j] for j in np.flatnonzero(by_class[:, label])])


def _supporters(name: str, voters: list[str]) -> Iterator[Finding]:
    if not voters:
        sentence = (
            f"No voter votes for the class {name!r}: no label model can predict it. Add a voter "
            "for it, or remove the class."
        )
        yield Finding("missing_class", sentence, classes=[name], value=0.0)
    if len(voters) == 1:
        sentence = (
            f"Only {voters[0]!r} votes for the class {name!r}, so no other voter can confirm it. "
            "Add a second voter to estimate its accuracy."
        )
        yield Finding("single_voter_class", sentence, voters, [name], 1.0)


def _voter_findings(votes: VoteSource) -> Iterator[Finding]:
    """Voters that never vote, rarely vote, always vote for one class, or add no item."""
    counts, by_class = voter_counts(votes), class_counts(votes)
    silent = [votes.voters[j] for j in np.flatnonzero(counts.votes == 0)]
    if silent and counts.votes.sum():
        verb = "votes" if len(silent) == 1 else "vote"
        yield Finding("never_votes", f"{as_text(silent)} never {verb}.", silent, value=0.0)
    rare = (counts.votes > 0) & (counts.votes < FEW_VOTES)
    few = [votes.voters[j] for j in np.flatnonzero(rare & _is_rare(counts.votes, votes))]
    if few:
        sentence = (
            f"{len(few)} of {len(votes.voters)} voters cast fewer than {FEW_VOTES} votes: too few "
            f"to estimate their accuracy ({as_text(few)})."
        )
        yield Finding("few_votes", sentence, few, value=float(len(few)))
    constant = by_class.max(axis=1) == counts.votes
    constant &= counts.votes >= _CONSTANT * max(votes.n_items, 1)
    for j in np.flatnonzero(constant & (counts.votes > 0)):
        label = votes.labels.names[int(by_class[j].argmax())]
        sentence = (
            f"{votes.voters[j]!r} votes {label!r} on (nearly) every item, so its votes carry no "
            "information."
        )
        share = float(counts.votes[j] / votes.n_items)
        yield Finding("constant", sentence, [votes.voters[j]], [label], share)
    yield from _catch_alls(votes)
    yield from _never_alone(votes)


def _is_rare(counts: Any, votes: VoteSource) -> Any:
    return counts < _RARE_VOTER * votes.n_items


def _catch_alls(votes: VoteSource) -> Iterator[Finding]:
    """Voters of one class that vote on many items, and almost only where no other voter does."""
    counts, by_class = voter_counts(votes), class_counts(votes)
    alone = counts.votes - counts.overlap
    others = item_counts(votes)[0] - alone  # items with a vote of another voter
    expected = counts.votes * others / max(votes.n_items, 1)
    found = by_class.max(axis=1) == counts.votes
    found &= counts.votes >= _MANY_ITEMS * votes.n_items
    found &= (expected >= FEW_VOTES) & (counts.overlap < _SELDOM * expected)
    for j in np.flatnonzero(found & (counts.votes < votes.n_items)):
        label = votes.labels.names[int(by_class[j].argmax())]
        share = float(counts.votes[j] / votes.n_items)
        sentence = (
            f"{votes.voters[j]!r} votes {label!r} on {as_text(share)} of the items, and almost "
            "only where no other voter votes: a rule for all the rest shows how common its class "
            "may be, and not which items are of it. Set the class balance if you know it, and add "
            "voters for the other classes."
        )
        yield Finding("catch_all", sentence, [votes.voters[j]], [label], share)


def _never_alone(votes: VoteSource) -> Iterator[Finding]:
    """Voters that cover no item alone and that no other voter contradicts."""
    counts = voter_counts(votes)
    total = int(counts.votes.sum())
    if total - int(counts.overlap.sum()) < _OFTEN_ALONE * total:
        return
    useless = (counts.votes == counts.overlap) & (counts.votes >= FEW_VOTES)
    useless &= counts.conflict == 0
    names = [votes.voters[j] for j in np.flatnonzero(useless)]
    if names:
        adds, covers = ("adds", "it covers") if len(names) == 1 else ("add", "they cover")
        sentence = (
            f"{as_text(names)} {adds} nothing: every item that {covers} has the same vote from "
            "another voter."
        )
        yield Finding("never_alone", sentence, names, value=float(len(names)))


def _coverage_findings(votes: VoteSource) -> Iterator[Finding]:
    """How much of the data the voters cover, alone and together."""
    n_covered, shared, _ = item_counts(votes)
    if not n_covered:
        return
    covered = n_covered / votes.n_items
    if covered < _LOW_COVERAGE:
        sentence = f"Only {as_text(covered)} of the items have a vote; the others get the prior."
        yield Finding("low_coverage", sentence, value=covered)
    if shared / n_covered < _LOW_OVERLAP:
        sentence = (
            f"Only {as_text(shared / n_covered)} of the covered items have at least two votes. "
            "Label models estimate accuracies from such items."
        )
        yield Finding("low_overlap", sentence, value=shared / n_covered)


def pair_findings(votes: VoteSource, suspects: Collection[str] = ()) -> Iterator[Finding]:
    """Return duplicate voters, and pairs that contradict each other more often than by chance.

    Two voters that never vote for the same class cannot agree, so their disagreement alone is not a
    finding. It becomes one if they vote on the same items far more often than independent voters
    would. Conflicts with `suspects` (voters with other findings) are left out.
    """
    pairs, voters = agreement(votes).frame, votes.voters
    for group in _groups(pairs.filter(pl.col("relation") == "duplicate"), voters):
        names = _members(group, voters)
        sentence = (
            f"{as_text(names)} always vote the same: they count {_times(names)} in a majority "
            "vote. Keep one of them."
        )
        yield Finding("duplicate", sentence, names, value=1.0)
    for group in _groups(pairs.filter(pl.col("relation") == "near-duplicate"), voters):
        names, same = _members(group, voters), float(group["same"].to_numpy().min())
        sentence = (
            f"{as_text(names)} nearly always vote the same (on {as_text(same)} of the items that "
            f"one of them votes on): they count about {_times(names)} in a majority vote."
        )
        yield Finding("near_duplicate", sentence, names, value=same)
    counts = pair_counts(votes)
    yield from _conflicts(votes, counts, suspects)
    yield from _no_agreement(counts)


def _groups(pairs: pl.DataFrame, voters: tuple[str, ...]) -> list[pl.DataFrame]:
    """The pairs, split into groups of connected voters."""
    from scipy.sparse.csgraph import connected_components

    if pairs.is_empty():
        return []
    position = {name: index for index, name in enumerate(voters)}
    first = np.array([position[name] for name in pairs["first"]])
    second = np.array([position[name] for name in pairs["second"]])
    shape = (len(voters), len(voters))
    graph = sp.coo_array((np.ones(len(first)), (first, second)), shape=shape)
    _, group = connected_components(graph, directed=False)
    return pairs.with_columns(group=group[first]).partition_by("group", maintain_order=True)


def _members(group: pl.DataFrame, voters: tuple[str, ...]) -> list[str]:
    linked = set(group["first"]) | set(group["second"])
    return [name for name in voters if name in linked]


def _times(names: list[str]) -> str:
    return "twice" if len(names) == 2 else f"{len(names)} times"


def _conflicts(
    votes: VoteSource, pairs: PairCounts, suspects: Collection[str]
) -> Iterator[Finding]:
    """The pairs with the most conflicts, among those with more conflicts than by chance."""
    apart = pairs.both - pairs.agree
    expected = pairs.both * (1 - pairs.chance)
    spread = np.sqrt(np.maximum(expected * pairs.chance, 1e-12))
    quarrel = (pairs.chance > 0) & (apart > expected + _SURE * spread)
    meeting, by_luck = _meetings(votes, pairs)
    opposed = (pairs.chance == 0) & meeting
    suspect = np.isin(votes.voters, list(suspects))
    known = suspect[pairs.first] | suspect[pairs.second]
    chosen = np.flatnonzero((quarrel | opposed) & (pairs.both >= _SHARED_ITEMS) & ~known)
    order = chosen[np.argsort(-apart[chosen], kind="stable")][:_CONFLICTS]
    for k in order:
        names = [votes.voters[pairs.first[k]], votes.voters[pairs.second[k]]]
        luck = by_luck[k] if opposed[k] else expected[k]
        sentence = (
            f"{as_text(names)} contradict each other on {int(apart[k]):,} items; about {luck:,.0f} "
            "are expected by chance. One of them is wrong there: look at these items."
        )
        yield Finding("conflict", sentence, names, value=float(apart[k] / pairs.both[k]))


def _meetings(
    votes: VoteSource, pairs: PairCounts
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Which pairs share far more items than independent voters would, and the expected number."""
    n_votes = class_counts(votes).sum(axis=1).astype(np.float64)
    first, second = n_votes[pairs.first], n_votes[pairs.second]
    by_luck = first * second / max(votes.n_items, 1)
    surely = pairs.both > 2 * by_luck + _SURE * np.sqrt(by_luck + 1)
    return surely & (pairs.both >= _OPPOSED * np.minimum(first, second)), by_luck


def _no_agreement(pairs: PairCounts) -> Iterator[Finding]:
    """A finding if voters that could agree do so hardly more often than by chance."""
    can = pairs.chance > 0
    met, agree = float(pairs.both[can].sum()), float(pairs.agree[can].sum())
    chance = float((pairs.both * pairs.chance)[can].sum())
    if met < _ENOUGH_MEETINGS or agree - chance >= _HARDLY_AGREE * (met - chance):
        return
    sentence = (
        f"Two votes on the same item differ in {as_text(1 - agree / met)} of the cases; random "
        f"votes would differ in {as_text(1 - chance / met)}. Most of these voters are close to "
        "random."
    )
    yield Finding("high_conflict", sentence, value=1 - agree / met)


def peer_findings(votes: VoteSource) -> Iterator[Finding]:
    """Return the voters that agree with the others no more than chance would.

    Chance is the agreement of a voter that casts the same votes on random items. The upper end of
    the 95 % interval counts, so that rare voters are not flagged. Votes for a class with a single
    voter are left out, because no other voter could agree. If most voters vote for one class only,
    such voters are not flagged; gold labels and features judge them.
    """
    agree, shared, chance = majority_agreement(votes)
    _, high = wilson_interval(agree, shared)
    # The agreement is almost certainly less than a tenth of the way from chance to perfect.
    suspect = (high < chance + _BARELY * (1 - chance)) & (shared >= _COMPARED_ITEMS)
    one_sided = (class_counts(votes) > 0).sum(axis=1) == 1
    if 2 * one_sided.sum() > len(votes.voters):
        # If most voters vote for one class only, agreement depends on which voters share items: a
        # rule for a rare class shares items with rules for the common class, right or wrong.
        suspect &= ~one_sided
    for j in np.flatnonzero(suspect):
        name, rate = votes.voters[j], float(agree[j] / shared[j])
        evidence = (
            f"it votes with the majority of the others on {as_text(rate)} of {int(shared[j]):,} "
            f"items; {as_text(chance[j])} are expected by chance"
        )
        if high[j] < (1 - _BARELY) * chance[j]:
            sentence = f"{name!r} votes against the others: {evidence}. Fix it or turn it off."
            yield Finding("contrary", sentence, [name], value=rate)
        else:
            sentence = f"{name!r} agrees with the others no more than a random voter: {evidence}."
            yield Finding("spammer", sentence, [name], value=rate)


def gold_findings(votes: VoteSource, gold: IntArray) -> tuple[list[Finding], set[str]]:
    """Return the findings, and the voters that are better than guessing on the gold labels."""
    counts = gold_counts(votes, gold)
    support, correct = counts.support.sum(axis=1), counts.correct.sum(axis=1)
    low, high = wilson_interval(correct, support)
    chance = counts.support @ (counts.items / max(counts.items.sum(), 1)) / np.maximum(support, 1)
    found = []
    for j in np.flatnonzero(high < chance):
        precision = float(correct[j] / support[j])
        sentence = (
            f"{votes.voters[j]!r} is worse than the class balance: right on {correct[j]:,} of "
            f"{support[j]:,} items with a gold label ({as_text(precision)}, 95 % interval "
            f"{as_text(low[j])} to {as_text(high[j])}), where guessing by class frequency would be "
            f"right on {as_text(chance[j])}. Fix it or turn it off."
        )
        found.append(Finding("worse_than_chance", sentence, [votes.voters[j]], value=precision))
    found += _missed_classes(votes, gold)
    known = gold[gold != ABSTAIN]
    if len(known):
        shares = np.bincount(known, minlength=len(votes.labels)) / len(known)
        found += balance_finding(votes, shares, len(known))
    return found, {votes.voters[j] for j in np.flatnonzero(low > chance)}


def balance_finding(
    votes: VoteSource, shares: npt.NDArray[np.float64], n_known: int
) -> Iterator[Finding]:
    """Return a finding on the class whose share the votes get most wrong, if they are far off.

    `shares` is the class balance; `n_known` is the number of labels it was counted from, 0 if the
    user gave it. Of a share that the user gave, a factor of three is far off, too.
    """
    if (class_counts(votes).sum(axis=0) > 0).sum() < 2:
        return
    (total,) = votes.sum(_sum_of_shares)
    implied = total / total.sum()
    apart = np.abs(implied - shares)
    k = int(apart.argmax())
    low, high = shares[k], shares[k]
    if n_known:
        ends = wilson_interval(np.array([shares[k] * n_known]), np.array([n_known]))
        low, high = float(ends[0][0]), float(ends[1][0])
    if not n_known and apart[k] < _FAR:
        times = np.maximum(implied / shares, shares / np.maximum(implied, 1e-9))
        k = int(np.where(apart > _NEAR, times, 0).argmax())
        if apart[k] <= _NEAR or times[k] < _TIMES:
            return
    elif apart[k] < _FAR or low <= implied[k] <= high:
        return
    name = votes.labels.names[k]
    source = f"{n_known:,} gold labels" if n_known else "the class balance given"
    more = f"voters for {name!r}" if implied[k] < shares[k] else f"voters against {name!r}"
    advice = "or give the class balance to the method" if n_known else "or check the balance"
    sentence = (
        f"By the votes, {as_text(implied[k])} of the covered items are {name!r}; by {source}, "
        f"{as_text(shares[k])}. Add {more}, {advice}."
    )
    yield Finding("class_balance", sentence, classes=[name], value=float(implied[k] - shares[k]))


def _missed_classes(votes: VoteSource, gold: IntArray) -> Iterator[Finding]:
    """Classes that have voters, but hardly any votes on the gold items of the class."""
    reached = np.concatenate([_right_votes(part, own) for part, own in _beside(votes, gold)])
    named = class_counts(votes).sum(axis=0) > 0
    for k in np.flatnonzero(named):
        own = gold == k
        n_own, n_reached = int(own.sum()), int(reached[own].sum())
        if n_own >= _FEW_ITEMS and n_reached < _REACHED * n_own:
            name = votes.labels.names[k]
            sentence = (
                f"The voters miss most of the class {name!r}: of its {n_own:,} gold items, "
                f"{n_reached:,} have a vote for it. Look at the others and write voters for them."
            )
            yield Finding("uncovered_class", sentence, classes=[name], value=n_reached / n_own)


def _beside(votes: VoteSource, gold: IntArray) -> Iterator[tuple[VoteMatrix, IntArray]]:
    """The parts of the votes, each with the gold labels of its items."""
    start = 0
    for part in votes.parts():
        yield part, gold[start : start + part.n_items]
        start += part.n_items


def _right_votes(part: VoteMatrix, gold: IntArray) -> npt.NDArray[np.bool_]:
    """Whether each item has a vote for its true class."""
    right = np.repeat(gold, part.votes_per_item) == part.class_index
    return np.bincount(part.item_index[right], minlength=part.n_items) > 0


def _sum_of_shares(part: VoteMatrix) -> Statistics:
    """The class shares according to the votes; every covered item counts as one."""
    counts = part.counts()[part.covered]
    return ((counts / counts.sum(axis=1, keepdims=True)).sum(axis=0),)
