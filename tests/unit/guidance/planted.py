"""Rows with a planted truth: words tell the class, features tell it a little less clearly."""

from typing import NamedTuple

import numpy as np
import polars as pl

from wiesel import LabelSpace, VoteMatrix

LABELS = LabelSpace("ham", "spam")
WORDS = {0: ("lunch", "meeting", "thanks", "family"), 1: ("prize", "winner", "cash", "offer")}
COMMON = ("the", "and", "you", "today", "please", "now")


class Planted(NamedTuple):
    rows: pl.DataFrame
    X: np.ndarray
    gold: np.ndarray


def planted(n: int = 300, seed: int = 0) -> Planted:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, n)
    texts = [
        " ".join([*rng.choice(COMMON, 4), *rng.choice(WORDS[int(k)], 2, replace=False)])
        for k in gold
    ]
    X = rng.normal(size=(n, 5)) + 1.5 * (2 * gold[:, None] - 1) * np.array([1, 0.5, 0, 0, 0])
    return Planted(pl.DataFrame({"text": texts}), X.astype(np.float32), gold)


def noisy_votes(data: Planted, accuracies: tuple[float, ...], coverage: float = 0.6) -> VoteMatrix:
    rng = np.random.default_rng(1)
    n = len(data.gold)
    dense = np.full((n, len(accuracies)), -1)
    for j, accuracy in enumerate(accuracies):
        right = rng.random(n) < accuracy
        said = np.where(right, data.gold, 1 - data.gold)
        dense[:, j] = np.where(rng.random(n) < coverage, said, -1)
    return VoteMatrix.from_dense(dense, LABELS, [f"voter_{j}" for j in range(len(accuracies))])
