"""The way back from saved state to features, whatever kind they are."""

from collections.abc import Callable
from typing import Any

from wiesel.errors import SavedModelError, WieselError, listed
from wiesel.features.images import ImageFeatures
from wiesel.features.standardize import Standardizer
from wiesel.features.state import FeatureState
from wiesel.features.tabular import TabularFeatures
from wiesel.features.text import TextFeatures
from wiesel.features.tokens import TokenFeatures

__all__ = ["features_from_state"]

_READERS: dict[str, Callable[[FeatureState], Any]] = {
    "text": TextFeatures.from_state,
    "tabular": TabularFeatures.from_state,
    "tokens": TokenFeatures.from_state,
    "images": ImageFeatures.from_state,
    "standardizer": Standardizer.from_state,
}


def features_from_state(state: FeatureState) -> Any:
    """Return the fitted features that some `to_state()` described; runs no stored code.

    >>> fitted = TabularFeatures(numeric=["age"]).fit({"age": [20, 40]})
    >>> features_from_state(fitted.to_state()).transform({"age": [30]})
    array([[0.]], dtype=float32)
    """
    kind = state.settings.get("kind")
    if not isinstance(kind, str) or kind not in _READERS:
        raise SavedModelError(f"There are no features of kind {kind!r}; known: {listed(_READERS)}.")
    try:
        return _READERS[kind](state)
    except SavedModelError:
        raise
    # What somebody wrote into a file can be wrong in every way.
    except (WieselError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise SavedModelError(f"The saved features do not fit together: {e}.") from e
