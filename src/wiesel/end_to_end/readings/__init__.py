"""Label models that use features or gold labels in addition to the votes ("readings")."""

from wiesel.end_to_end.readings.base import (
    FeatureReading,
    Reading,
    fit_label_model,
    proba_of_votes,
)
from wiesel.end_to_end.readings.feature_checked import FeatureChecked
from wiesel.end_to_end.readings.feature_em import FeatureEM
from wiesel.end_to_end.readings.gold_weighted import GoldWeighted
from wiesel.registry import Method, Registry

__all__ = [
    "REGISTRY",
    "FeatureChecked",
    "FeatureEM",
    "FeatureReading",
    "GoldWeighted",
    "Reading",
    "fit_label_model",
    "proba_of_votes",
]

REGISTRY = Registry(
    Reading,
    Method(
        name="feature_checked",
        cls=FeatureChecked,
        summary="votes weighted by how well a linear model on the features confirms them",
        paper="Wiesel",
        needs="features and votes",
    ),
    Method(
        name="feature_em",
        cls=FeatureEM,
        summary="EM over a linear model on the features and the voters",
        paper="after Raykar et al. 2010, Learning from Crowds, JMLR",
        needs="features and votes",
    ),
    Method(
        name="gold_weighted",
        cls=GoldWeighted,
        summary="votes weighted by their voters' precision on a few gold labels",
        paper="Wiesel",
        needs="features, votes and gold",
    ),
)
