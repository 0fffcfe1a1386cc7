"""Findings: actionable problems of the votes, in plain sentences with the evidence."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from wiesel.analysis.counts import class_counts, gold_indices, item_counts, voter_counts
from wiesel.analysis.finding import Finding, as_text, finding_frame, most_serious_first
from wiesel.analysis.gold_findings import balance_finding, gold_findings
from wiesel.analysis.pair_findings import pair_findings
from wiesel.analysis.peer_findings import peer_findings
from wiesel.analysis.table import Table, text
from wiesel.forks import check_polars_threads
from wiesel.labels import class_prior
from wiesel.votes import VoteSource, require_votes

__all__ = ["findings", "vote_findings"]

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
