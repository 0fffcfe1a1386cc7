"""What every estimator shares: its options, by name, as scikit-learn expects them."""

from dataclasses import fields
from typing import Any, Self

from wiesel.errors import NotFittedError, ParameterError, suggest

__all__ = ["Parameterized", "check_choice", "check_number"]


class Parameterized:
    """A dataclass whose constructor arguments are its options.

    Options are the fields with `init=True`, stored untouched. What `fit` learns is declared as
    `name_: Type = field(init=False, repr=False)` and exists only after `fit`.
    `sklearn.base.clone` and grid search work on it.
    """

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of the constructor's arguments."""
        return tuple(f.name for f in fields(cls) if f.init)  # type: ignore[arg-type]

    @classmethod
    def learned_names(cls) -> tuple[str, ...]:
        """Return the names of the attributes that `fit` sets."""
        return tuple(f.name for f in fields(cls) if not f.init)  # type: ignore[arg-type]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name; with `deep`, those of nested estimators too."""
        params = {name: getattr(self, name) for name in self.option_names()}
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, Parameterized):
                    nested = value.get_params().items()
                    params.update({f"{name}__{key}": option for key, option in nested})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set options by name (`label_model__tol=1e-4` reaches a nested estimator)."""
        for name, value in params.items():
            own, _, nested = name.partition("__")
            if own not in self.option_names():
                message = f"{type(self).__name__} has no option {own!r}."
                raise ParameterError(f"{message} {suggest(own, self.option_names())}")
            if nested:
                getattr(self, own).set_params(**{nested: value})
            else:
                setattr(self, own, value)
        return self

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        if not hasattr(self, "labels_"):
            name = type(self).__name__
            raise NotFittedError(f"This {name} is not fitted yet: call fit(...) first.")


def check_choice(owner: object, name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse an option that is none of the allowed words."""
    if value not in allowed:
        raise ParameterError(
            f"The {name!r} option of {type(owner).__name__} must be one of "
            f"{', '.join(map(repr, allowed))}; got {value!r}. {suggest(value, allowed)}"
        )


def check_number(
    owner: object,
    name: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    whole: bool = False,
) -> None:
    """Refuse an option that is not a number in [low, high]."""
    kind = int if whole else (int, float)
    fits = isinstance(value, kind) and not isinstance(value, bool)
    fits = fits and (low is None or value >= low) and (high is None or value <= high)  # type: ignore[operator]
    if not fits:
        what = "a whole number" if whole else "a number"
        bounds = [f"at least {low}"] if low is not None else []
        bounds += [f"at most {high}"] if high is not None else []
        raise ParameterError(
            f"The {name!r} option of {type(owner).__name__} must be {what} "
            f"{' and '.join(bounds)}; got {value!r}.".replace("  ", " ")
        )
