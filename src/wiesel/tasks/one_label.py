"""One label for each item: the items of a `VoteMatrix`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from wiesel.errors import FeatureError, ParameterError, SavedModelError
from wiesel.explain import Explanation, MemberView, Push, predicted_class
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.base import (
    normalized_exp,
)
from wiesel.label_models.majority_vote import vote_balance
from wiesel.label_models.vote_products import alignment_offsets
from wiesel.labels import (
    ABSTAIN,
    LabelSpace,
    as_indices,
    checked_proba,
    class_prior,
    says_nothing,
)
from wiesel.nn.end_models import Ensemble
from wiesel.tasks.base import (
    NEEDS_VALIDATION,
    Array,
    Combined,
    FitLabelModel,
    Task,
    checked_copies,
    checked_number,
    checked_weights,
    find_copies,
    merge_copies,
    originals_of,
)
from wiesel.training import History, Inputs, Objective, Validation, as_inputs
from wiesel.training.loop import predict_logits, proba_of
from wiesel.training.objective import SoftLabelObjective
from wiesel.votes import VoteMatrix

__all__ = [
    "COLLAPSED_SHARE",
    "OneLabelTask",
    "VoteEffects",
    "agreement_weights",
    "check_one_item",
    "chosen_class_balance",
    "each_left_out",
    "explain_item",
    "label_model_effects",
    "log_proba",
    "mean_agreement",
    "mean_effects",
    "proba_of_votes",
]

COLLAPSED_SHARE = 0.995
"""A network that predicts one class for more of the items has collapsed, if the votes differ."""
_BETTER_THAN_CHANCE = 0.6
"""A validation ROC-AUC that an uninformed network does not reach."""
_VOTED_ITEMS = 15
"""Beside gold items, the class balance of the votes counts as so many items of each class."""
_COMPARED_ITEMS = 4096
"""The most items on which networks are compared, and aligned to the class balance."""
_AGREEMENT_POWER = 8
_WAY_TO_ESTIMATE = 0.5
"""How far offsets bring the class shares to an estimated balance: neither is known better."""
_SMALLEST_PROBA = 1e-9


@dataclass(frozen=True)
class VoteEffects:
    """The effects of the votes on one item, according to a method."""

    added: npt.NDArray[np.float64]
    """(n_votes, n_classes): what each vote adds to the logit of each class."""
    weights: npt.NDArray[np.float64]
    """(n_votes,): the weight of each voter."""
    soft_label: npt.NDArray[np.float64]
    """(n_classes,): the soft label from all votes."""
    abstaining_share: float = 0.0
    """The share of the weight held by abstaining voters."""
    members: tuple[MemberView, ...] = ()
    """The soft label of each member of a committee."""


class OneLabelTask(Task):
    """One of several classes for each item.

    >>> OneLabelTask(LabelSpace("ham", "spam")).held_out([0, 1], ["ham", "spam"]).gold
    array([0, 1])
    """

    kind = "one label"
    label_type = LabelSpace
    output = "class"
    compares_members = True

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.labels)

    def matrices(self, votes: VoteMatrix) -> Sequence[VoteMatrix]:
        """Return the votes."""
        return (votes,)

    def used(self, inputs: Inputs, votes: VoteMatrix) -> npt.NDArray[np.bool_]:
        """Return whether an item has a vote."""
        return votes.covered

    def copies(self, votes: VoteMatrix) -> dict[str, str]:
        """Return each voter that is a copy, and the voter it copies."""
        original = find_copies(votes)
        return {
            votes.voters[voter]: votes.voters[first]
            for voter, first in enumerate(original)
            if voter != first
        }

    def without_copies(self, votes: VoteMatrix, copies: Mapping[str, str]) -> VoteMatrix:
        """Return the votes with every copy merged into the voter it copies."""
        return merge_copies(votes, originals_of(votes.voters, copies))

    def joined_votes(self, parts: Sequence[VoteMatrix]) -> VoteMatrix:
        """Return the votes on the items of all parts."""
        return VoteMatrix.concatenate(parts)

    def sample_votes(self, n_items: int, voters: Sequence[str]) -> VoteMatrix:
        """Return items of which the first has no vote, and the others have all."""
        rows = [[ABSTAIN] * len(voters), *([[0] * len(voters)] * (n_items - 1))]
        return VoteMatrix.from_dense(as_indices(rows), self.labels, voters)

    def gold_labels(self, gold: Any) -> npt.NDArray[np.int64]:
        """Return class indices, -1 where the label is unknown."""
        return self.labels.indices(gold, allow_unknown=True)

    def held_out(self, inputs: Inputs, gold: Any) -> Validation:
        """Return items with gold labels, given as names or indices."""
        return Validation(inputs, self.labels.indices(gold), len(self.labels))

    def class_balance(
        self, option: Any, votes: VoteMatrix | None, validation: Validation | None
    ) -> Array:
        """Return P(class): given, uniform (None), or estimated as the option says."""
        return chosen_class_balance(option, self.labels, votes, validation)

    def member_balance(self, option: Any, votes: VoteMatrix, validation: Validation | None) -> Any:
        """Return the committee's option; without one, members estimate the balance."""
        return "auto" if option is None else option

    def fit_label_model(
        self, label_model: LabelModel, plan: Any, balance: Array | None, fit: FitLabelModel
    ) -> tuple[LabelModel, Array]:
        """Return the fitted label model, and P(class) of every item."""
        return fit(label_model, plan, balance)

    def checked_proba(
        self, proba: Any, source: str, n_items: int | None = None, *, zeros: bool = False
    ) -> Array:
        """Return P(class) of items, checked."""
        return checked_proba(proba, self.labels, source, n_items, zeros=zeros)

    def hardened(self, soft_labels: Array) -> Array:
        """Return the most probable class of every item as its soft label."""
        return np.eye(len(self.labels))[soft_labels.argmax(axis=1)]

    def soft_labels(self, fitted: LabelModel, votes: VoteMatrix, X: Any) -> Array:
        """Return P(class) from the votes; X counts if the label model learned from features."""
        return proba_of_votes(fitted, votes, X)

    def label_model_effects(self, fitted: LabelModel, one: Any, votes: VoteMatrix) -> VoteEffects:
        """Return what each vote adds to the log-probabilities of the label model."""
        return label_model_effects(fitted, one, votes)

    def objective(
        self, network: nn.Module, targets: Array, votes: Any, loss: str, balance: Array | None
    ) -> Objective:
        """Return the cross-entropy to the soft labels, or the mutual-information loss."""
        return SoftLabelObjective(network, targets, loss, balance)

    def gold_objective(
        self, network: nn.Module, gold: Validation, unsure: float, left_out: Any = None
    ) -> Objective:
        """Return the cross-entropy to gold labels; items that are left out have no target."""
        targets = (1 - unsure) * np.eye(len(self.labels))[gold.gold] + unsure / len(self.labels)
        targets[[] if left_out is None else left_out] = 0
        return SoftLabelObjective(network, targets)

    def average(
        self, networks: Sequence[nn.Module], weights: Any = None, offsets: Any = None
    ) -> nn.Module:
        """Return the (weighted) mean of the networks' probabilities, aligned by offsets."""
        return Ensemble(networks, weights, offsets).eval()

    def combined(
        self, networks: Sequence[nn.Module], weights: Array, given: Any, balance: Any
    ) -> Combined:
        """Return weights by agreement, and offsets that bring the shares to the class balance.

        Both come from predictions for items with votes. If the balance is an estimate, the offsets
        are half of those that make the shares equal to it.
        """
        rows = np.flatnonzero(given.votes.covered)
        if len(rows) > _COMPARED_ITEMS:
            rows = np.random.default_rng(0).choice(rows, _COMPARED_ITEMS, replace=False)
        items = as_inputs(given.inputs.take(rows))
        probas = np.stack([proba_of(predict_logits(network, items)) for network in networks])
        agreement = mean_agreement(probas.argmax(axis=2))
        weights = weights * agreement_weights(agreement)
        weights = weights / weights.sum()
        mean = np.maximum(np.tensordot(weights, probas, axes=1), _SMALLEST_PROBA)
        shares = self.class_balance(balance, given.votes, None)
        offsets = alignment_offsets(shares, np.log(mean))
        if _is_estimated(balance):
            offsets *= _WAY_TO_ESTIMATE
        return Combined(weights, offsets, float(agreement.mean()))

    def collapsed(self, history: History) -> npt.NDArray[np.bool_]:
        """Whether the kept weights predict one class although the votes do not.

        False if the validation ROC-AUC is good: then only the threshold is off, and it is tuned.
        """
        kept = history.kept if len(history) else {}
        shares, voted = kept.get("predicted_shares"), kept.get("voted_shares")
        if not shares or not voted or kept.get("validation_auc", 0.0) >= _BETTER_THAN_CHANCE:
            return np.array(False)
        return np.array(max(shares) >= COLLAPSED_SHARE and max(voted) < COLLAPSED_SHARE)

    def able(self, histories: Sequence[History]) -> Array:
        """Return 1 for every member: those that have collapsed are left out before."""
        return np.ones(len(histories))

    def collapse_message(self, history: History) -> str:
        """Return what a collapsed network does."""
        shares = history.kept["predicted_shares"]
        name = self.labels.names[shares.index(max(shares))]
        return f"The end model predicts {name!r} for nearly all items although the votes do not."

    def judged(
        self, probas: Array, validation: Validation
    ) -> Iterator[tuple[tuple[int, ...], Array, Validation]]:
        """Yield the one decision of an item, the members' probabilities, and its gold."""
        yield (), probas, validation

    def calibration(self, logits: Tensor, validation: Validation) -> Array:
        """Refuse: scikit-learn does it."""
        raise ParameterError(
            "calibrated=True is for tasks with several labels. With one label, wrap the model: "
            "CalibratedClassifierCV(FrozenEstimator(model)).fit(X, y) of scikit-learn."
        )

    def proba(self, logits: Tensor, calibration: Array | None) -> Array:
        """Return P(class): (n_items, n_classes)."""
        return proba_of(logits) if len(logits) else np.empty((0, len(self.labels)))

    def decide(self, proba: Array, threshold: float | None, items: Any = None) -> npt.NDArray[Any]:
        """Return the name of the predicted class of every item."""
        if threshold is None:
            chosen = proba.argmax(axis=1)
        else:
            chosen = (proba[:, 1] >= threshold).astype(np.int64)
        return np.array(self.labels.names, dtype=object)[chosen]

    def check_threshold(self, threshold: Any) -> float | None:
        """Return a stored threshold: a number, or None."""
        return None if threshold is None else checked_number(threshold)

    def check_calibration(self, calibration: Any) -> None:
        """Refuse a stored calibration."""
        if calibration is not None:
            raise SavedModelError("The saved model has a calibration, which has no meaning here.")

    def check_balance(self, balance: Any) -> Array:
        """Return a stored class balance."""
        return class_prior(self.labels, balance)

    def check_copies(self, copies: Any, voters: Sequence[str]) -> dict[str, str]:
        """Return the stored copies among the voters."""
        return checked_copies(copies, voters)

    def check_weights(self, weights: Mapping[str, Any]) -> dict[str, float]:
        """Return the stored weights of a committee's members: one number each."""
        return checked_weights(weights)

    def one(self, model: Any, label: str) -> Any:
        """Refuse: the model is the classifier."""
        raise ParameterError("The model has one label for each item: use the model itself.")

    def explanation(self, model: Any, one: Any, votes: VoteMatrix, effects: VoteEffects) -> Any:
        """Return the `Explanation` of one item."""
        return explain_item(model, one, votes, effects)

    def mean_effects(
        self,
        parts: Mapping[str, VoteEffects],
        weights: Mapping[str, float],
        votes: VoteMatrix,
        copies: Mapping[str, str],
    ) -> VoteEffects:
        """Return the effects on the members' weighted mean; copies share those of their vote."""
        total = sum(weights.values())
        mean = mean_effects(parts, {name: weight / total for name, weight in weights.items()})
        views = tuple(replace(view, weight=weights[view.name]) for view in mean.members)
        original = originals_of(votes.voters, copies)
        place = np.unique(original[votes.voter_index], return_inverse=True)[1]
        n_copies = np.bincount(place, minlength=1)[place]
        return replace(
            mean,
            added=mean.added[place] / n_copies[:, None],
            weights=mean.weights[place] / n_copies,
            members=views,
        )


