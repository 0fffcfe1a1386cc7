"""Inputs and votes to a trained end model: torch, one file per method."""

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.supervised import Supervised
from wiesel.end_to_end.two_stage import TwoStage
from wiesel.end_to_end.weasel import WeaSEL
from wiesel.registry import Method, index_methods

__all__ = ["REGISTRY", "EndToEndModel", "Supervised", "TwoStage", "WeaSEL"]

REGISTRY = index_methods(
    Method(
        name="weasel",
        cls=WeaSEL,
        summary="an encoder weighs the votes of every item and learns together with the end model",
        paper="Rühling Cachay, Boecking, Dubrawski 2021, End-to-End Weak Supervision",
        needs="features and votes",
    ),
    Method(
        name="two_stage",
        cls=TwoStage,
        summary="a label model makes soft labels, the end model learns them",
        paper="Ratner et al. 2016, Data Programming",
        needs="features and votes",
    ),
    Method(
        name="supervised",
        cls=Supervised,
        summary="the end model trained on gold labels: the reference",
        paper="folklore",
        needs="features and gold",
    ),
)
