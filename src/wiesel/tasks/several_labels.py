"""Several labels for each item, or none: every label is a binary task, one network does all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from wiesel.errors import FeatureError, ParameterError, SavedModelError, listed
from wiesel.label_models import LabelModel
from wiesel.label_sets import MultiLabelSpace, Presence
from wiesel.labels import ABSTAIN, class_prior
from wiesel.multilabel.label_models import (
    MultiLabelExplanation,
    PerLabel,
    fit_each,
    label_balance,
    label_models_contents,
    restored_label_models,
)
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.tasks.base import (
    NEEDS_VALIDATION,
    Array,
    FitLabelModel,
    Task,
    find_copies,
    merge_copies,
)
from wiesel.tasks.one_label import (
    VoteEffects,
    chosen_class_balance,
    explain_item,
    label_model_effects,
    mean_effects,
    proba_of_votes,
)
from wiesel.tasks.presence import (
    LabelEnsemble,
    MultiLabelValidation,
    PresenceLogits,
    SoftPresenceObjective,
)
from wiesel.training import History, Inputs, Objective, Validation
from wiesel.votes import VoteMatrix

__all__ = ["OneLabel", "SeveralLabelsTask"]

_FEW = 10
"""With fewer gold items with a label, or without it, its logit is not calibrated."""
_RARE = 0.15
"""A rarer label may have a probability below 0.5 for all items; then its threshold is lower."""


class SeveralLabelsTask(Task):
    """Any number of labels for each item.

    The votes on a label are a `VoteMatrix`; a cell is an item and a label. Soft labels, targets
    and predictions are P(present): (n_items, n_labels).

    >>> SeveralLabelsTask(MultiLabelSpace("a", "b")).decide(np.array([[0.9, 0.2]]), 0.5)
    [('a',)]
    """

    kind = "several labels"
    label_type = MultiLabelSpace
    votes_type = MultiLabelVotes
    output = "label"
    refused_layers = (nn.Sigmoid, nn.Softmax, nn.LogSoftmax)
    labels: MultiLabelSpace

    @property
    def n_classes(self) -> int:
        """Two: a label is present or absent."""
        return 2

    # Votes

    def matrices(self, votes: MultiLabelVotes) -> Sequence[VoteMatrix]:
        """Return the votes on every label."""
        return votes.matrices

    def used(self, inputs: Inputs, votes: MultiLabelVotes) -> npt.NDArray[np.bool_]:
        """Return whether some label of an item enters the loss."""
        return np.asarray(_trained_cells(votes).any(axis=1))

    def copies(self, votes: MultiLabelVotes) -> dict[str, dict[str, str]]:
        """Return each copy and its original for each label; on another label they may differ.

        >>> array = np.zeros((400, 2, 2))
        >>> array[:200] = 1
        >>> array[::2, 1, 1] = -1
        >>> votes = MultiLabelVotes.from_dense(array, ["a", "b"], ["ann", "bob"])
        >>> SeveralLabelsTask(votes.labels).copies(votes)
        {'a': {'bob': 'ann'}}
        """
        found = {}
        for label in votes.labels:
            # A voter that never votes on a label is not a copy there.
            voters = votes.voters_on(label)
            original = find_copies(votes[label].select(voters)) if voters else ()
            own = {voters[k]: voters[first] for k, first in enumerate(original) if k != first}
            if own:
                found[label] = own
        return found

    def without_copies(
        self, votes: MultiLabelVotes, copies: Mapping[str, Mapping[str, str]]
    ) -> MultiLabelVotes:
        """Return the votes in which copies abstain, and their originals vote for all of them.

        >>> votes = MultiLabelVotes.from_dense([[[-1, 1], [1, 0]]], ["a", "b"], ["ann", "bob"])
        >>> merged = SeveralLabelsTask(votes.labels).without_copies(votes, {"a": {"bob": "ann"}})
        >>> merged["a"].dense().tolist(), merged["b"].dense().tolist()
        ([[1, -1]], [[1, 0]])
        """
        matrices = [
            _merged(matrix, copies[label]) if label in copies else matrix
            for label, matrix in zip(votes.labels, votes.matrices, strict=True)
        ]
        return MultiLabelVotes(votes.labels, tuple(matrices))

    def joined_votes(self, parts: Sequence[MultiLabelVotes]) -> MultiLabelVotes:
        """Return the votes on the items of all parts."""
        of_label = zip(*(part.matrices for part in parts), strict=True)
        return MultiLabelVotes(self.labels, tuple(map(VoteMatrix.concatenate, of_label)))

    def sample_votes(self, n_items: int, voters: Sequence[str]) -> MultiLabelVotes:
        """Return items of which the first has no vote, and the others have all."""
        cells = np.full((n_items, len(voters), len(self.labels)), 1)
        cells[0] = ABSTAIN
        return MultiLabelVotes.from_dense(cells, self.labels.names, voters)

    # Gold labels and the class balance

    def gold_labels(self, gold: Any) -> Presence:
        """Return 1 for a label that is present, 0 for one that is not, -1 if it is unknown."""
        return self.labels.presence(gold)

    def held_out(self, inputs: Inputs, gold: Any) -> "MultiLabelValidation":
        """Return items with gold labels, given as sets of names or a table of 0 and 1."""
        presence = self.labels.presence(gold)
        nothing = np.zeros(len(presence), dtype=np.int64)
        return MultiLabelValidation(inputs, nothing, len(self.labels), presence)

    def class_balance(
        self, option: Any, votes: MultiLabelVotes, validation: Validation | None
    ) -> Array:
        """Return P(present) of every label: given by name, estimated, or NaN if unknown.

        `validation` counts the validation items; `auto` does so if there are any, and else counts
        the votes, as `votes` does. Votes that all go one way allow no estimate.
        """
        if not isinstance(option, str):
            return label_balance(option, self.labels)
        if option == "validation" and validation is None:
            raise ParameterError(*NEEDS_VALIDATION, option="class_balance")
        found = np.full(len(self.labels), np.nan)
        for k, label in enumerate(self.labels):
            own = None if validation is None else validation.of_label(k)  # type: ignore[attr-defined]
            if option == "votes":
                own = None
            if own is not None or votes.directions[label] == "both":
                binary, how = votes[label], option
                if option == "auto" and own is not None and votes.directions[label] != "both":
                    how = "validation"  # such votes know nothing of the balance
                found[k] = chosen_class_balance(how, binary.labels, binary, own)[1]
        return found

    def member_balance(
        self, option: Any, votes: MultiLabelVotes, validation: Validation | None
    ) -> dict[str, float]:
        """Return P(present) by name: as given, and estimated for the other labels."""
        found = self.class_balance("auto" if option is None else option, votes, validation)
        if isinstance(option, Mapping):
            estimated = self.class_balance("auto", votes, validation)
            found = np.where(np.isnan(found), estimated, found)
        named = zip(self.labels, found.tolist(), strict=True)
        return {label: share for label, share in named if not np.isnan(share)}

    # Label models

    def fit_label_model(
        self, label_model: LabelModel, plan: Any, balance: Array | None, fit: FitLabelModel
    ) -> tuple[PerLabel, Array]:
        """Return a label model for each label, and P(present) of every item and label.

        A label whose votes all go one way gets a `OneSided` model.
        """
        votes: MultiLabelVotes = plan.votes
        found: dict[str, Array] = {}

        def fit_one(label: str, own: VoteMatrix, known: Array | None) -> LabelModel:
            fitted, soft_labels = fit(label_model, self._binary_plan(plan, label, own), known)
            found[label] = soft_labels[:, 1]
            return fitted

        # Solvers that use features decide themselves how many cores they use.
        in_threads = not label_model.takes_inputs
        unknown = np.full(len(self.labels), np.nan) if balance is None else balance
        models = fit_each(votes, unknown, fit_one, in_threads)
        fitted = PerLabel.of_models(label_model, votes, models)
        for label in models.keys() - found.keys():
            own = votes[label].select(models[label].voters_)
            found[label] = proba_of_votes(models[label], own, plan.data.inputs)[:, 1]
        return fitted, np.stack([found[label] for label in self.labels], axis=1)

    def _binary_plan(self, plan: Any, label: str, votes: VoteMatrix) -> Any:
        """The plan of a task with one label of two classes."""
        place = self.labels.index(label)
        present = float(np.nan_to_num(plan.class_balance[place], nan=0.5))
        gold = None
        if plan.gold is not None and plan.gold.votes is not None:
            rows = np.flatnonzero(plan.gold.known.presence[:, place] >= 0)
            gold = replace(
                plan.gold,
                known=plan.gold.known.of_label(place),
                random=plan.gold.random[rows],
                votes=plan.gold.votes[label].select(votes.voters)[rows],
            )
        return replace(
            plan,
            labels=votes.labels,
            voters=votes.voters,
            votes=votes,
            class_balance=class_prior(votes.labels, [1 - present, present]),
            validation=None,
            gold=gold,
        )

    def checked_proba(
        self, proba: Any, source: str, n_items: int | None = None, *, zeros: bool = False
    ) -> Array:
        """Return P(present) of items and labels, checked."""
        array = np.asarray(proba, dtype=np.float64)
        n_rows = len(array) if n_items is None and array.ndim else n_items
        if array.shape != (n_rows, len(self.labels)):
            raise FeatureError(
                f"{source} must be items x {len(self.labels)} labels, numbers of the shape "
                f"({n_rows}, {len(self.labels)}); got {type(proba).__name__} of the shape "
                f"{array.shape}."
            )
        bad = ~((array >= 0) & (array <= 1)).all(axis=1)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise FeatureError(
                f"{source} of row {row} are {array[row].tolist()}; they must be from 0 to 1, one "
                f"for each of {listed(self.labels)}. Logits need a sigmoid first."
            )
        return array

    def hardened(self, soft_labels: Array) -> Array:
        """Return 1 for every label that is more likely present than absent, else 0."""
        return (soft_labels > 0.5).astype(np.float64)

    def soft_labels(self, fitted: PerLabel, votes: MultiLabelVotes, X: Any) -> Array:
        """Return P(present) from the votes; X counts if the label model learned from features."""
        columns = [
            proba_of_votes(model, votes[label].select(model.voters_), X)[:, 1]
            for label, model in fitted.models_.items()
        ]
        return np.stack(columns, axis=1)

    def label_model_effects(
        self, fitted: PerLabel, one: Any, votes: MultiLabelVotes
    ) -> dict[str, tuple[VoteMatrix, VoteEffects]]:
        """Return the votes on each label of one item, and their effects."""
        found = {}
        for label, model in fitted.models_.items():
            own = votes[label].select(model.voters_)
            found[label] = own, label_model_effects(model, one, own)
        return found

    def label_model_contents(self, fitted: PerLabel) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the label model of every label as values, and their arrays as files."""
        return label_models_contents(fitted)

    def restored_label_model(
        self, values: dict[str, Any], files: Mapping[str, bytes], voters: tuple[str, ...]
    ) -> PerLabel:
        """Return the fitted label models that were stored."""
        return restored_label_models(values, files, self.labels, voters)

    # Networks

    def adapted(self, network: nn.Module) -> nn.Module:
        """Return logits of absent and present: (items, 2, labels)."""
        return network if isinstance(network, PresenceLogits) else PresenceLogits(network)

    def original(self, adapted: nn.Module) -> nn.Module:
        """Return the network with one logit for each label."""
        return adapted.network if isinstance(adapted, PresenceLogits) else adapted

    def objective(
        self,
        network: nn.Module,
        targets: Array,
        votes: MultiLabelVotes,
        loss: str,
        balance: Array | None,
    ) -> Objective:
        """Return the cross-entropy to P(present), over the cells with a vote."""
        if loss != "ce":
            raise ParameterError(
                f"The loss {loss!r} is for one label for each item; with several, leave it out."
            )
        return SoftPresenceObjective(network, targets, _trained_cells(votes), _one_sided(votes))

    def gold_objective(
        self, network: nn.Module, gold: Any, unsure: float, left_out: Any = None
    ) -> Objective:
        """Return the cross-entropy to gold labels, over the cells where they are known."""
        known = gold.presence >= 0
        known[[] if left_out is None else left_out] = False
        targets = (1 - unsure) * (gold.presence == 1) + unsure / 2
        return SoftPresenceObjective(network, targets, known, np.zeros(len(self.labels), bool))

    def average(
        self, networks: Sequence[nn.Module], weights: Any = None, offsets: Any = None
    ) -> nn.Module:
        """Return the mean of P(present), with separate weights for each label."""
        return LabelEnsemble(networks, None if weights is None else np.asarray(weights)).eval()

    def collapsed(self, history: History) -> npt.NDArray[np.bool_]:
        """Which labels are predicted for all items or for none, contrary to the votes."""
        record = history.kept if len(history) else {}
        if "one_sided" not in record:
            return np.zeros(len(self.labels), dtype=bool)
        wanted, found = np.array(record["present_wanted"]), np.array(record["present"])
        stuck = ((found < 0.005) | (found > 0.995)) & (wanted > _RARE) & (wanted < 1 - _RARE)
        return np.asarray(stuck & (np.array(record["one_sided"]) == 0))

    def able(self, histories: Sequence[History]) -> Array:
        """Return 1 where a member has not collapsed on a label, or all have: (members, labels)."""
        able = ~np.stack([self.collapsed(history) for history in histories])
        return np.asarray(able | ~able.any(axis=0), dtype=np.float64)

    def collapse_message(self, history: History) -> str:
        """Return what a collapsed network does."""
        stuck = self.collapsed(history)
        names = [name for name, own in zip(self.labels, stuck, strict=True) if own]
        return f"The network predicts the same for {listed(names)} on all training items."

    # Predictions

    def proba(self, logits: Tensor, calibration: Array | None) -> Array:
        """Return P(present): (n_items, n_labels)."""
        from scipy.special import expit

        if not len(logits):
            return np.empty((0, len(self.labels)))
        numbers = logits.double().numpy()
        if calibration is not None:
            scale, offset = calibration.T
            numbers = numbers * scale + offset
        return np.asarray(expit(numbers))

    def calibration(self, logits: Tensor, validation: "MultiLabelValidation") -> Array:
        """Return the scale and the offset of each label's logit, by Platt scaling."""
        found = np.tile([1.0, 0.0], (len(self.labels), 1))
        numbers = logits.double().numpy()
        for k in validation.judged:
            known = validation.presence[:, k] >= 0
            found[k] = _calibration(numbers[known, k], validation.presence[known, k])
        return found

    @property
    def default_threshold(self) -> Array:
        """One half for every label."""
        return np.full(len(self.labels), 0.5)

    def decide(self, proba: Array, threshold: Array, items: Any = None) -> list[tuple[str, ...]]:
        """Return the labels of every item, in the order of the labels."""
        return self.labels.sets(proba >= threshold)

    def judged(
        self, probas: Array, validation: "MultiLabelValidation"
    ) -> Iterator[tuple[tuple[int, ...], Array, Validation]]:
        """Yield each label that gold can judge, P(absent, present) by member, and its gold."""
        for k in validation.judged:
            rows = np.flatnonzero(validation.presence[:, k] >= 0)
            own = probas[:, rows, k]
            yield (k,), np.stack([1 - own, own], axis=-1), validation.of_label(k)

    def check_threshold(self, threshold: Any) -> Array:
        """Return the stored thresholds: a number for each label."""
        return self._numbers(threshold, "thresholds")

    def check_calibration(self, calibration: Any) -> Array | None:
        """Return a stored scale and offset of each label's logit."""
        if calibration is None:
            return None
        array = np.asarray(calibration, dtype=np.float64)
        if array.shape != (len(self.labels), 2) or not np.isfinite(array).all():
            raise SavedModelError("The saved calibration does not fit the labels.")
        return array

    def check_balance(self, balance: Any) -> Array:
        """Return a stored P(present) of every label."""
        array = self._numbers(balance, "class balance")
        if not ((array > 0) & (array < 1)).all():
            raise SavedModelError("The saved balance is not the share of items with each label.")
        return array

    def check_copies(self, copies: Any, voters: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the stored copies among the voters, by label."""
        named = {name for own in copies.values() for pair in own.items() for name in pair}
        if not copies.keys() <= {*self.labels} or not named <= {*voters}:
            raise SavedModelError(
                "The copies of the saved committee are of other labels or voters."
            )
        return {label: dict(own) for label, own in copies.items()}

    def check_weights(self, weights: Mapping[str, Any]) -> dict[str, Array]:
        """Return the stored weights of a committee's members: a number for each label."""
        found = {name: self._numbers(own, "weights") for name, own in weights.items()}
        table = np.stack(list(found.values())) if found else np.zeros((0, len(self.labels)))
        if not ((table >= 0).all() and table.any(axis=0).all()):
            raise SavedModelError("The weights of the saved committee are not shares.")
        return found

    def _numbers(self, values: Any, what: str) -> Array:
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (len(self.labels),) or not np.isfinite(array).all():
            raise SavedModelError(f"The saved {what} do not fit the labels.")
        return array

    def one(self, model: Any, label: str) -> "OneLabel":
        """Return the binary classifier of a label, for any tool that accepts a classifier."""
        self.labels.index(label)
        return OneLabel(model, label)

    def explanation(
        self,
        model: Any,
        one: Any,
        votes: MultiLabelVotes,
        effects: Mapping[str, tuple[VoteMatrix, VoteEffects]],
    ) -> MultiLabelExplanation:
        """Return the explanation of every label of one item."""
        by_label = {
            label: explain_item(OneLabel(model, label), one, own, done)
            for label, (own, done) in effects.items()
        }
        return MultiLabelExplanation(votes.ids[0], model.predict(one)[0], by_label)

    def mean_effects(
        self,
        parts: Mapping[str, Mapping[str, tuple[VoteMatrix, VoteEffects]]],
        weights: Mapping[str, Array],
        votes: MultiLabelVotes,
        copies: Mapping[str, Mapping[str, str]],
    ) -> dict[str, tuple[VoteMatrix, VoteEffects]]:
        """Return the effects on the members' weighted mean; copies share those of their vote."""
        found = {}
        first = next(iter(parts.values()))
        for k, label in enumerate(self.labels):
            shares = {name: float(own[k]) for name, own in weights.items()}
            mean = mean_effects({name: part[label][1] for name, part in parts.items()}, shares)
            mean = replace(mean, members=tuple(view for view in mean.members if view.weight > 0))
            own, aliases = first[label][0], copies.get(label)
            found[label] = _of_copies(votes[label], own, mean, aliases) if aliases else (own, mean)
        return found


@dataclass(frozen=True)
class OneLabel:
    """The binary classifier of one label, for `evaluate` and explanations."""

    model: Any
    label: str

    @property
    def labels_(self) -> Any:
        """The two classes."""
        return self.model.labels_.binary(self.label)

    @property
    def threshold_(self) -> float:
        """The label is predicted from this probability on."""
        return float(self.model.threshold_[self.model.labels_.index(self.label)])

    def predict_proba(self, X: Any) -> Array:
        """Return P(absent), P(present) of every item."""
        present = self.model.predict_proba(X)[:, self.model.labels_.index(self.label)]
        return np.stack([1 - present, present], axis=1)


def _one_sided(votes: MultiLabelVotes) -> npt.NDArray[np.bool_]:
    """Labels whose votes all go one way."""
    return np.array([way != "both" for way in votes.directions.values()])


def _trained_cells(votes: MultiLabelVotes) -> npt.NDArray[np.bool_]:
    """(n_items, n_labels): what enters the loss; for one-sided labels, all items do."""
    return votes.covered | _one_sided(votes)


def _merged(votes: VoteMatrix, copies: Mapping[str, str]) -> VoteMatrix:
    position = {name: place for place, name in enumerate(votes.voters)}
    original = np.array([position[copies.get(name, name)] for name in votes.voters])
    merged = merge_copies(votes, original)
    return VoteMatrix(
        merged.indptr,
        np.unique(original)[merged.voter_index].astype(merged.voter_index.dtype),
        merged.class_index,
        merged.labels,
        votes.voters,
        merged.ids,
        merged.distribution,
    )


def _of_copies(
    votes: VoteMatrix, merged: VoteMatrix, done: VoteEffects, copies: Mapping[str, str]
) -> tuple[VoteMatrix, VoteEffects]:
    """The votes on one label of one item, including those of copies, which share the effect."""
    voters = [name for name in votes.voters if copies.get(name, name) in merged.voters]
    own = votes.select(voters)
    cast = [merged.voters[voter] for voter in merged.voter_index]
    names = [own.voters[voter] for voter in own.voter_index]
    place = np.array([cast.index(copies.get(name, name)) for name in names], dtype=np.int64)
    n_copies = np.bincount(place, minlength=1)[place]
    added, weights = done.added[place] / n_copies[:, None], done.weights[place] / n_copies
    return own, replace(done, added=added, weights=weights)


def _calibration(
    logits: npt.NDArray[np.float64], gold: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """The scale and offset that fit gold labels best, slightly regularized; 1 and 0 with few."""
    if min(gold.sum(), len(gold) - gold.sum()) < _FEW:
        return 1.0, 0.0
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=10.0).fit(logits[:, None], gold)
    scale = float(fitted.coef_[0, 0])
    # If the network ranks a label the wrong way round, do not silently reverse it.
    return (scale, float(fitted.intercept_[0])) if scale > 0 else (1.0, 0.0)