def mean_agreement(predicted: npt.NDArray[np.int64]) -> Array:
    """Return how often each network predicts the class that another does, on average.

    `predicted` are classes (networks, items). One network agrees with itself.

    >>> mean_agreement(np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]))
    array([0.875, 0.875, 0.75 ])
    """
    same = np.array([(predicted == own).mean(axis=1) for own in predicted])
    return np.asarray((same.sum(axis=1) - 1) / (len(predicted) - 1)) if len(same) > 1 else same[0]


def agreement_weights(agreement: Array) -> Array:
    """Return the weight of each network: the 8th power of its agreement, relative to the highest.

    The votes and the features do not show which of the networks is right, but one that contradicts
    all others seldom is.

    >>> agreement_weights(np.array([0.875, 0.875, 0.75])).round(2)
    array([1.  , 1.  , 0.29])
    """
    return np.asarray((agreement / max(agreement.max(), _SMALLEST_PROBA)) ** _AGREEMENT_POWER)


def chosen_class_balance(
    balance: ClassBalance | str,
    labels: LabelSpace,
    votes: VoteMatrix | None,
    validation: Validation | None,
) -> Array:
    """Return P(y): given, uniform (None), or estimated as the option says.

    `votes` is `vote_balance`; `validation` counts the random gold items; `auto` is `votes` without
    them, and else both: the votes count as 15 items of each class.

    >>> chosen_class_balance([0.2, 0.8], votes.labels, votes, None)
    array([0.2, 0.8])
    >>> chosen_class_balance("about 20 % ham", votes.labels, votes, None)
    array([0.2, 0.8])
    """
    if says_nothing(balance):
        balance = "auto"
    is_estimate = _is_estimated(balance)
    if not is_estimate or votes is None:
        return class_prior(labels, None if is_estimate else balance)
    if balance == "votes" or (balance == "auto" and validation is None):
        return vote_balance(votes)
    if validation is None:
        raise ParameterError(*NEEDS_VALIDATION, option="class_balance")
    counts = np.bincount(validation.gold, minlength=len(labels))
    if balance == "auto":
        # A class that few gold items lack is not absent: the votes keep a share for it.
        return class_prior(labels, counts + _VOTED_ITEMS * len(labels) * vote_balance(votes))
    # Add one of each class, so that a class that is missing by chance is not ruled out.
    return class_prior(labels, counts + 1.0)


