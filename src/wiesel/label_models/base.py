"""The base class of label models: checks, warnings, saving and loading."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from wiesel.errors import Advice, SavedModelError, VoteError, WieselError, WieselWarning, suggest
from wiesel.labels import (
    ABSTAIN,
    FloatArray,
    LabelSpace,
    as_indices,
    checked_proba,
    class_prior,
)
from wiesel.registry import registered_classes
from wiesel.saving import decoded, encoded, write_folder
from wiesel.scikit_learn import Classifier
from wiesel.threads import one_thread
from wiesel.version import __version__
from wiesel.votes import VoteMatrix, VoteSource, require_votes

__all__ = [
    "ClassBalance",
    "LabelModel",
    "fitted_label_model",
    "label_model_arrays",
    "label_model_values",
    "normalized_exp",
    "save_label_model",
    "try_label_model",
    "unfitted_label_model",
    "warn_of_overruled",
]

ClassBalance = Mapping[str, float] | Sequence[float] | FloatArray | None

_LOOKED_AT = 2**16
"""With more items, a regular sample is checked, so that prediction stays cheap."""
_TRIED_CLASSES = 50
_CLEARLY = 0.01
_BY_THE_WAY = 0.05
"""The share of items that a class balance may overrule without a warning, if it was learned from
the votes or if items have a single vote. On skewed data this corrects a few wrong votes."""
ARRAYS = "arrays.safetensors"


@dataclass(eq=False, kw_only=True)
class LabelModel(Classifier, ABC):
    """Turns votes into soft labels, without features.

    A method is a dataclass. Its options are fields; its learned attributes are fields with
    `init=False` and a trailing underscore. It implements `_fit`, and `_predict_proba`, which
    returns probabilities whose rows sum to 1 (`normalized_exp` computes them from logarithms), and
    the class balance for items without votes. This class checks the input and stores the class
    balance.
    """

    tasks: ClassVar[tuple[str, ...]] = ("one label", "several labels", "spans")
    """The kinds of tasks that it can do (`Task.kind`); in spans it labels each token by itself."""
    counts_repeats: ClassVar[bool] = True
    """Whether repeated answers of a voter to an item all count. Methods that learn from pairs of
    votes read their shares instead, because a voter has one vote in a pair."""
    trusts_independence: ClassVar[bool] = False
    """Whether it learns about workers and multiplies the evidence of their answers as if they erred
    independently. `aggregate` makes such a model less sure."""
    reads_order: ClassVar[bool] = False
    """Whether the classes are ranks for it, so that neighbors of the truth are smaller mistakes."""
    takes_inputs: ClassVar[bool] = False
    """Whether it can also read the items' features: `predict_proba(votes, X)`."""

    labels_: LabelSpace = field(init=False, repr=False)
    """The classes seen in `fit`."""
    voters_: tuple[str, ...] = field(init=False, repr=False)
    """The voters seen in `fit`, in order."""
    class_balance_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(class): as given, or as the method estimated it."""
    balance_given_: bool = field(init=False, repr=False)
    """Whether P(class) was given to `fit`."""

    def fit(self, votes: VoteSource, class_balance: ClassBalance = None) -> Self:
        """Learn from votes; `class_balance` is P(class) if it is known.

        scikit-learn's cross-validation passes gold labels in its place. They are ignored here,
        because only `score` needs them.
        """
        with one_thread():
            known = self._begin(votes, class_balance)
            self._fit(self._counted(votes) if isinstance(votes, VoteMatrix) else votes, known)
            return self._finish(votes)

    def _begin(
        self, votes: VoteSource, class_balance: ClassBalance
    ) -> npt.NDArray[np.float64] | None:
        """Check options and votes; return the class balance if the user gave one."""
        require_votes(votes)
        if votes.n_items == 0 or not votes.voters:
            raise VoteError(
                f"{type(self).__name__} needs at least one item and one voter; "
                f"got {votes.n_items} items and {len(votes.voters)} voters."
            )
        self.check_options()
        unknown = class_balance is None or _is_gold(class_balance, votes)
        known = None if unknown else class_prior(votes.labels, class_balance)
        self.balance_given_ = known is not None
        self.class_balance_ = class_prior(votes.labels, None) if known is None else known
        return known

    def _finish(self, votes: VoteSource) -> Self:
        self.labels_, self.voters_ = votes.labels, votes.voters
        return self

    def fit_predict_proba(
        self, votes: VoteMatrix, class_balance: ClassBalance = None
    ) -> npt.NDArray[np.float64]:
        """Fit, and return P(class | votes) of the same votes, as `predict_proba` does."""
        self.fit(votes, class_balance)
        return self._proba_of(votes)

    def predict_proba(self, votes: VoteSource) -> npt.NDArray[np.float64]:
        """Return P(class | votes): (n_items, n_classes), in the order of `labels_.names`.

        Votes in many files are read part by part; `wiesel.io.write_soft_label_parts` also writes
        the result part by part. Warns if the class balance outweighs voters that agree and are
        better than chance.
        """
        self.check_fitted()
        require_votes(votes)
        if not isinstance(votes, VoteMatrix):
            return np.concatenate([self.predict_proba(part) for part in votes.parts()])
        self.check_votes(votes)
        return self._proba_of(votes)

    def _proba_of(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """P(class | votes) of checked votes, with a warning if the class balance outweighs them."""
        with one_thread():
            found = self._predict_proba(self._counted(votes))
            source = f"The soft labels by {type(self).__name__}"
            proba = checked_proba(found, votes.labels, source, votes.n_items)
            warn_of_overruled(self, votes, proba, getattr(self, "balance_given_", False))
            return proba

    def predict(self, votes: VoteSource) -> npt.NDArray[Any]:
        """Return the name of the most probable class of every item."""
        best = self.predict_proba(votes).argmax(axis=1)
        return np.array(self.labels_.names, dtype=object)[best]

    def _counted(self, votes: VoteMatrix) -> VoteMatrix:
        """The votes with repeated answers as the method counts them."""
        if self.counts_repeats or votes.distribution is None:
            return votes
        total = votes.distribution.sum(axis=1, keepdims=True)
        return replace(votes, distribution=votes.distribution / total)

    def log_evidence(self, votes: VoteMatrix, proba: FloatArray) -> npt.NDArray[np.float64]:
        """Return log P(class, votes) of every item, up to a constant for each item.

        `proba` is what `predict_proba` returned for the votes.
        """
        return np.asarray(np.log(np.maximum(proba, 1e-300)))

    def save(self, path: str | Path) -> None:
        """Write the fitted model as a folder of data files; `wiesel.load_model` reads it."""
        self.check_fitted()
        save_label_model(self, path)

    def sample_votes(self) -> Any:
        """Return votes on which a loaded model is tried: an item without any, and some with all."""
        n_voters, tried = len(self.voters_), range(min(len(self.labels_), _TRIED_CLASSES))
        rows = [[ABSTAIN] * n_voters, *([label] * n_voters for label in tried)]
        return VoteMatrix.from_dense(as_indices(rows), self.labels_, self.voters_)

    def check_learned(self) -> None:
        """Raise ValueError if values that predicting from votes does not use are damaged.

        Loading a saved model calls it.
        """

    def _features_seen(self) -> dict[str, Any]:
        return {"features": len(self.voters_), "feature_names": self.voters_}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.two_d_array = tags.input_tags.sparse = False
        return tags

    @abstractmethod
    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        """Set the learned attributes; `class_balance` is None if the user gave none."""

    @abstractmethod
    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return the posterior of checked votes."""


