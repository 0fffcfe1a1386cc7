"""What to look at first in a project: votes, gold labels, features and texts."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from wiesel.aggregate import Aggregation, aggregate
from wiesel.analysis.findings import Finding, as_text, most_serious_first, vote_findings
from wiesel.analysis.summary import wilson_interval
from wiesel.guidance import feature_findings
from wiesel.io import Split, explained, read_rows
from wiesel.label_models.majority_vote import vote_balance
from wiesel.labels import ABSTAIN, as_indices, class_prior
from wiesel.project.rows import row_keys
from wiesel.votes import VoteMatrix

__all__ = [
    "aggregated_answers",
    "evidence_of_rules",
    "leak_findings",
    "project_findings",
    "with_examples",
]

_ON_GOLD = ("worse_than_chance", "class_balance", "uncovered_class")
_EXCERPT = 60
_KEYS_AT_ONCE = 50_000
"""The contents of so many rows are compared at a time."""
_AGREE = 0.85
"""Below this agreement, four times as many generated tasks lose more than two points of accuracy to
majority vote (experiments/results/families.md)."""


def project_findings(
    votes: Mapping[str, VoteMatrix],
    splits: Mapping[str, Split],
    features: Any = None,
    text_column: str = "text",
    class_balance: Any = None,
    agreement: float | None = None,
) -> list[Finding]:
    """Return the findings of a project, most serious first.

    The training votes are checked alone and, if the features are a matrix, against the features.
    Gold labels come from the dev rows, or from the test rows if there are no dev labels. Without
    them, the votes are compared with `class_balance` if the project sets it; gold labels are, too.
    `agreement` is that of the members of a committee that was trained without gold.
    """
    train = votes["train"]
    leaks = list(leak_findings(splits, text_column))
    judged = [name for name in ("dev", "test") if name in votes and name in splits]
    on_gold = vote_findings(votes[judged[0]], splits[judged[0]].gold) if judged else []
    found = [each for each in on_gold if each.kind in _ON_GOLD]
    given = class_balance
    if isinstance(given, str) and not any(map(str.isdigit, given)):
        given = None  # it is estimated
    if given is not None and judged:
        found += _balance_against_gold(
            class_prior(train.labels, given), splits[judged[0]].gold, train
        )
        given = None  # of two findings on one class, gold's is surer
    alone = vote_findings(train, class_balance=given)
    found += [each for each in alone if not _cleared(each, votes, splits, judged)]
    if agreement is not None and agreement < _AGREE:
        found.append(_disagreement(agreement))
    dev_gold = splits["dev"].gold if "dev" in splits else np.array([ABSTAIN])
    if class_balance is None and (dev_gold == ABSTAIN).all():
        found += _unknown_balance(train)
    if features is not None and train.n_votes:
        rows = splits["train"].rows
        texts = rows[text_column] if text_column in rows.columns else None
        if texts is not None and texts.dtype != pl.String:
            texts = None
        found += feature_findings(features, train, None if texts is None else texts.fill_null(""))
    return most_serious_first([*leaks, *found])


def evidence_of_rules(space: Any, dev: Split | None) -> tuple[pl.DataFrame, VoteMatrix, Any, Any]:
    """Return the rows, votes, labels and features of an open project, with those of dev rows."""
    rows, gold = space.train.rows.drop("id", strict=False), space.gold
    votes, features = space.votes, space.features
    dev_votes = space.cast.by_split.get("dev")
    more = np.empty(0, np.int64) if dev is None else np.flatnonzero(dev.gold != ABSTAIN)
    if dev is not None and len(more):
        if dev_votes is None:  # nobody votes yet
            nothing = as_indices(np.full((len(dev), votes.n_voters), ABSTAIN))
            dev_votes = VoteMatrix.from_dense(nothing, votes.labels, votes.voters)
        own = dev.rows[more].select(pl.col(c).cast(rows[c].dtype) for c in rows.columns)
        rows, gold = pl.concat([rows, own]), np.concatenate([gold, dev.gold[more]])
        votes = VoteMatrix.concatenate((votes, dev_votes[more]))
        if features is not None:
            features = np.concatenate([features, space.vectors.by_split["dev"][more]])
    return rows, votes, gold, features


def aggregated_answers(space: Any, known: Any) -> Aggregation:
    """Return what people's answers in the file of an open project say; `known` labels calibrate."""
    settings = space.project.votes
    path = space.project.path(str(settings.answers))
    names = {
        str(space.train.ids[int(row)]): space.labels.names[known[row]]
        for row in np.flatnonzero((known != ABSTAIN) & space.votes.covered)
    }
    with explained(path):
        return aggregate(
            read_rows(path),
            item=settings.item,
            worker=settings.voter,
            label=settings.label,
            labels=space.labels,
            gold=names or None,
        )