def _is_estimated(balance: ClassBalance | str) -> bool:
    """Whether the option says where to estimate the balance, or nothing, but not what it is."""
    return isinstance(balance, str) and not any(map(str.isdigit, balance))


def proba_of_votes(label_model: LabelModel, votes: VoteMatrix, X: Any) -> npt.NDArray[np.float64]:
    """Return the soft labels of a fitted label model; X counts if it learned from features."""
    given = (votes, X) if label_model.takes_inputs else (votes,)
    source = f"The soft labels by {type(label_model).__name__}"
    found = label_model.predict_proba(*given)
    return checked_proba(found, votes.labels, source, votes.n_items)


def label_model_effects(label_model: LabelModel, one: Any, votes: VoteMatrix) -> VoteEffects:
    """Return the effects of the votes on one item; `one` is the item as a batch.

    A vote's weight is the change of the label model's log-probabilities without this vote.
    """
    repeated = as_inputs(one).take(np.zeros(votes.n_votes + 1, dtype=np.int64))
    proba = proba_of_votes(label_model, each_left_out(votes), repeated)
    added = log_proba(proba[0]) - log_proba(proba[1:])
    return VoteEffects(added, np.abs(added).max(axis=1, initial=0), proba[0])


def each_left_out(votes: VoteMatrix) -> VoteMatrix:
    """Return one item's votes, followed by a copy for each vote with that vote removed."""
    repeated = votes[np.zeros(votes.n_votes + 1, dtype=np.int64)].vote_rows()
    cells = np.zeros((votes.n_votes + 1, votes.n_voters, votes.n_classes), dtype=np.float32)
    cells[:, votes.voter_index] = repeated.reshape(len(cells), votes.n_votes, votes.n_classes)
    cells[np.arange(1, len(cells)), votes.voter_index] = 0
    if votes.distribution is not None:
        return VoteMatrix.from_proba(cells, votes.labels, votes.voters)
    classes = np.where(cells.any(axis=2), cells.argmax(axis=2), ABSTAIN)
    return VoteMatrix.from_dense(as_indices(classes), votes.labels, votes.voters)


