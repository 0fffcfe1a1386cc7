"""Tables with a row for each (item, voter, label, present), checked and turned into votes."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from wiesel.errors import VoteError, listed
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import LabelSpace
from wiesel.votes import VoteMatrix

__all__ = ["answering_voters", "check_answers", "long_answers", "votes_on_label"]

_TRUE = ("true", "1", "yes", "present")
_FALSE = ("false", "0", "no", "absent")


def long_answers(
    frame: pl.DataFrame, item: str, voter: str, label: str, present: str
) -> pl.DataFrame:
    """Return the four columns under their standard names; without `present` every row is a yes."""
    values = pl.col(present) if present in frame.columns else pl.lit(True)
    return frame.select(
        item=item,
        voter=pl.col(voter).cast(pl.String),
        label=pl.col(label).cast(pl.String),
        present=values.cast(pl.String).str.to_lowercase(),
    )


def answering_voters(answers: pl.DataFrame) -> list[str]:
    """Return the voters of a table, sorted."""
    return sorted(answers["voter"].drop_nulls().unique().to_list())


def check_answers(answers: pl.DataFrame, labels: MultiLabelSpace) -> None:
    """Refuse unknown labels, values that are neither yes nor no, and duplicate answers."""
    unknown = sorted(set(answers["label"].drop_nulls().to_list()) - set(labels))
    if unknown:
        raise VoteError(f"The table has the label {unknown[0]!r}; the labels are {listed(labels)}.")
    values = answers["present"].drop_nulls()
    wrong = values.filter(~values.is_in([*_TRUE, *_FALSE]))
    if len(wrong):
        raise VoteError(
            f"The column of answers holds {wrong[0]!r}; it must be true or false, 1 or 0, or "
            "missing for an abstention."
        )
    repeated = answers.filter(answers.select("item", "voter", "label").is_duplicated())
    if len(repeated):
        item, voter, label, _ = repeated.row(0)
        raise VoteError(
            f"{voter!r} answers {item!r} twice for {label!r}; each item, voter and label must come "
            "once."
        )


def votes_on_label(
    answers: pl.DataFrame, classes: LabelSpace, items: Any, voters: Sequence[str]
) -> VoteMatrix:
    """Return the votes on one label, whose two classes are `not X` and `X`."""
    absent, present = classes.names
    vote = pl.when(pl.col("present").is_in(_TRUE)).then(pl.lit(present)).otherwise(pl.lit(absent))
    own = answers.filter(pl.col("label") == present).with_columns(
        vote=pl.when(pl.col("present").is_not_null()).then(vote)
    )
    return VoteMatrix.from_long(
        own, item="item", voter="voter", label="vote", labels=classes, items=items, voters=voters
    )
