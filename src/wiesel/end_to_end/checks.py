"""Checks before training starts, with messages that explain what to do."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.plan import FitInputs, GoldSet
from wiesel.end_to_end.reading_inputs import explained
from wiesel.errors import FeatureError, ParameterError, VoteError
from wiesel.labels import LabelSpace
from wiesel.parameters import check_number
from wiesel.training import Objective, Validation, as_inputs
from wiesel.training.inputs import Inputs, move
from wiesel.training.threads import fitting_threads
from wiesel.training.validation import evaluating, logits_of
from wiesel.votes import VoteMatrix

__all__ = [
    "check_divisible",
    "check_end_model",
    "check_lengths",
    "check_training_numbers",
    "checked_proba",
    "covered_items",
    "gold_validation",
    "gold_votes",
]

_TRIED_ITEMS = 8
_WHOLE_NUMBERS = {"batch_size": 2, "seed": 0, "members": 1}
_OPTIONAL_NUMBERS = {"epochs": 1, "epoch_size": 2, "patience": 1}
"""The smallest allowed values of options that are whole numbers or None."""


def check_training_numbers(model: Any) -> None:
    """Refuse invalid values of the numeric training options."""
    for name, low in {**_WHOLE_NUMBERS, **_OPTIONAL_NUMBERS}.items():
        if getattr(model, name) is not None or name in _WHOLE_NUMBERS:
            check_number(model, name, getattr(model, name), low=low, whole=True)
    check_number(model, "lr", model.lr, low=0)
    check_number(model, "weight_decay", model.weight_decay, low=0)
    if model.weight_average is not None:
        check_number(model, "weight_average", model.weight_average, low=0, high=1)


def check_divisible(model: object, objective: Objective, engine: object) -> None:
    """Refuse an engine for a method whose batches cannot be split among workers."""
    if engine is not None and not objective.is_divisible:
        raise ParameterError(
            f"{type(model).__name__} cannot be trained by several workers: TwoStage, WeaSEL and "
            "Committee can. Leave engine out."
        )


def covered_items(given: FitInputs) -> npt.NDArray[np.int64]:
    """Return the positions of the items with votes; there must be at least two."""
    covered = np.flatnonzero(given.votes.covered)  # type: ignore[union-attr]
    if len(covered) < 2:
        raise VoteError(
            f"Only {len(covered)} of {len(given.inputs)} items have a vote; training needs at "
            "least two. Write labeling functions that vote more often."
        )
    return covered


def check_lengths(given: FitInputs) -> None:
    """Refuse inputs, votes and encoder features with different numbers of items."""
    lengths = {"X": len(given.inputs)}
    if given.votes is not None:
        lengths["votes"] = given.votes.n_items
    if given.features is not None:
        lengths["encoder_X"] = len(given.features)
    if len(set(lengths.values())) > 1:
        described = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise FeatureError(
            f"All inputs must have the same items in the same order, but {described}."
        )
    if not lengths["X"]:
        raise FeatureError("There are no items: X is empty.")


def check_end_model(end_model: nn.Module, inputs: Inputs, n_classes: int, name: str = "X") -> None:
    """Call the end model on a few items and refuse it if it does not return logits."""
    if not isinstance(end_model, nn.Module):
        raise ParameterError(
            f"The end model must be a torch.nn.Module that returns logits; got {end_model!r:.80}."
        )
    rows = np.arange(min(_TRIED_ITEMS, len(inputs)))
    with explained(end_model, inputs, name):
        logits = _tried(end_model, inputs, rows)
    if tuple(logits.shape) != (len(rows), n_classes):
        advice = " For two classes, return two logits." if n_classes == 2 else ""
        raise FeatureError(
            f"The end model must return logits of the shape (items, {n_classes}), one for each "
            f"class; for {len(rows)} items it returned {tuple(logits.shape)}.{advice}"
        )
    if _looks_like_probabilities(logits):
        raise FeatureError(
            "The end model returns probabilities (rows that sum to 1); it must return logits. "
            "Drop its final softmax."
        )


def gold_validation(
    validation: GoldSet | None, labels: LabelSpace, end_model: nn.Module | None
) -> Validation | None:
    """Return the validation set, checked, or None."""
    if validation is None:
        return None
    if not isinstance(validation, (tuple, list)) or len(validation) not in (2, 3):
        raise ParameterError(
            "validation must be (X, y), inputs and gold labels, or (X, y, votes) with the votes on "
            "these items."
        )
    inputs = as_inputs(validation[0], "validation X")
    gold = labels.indices(validation[1])
    if len(gold) != len(inputs) or not len(gold):
        raise FeatureError(
            f"The validation set has {len(inputs)} inputs and {len(gold)} gold labels; "
            "it needs one label for each, and at least one item."
        )
    if end_model is not None:
        check_end_model(end_model, inputs, len(labels), "validation X")
    return Validation(inputs, gold, len(labels))


def gold_votes(validation: GoldSet | None, votes: VoteMatrix | None) -> VoteMatrix | None:
    """Return the votes on the validation items, if they were given, checked against `votes`."""
    if validation is None or len(validation) == 2 or votes is None:
        return None
    found = validation[2]
    if not isinstance(found, VoteMatrix):
        raise ParameterError(
            "The third part of validation must be a VoteMatrix, the votes on its items; "
            f"got {type(found).__name__}."
        )
    found.check_same_voters(votes.voters, votes.labels)
    if found.n_items != len(validation[1]):
        raise FeatureError(
            f"The validation set has {len(validation[1])} gold labels, and votes on "
            f"{found.n_items} items."
        )
    return found


def _tried(
    end_model: nn.Module, inputs: Inputs, rows: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Tensor:
    """The output of the end model for a few items, of any shape."""
    batch = inputs.take(rows)
    device = next((p.device for p in end_model.parameters()), torch.device("cpu"))
    with torch.no_grad(), fitting_threads(end_model), evaluating(end_model):
        return logits_of(end_model, move(batch, device)).cpu().float()


def checked_proba(proba: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return probabilities; raise an error that names an item with NaN or infinity."""
    wrong = np.flatnonzero(~np.isfinite(proba).all(axis=1))
    if len(wrong):
        raise FeatureError(
            f"The end model returns NaN or infinity for item {wrong[0]} (and {len(wrong) - 1} "
            "more). Are the inputs scaled as they were in training?"
        )
    return proba


def _looks_like_probabilities(logits: Tensor) -> bool:
    sums_to_one = torch.allclose(logits.sum(dim=1), torch.ones(len(logits)), atol=1e-4)
    return bool((logits >= 0).all()) and sums_to_one
