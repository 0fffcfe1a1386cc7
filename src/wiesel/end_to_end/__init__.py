"""Inputs and votes to a trained end model: torch, one file per method."""

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.committee import Committee
from wiesel.end_to_end.crowd.agg_net import AggNet
from wiesel.end_to_end.crowd.conal import CoNAL
from wiesel.end_to_end.crowd.confusion_net import ConfusionNet
from wiesel.end_to_end.crowd.crowd_layer import CrowdLayer
from wiesel.end_to_end.crowd.doctor_net import DoctorNet
from wiesel.end_to_end.crowd.max_mig import MaxMIG
from wiesel.end_to_end.crowd.mbem import MBEM
from wiesel.end_to_end.crowd.raykar import Raykar
from wiesel.end_to_end.readings import FeatureChecked, GoldWeighted
from wiesel.end_to_end.supervised import Supervised
from wiesel.end_to_end.together import fit_together
from wiesel.end_to_end.two_stage import TwoStage
from wiesel.end_to_end.weasel.model import WeaSEL
from wiesel.registry import Method, index_methods

__all__ = [
    "MBEM",
    "REGISTRY",
    "AggNet",
    "CoNAL",
    "Committee",
    "ConfusionNet",
    "CrowdLayer",
    "DoctorNet",
    "EndToEndModel",
    "FeatureChecked",
    "GoldWeighted",
    "MaxMIG",
    "Raykar",
    "Supervised",
    "TwoStage",
    "WeaSEL",
    "fit_together",
]

REGISTRY = index_methods(
    Method(
        name="committee",
        cls=Committee,
        summary="several readings of the votes, a network for each, averaged: the default",
        paper="Caruana et al. 2004, Ensemble Selection, ICML, for the weights",
        needs="features and votes",
    ),
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
        name="max_mig",
        cls=MaxMIG,
        summary="the end model and an aggregator of the votes maximize their mutual information",
        paper="Cao et al. 2019, Max-MIG, ICLR",
        needs="features and votes",
    ),
    Method(
        name="crowd_layer",
        cls=CrowdLayer,
        summary="a small layer for every voter turns predictions into its votes",
        paper="Rodrigues and Pereira 2018, Deep Learning from Crowds, AAAI",
        needs="features and votes",
    ),
    Method(
        name="doctor_net",
        cls=DoctorNet,
        summary="a head for every voter, averaged, with learned weights if wanted",
        paper="Guan et al. 2018, Who Said What, AAAI",
        needs="features and votes",
    ),
    Method(
        name="mbem",
        cls=MBEM,
        summary="EM that judges voters by the end model's hard answers",
        paper="Khetan, Lipton, Anandkumar 2018, Learning from Noisy Singly-Labeled Data, ICLR",
        needs="features and votes",
    ),
    Method(
        name="agg_net",
        cls=AggNet,
        summary="EM over end model and voters, one step after every epoch",
        paper="Albarqouni et al. 2016, AggNet, IEEE TMI",
        needs="features and votes",
    ),
    Method(
        name="raykar",
        cls=Raykar,
        summary="EM over end model and voters, some epochs for every step",
        paper="Raykar et al. 2010, Learning from Crowds, JMLR",
        needs="features and votes",
    ),
    Method(
        name="confusion_net",
        cls=ConfusionNet,
        summary="stochastic confusion matrices: trace-regularized, shared, GeoCrowdNet, UnionNet",
        paper="Tanno et al. 2019, CVPR; Ibrahim et al. 2023, ICLR; Wei et al. 2022, TNNLS",
        needs="features and votes",
    ),
    Method(
        name="conal",
        cls=CoNAL,
        summary="mistakes that all voters share, beside each voter's own",
        paper="Chu, Ma, Wang 2021, Learning from Crowds by Modeling Common Confusions, AAAI",
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
