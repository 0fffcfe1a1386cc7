"""All decisions before one network is trained for several labels, as one value."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.checks import check_end_model, covered_items, matched_gold
from wiesel.end_to_end.plan import FitPlan, inputs_digest, votes_fingerprint
from wiesel.end_to_end.readings import FeatureLabelModel
from wiesel.end_to_end.two_stage import fit_label_model, proba_of_votes
from wiesel.errors import FeatureError, ParameterError, VoteError
from wiesel.evaluation.metrics import roc_auc
from wiesel.label_models import LabelModel
from wiesel.labels import class_prior
from wiesel.multilabel.label_models import fit_each, label_balance
from wiesel.multilabel.space import MultiLabelSpace, Presence
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.training import Inputs, TrainingData, Validation, as_inputs
from wiesel.votes import VoteMatrix

__all__ = [
    "MultiLabelPlan",
    "MultiLabelValidation",
    "SoftLabels",
    "checked_plan",
    "posteriors_of",
    "read_votes_on",
]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MultiLabelValidation(Validation):
    """Held-out items with gold labels; the score of an epoch is the labels' mean ROC-AUC."""

    presence: Presence
    """(n_items, n_labels): 1, 0, or -1 if unknown."""

    @property
    def judged(self) -> list[int]:
        """The labels that some of the items have and others do not."""
        known = [self.presence[:, k][self.presence[:, k] >= 0] for k in range(self.n_classes)]
        return [k for k, own in enumerate(known) if 0 < own.sum() < len(own)]

    @property
    def metric(self) -> str:
        """The metric of `score`."""
        return "mean_auc" if self.judged else "accuracy"

    def score(self, proba: Array) -> float:
        """Return the score of the probabilities (n_items, 2, n_labels)."""
        known = self.presence >= 0
        if not self.judged:
            right = (proba[:, 1] >= 0.5) == (self.presence == 1)
            return float(right[known].mean()) if known.any() else 0.0
        areas = [
            roc_auc(self.presence[known[:, k], k], proba[known[:, k], :, k]) for k in self.judged
        ]
        return float(np.mean(areas))


@dataclass(frozen=True)
class MultiLabelPlan:
    """Everything that a fit needs."""

    inputs: Inputs
    votes: MultiLabelVotes
    balance: Array
    """P(present) of every label; NaN if unknown."""
    validation: MultiLabelValidation | None
    gold_votes: MultiLabelVotes | None
    """The votes on the validation items, if they were given."""

    @property
    def labels(self) -> MultiLabelSpace:
        """The labels."""
        return self.votes.labels

    @property
    def one_sided(self) -> npt.NDArray[np.bool_]:
        """Labels whose votes all go one way."""
        return np.array([way != "both" for way in self.votes.directions.values()])

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """(n_items, n_labels): what enters the loss; for one-sided labels, all items do."""
        return self.votes.covered | self.one_sided

    @property
    def used(self) -> npt.NDArray[np.int64]:
        """The items to train on."""
        return covered_items(np.asarray(self.known.any(axis=1)))

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal votes, balance, gold and (sampled) inputs."""
        digest = hashlib.sha256(inputs_digest(self.inputs))
        digest.update(self.balance.tobytes())
        for votes in (self.votes, self.gold_votes):
            parts = () if votes is None else votes.matrices
            digest.update("".join(map(votes_fingerprint, parts)).encode())
        if self.validation is not None:
            digest.update(inputs_digest(self.validation.inputs))
            digest.update(self.validation.presence.tobytes())
        return digest.hexdigest()[:16]

    def of_label(self, label: str, votes: VoteMatrix) -> FitPlan:
        """Return the plan of a binary method for one label."""
        place = self.labels.index(label)
        present = np.nan_to_num(self.balance[place], nan=0.5)
        held_out, gold_votes = None, None
        if self.validation is not None and self.gold_votes is not None:
            gold = self.validation.presence[:, place]
            rows = np.flatnonzero(gold >= 0)
            gold_votes = self.gold_votes[label].select(votes.voters)[rows]
            held_out = Validation(self.validation.inputs, gold[rows], 2)
        return FitPlan(
            data=TrainingData(self.inputs),
            labels=votes.labels,
            voters=votes.voters,
            votes=votes,
            class_balance=class_prior(votes.labels, [1 - present, present]),
            validation=held_out,
            gold_votes=gold_votes,
        )


@dataclass(frozen=True)
class SoftLabels:
    """A label model's probabilities for every item and label, and its fitted copies."""

    models: dict[str, LabelModel]
    proba: Array
    """(n_items, n_labels): P(present)."""