def _is_gold(values: Any, votes: VoteSource) -> bool:
    """Whether these are item labels rather than P(class): one per item, or names."""
    if isinstance(values, Mapping):
        return False
    array = np.asarray(values)
    one_each = array.shape == (votes.n_items,)
    if not one_each or (votes.n_items == len(votes.labels) and array.dtype.kind not in "OUT"):
        return False
    votes.labels.indices(values, allow_unknown=True)  # the error names a label that is no class
    return True


def normalized_exp(log_joint: FloatArray) -> npt.NDArray[np.float64]:
    """Return exp(log_joint) with rows that sum to 1; no number of voters underflows.

    >>> normalized_exp(np.array([[-2000.0, -2000.0], [0.0, -np.inf]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    proba = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


def warn_of_overruled(model: Any, votes: VoteMatrix, proba: FloatArray, given: bool) -> None:
    """Warn if the class balance outweighs voters that agree and are better than chance."""
    if votes.n_items == 0 or np.ptp(model.class_balance_) < 1e-9:
        return
    step = -(-votes.n_items // _LOOKED_AT)
    seen, proba = (votes[::step], proba[::step]) if step > 1 else (votes, proba)
    # Under an absurd given balance, accurate voters look as if they were guessing.
    trusted = _trusted_votes(model, margin=0.0 if given else _CLEARLY)
    # If abstaining is a vote, it may outweigh the others: then use only items without abstains.
    least_votes = votes.n_voters if getattr(model, "silence_counts_", False) else 1
    agreed, overruled = _overruled_items(seen, proba, trusted, least_votes)
    if overruled and overruled <= _BY_THE_WAY * agreed:
        agreed, overruled = _overruled_items(seen, proba, trusted, max(2, least_votes))
        overruled = overruled if given else 0
    if overruled:
        _warn(model, agreed, overruled, given)


def _overruled_items(
    votes: VoteMatrix, proba: FloatArray, trusted: npt.NDArray[np.bool_], least_votes: int = 1
) -> tuple[int, int]:
    """Return the number of items on which trusted voters agree, and of those overruled.

    >>> agreed = VoteMatrix.from_dense([[0, 0], [1, 1], [0, 1]], ["a", "b"])
    >>> _overruled_items(agreed, np.array([[0.9, 0.1]] * 3), np.ones((2, 2), dtype=bool))
    (2, 1)
    """
    item, voter, voted = votes.item_index, votes.voter_index, votes.class_index
    n_votes = votes.votes_per_item
    first = np.zeros(votes.n_items, dtype=np.int64)
    first[votes.covered] = voted[votes.indptr[:-1][votes.covered]]
    apart = (voted != first[item]) | ~trusted[voter, voted]
    agreed = (np.bincount(item, apart, minlength=votes.n_items) == 0) & (n_votes >= least_votes)
    # A tie does not count: the class that was voted for is as probable as the winner.
    own = proba[np.arange(votes.n_items), first]
    lost = agreed & (own < proba.max(axis=1) - 1e-9)
    return int(agreed.sum()), int(lost.sum())


def _trusted_votes(model: Any, margin: float = 0.0) -> npt.NDArray[np.bool_]:
    """Return which votes raise the probability of their own class: (n_voters, n_classes).

    This uses P(vote | class) if the model has it, else whether a voter is better than chance.
    `margin` is the required relative difference.
    """
    n_voters, n_classes = len(model.voters_), len(model.labels_)
    elsewhere = ~np.eye(n_classes, dtype=bool)
    given_class = getattr(model, "confusions_", getattr(model, "conditionals_", None))
    if given_class is not None:
        given_class = given_class[:, :, :n_classes]
        own = np.einsum("jcc->jc", given_class)
        other = np.where(elsewhere, given_class, 0).max(axis=1)
        trusted: npt.NDArray[np.bool_] = own >= other * (1 + margin) - 1e-12
        return trusted
    weights = getattr(model, "weights_", None)
    if weights is not None and weights.ndim == 1:
        return np.repeat((weights > 0)[:, None], n_classes, axis=1)
    if weights is not None:
        other = np.where(elsewhere, weights, -np.inf).max(axis=2)
        raises: npt.NDArray[np.bool_] = np.einsum("jcc->jc", weights) >= other + margin
        return raises
    accuracies = getattr(model, "accuracies_", None)
    if accuracies is None:
        return np.ones((n_voters, n_classes), dtype=bool)
    return np.repeat((accuracies >= (1 + margin) / n_classes)[:, None], n_classes, axis=1)


def _warn(model: Any, agreed: int, overruled: int, given: bool) -> None:
    balance = model.class_balance_
    largest = int(np.argmax(balance))
    kind = "given" if given else "estimated"
    cure = (
        "Give the class balance of these items, or none. "
        if given
        else Advice("Give the class balance to fit() if you know it. ")
    )
    warning = WieselWarning(
        f"{type(model).__name__}: on {overruled:,} of {agreed:,} items all votes agree, but the "
        f"label differs: the {kind} class balance, with {model.labels_.names[largest]!r} at "
        f"{balance[largest]:.6g}, outweighs all votes. ",
        cure,
        "The method majority_vote never does that.",
    )
    warnings.warn(warning, stacklevel=4)


def save_label_model(model: "LabelModel", path: str | Path) -> None:
    """Write a fitted label model as a folder."""
    values = label_model_values(model)
    write_folder(path, {"wiesel": __version__, **values}, {ARRAYS: label_model_arrays(model)})


def label_model_values(model: "LabelModel") -> dict[str, Any]:
    """Return the options and learned values of a fitted label model, except its arrays."""
    learned = {name: getattr(model, name) for name in _learned(model)}
    return {
        "class": type(model).__name__,
        "parameters": encoded(model.get_params(deep=False)),
        "learned": {
            name: encoded(value)
            for name, value in learned.items()
            if not isinstance(value, np.ndarray)
        },
    }


def label_model_arrays(model: "LabelModel") -> bytes:
    """Return the learned arrays of a fitted label model."""
    learned = {name: getattr(model, name) for name in _learned(model)}
    return save(
        {
            name: np.ascontiguousarray(value)
            for name, value in learned.items()
            if isinstance(value, np.ndarray)
        }
    )


def unfitted_label_model(values: dict[str, Any]) -> "LabelModel":
    """Return a label model of a registered class with the stored options."""
    from wiesel.label_models.base import LabelModel

    classes = registered_classes(LabelModel)
    name = values["class"]
    if name not in classes:
        raise SavedModelError(f"There is no label model {name!r}. {suggest(name, classes)}")
    model: LabelModel = classes[name](**decoded(values["parameters"]))
    model.check_options()
    return model


def fitted_label_model(values: dict[str, Any], arrays: bytes) -> "LabelModel":
    """Return a fitted label model from its values and arrays."""
    try:
        model = _filled(unfitted_label_model(values), values["learned"], arrays)
        try_label_model(model)
    except SavedModelError:
        raise
    # A manifest edited by hand can have any error.
    except (WieselError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise SavedModelError(f"The saved label model is inconsistent: {e!r}.") from e
    return model


def _filled(model: "LabelModel", values: Any, arrays: bytes) -> "LabelModel":
    try:
        learned = {**decoded(values), **load(arrays)}
    except SafetensorError as error:
        raise SavedModelError(f"The stored arrays cannot be read: {error}") from error
    unknown = learned.keys() - set(model.learned_names())
    if unknown or "labels_" not in learned:
        name = type(model).__name__
        raise SavedModelError(f"The stored values do not fit {name}: {sorted(unknown)}")
    for name, value in learned.items():
        setattr(model, name, value)
    return model


def try_label_model(model: "LabelModel") -> None:
    """Refuse a model whose parts do not work together: wrong shapes, NaN, missing values."""
    model.check_learned()
    for name in ("class_balance_", "confusions_"):
        value = getattr(model, name, None)
        if isinstance(value, np.ndarray) and not _is_probability(value):
            raise ValueError(f"its {name} are no probabilities: {value!r:.80}")
    votes = model.sample_votes()
    with np.errstate(all="ignore"):
        proba = model.predict_proba(votes)
    n_rows = getattr(votes, "n_tokens", votes.n_items)
    if proba.shape != (n_rows, len(model.labels_)) or not np.allclose(proba.sum(axis=1), 1):
        raise ValueError(f"its answer to votes is {proba!r:.80}")


def _is_probability(value: npt.NDArray[Any]) -> bool:
    sums = value.sum(axis=-1)
    return bool((value >= 0).all() and (np.abs(sums - 1) < 1e-3).all())


def _learned(model: "LabelModel") -> list[str]:
    return [name for name in model.learned_names() if hasattr(model, name)]
