"""Named sets of options for WeaSEL: the paper's, and the one that never collapses."""

from typing import Any, Final

__all__ = ["BY_RECIPE", "DEFAULT_RECIPE", "RECIPES"]


class _ByRecipe:
    """Stands for an option that the user did not set."""

    def __repr__(self) -> str:
        return "<by recipe>"


BY_RECIPE: Any = _ByRecipe()
"""The default of an option whose value is the recipe's unless the user gives one."""

RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "epochs": 150,
        "patience": None,
        "blind_epochs": None,
        "epoch_size": None,
        "lr": 1e-4,
        "weight_average": None,
        "members": 1,
        "equal_start": False,
        "tau_1": None,
        "tau_2": "sqrt_voters",
        "voting_only": False,
        "class_balance": None,
        "warm_start": None,
        "warm_up": 0,
        "slow_targets": False,
        "prediction_weight": 0.0,
        "align": False,
        "uncovered": False,
        "drop_unconfirmed": False,
        "fall_back": False,
    },
    "robust": {
        "epochs": 100,
        "patience": 13,
        "blind_epochs": 8,
        "epoch_size": 3200,
        "lr": 1e-3,
        "weight_average": 0.99,
        "members": 5,
        "equal_start": True,
        "tau_1": 1.0,
        "tau_2": "classes",
        "voting_only": True,
        "class_balance": "auto",
        "warm_start": "auto",
        "warm_up": 6,
        "slow_targets": True,
        "prediction_weight": 1.0,
        "align": True,
        "uncovered": True,
        "drop_unconfirmed": True,
        "fall_back": True,
    },
}
"""What each recipe sets; a value that the user gives counts more."""

DEFAULT_RECIPE: Final = "robust"
