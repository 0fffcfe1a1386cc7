"""Inputs and votes to a trained end model: torch, one file per method."""

from functools import partial

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.blind_choice import choose_without_gold, out_of_sample_proba
from wiesel.end_to_end.committee import Committee, default_members
from wiesel.end_to_end.crowd.annot_mix import AnnotMix
from wiesel.end_to_end.crowd.coin_net import COINNet
from wiesel.end_to_end.crowd.conal import CoNAL
from wiesel.end_to_end.crowd.confusion_net import ConfusionNet
from wiesel.end_to_end.crowd.crowd_layer import CrowdLayer
from wiesel.end_to_end.crowd.deep_logic import DeepLogic
from wiesel.end_to_end.crowd.doctor_net import DoctorNet
from wiesel.end_to_end.crowd.max_mig import MaxMIG
from wiesel.end_to_end.crowd.mbem import MBEM
from wiesel.end_to_end.crowd.raykar import AggNet, Raykar
from wiesel.end_to_end.evidence_models import FeatureChecked, FeatureEM, GoldWeighted, Stacked
from wiesel.end_to_end.plan import fit_together
from wiesel.end_to_end.rules import ASTRA, ImplyLoss
from wiesel.end_to_end.supervised import Supervised
from wiesel.end_to_end.two_stage import TwoStage
from wiesel.end_to_end.weasel.model import WeaSEL
from wiesel.end_to_end.with_votes import WithVotes
from wiesel.registry import Method, Registry
from wiesel.training.objective import SoftLabelObjective

__all__ = [
    "ASTRA",
    "MBEM",
    "REGISTRY",
    "AggNet",
    "AnnotMix",
    "COINNet",
    "CoNAL",
    "Committee",
    "ConfusionNet",
    "CrowdLayer",
    "DeepLogic",
    "DoctorNet",
    "EndToEndModel",
    "FeatureChecked",
    "FeatureEM",
    "GoldWeighted",
    "ImplyLoss",
    "MaxMIG",
    "Raykar",
    "SoftLabelObjective",
    "Stacked",
    "Supervised",
    "TwoStage",
    "WeaSEL",
    "WithVotes",
    "choose_without_gold",
    "default_members",
    "fit_together",
    "out_of_sample_proba",
]

_method = partial(Method, needs="features and votes")

REGISTRY = Registry(
    EndToEndModel,
    _method(
        name="committee",
        cls=Committee,
        summary="the default: networks trained on several label models, averaged",
        paper="Caruana et al. 2004, Ensemble Selection, ICML, for the weights",
    ),
    _method(
        name="weasel",
        cls=WeaSEL,
        summary="an encoder weighs the voters on every item, trained jointly with the end model",
        paper="Rühling Cachay, Boecking, Dubrawski 2021, End-to-End Weak Supervision",
    ),
    _method(
        name="two_stage",
        cls=TwoStage,
        summary="a label model estimates soft labels, then the end model learns them",
        paper="Ratner et al. 2016, Data Programming",
    ),
    _method(
        name="max_mig",
        cls=MaxMIG,
        summary="the end model and an aggregator of the votes maximize their mutual information",
        paper="Cao et al. 2019, Max-MIG, ICLR",
    ),
    _method(
        name="crowd_layer",
        cls=CrowdLayer,
        summary="a layer per voter maps the end model's predictions to its votes",
        paper="Rodrigues and Pereira 2018, Deep Learning from Crowds, AAAI",
    ),
    _method(
        name="doctor_net",
        cls=DoctorNet,
        summary="a head per voter, averaged, optionally with learned weights",
        paper="Guan et al. 2018, Who Said What, AAAI",
    ),
    _method(
        name="mbem",
        cls=MBEM,
        summary="EM with confusions estimated from the end model's hard predictions",
        paper="Khetan, Lipton, Anandkumar 2018, Learning from Noisy Singly-Labeled Data, ICLR",
    ),
    _method(
        name="agg_net",
        cls=AggNet,
        summary="EM over end model and voters, one E-step per epoch",
        paper="Albarqouni et al. 2016, AggNet, IEEE TMI",
    ),
    _method(
        name="raykar",
        cls=Raykar,
        summary="EM over end model and voters, several epochs per M-step",
        paper="Raykar et al. 2010, Learning from Crowds, JMLR",
    ),
    _method(
        name="confusion_net",
        cls=ConfusionNet,
        summary="stochastic confusion matrices: trace-regularized, shared, GeoCrowdNet, UnionNet",
        paper="Tanno et al. 2019, CVPR; Ibrahim et al. 2023, ICLR; Wei et al. 2022, TNNLS",
    ),
    _method(
        name="conal",
        cls=CoNAL,
        summary="a confusion matrix shared by all voters, mixed with each voter's own",
        paper="Chu, Ma, Wang 2021, Learning from Crowds by Modeling Common Confusions, AAAI",
    ),
    _method(
        name="coin_net",
        cls=COINNet,
        summary="a confusion matrix per voter, with sparse outliers for single votes",
        paper="Nguyen, Ibrahim, Fu 2024, Instance-Dependent Outliers, NeurIPS",
    ),
    _method(
        name="annot_mix",
        cls=AnnotMix,
        summary="mixup over items, voters and votes; voters are embeddings",
        paper="Herde, Lührs, Huseljic, Sick 2024, Annot-Mix, ECAI",
    ),
    _method(
        name="deep_logic",
        cls=DeepLogic,
        summary="votes are evidence with learned weights, the end model is the prior",
        paper="Wang and Poon 2018, Deep Probabilistic Logic, EMNLP",
    ),
    _method(
        name="imply_loss",
        cls=ImplyLoss,
        summary="learns from a few gold labels where each rule holds",
        paper="Awasthi et al. 2020, Learning from Rules Generalizing Labeled Exemplars, ICLR",
    ),
    _method(
        name="astra",
        cls=ASTRA,
        summary="a teacher combines rules and student, with a few gold labels",
        paper="Karamanolakis et al. 2021, Self-Training with Weak Supervision, NAACL",
    ),
    Method(
        name="supervised",
        cls=Supervised,
        summary="the end model trained on gold labels: the reference",
        paper="folklore",
        needs="features and gold",
    ),
)
