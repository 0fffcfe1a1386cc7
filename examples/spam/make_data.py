"""Write train.csv, dev.csv and test.csv: comments from a small grammar.

python examples/spam/make_data.py
"""

from pathlib import Path

import numpy as np
import polars as pl

SIZES = {"train": 500, "dev": 60, "test": 300}
PATTERNS = {
    "ham": (
        "This song {feeling} every single time",
        "her voice in the second {part} {feeling}",
        "who is still listening in {year}",
        "I remember dancing to this in {year}",
        "the {part} is the best thing of {year}",
        "reminds me of my childhood, {year} was great",
        "love the {part}",
        "best video of {year}",
        "please make more videos like this one",
        "the drummer at {minute} minutes {feeling}",
        "WHAT A {part}",
    ),
    "spam": (
        "check out my channel for {offer}",
        "Please subscribe to me and I subscribe back, {offer}",
        "earn {money} dollars a day from home, see www.work{year}.com",
        "free gift card for the first {money} people http://gift{year}.net",
        "hey guys I upload covers of this song, {offer}",
        "giveaway of {money} phones on my page today",
        "I made {money} dollars last week and you can too",
        "visit my page, {offer}",
        "SUBSCRIBE NOW FOR {offer}",
        "my new song is out, link in my profile, {offer}",
    ),
}
WORDS = {
    "feeling": ("gives me chills", "makes me cry", "never gets old", "is pure magic", "hits hard"),
    "part": ("chorus", "melody", "solo", "bridge", "intro"),
    "offer": (
        "new videos daily",
        "free beats",
        "you will not regret it",
        "thanks a lot",
        "1000 likes",
    ),
    "year": tuple(map(str, range(2009, 2019))),
    "money": ("50", "200", "1000", "5000"),
    "minute": ("two", "three", "four"),
}
ENDINGS = ("", "!", "!!!", " :)", " lol", " wow")


def comments(n_items, rng):
    """Return comments of one or two sentences, and their classes."""
    rows = []
    for _ in range(n_items):
        label = "spam" if rng.random() < 0.45 else "ham"
        patterns = rng.choice(PATTERNS[label], size=int(rng.integers(1, 3)), replace=False)
        text = ", ".join(sentence(pattern, rng) for pattern in patterns)
        rows.append({"text": text + str(rng.choice(ENDINGS)), "label": label})
    return rows


def sentence(pattern, rng):
    """Return a pattern with words in the place of their names."""
    words = {name: rng.choice(options) for name, options in WORDS.items()}
    return str(pattern).format(**words)


def frames(seed=0):
    """Return the rows of every file; the training rows have no labels."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, size in SIZES.items():
        frame = pl.DataFrame(comments(size, rng)).with_row_index("id")
        ids = pl.concat_str(pl.lit(f"{name}-"), pl.col("id"))
        made[name] = frame.with_columns(ids.alias("id"))
    made["train"] = made["train"].drop("label")
    return made


if __name__ == "__main__":
    for split, table in frames().items():
        table.write_csv(Path(__file__).parent / f"{split}.csv")
