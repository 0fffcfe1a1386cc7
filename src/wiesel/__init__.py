"""Wiesel: end-to-end weak supervision.

The public names are imported on first use, so `import wiesel` is fast and does not load torch.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wiesel.version import __version__

if TYPE_CHECKING:
    from wiesel.aggregate import aggregate, ask_next
    from wiesel.analysis import agreement, findings, label_buckets, rank_workers, summarize
    from wiesel.catalog import load_model
    from wiesel.compare import compare
    from wiesel.datasets import load_dataset
    from wiesel.end_to_end import (
        ASTRA,
        MBEM,
        AggNet,
        AnnotMix,
        COINNet,
        Committee,
        CoNAL,
        ConfusionNet,
        CrowdLayer,
        DeepLogic,
        DoctorNet,
        EndToEndModel,
        FeatureChecked,
        FeatureEM,
        GoldWeighted,
        ImplyLoss,
        MaxMIG,
        Raykar,
        Supervised,
        TwoStage,
        WeaSEL,
        fit_together,
    )
    from wiesel.evaluation import evaluate
    from wiesel.features import TextFeatures
    from wiesel.guidance import blame, rows_to_label, suggest_lfs
    from wiesel.label_models import (
        GLAD,
        MACE,
        DataProgramming,
        DawidSkene,
        Fixes,
        LabelModel,
        MajorityVote,
        OneCoin,
        OrdinalDawidSkene,
        Prioritizes,
        Reinforces,
        Snorkel,
        Triplet,
        VoteCounts,
        WeightedVote,
        estimate_class_balance,
    )
    from wiesel.labels import ABSTAIN, LabelSpace
    from wiesel.lfs import (
        apply_lfs,
        expression,
        from_model,
        keywords,
        labeling_function,
        lookup,
        prompt,
        regex,
        threshold,
        try_lfs,
        votes_by_index,
    )
    from wiesel.registry import register
    from wiesel.tables import Gold
    from wiesel.votes import VoteMatrix

__all__ = [
    "ABSTAIN",
    "ASTRA",
    "GLAD",
    "MACE",
    "MBEM",
    "AggNet",
    "AnnotMix",
    "COINNet",
    "CoNAL",
    "Committee",
    "ConfusionNet",
    "CrowdLayer",
    "DataProgramming",
    "DawidSkene",
    "DeepLogic",
    "DoctorNet",
    "EndToEndModel",
    "FeatureChecked",
    "FeatureEM",
    "Fixes",
    "Gold",
    "GoldWeighted",
    "ImplyLoss",
    "LabelModel",
    "LabelSpace",
    "MajorityVote",
    "MaxMIG",
    "OneCoin",
    "OrdinalDawidSkene",
    "Prioritizes",
    "Raykar",
    "Reinforces",
    "Snorkel",
    "Supervised",
    "TextFeatures",
    "Triplet",
    "TwoStage",
    "VoteCounts",
    "VoteMatrix",
    "WeaSEL",
    "WeightedVote",
    "__version__",
    "aggregate",
    "agreement",
    "apply_lfs",
    "ask_next",
    "blame",
    "compare",
    "estimate_class_balance",
    "evaluate",
    "expression",
    "findings",
    "fit_together",
    "from_model",
    "keywords",
    "label_buckets",
    "labeling_function",
    "load_dataset",
    "load_model",
    "lookup",
    "prompt",
    "rank_workers",
    "regex",
    "register",
    "rows_to_label",
    "suggest_lfs",
    "summarize",
    "threshold",
    "try_lfs",
    "votes_by_index",
]

_HOMES = {
    "wiesel.aggregate": ("aggregate", "ask_next"),
    "wiesel.analysis": ("agreement", "findings", "label_buckets", "rank_workers", "summarize"),
    "wiesel.catalog": ("load_model",),
    "wiesel.compare": ("compare",),
    "wiesel.datasets": ("load_dataset",),
    "wiesel.end_to_end": (
        "ASTRA",
        "AnnotMix",
        "COINNet",
        "DeepLogic",
        "ImplyLoss",
        "AggNet",
        "CoNAL",
        "Committee",
        "ConfusionNet",
        "CrowdLayer",
        "DoctorNet",
        "EndToEndModel",
        "FeatureChecked",
        "FeatureEM",
        "GoldWeighted",
        "MBEM",
        "MaxMIG",
        "Raykar",
        "Supervised",
        "TwoStage",
        "WeaSEL",
        "fit_together",
    ),
    "wiesel.evaluation": ("evaluate",),
    "wiesel.features": ("TextFeatures",),
    "wiesel.tables": ("Gold",),
    "wiesel.guidance": ("blame", "rows_to_label", "suggest_lfs"),
    "wiesel.label_models": (
        "DataProgramming",
        "DawidSkene",
        "Fixes",
        "GLAD",
        "LabelModel",
        "MACE",
        "MajorityVote",
        "OneCoin",
        "OrdinalDawidSkene",
        "Prioritizes",
        "Reinforces",
        "Snorkel",
        "Triplet",
        "VoteCounts",
        "WeightedVote",
        "estimate_class_balance",
    ),
    "wiesel.labels": ("ABSTAIN", "LabelSpace"),
    "wiesel.lfs": (
        "apply_lfs",
        "expression",
        "from_model",
        "keywords",
        "labeling_function",
        "lookup",
        "prompt",
        "regex",
        "threshold",
        "try_lfs",
        "votes_by_index",
    ),
    "wiesel.registry": ("register",),
    "wiesel.votes": ("VoteMatrix",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'wiesel' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _LazyModule(ModuleType):
    """The package: a public name is not overwritten by a submodule with the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing wiesel.compare binds the submodule here; the public name is its function.
        if isinstance(value, ModuleType) and name in _HOME_OF:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _LazyModule
