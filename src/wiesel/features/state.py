"""Fitted features as plain data, so that they can be saved with a model without pickles."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from wiesel.errors import SavedModelError, listed

__all__ = ["FeatureState", "check_kind"]


class FeatureState(NamedTuple):
    """What a fitted feature extractor learned: settings for JSON, arrays for safetensors.

    >>> FeatureState({"kind": "standardizer"}, {}).settings["kind"]
    'standardizer'
    """

    settings: Mapping[str, Any]
    """Only what JSON can hold; `kind` says which extractor it is."""
    arrays: Mapping[str, npt.NDArray[Any]]
    """Numeric arrays by name."""


def check_kind(
    state: FeatureState, kind: str, *, settings: Sequence[str] = (), arrays: Sequence[str] = ()
) -> None:
    """Refuse a state of another extractor, or one that lacks a part."""
    found = state.settings.get("kind")
    if found != kind:
        raise SavedModelError(f"These saved features are of the kind {found!r}, not {kind!r}.")
    missing = [name for name in settings if name not in state.settings]
    missing += [name for name in arrays if name not in state.arrays]
    if missing:
        raise SavedModelError(f"The saved features of kind {kind!r} lack {listed(missing)}.")
