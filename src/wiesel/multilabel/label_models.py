"""Label models for several labels, one for each: fitting, explaining, saving."""

import copy
import html
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError, SavedModelError, VoteError, WieselError, listed, suggest
from wiesel.explain import Explanation
from wiesel.label_models import LabelModel
from wiesel.label_models.base import (
    fitted_label_model,
    label_model_arrays,
    label_model_values,
    unfitted_label_model,
)
from wiesel.label_sets import MultiLabelSpace
from wiesel.labels import FloatArray, class_prior
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.parameters import Parameterized
from wiesel.registry import Method, Registry
from wiesel.saving import write_folder
from wiesel.threads import map_in_threads
from wiesel.version import __version__
from wiesel.votes import VoteMatrix, VoteSource

__all__ = [
    "Balance",
    "MultiLabelExplanation",
    "OneSided",
    "PerLabel",
    "check_directions",
    "fit_each",
    "label_balance",
    "label_models_contents",
    "posteriors",
    "restore_per_label",
    "restored_label_models",
    "save_per_label",
]

Balance = Mapping[str, float] | None
"""P(present) of some labels, by name; that of the others is unknown."""

FitOne = Callable[[str, VoteMatrix, "npt.NDArray[np.float64] | None"], LabelModel]
"""Fits the votes on one label, given P(absent, present) if it is known."""

_FOUND = 0.9
"""The share of the voted class's items that the votes on a one-sided label can account for."""
_SURE = 0.95
"""The highest probability that votes can give when no voter votes the other way."""
_WORTH_THREADS = 100_000
"""From this many votes on, a fit spends most of its time in products, which threads can share."""
_EVIDENCE = float(np.log(3))
"""What every vote adds to the log-odds of a one-sided label."""


