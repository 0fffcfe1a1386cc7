"""A table of what each span function marked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from wiesel.analysis.table import Table, count, percent, text
from wiesel.spans.metrics import evaluate_spans
from wiesel.spans.votes import TokenVotes

__all__ = ["voter_table"]

_COUNTED = ("spans", "documents", "tokens", "conflicts")


def voter_table(
    votes: TokenVotes, gold: Sequence[Sequence[tuple[Any, ...]]] | None = None
) -> Table:
    """Return a row for each span function: what it marked, and how much of that is correct.

    `conflicts` are tokens on which another voter disagrees. `precision` requires gold spans, and
    counts exact matches.

    >>> from wiesel.spans import Documents, apply_span_lfs, gazetteer
    >>> documents = Documents.from_texts(["Ada met Bob"])
    >>> names = gazetteer("PER", ["Ada", "met"], name="names")
    >>> votes = apply_span_lfs(names, documents, labels=["PER"])
    >>> print(voter_table(votes, [[(0, 3, "PER")]]))
     voter   spans   documents   tokens   conflicts   precision
    ────────────────────────────────────────────────────────────
     names       2           1        2           0      50.0 %
    """
    disagree = (votes.votes.counts() > 0).sum(axis=1) > 1
    rows = []
    for voter in votes.voters:
        own, found = votes.votes.select([voter]), votes.spans(voter)
        row: dict[str, Any] = {
            "voter": voter,
            "spans": sum(map(len, found)),
            "documents": sum(map(bool, found)),
            "tokens": own.n_votes,
            "conflicts": int(np.count_nonzero(own.covered & disagree)),
        }
        if gold is not None:
            report = evaluate_spans(gold, found, votes.documents, votes.labels)
            precision = report.exact["all"].precision
            row["precision"] = None if np.isnan(precision) else precision
        rows.append(row)
    shown = [] if gold is None else [percent("precision")]
    columns = (text("voter"), *map(count, _COUNTED), *shown)
    frame = pl.DataFrame(rows, schema_overrides={} if gold is None else {"precision": pl.Float64})
    return Table(frame, columns)
