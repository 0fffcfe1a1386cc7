"""Label models that learn the evidence of every vote from features or gold labels."""

from wiesel.end_to_end.evidence_models.base import (
    EvidenceLabelModel,
    FeatureChecked,
    FeatureEM,
    FeatureLabelModel,
    GoldWeighted,
)
from wiesel.end_to_end.evidence_models.stacked import Stacked
from wiesel.registry import Method, Registry

__all__ = [
    "REGISTRY",
    "EvidenceLabelModel",
    "FeatureChecked",
    "FeatureEM",
    "FeatureLabelModel",
    "GoldWeighted",
    "Stacked",
]

REGISTRY = Registry(
    EvidenceLabelModel,
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
    Method(
        name="stacked",
        cls=Stacked,
        summary="logistic regression of votes on a few gold labels, on top of correlated_voters",
        paper="after Wolpert 1992, Neural Networks",
        needs="features, votes and gold",
    ),
)