@dataclass(eq=False, kw_only=True)
class OneSided(LabelModel):
    """The label model for a label whose votes all go one way; it needs the label's balance.

    The voters never contradict each other, so the votes do not show how accurate they are. Known
    are the share c of items with a vote, and P(v), the frequency of the voted class v::

        mean P(v | voted)    = min(0.95, 0.9 P(v) / c)
        P(v | k votes)       = sigmoid(b + k log 3)          b makes the mean above
        P(v | silent)        = (P(v) - c mean P(v | voted)) / (1 - c)

    So the mean over all items is P(v), at least a tenth of it is left to items without a vote,
    and every further vote triples the odds.

    >>> votes = VoteMatrix.from_dense([[1], [-1], [-1], [-1]], ["not sports", "sports"])
    >>> OneSided().fit(votes, [0.6, 0.4]).predict_proba(votes)[:, 1].round(3)
    array([0.95 , 0.217, 0.217, 0.217])
    """

    voted_: int = field(init=False, repr=False)
    """The class that is voted for."""
    offset_: float = field(init=False, repr=False)
    """The logit of the voted class before votes are added."""
    silent_: float = field(init=False, repr=False)
    """P(voted class) for items without a vote."""

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        if class_balance is None or not isinstance(votes, VoteMatrix):
            raise ParameterError("OneSided needs the class balance, and all votes in one matrix.")
        self.voted_ = int(votes.class_index[0]) if votes.n_votes else 1
        wanted = float(class_balance[self.voted_])
        covered = float(votes.covered.mean())
        found = min(_SURE, _FOUND * wanted / covered) if 0 < covered < 1 else wanted
        self.silent_ = (wanted - covered * found) / (1 - covered) if covered < 1 else wanted
        counts = votes.votes_per_item[votes.covered].astype(np.float64)
        self.offset_ = _offset(counts * _EVIDENCE, found) if len(counts) else 0.0

    def _proba_of(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        # Without a warning: the balance is meant to outweigh the votes.
        return self._predict_proba(votes)

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        from scipy.special import expit

        counted = expit(self.offset_ + votes.votes_per_item * _EVIDENCE)
        voted = np.where(votes.covered, counted, self.silent_)
        proba = np.stack([1 - voted, voted], axis=1)
        return proba if self.voted_ == 1 else proba[:, ::-1]


REGISTRY = Registry(
    OneSided,
    Method(
        name="one_sided",
        cls=OneSided,
        summary="for labels whose votes all agree; needs the class balance",
        paper="Wiesel",
    ),
)
"""Saved models refer to classes by registry; users never choose from this one by name."""


@dataclass(eq=False)
class PerLabel(Parameterized):
    """A label model for each label: one call fits all of them, one call predicts with all.

    Each is fitted on the voters that vote on its label. A label whose votes all go one way needs
    its balance, and gets a `OneSided` model.

    >>> from wiesel import MajorityVote
    >>> votes = MultiLabelVotes.from_dense([[[1, 0], [1, 1]], [[0, 0], [0, 1]]], ["a", "b"])
    >>> model = PerLabel(MajorityVote()).fit(votes)
    >>> model.predict_proba(votes).tolist(), model.predict(votes)
    ([[1.0, 0.5], [0.0, 0.5]], [('a',), ()])
    """

    label_model: LabelModel
    """Any label model; it is copied for every label."""
    _: KW_ONLY

    labels_: MultiLabelSpace = field(init=False, repr=False)
    """The labels seen in `fit`."""
    voters_: tuple[str, ...] = field(init=False, repr=False)
    """The voters seen in `fit`, in order."""
    models_: dict[str, LabelModel] = field(init=False, repr=False)
    """The fitted label model of every label."""

    def fit(self, votes: MultiLabelVotes, class_balance: Balance = None) -> Self:
        """Learn from the votes; `class_balance` is P(present) of labels for which it is known."""
        if not isinstance(self.label_model, LabelModel):
            raise ParameterError(
                "The first argument of PerLabel is a label model such as MajorityVote(); got "
                f"{self.label_model!r:.60}."
            )
        balance = label_balance(class_balance, votes.labels)

        def fit_one(
            label: str, own: VoteMatrix, known: npt.NDArray[np.float64] | None
        ) -> LabelModel:
            return copy.deepcopy(self.label_model).fit(own, class_balance=known)

        self.models_ = fit_each(votes, balance, fit_one)
        self.labels_, self.voters_ = votes.labels, votes.voters
        return self

    @classmethod
    def of_models(
        cls, label_model: LabelModel, votes: MultiLabelVotes, models: Mapping[str, LabelModel]
    ) -> Self:
        """Return the fitted label models of all labels as one."""
        fitted = cls(copy.deepcopy(label_model))
        fitted.models_ = {label: models[label] for label in votes.labels}
        fitted.labels_, fitted.voters_ = votes.labels, votes.voters
        return fitted

    def predict_proba(self, votes: MultiLabelVotes) -> npt.NDArray[np.float64]:
        """Return P(present | votes): (n_items, n_labels), in the order of the labels."""
        self.check_fitted()
        votes.check_same_voters(self.voters_, self.labels_)
        return posteriors(self.models_, votes)

    def predict(self, votes: MultiLabelVotes) -> list[tuple[str, ...]]:
        """Return the labels of every item: those that are more likely present than absent."""
        return self.labels_.sets(self.predict_proba(votes) > 0.5)

    def save(self, path: str | Path) -> None:
        """Write the fitted model as a folder; `wiesel.load_model` reads it."""
        from wiesel.multilabel.label_models import save_per_label

        self.check_fitted()
        save_per_label(self, path)


def fit_each(
    votes: MultiLabelVotes,
    balance: npt.NDArray[np.float64],
    fit_one: FitOne,
    in_threads: bool = True,
) -> dict[str, LabelModel]:
    """Return a fitted label model for each label; `balance` is P(present), NaN if unknown.

    If there are many votes and `in_threads` is true, each core fits one label at a time.
    """
    check_directions(votes, balance)

    def fitted(label: str) -> LabelModel:
        own = votes[label].select(votes.voters_on(label))
        present = balance[votes.labels.index(label)]
        known = None if np.isnan(present) else class_prior(own.labels, [1 - present, present])
        both = votes.directions[label] == "both"
        return fit_one(label, own, known) if both else OneSided().fit(own, known)

    n_threads = None if in_threads and votes.n_votes >= _WORTH_THREADS else 1
    return dict(zip(votes.labels, map_in_threads(fitted, votes.labels, n_threads), strict=True))


def posteriors(models: Mapping[str, LabelModel], votes: MultiLabelVotes) -> npt.NDArray[np.float64]:
    """Return P(present | votes) from the label model of every label."""
    columns = [
        model.predict_proba(votes[label].select(model.voters_))[:, 1]
        for label, model in models.items()
    ]
    return np.stack(columns, axis=1)


def _offset(evidence: FloatArray, mean: float) -> float:
    """The logit for which sigmoid(offset + evidence) has this mean, by bisection."""
    from scipy.special import expit

    low, high = -50.0 - float(evidence.max()), 50.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(middle + evidence).mean() < mean else (low, middle)
    return (low + high) / 2


def label_balance(balance: Any, labels: MultiLabelSpace) -> npt.NDArray[np.float64]:
    """Return P(present) of every label, NaN if it is not given.

    >>> label_balance({"b": 0.25}, MultiLabelSpace("a", "b"))
    array([ nan, 0.25])
    """
    found = np.full(len(labels), np.nan)
    if balance is None:
        return found
    if not isinstance(balance, Mapping):
        raise ParameterError(
            "The class balance of a multi-label task says how common labels are, by name, such as "
            f'{{"{labels.names[0]}": 0.1}}; got {balance!r:.60}.'
        )
    for name, value in balance.items():
        if name not in labels:
            raise ParameterError(
                f"The class balance names {name!r}, which is not a label. {suggest(name, labels)}"
            )
        fits = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not fits or not 0 < float(value) < 1:
            raise ParameterError(
                f"The class balance of {name!r} is the share of items that have it, above 0 and "
                f"below 1; got {value!r}."
            )
        found[labels.index(name)] = float(value)
    return found


def check_directions(votes: MultiLabelVotes, balance: npt.NDArray[np.float64]) -> None:
    """Refuse labels without votes, and one-sided labels whose balance is unknown."""
    silent = [label for label, way in votes.directions.items() if way == "none"]
    if silent:
        raise VoteError(
            f"Nobody votes on {listed(silent)}: there is nothing to learn it from. Write a "
            "labeling function for it, or take it out of the labels."
        )
    unknown = dict(zip(votes.labels, np.isnan(balance), strict=True))
    sided = {
        label: way
        for label, way in votes.directions.items()
        if way in ("present", "absent") and unknown[label]
    }
    if sided:
        label, way = next(iter(sided.items()))
        other = "absent" if way == "present" else "present"
        how = ": exhaustive=True, or against(...)" if way == "present" else ""
        more = f" (as on {listed(list(sided)[1:], limit=5)})" if len(sided) > 1 else ""
        raise VoteError(
            f"All votes on {label!r} are that it is {way}{more}, so its share is unknown. "
            f'Give class_balance={{"{label}": 0.1}} with the share of items that have it, or a '
            f"labeling function that votes where it is {other}{how}."
        )


@dataclass(frozen=True)
class MultiLabelExplanation:
    """The prediction for one item, and for each label which voter pushed it which way."""

    item: object
    labels: tuple[str, ...]
    """The labels that are predicted."""
    by_label: dict[str, Explanation]
    """The explanation of every label as a binary task."""

    def __str__(self) -> str:
        parts = [self._headline(), *(_indented(str(own)) for own in self._shown().values())]
        return "\n".join([*parts, *self._unvoted()])

    def to_html(self) -> str:
        """Return the explanation as an HTML fragment."""
        parts = [own.to_html() for own in self._shown().values()]
        unvoted = [f"<p>{html.escape(line)}</p>" for line in self._unvoted()]
        head = f"<p><strong>{html.escape(self._headline())}</strong></p>"
        return "".join([head, *parts, *unvoted])

    def _repr_html_(self) -> str:
        return self.to_html()

    def _headline(self) -> str:
        found = ", ".join(map(repr, self.labels)) or "none of the labels"
        return f"Item {self.item} has {found}."

    def _shown(self) -> dict[str, Explanation]:
        """The labels that are predicted or voted on."""
        return {k: own for k, own in self.by_label.items() if k in self.labels or own.pushes}

    def _unvoted(self) -> list[str]:
        silent = [
            f"{label} {100 * own.end_proba[1]:.0f} %"
            for label, own in self.by_label.items()
            if label not in self._shown()
        ]
        return [f"Nobody voted on: {', '.join(silent)}."] if silent else []


def _indented(lines: str) -> str:
    return "\n".join(f"  {line}" for line in lines.splitlines())


def save_per_label(model: "PerLabel", path: str | Path) -> None:
    """Write the fitted label models of all labels as one folder."""
    values, files = label_models_contents(model)
    about = {
        "wiesel": __version__,
        "kind": "multilabel",
        "class": "PerLabel",
        "labels": list(model.labels_.names),
        "voters": list(model.voters_),
    }
    write_folder(path, {**about, **values}, files)


def label_models_contents(model: "PerLabel") -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the label model of every label as values, and their arrays as files."""
    values = {
        "label_model": label_model_values(model.label_model),
        "label_models": {name: label_model_values(own) for name, own in model.models_.items()},
    }
    files = {
        f"label{place}.safetensors": label_model_arrays(own)
        for place, own in enumerate(model.models_.values())
    }
    return values, files


def restore_per_label(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> "PerLabel":
    """Return the label models that a folder describes."""
    try:
        labels = MultiLabelSpace(*manifest["labels"])
        return restored_label_models(manifest, files, labels, tuple(manifest["voters"]))
    except SavedModelError:
        raise
    # An edited manifest can be wrong in any way.
    except (WieselError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SavedModelError(f"The saved model is inconsistent: {error!r}.") from error


def restored_label_models(
    values: Mapping[str, Any],
    files: Mapping[str, bytes],
    labels: MultiLabelSpace,
    voters: tuple[str, ...],
) -> "PerLabel":
    """Return the fitted label models of all labels, checked."""
    from wiesel.multilabel.label_models import PerLabel

    models: dict[str, LabelModel] = {}
    for place, (label, own) in enumerate(values["label_models"].items()):
        model = fitted_label_model(own, files[f"label{place}.safetensors"])
        if model.labels_ != labels.binary(label) or not {*model.voters_} <= {*voters}:
            raise SavedModelError(
                f"The label model of {label!r} belongs to another label or other voters."
            )
        models[label] = model
    if tuple(models) != labels.names:
        raise SavedModelError("The saved model lacks the label model of a label.")
    fitted = PerLabel(unfitted_label_model(values["label_model"]))
    fitted.labels_, fitted.voters_, fitted.models_ = labels, voters, models
    return fitted
