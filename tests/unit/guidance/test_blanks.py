import numpy as np
import polars as pl

from wiesel import regex, suggest_lfs
from wiesel.guidance.choosing import blank_pattern, mined_pairs, pair_of
from wiesel.guidance.suggesting import rule_words

TEXTS = pl.Series(
    [
        "Check out my channel",
        "check my channel",
        "check, this new red channel!",
        "check channel",
        "channel check out my",
        "check one two three four channel",
        None,
        "",
    ]
)


def any_word(word: str) -> bool:
    return True


def test_a_pair_stands_in_exactly_the_rows_that_its_pattern_finds():
    mined = mined_pairs(TEXTS, 1, any_word)
    frame = pl.DataFrame({"text": TEXTS})
    assert ("check", "channel") in mined.pairs
    for number, pair in enumerate(mined.pairs):
        rule = regex("spam", blank_pattern(*pair), column="text")
        found = type(rule).matching_rows([rule], frame)[0]
        assert mined.rows[:, [number]].indices.tolist() == np.asarray(found).tolist(), pair


def test_only_frequent_pairs_of_usable_words_are_mined():
    mined = mined_pairs(TEXTS, 2, lambda word: word in ("check", "my", "channel"))
    assert mined.pairs == (("check", "channel"), ("check", "my"))
    assert mined_pairs(TEXTS, 2, lambda word: word == "check").pairs == ()
    assert mined_pairs(pl.Series([None, ""], dtype=pl.String), 1, any_word).pairs == ()


def test_a_pattern_with_a_blank_is_read_back_and_shown_in_words():
    assert pair_of(r"\d+") is None
    assert pair_of(blank_pattern("won", "prize")) == ("won", "prize")
    shown = rule_words(regex("spam", blank_pattern("won", "prize"), column="text"))
    assert shown == "won … prize"


def test_words_that_only_tell_together_are_suggested_as_a_pattern_with_a_blank():
    rng = np.random.default_rng(0)
    fillers = [f"filler{k}" for k in range(40)]
    texts, gold = [], []
    for k in range(400):
        a, b = rng.choice(fillers, 2)
        # Both words are in all texts; only where the one follows the other it is spam.
        spam = int(k % 3 == 0)
        texts.append(f"won {a} prize {b} ok" if spam else f"prize {a} won {b} ok")
        gold.append(("ham", "spam")[spam] if k < 20 else None)
    X = np.where(np.arange(400) % 3, -1.0, 1.0)[:, None] + rng.normal(0, 0.3, (400, 1))
    found = suggest_lfs({"text": texts}, labels=["ham", "spam"], gold=gold, features=X, n=6)
    assert "won … prize" in [rule_words(lf) for lf in found.lfs if lf.label == "spam"]
