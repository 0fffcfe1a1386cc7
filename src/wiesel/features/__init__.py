"""From text, tables and images to vectors."""

from wiesel.features.standardize import Standardizer
from wiesel.features.state import FeatureState

__all__ = ["FeatureState", "Standardizer"]
