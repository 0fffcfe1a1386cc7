"""Votes to soft labels: NumPy and SciPy only, one file per method."""

from wiesel.label_models.base import ClassBalance, LabelModel
from wiesel.label_models.calibration import calibrate_votes
from wiesel.label_models.class_balance import estimate_class_balance
from wiesel.label_models.correlated_voters import CorrelatedVoters
from wiesel.label_models.data_programming import DataProgramming
from wiesel.label_models.dawid_skene import DawidSkene
from wiesel.label_models.dependence import find_dependencies
from wiesel.label_models.glad import GLAD
from wiesel.label_models.mace import MACE
from wiesel.label_models.majority_vote import MajorityVote, VoteCounts, WeightedVote
from wiesel.label_models.one_coin import OneCoin
from wiesel.label_models.ordinal_dawid_skene import OrdinalDawidSkene
from wiesel.label_models.pair_statistics import Fixes, Prioritizes, Reinforces
from wiesel.label_models.snorkel import Snorkel
from wiesel.label_models.triplet import Triplet
from wiesel.registry import Method, Registry

__all__ = [
    "GLAD",
    "MACE",
    "REGISTRY",
    "ClassBalance",
    "CorrelatedVoters",
    "DataProgramming",
    "DawidSkene",
    "Fixes",
    "LabelModel",
    "MajorityVote",
    "OneCoin",
    "OrdinalDawidSkene",
    "Prioritizes",
    "Reinforces",
    "Snorkel",
    "Triplet",
    "VoteCounts",
    "WeightedVote",
    "calibrate_votes",
    "estimate_class_balance",
    "find_dependencies",
]

REGISTRY = Registry(
    LabelModel,
    Method(
        name="majority_vote",
        cls=MajorityVote,
        summary="every voter counts the same",
        paper="folklore",
    ),
    Method(
        name="vote_counts",
        cls=VoteCounts,
        summary="every vote multiplies the odds of its class by the same factor",
        paper="folklore",
    ),
    Method(
        name="weighted_vote",
        cls=WeightedVote,
        summary="every voter has the weight that you set",
        paper="folklore",
    ),
    Method(
        name="dawid_skene",
        cls=DawidSkene,
        summary="every voter has a confusion matrix, learned by EM",
        paper="Dawid and Skene 1979, Applied Statistics",
    ),
    Method(
        name="ordinal_dawid_skene",
        cls=OrdinalDawidSkene,
        summary="ratings: every voter has a bias and a spread, learned by EM",
        paper="Wiesel, after Dawid and Skene 1979",
    ),
    Method(
        name="one_coin",
        cls=OneCoin,
        summary="every voter has one accuracy, learned by EM",
        paper="Zhang et al. 2014, NeurIPS",
    ),
    Method(
        name="snorkel",
        cls=Snorkel,
        summary="accuracies from the agreement of pairs of voters",
        paper="Ratner et al. 2019, AAAI",
    ),
    Method(
        name="triplet",
        cls=Triplet,
        summary="accuracies in closed form, from three voters at a time",
        paper="Fu et al. 2020, ICML; Chen et al. 2021, AISTATS",
    ),
    Method(
        name="data_programming",
        cls=DataProgramming,
        summary="a generative model of the votes, with dependencies between voters",
        paper="Ratner et al. 2016, NeurIPS",
    ),
    Method(
        name="correlated_voters",
        cls=CorrelatedVoters,
        summary="a linear discriminant of voters whose errors are correlated",
        paper="Wiesel",
    ),
    Method(
        name="glad",
        cls=GLAD,
        summary="every voter has an ability, every item an easiness",
        paper="Whitehill et al. 2009, NeurIPS",
    ),
    Method(
        name="mace",
        cls=MACE,
        summary="every voter either knows the answer or guesses, by its own habits",
        paper="Hovy et al. 2013, NAACL",
    ),
)
