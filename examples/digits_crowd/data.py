"""Handwritten digits and a crowd: thirty workers, each answers a fifth of the pictures."""

import numpy as np
import polars as pl
from sklearn.datasets import load_digits

from wiesel import LabelSpace, VoteMatrix
from wiesel.io import Dataset, Split

LABELS = LabelSpace(*"0123456789")
SIZES = {"train": 1200, "valid": 100, "test": 497}


def answers(gold, n_workers=30, share=0.2, seed=0):
    """Return (n_items, n_workers) answers, -1 where a worker was not asked.

    A quarter of the workers answer at random; the others are right with 50 to 90 %.
    """
    rng = np.random.default_rng(seed)
    skill = np.where(np.arange(n_workers) % 4 == 0, 0.1, rng.uniform(0.5, 0.9, n_workers))
    asked = rng.random((len(gold), n_workers)) < share
    right = rng.random((len(gold), n_workers)) < skill
    guesses = rng.integers(0, len(LABELS), (len(gold), n_workers))
    return np.where(asked, np.where(right, gold[:, None], guesses), -1)


def load():
    """Return the digits in three splits; the training split has votes."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    parts = np.split(order, np.cumsum(list(SIZES.values()))[:-1])
    splits = {}
    for name, rows in zip(SIZES, parts, strict=True):
        gold = digits.target[rows]
        ids = [f"digit-{row}" for row in rows]
        votes = None
        if name == "train":
            workers = [f"worker-{number}" for number in range(30)]
            votes = VoteMatrix.from_dense(answers(gold), LABELS, workers, ids)
        frame = pl.DataFrame({"id": ids})
        splits[name] = Split(frame, gold, votes, digits.data[rows].astype(np.float32))
    return Dataset("digits_crowd", LABELS, splits)
