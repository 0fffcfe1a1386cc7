"""The shared crowds: answers of real people with gold, and which of them a default is chosen on."""

import os
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from experiments.tasks.halves import REAL_HALVES, Half
from wiesel import LabelSpace, VoteMatrix

FAMILIES = (
    ("adult_content",),
    ("bluebirds",),
    ("cifar10n",),
    ("dog",),
    ("flower",),
    ("product",),
    ("sentiment_amt",),
    ("sleep_dodh",),
    ("trec_relevance",),
    ("tweet_sentiment",),
    ("tweets_mozafari",),
    ("weather_amt", "weather_cf"),
    ("zencrowd",),
)
"""Tables of answers with gold. Both weather sets ask about the same tweets."""
WITH_FEATURES = ("income_crowd", "labelme", "music_genre", "sentiment_crowd")
"""Crowds whose items have features, too. Their halves were drawn before, with those of all sets."""
SETS = (*(name for family in FAMILIES for name in family), *WITH_FEATURES)
SEED = 43
"""The seed of the draw: the number of the issue that requested it."""


class Crowd(NamedTuple):
    """Answers, and the class of every item, -1 if unknown."""

    votes: VoteMatrix
    gold: npt.NDArray[np.int64]


def halves() -> dict[str, Half]:
    """Return the half of every set; half of the families with answers only are drawn by seed.

    >>> sorted(halves()) == sorted(SETS)
    True
    """
    drawn = random.Random(SEED).sample(FAMILIES, len(FAMILIES) // 2)
    found: dict[str, Half] = {
        name: "choose" if family in drawn else "confirm" for family in FAMILIES for name in family
    }
    return found | {name: REAL_HALVES[name] for name in WITH_FEATURES}


def crowd(name: str, gold_items_only: bool = False) -> Crowd:
    """Return a crowd; `gold_items_only` leaves out answers to items whose class is unknown."""
    folder = Path(os.environ["WIESEL_DATA"]) / name
    answers, gold = _wide(folder) if name in WITH_FEATURES else _long(folder)
    classes = sorted({*answers["label"], *gold["label"]})
    votes = VoteMatrix.from_long(
        answers,
        item="task",
        voter="worker",
        label="label",
        labels=LabelSpace(*classes),
        duplicates="all",
    )
    known = dict(zip(gold["task"], map(classes.index, gold["label"]), strict=True))
    truth = np.array([known.get(item, -1) for item in votes.ids.tolist()])
    if gold_items_only:
        votes, truth = votes[truth >= 0], truth[truth >= 0]
    return Crowd(votes, truth)


def _long(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    tables = [pl.read_parquet(folder / f"{name}.parquet") for name in ("answers", "gold")]
    answers, gold = (table.with_columns(pl.all().cast(pl.String)) for table in tables)
    return answers.drop_nulls(), gold.drop_nulls()


def _wide(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    train = pl.read_parquet(folder / "train.parquet")
    gold = train.select(pl.int_range(pl.len()).cast(pl.String).alias("task"), "label")
    workers = pl.DataFrame({"task": gold["task"], **train.select("^lf_.*$").to_dict()})
    answers = workers.unpivot(index="task", variable_name="worker", value_name="label")
    return tuple(  # type: ignore[return-value]
        table.filter(pl.col("label") >= 0).with_columns(pl.col("label").cast(pl.String))
        for table in (answers, gold)
    )