def checked_plan(
    network: nn.Module, X: Any, votes: Any, validation: Any, class_balance: Any
) -> MultiLabelPlan:
    """Return the plan of a fit, or raise an error that says what is wrong with the arguments."""
    if not isinstance(votes, MultiLabelVotes):
        raise VoteError(
            f"votes must be MultiLabelVotes; got {type(votes).__name__}. Make them with "
            "apply_multilabel_lfs(lfs, rows, labels=...) or MultiLabelVotes.from_long(table)."
        )
    inputs = as_inputs(X, votes=votes)
    if len(inputs) != votes.n_items or not len(inputs):
        raise FeatureError(
            f"X and votes must have the same items in the same order, but X has {len(inputs)} "
            "and votes has "
            f"{votes.n_items}."
        )
    _check_network(network, inputs, votes.labels)
    held_out, gold_votes = _validation(validation, votes, network)
    balance = _balance(class_balance, votes.labels, held_out)
    return MultiLabelPlan(inputs, votes, balance, held_out, gold_votes)


def read_votes_on(label_model: LabelModel, plan: MultiLabelPlan) -> SoftLabels:
    """Return the soft labels of a label model, fitted for each label.

    A label model such as `FeatureChecked` also uses the inputs and the gold labels of the plan.
    """
    found: dict[str, Array] = {}

    def fit_one(label: str, own: VoteMatrix, known: Array | None) -> LabelModel:
        fitted, soft_labels = fit_label_model(label_model, plan.of_label(label, own), known)
        found[label] = soft_labels[:, 1]
        return fitted

    # Solvers that use features decide themselves how many cores they use.
    in_threads = not isinstance(label_model, FeatureLabelModel)
    models = fit_each(plan.votes, plan.balance, fit_one, in_threads)
    one_sided = {label: model for label, model in models.items() if label not in found}
    if one_sided:
        columns = posteriors_of(one_sided, plan.votes, plan.inputs).T
        found.update(zip(one_sided, columns, strict=True))
    return SoftLabels(models, np.stack([found[label] for label in models], axis=1))


def posteriors_of(models: Mapping[str, LabelModel], votes: MultiLabelVotes, X: Any) -> Array:
    """Return P(present | votes) from the label model of every label; some also use X."""
    columns = [
        proba_of_votes(model, votes[label].select(model.voters_), X)[:, 1]
        for label, model in models.items()
    ]
    return np.stack(columns, axis=1)


def _check_network(network: nn.Module, inputs: Inputs, labels: MultiLabelSpace) -> None:
    last = list(network.modules())[-1] if isinstance(network, nn.Module) else None
    if isinstance(last, (nn.Sigmoid, nn.Softmax, nn.LogSoftmax)):
        raise FeatureError(
            f"The end model ends with {type(last).__name__}; it must return one logit for each "
            "label. Drop that layer."
        )
    try:
        check_end_model(network, inputs, len(labels))
    except FeatureError as error:
        message = str(error).replace("one for each class", "one for each label")
        raise FeatureError(message.replace(" For two classes, return two logits.", "")) from None


def _validation(
    validation: Any, votes: MultiLabelVotes, network: nn.Module
) -> tuple[MultiLabelValidation | None, MultiLabelVotes | None]:
    if validation is None:
        return None, None
    if not isinstance(validation, (tuple, list)) or len(validation) not in (2, 3):
        raise ParameterError(
            "validation must be (X, gold), inputs and a set of labels for each, or (X, gold, "
            "votes) with the votes on these items."
        )
    X, gold_sets = matched_gold(validation)
    inputs = as_inputs(X, "validation X")
    presence = votes.labels.presence(gold_sets)
    if len(presence) != len(inputs) or not len(presence):
        raise FeatureError(
            f"The validation set has {len(inputs)} inputs and gold labels of {len(presence)} "
            "items; it needs one set of labels for each, and at least one item."
        )
    _check_network(network, inputs, votes.labels)
    gold = np.zeros(len(presence), dtype=np.int64)
    held_out = MultiLabelValidation(inputs, gold, len(votes.labels), presence)
    if len(validation) == 2:
        return held_out, None
    own = validation[2]
    if not isinstance(own, MultiLabelVotes):
        raise ParameterError(
            f"The third part of validation must be MultiLabelVotes; got {type(own).__name__}."
        )
    own.check_same_voters(votes.voters, votes.labels)
    if own.n_items != len(presence):
        raise FeatureError(
            f"The validation set has gold labels of {len(presence)} items, and votes on "
            f"{own.n_items}."
        )
    return held_out, own


def _balance(given: Any, labels: MultiLabelSpace, validation: MultiLabelValidation | None) -> Array:
    """P(present) of every label: as given, counted on the validation items, or NaN."""
    if not isinstance(given, str):
        return label_balance(given, labels)
    if given != "validation":
        raise ParameterError(
            f"class_balance must be a dict by label, 'validation' or None; got {given!r}."
        )
    if validation is None:
        raise ParameterError("class_balance='validation' needs fit(..., validation=(X, gold)).")
    known = validation.presence >= 0
    # Add one item with each label and one without, so that chance rules nothing out.
    present: Array = ((validation.presence == 1).sum(axis=0) + 1) / (known.sum(axis=0) + 2)
    return present
