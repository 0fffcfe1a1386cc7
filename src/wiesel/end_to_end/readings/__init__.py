"""Readings of the votes: label models that look at more than votes, at features or at gold."""

from wiesel.end_to_end.readings.base import Reading, fit_label_model
from wiesel.end_to_end.readings.feature_checked import FeatureChecked
from wiesel.end_to_end.readings.gold_weighted import GoldWeighted

__all__ = ["READINGS", "FeatureChecked", "GoldWeighted", "Reading", "fit_label_model"]

READINGS: tuple[type[Reading], ...] = (FeatureChecked, GoldWeighted)
"""All of them."""
