"""Inter-annotator agreement of the people who labeled items."""

from typing import Any

import polars as pl

from wiesel.analysis.agreement import agreement
from wiesel.analysis.table import Table, count, number, percent, text
from wiesel.labels import LabelSpace
from wiesel.tables import as_frame, require_columns
from wiesel.votes import VoteMatrix

__all__ = ["annotator_agreement", "label_disagreements"]


def annotator_agreement(answers: Any, labels: LabelSpace) -> Table:
    """Return a row per pair of people who labeled the same items, with agreement and kappa.

    `answers` has the columns item, person and label, as returned by `LabelStore.answers()`.

    >>> answers = {"item": ["a", "a", "b", "b"], "person": ["ada", "bob"] * 2,
    ...            "label": ["ham", "ham", "spam", "ham"]}
    >>> print(annotator_agreement(answers, LabelSpace("ham", "spam")).to_text(width=60))
    2 people labeled; 1 pair labeled a common item
     first   second   both   agreement   kappa
    ───────────────────────────────────────────
     ada     bob         2      50.0 %    0.00
    """
    votes = _as_votes(answers, labels)
    columns = (text("first"), text("second"), count("both"), percent("agreement"), number("kappa"))
    if votes is None or votes.n_voters < 2:
        n_people = 0 if votes is None else votes.n_voters
        frame = pl.DataFrame(schema=dict.fromkeys(("first", "second", "both"), pl.String))
        people = "one person has labeled" if n_people else "nobody has labeled yet"
        return Table(frame, columns[:3], f"{people}; agreement needs two people")
    frame = agreement(votes).frame.select("first", "second", "both", "agreement", "kappa")
    pairs = "1 pair" if len(frame) == 1 else f"{len(frame)} pairs"
    return Table(frame, columns, f"{votes.n_voters} people labeled; {pairs} labeled a common item")


def label_disagreements(answers: Any) -> pl.DataFrame:
    """Return the items to which people gave different labels, with each person's label.

    >>> answers = {"item": ["a", "a", "b"], "person": ["ada", "bob", "ada"],
    ...            "label": ["ham", "spam", "ham"]}
    >>> label_disagreements(answers).to_dicts()
    [{'item': 'a', 'answers': ['ada: ham', 'bob: spam']}]
    """
    frame = _given(answers)
    by_person = pl.concat_str(pl.col("person"), pl.lit(": "), pl.col("label")).alias("answers")
    grouped = frame.group_by("item", maintain_order=True).agg(by_person, pl.col("label").n_unique())
    return grouped.filter(pl.col("label") > 1).select("item", "answers")


def _given(answers: Any) -> pl.DataFrame:
    frame = as_frame(answers)
    require_columns(frame, ("item", "person", "label"), "of the answers")
    return frame.filter(pl.col("label").is_not_null())


def _as_votes(answers: Any, labels: LabelSpace) -> VoteMatrix | None:
    frame = _given(answers)
    if not len(frame):
        return None
    return VoteMatrix.from_long(frame, item="item", voter="person", label="label", labels=labels)
