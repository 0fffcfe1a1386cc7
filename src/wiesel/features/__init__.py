"""Features: turn texts, tables and images into vectors."""

from wiesel.features.images import ImageFeatures
from wiesel.features.saved import features_from_state
from wiesel.features.standardize import FeatureState, Standardizer
from wiesel.features.tabular import TabularFeatures
from wiesel.features.text import TextFeatures
from wiesel.features.tokens import TokenFeatures
from wiesel.features.vector_files import write_text_features, write_vectors

__all__ = [
    "FeatureState",
    "ImageFeatures",
    "Standardizer",
    "TabularFeatures",
    "TextFeatures",
    "TokenFeatures",
    "features_from_state",
    "write_text_features",
    "write_vectors",
]
