"""Data sets: folders of real data, the embedded movie reviews, and synthetic data."""

from wiesel.datasets.folders import load_dataset, load_movie_reviews, standardized
from wiesel.datasets.synthetic import make_features, make_panel, make_votes, planted_confusions
from wiesel.io import Dataset, Split

__all__ = [
    "Dataset",
    "Split",
    "load_dataset",
    "load_movie_reviews",
    "make_features",
    "make_panel",
    "make_votes",
    "planted_confusions",
    "standardized",
]