def leak_findings(splits: Mapping[str, Split], text_column: str) -> Iterator[Finding]:
    """Yield a finding for each pair of splits with common rows, and one for copies in train.

    Rows are recognized by their text, else by id and values: rows of a few numbers are often equal
    by chance. Dev rows that are all training rows were drawn from them on purpose.

    >>> rows = pl.DataFrame({"id": ["a", "b"], "text": ["win cash", "lunch"]})
    >>> other = pl.DataFrame({"id": ["c", "d"], "text": ["Win cash", "dinner"]})
    >>> gold = np.array([0, 1])
    >>> found = leak_findings({"train": Split(rows, gold), "test": Split(other, gold)}, "text")
    >>> [each.sentence.split(":")[0] for each in found]
    ['1 of the 2 test rows is also in train']
    """
    keys = {name: _key_numbers(split, text_column) for name, split in splits.items()}
    for first, second in (("train", "dev"), ("train", "test"), ("dev", "test")):
        if not {first, second} <= set(keys):
            continue
        shared = keys[second].is_in(keys[first].drop_nulls().implode()).fill_null(False)
        n_shared = int(shared.sum())
        if not n_shared or (second == "dev" and shared.all()):
            continue
        verb = "is" if n_shared == 1 else "are"
        sentence = (
            f"{n_shared:,} of the {len(shared):,} {second} rows {verb} also in {first}: a model "
            f"that has seen a row is judged too well on it. Remove them from {first}."
        )
        yield Finding("leak", sentence, value=n_shared / len(shared))
    texts = keys["train"].drop_nulls()
    copies = len(texts) - texts.n_unique()
    if copies:
        sentence = (
            f"{copies:,} of the {len(texts):,} training rows repeat the text of another one. "
            "Voters and figures count them each time; keep one of each."
        )
        yield Finding("copies", sentence, value=copies / len(texts))


def _key_numbers(split: Split, text_column: str) -> pl.Series:
    """A number for the key of each row: all keys would be a copy of the table.

    Of a hundred million rows, two have the same number with a probability of one in a thousand.
    """
    parts = [pl.Series("key", [], pl.UInt64)]
    for start in range(0, len(split), _KEYS_AT_ONCE):
        block = slice(start, start + _KEYS_AT_ONCE)
        keys = row_keys(split.rows[block], split.ids[block], text_column)
        parts.append(keys.hash(0).set(keys.is_null(), None).alias("key"))
    return pl.concat(parts)


def with_examples(found: Finding, rows: pl.DataFrame, text_column: str) -> str:
    """Return a finding's sentence with the start of one of the texts it concerns, if any has one.

    >>> rows = pl.DataFrame({"id": ["m1"], "text": ["win cash now"]})
    >>> with_examples(Finding("uncovered_cluster", "Nobody.", rows=[0]), rows, "text")
    "Nobody. For example, 'm1': win cash now"
    """
    if not found.rows or text_column not in rows.columns:
        return found.sentence
    for place in map(int, found.rows):
        text = " ".join(str(rows[text_column][place] or "").split())
        if text:
            shown = text if len(text) <= _EXCERPT else text[:_EXCERPT].rsplit(" ", 1)[0] + " …"
            return f"{found.sentence} For example, {as_text([str(rows['id'][place])])}: {shown}"
    return found.sentence


def _unknown_balance(votes: VoteMatrix) -> Iterator[Finding]:
    """Advise to set the class balance, which votes hardly show."""
    if votes.n_votes:
        shares = vote_balance(votes)
        top = int(shares.argmax())
        name = votes.labels.names[top]
        sentence = (
            f"No dev row has a gold label, so the shares of the {votes.n_classes} classes are "
            f"guessed from the votes, with {name!r} at {as_text(float(shares[top]))}, and the "
            "predictions follow them. If you know them, even roughly, set class_balance under "
            "[training]; else label 20 rows."
        )
        yield Finding("unknown_balance", sentence, classes=[name], value=float(shares[top]))


def _disagreement(agreement: float) -> Finding:
    """The networks of a committee contradict each other."""
    sentence = (
        f"The members of the committee predict the same class for only {as_text(agreement)} of the "
        "rows with votes, and without labels nothing shows which of them is right: it may be worse "
        "than a majority vote. Label 20 rows, or set class_balance under [training]."
    )
    return Finding("members_disagree", sentence, value=agreement)


def _balance_against_gold(shares: Any, gold: Any, votes: VoteMatrix) -> Iterator[Finding]:
    """Report a class whose share in the project file is beyond the interval of the gold labels."""
    known = gold[gold != ABSTAIN]
    counts = np.bincount(known, minlength=votes.n_classes)
    low, high = wilson_interval(counts, np.full(len(counts), len(known)))
    beyond = np.maximum(low - shares, shares - high)
    k = int(beyond.argmax())
    if len(known) and beyond[k] > 0:
        name = votes.labels.names[k]
        sentence = (
            f"The class balance given has {as_text(float(shares[k]))} {name!r}; of {len(known):,} "
            f"gold labels, {as_text(counts[k] / len(known))} are (95 % interval {as_text(low[k])} "
            f"to {as_text(high[k])}). If these rows were drawn at random, correct the balance."
        )
        yield Finding("class_balance", sentence, classes=[name], value=float(beyond[k]))


def _cleared(
    found: Finding,
    votes: Mapping[str, VoteMatrix],
    splits: Mapping[str, Split],
    judged: list[str],
) -> bool:
    """Whether gold labels support voters that disagree with the others."""
    if not judged or found.kind not in ("spammer", "contrary"):
        return False
    from wiesel.analysis.findings import gold_findings

    split = judged[0]
    _, trusted = gold_findings(votes[split], np.asarray(splits[split].gold))
    return bool(set(found.voters) & trusted)