def log_proba(proba: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the logarithm of probabilities, which is finite for those of zero, too."""
    return np.asarray(np.log(np.clip(proba, 1e-12, None)))


def mean_effects(parts: Mapping[str, VoteEffects], weights: Mapping[str, float]) -> VoteEffects:
    """Return the effects of the votes on the weighted mean of the members' soft labels.

    A member that is certain, such as a majority vote on unanimous votes, changes the mean no more
    than its weight allows. Its own log-odds are infinite, so their mean would say nothing.
    """
    soft_label = np.sum([weights[name] * part.soft_label for name, part in parts.items()], axis=0)
    without = np.sum([weights[name] * _without(part) for name, part in parts.items()], axis=0)
    added = log_proba(soft_label) - log_proba(without)
    members = [
        MemberView(name, weights[name], tuple(part.soft_label.tolist()))
        for name, part in parts.items()
    ]
    return VoteEffects(added, np.abs(added).max(axis=1), soft_label, members=tuple(members))


def _without(part: VoteEffects) -> npt.NDArray[np.float64]:
    """The soft labels without each of the votes: (n_votes, n_classes)."""
    return normalized_exp(log_proba(part.soft_label) - part.added)


def explain_item(model: Any, one: Any, votes: VoteMatrix, effects: VoteEffects) -> Explanation:
    """Return the explanation of one item; `one` is the item as a batch."""
    source = f"The probabilities by {type(model).__name__}"
    end_proba = checked_proba(model.predict_proba(one), model.labels_, source, 1)[0]
    explained = predicted_class(end_proba.tolist(), model.threshold_)
    return Explanation(
        item=_plain(votes.ids[0]),
        labels=model.labels_,
        end_proba=tuple(end_proba.tolist()),
        soft_label=tuple(effects.soft_label.tolist()),
        pushes=_pushes(votes, effects.added, effects.weights, explained),
        n_abstaining=votes.n_voters - votes.n_votes,
        abstaining_share=effects.abstaining_share,
        threshold=model.threshold_,
        members=effects.members,
    )


def _plain(item: Any) -> Any:
    """A NumPy scalar as a Python value, which has the shorter repr."""
    return item.item() if isinstance(item, np.generic) else item


def check_one_item(votes: Any) -> None:
    """Refuse to explain several items at once."""
    if votes.n_items != 1:
        raise FeatureError(
            f"explain() is about one item; got votes on {votes.n_items}. "
            "Call it as model.explain(X[17], votes[17])."
        )


def _pushes(
    votes: VoteMatrix,
    added: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    explained: int,
) -> tuple[Push, ...]:
    """Return the votes and the direction in which each pushed the item, strongest first.

    `added` is what each vote adds to the logit of each class, `weights` the weight of its voter.
    """
    # Relative to the mean of the other classes, so a vote for another class pushes away.
    others = (added.sum(axis=1) - added[:, explained]) / (votes.n_classes - 1)
    effects = added[:, explained] - others
    pushes = [
        Push(
            votes.voters[voter],
            votes.labels.names[votes.class_index[k]],
            float(weights[k]),
            float(effects[k]),
        )
        for k, voter in enumerate(votes.voter_index)
    ]
    return tuple(sorted(pushes, key=lambda push: -abs(push.effect)))
