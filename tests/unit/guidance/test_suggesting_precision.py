"""What is said of a suggested rule holds, although it is the best of many."""

import numpy as np
import polars as pl

from wiesel import apply_lfs, suggest_lfs

LABELS = ["other", "rare"]


def chance_texts(seed: int, share: float, n_rows: int = 1500) -> tuple[pl.DataFrame, np.ndarray]:
    """Texts of random words that say nothing about the class."""
    rng = np.random.default_rng(seed)
    words = np.array([f"word{number}" for number in range(150)])
    texts = [" ".join(rng.choice(words, 8)) for _ in range(n_rows)]
    return pl.DataFrame({"text": texts}), (rng.random(n_rows) < share).astype(int)


def said_and_true(rows: pl.DataFrame, gold: np.ndarray, n_labeled: int) -> np.ndarray:
    known = np.where(np.arange(len(gold)) < n_labeled, gold, -1)
    found = [
        each for each in suggest_lfs(rows, labels=LABELS, gold=known) if each.lf.label == "rare"
    ]
    pairs = []
    for each in found:
        hit = apply_lfs([each.lf], rows, labels=LABELS).covered
        pairs.append((each.precision, gold[hit].mean()))
    return np.array(pairs).reshape(-1, 2)


def test_words_that_fit_by_chance_are_not_said_to_be_precise():
    pairs = [said_and_true(*chance_texts(seed, 0.2), n_labeled=150) for seed in range(3)]
    together = np.concatenate(pairs)
    # Every word is right on a fifth of its rows; the best of 150 look right on more than half.
    assert not len(together) or together[:, 0].mean() - together[:, 1].mean() < 0.15


def test_words_that_tell_the_class_are_still_suggested():
    rows, gold = chance_texts(0, 0.1)
    texts = [text + (" prize" if y else "") for text, y in zip(rows["text"], gold, strict=True)]
    found = suggest_lfs(
        pl.DataFrame({"text": texts}),
        labels=LABELS,
        gold=np.where(np.arange(len(gold)) < 150, gold, -1),
    )
    best = [each for each in found if "prize" in str(each.lf.to_dict())]
    assert best
    assert best[0].precision > 0.6
