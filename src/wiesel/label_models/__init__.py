"""Votes to soft labels: NumPy and SciPy only, one file per method."""

from wiesel.label_models.base import ClassBalance, LabelModel
from wiesel.label_models.majority_vote import MajorityVote
from wiesel.registry import Method, index_methods

__all__ = ["REGISTRY", "ClassBalance", "LabelModel", "MajorityVote"]

REGISTRY = index_methods(
    Method(
        name="majority_vote",
        cls=MajorityVote,
        summary="every voter counts the same",
        paper="folklore",
    ),
)
