"""Supervised: the end model trained on gold labels, the reference in every comparison."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.base import ONLY_NETWORKS, EndToEndModel
from wiesel.end_to_end.checks import is_classifier
from wiesel.end_to_end.plan import FitInputs, FitPlan, GoldSet, default_epochs, options_key
from wiesel.end_to_end.storage import Saved
from wiesel.end_to_end.together import reseeded, separate
from wiesel.errors import FeatureError, ParameterError
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.parameters import check_number
from wiesel.row_ids import in_order_of
from wiesel.spans.tags import SpanLabels
from wiesel.tasks import OneLabelTask, SeveralLabelsTask, SpansTask, Task, task_of
from wiesel.training import Objective, Validation, as_inputs
from wiesel.training.engines import TrainingEngine
from wiesel.training.objective import SoftLabelObjective
from wiesel.training.token_inputs import TokenInputs
from wiesel.training.validation import stratified_folds
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.committee import Committee

__all__ = ["Supervised", "gold_member"]

_SEEDS_APART = 50
"""The seeds of the networks that learn from gold come so far after the first one's."""


@dataclass(eq=False)
class Supervised(EndToEndModel):
    """The end model trained on gold labels with the same loop as every other method.

    Items whose label is unknown (`None` or -1) are left out. With `MultiLabelSpace` as `labels`,
    gold is a set of labels for each item. If X are `Documents`, it is a list of spans for each.

    >>> import torch
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> net = torch.nn.Linear(X.shape[1], 2)
    >>> model = Supervised(net, labels=votes.labels, epochs=1, lr=0.01).fit(X, gold)
    >>> model.predict(X).shape
    (200,)
    """

    end_model: nn.Module
    """Your network: any module that returns logits. `fit` trains a copy."""
    _: KW_ONLY
    labels: Any = None
    """The classes; None takes the distinct gold labels, sorted, if they are names."""
    fold: tuple[int, int] | None = None
    """`(k, n)` trains without the k-th of n folds of the items, counted from 0; None trains on all
    of them."""

    def fit(
        self,
        X: Any,
        y: Any,
        validation: GoldSet | None = None,
        *,
        engine: TrainingEngine | None = None,
    ) -> Self:
        """Train on inputs and gold labels, given as names or indices."""
        return self.fit_given(replace(self.fit_inputs(X, y), engine=engine), validation)

    def fit_inputs(self, X: Any, votes: Any, encoder_X: Any = None) -> FitInputs:
        """Return the inputs with a gold label for each."""
        y = votes
        if isinstance(y, VoteMatrix):
            raise ParameterError("Supervised learns from gold labels; for votes use Committee.")
        y = in_order_of(X, y, "y", "X")
        inputs = as_inputs(X)
        labels: Any = self._spans(y) if isinstance(inputs, TokenInputs) else self._classes(y)
        task = task_of(labels)
        if task.kind == OneLabelTask.kind:
            gold: Any = labels.indices(y, allow_unknown=True)
            n_gold = len(gold)
        else:
            gold = task.held_out(inputs, y)
            n_gold = len(gold.gold)
        if n_gold != task.n_rows(inputs):
            raise FeatureError(f"X has {len(inputs)} items, but there are {n_gold} gold labels.")
        return FitInputs(inputs, gold=gold, labels=labels)

    def _spans(self, y: Any) -> SpanLabels:
        if self.labels is not None:
            return SpanLabels.of(self.labels)
        names = sorted({span[2] for own in y for span in own})
        if not names:
            raise ParameterError(
                "The documents have no gold span, so their labels are needed: "
                "Supervised(net, labels=['PER', 'LOC'])."
            )
        return SpanLabels.of(names)

    def _classes(self, y: Any) -> LabelSpace:
        if self.labels is not None:
            return LabelSpace.of(self.labels)
        names = {value for value in y if value is not None}
        if not all(isinstance(name, str) for name in names):
            raise ParameterError(
                "Gold labels are given as indices, so the class names are needed: "
                "Supervised(net, labels=['ham', 'spam'])."
            )
        return LabelSpace(*sorted(names))

    def without_folds(self) -> list[Self]:
        """Return the networks of an ensemble as models, each of which leaves out another fold."""
        parts = separate(self)
        return [part.set_params(fold=(k, len(parts))) for k, part in enumerate(parts)]

    def out_of_fold_proba(self, X: Any, y: Any) -> npt.NDArray[np.float64]:
        """Return P(class) of the items of `fit`, each by the network that left out its fold.

        Items of a fold that no network left out get equal probabilities.
        """
        self.check_fitted()
        inputs = self.inputs_of(X)
        gold = self.labels_.indices(in_order_of(X, y, "y", "X"), allow_unknown=True)
        proba = np.full((len(gold), len(self.labels_)), 1 / len(self.labels_))
        for network in self.members_ or (self,):
            if network.fold is not None:
                fold = _items_of(network.fold, gold)
                proba[fold] = network.predict_proba(inputs.take(fold))
        return proba

    @classmethod
    def from_members(cls, members: Sequence[Self], options: dict[str, Any], saved: Saved) -> Self:
        """Return the ensemble of restored models; each of them may have left out a fold."""
        return super().from_members(members, options, saved).set_params(fold=options.get("fold"))

    tasks = (OneLabelTask.kind, SeveralLabelsTask.kind, SpansTask.kind)

    def stack_key(self) -> str:
        """Return a key that is equal for models whose networks can be trained as one stack."""
        return options_key(self, (*ONLY_NETWORKS, "fold"))

    def _check_options(self) -> None:
        super()._check_options()
        if self.fold is None:
            return
        if not isinstance(self.fold, (tuple, list)) or len(self.fold) != 2:
            raise ParameterError(
                f"The 'fold' option of Supervised is (k, n), two whole numbers; got {self.fold!r}.",
                option="fold",
            )
        k, n = self.fold
        check_number(self, "fold", n, low=2, whole=True)
        check_number(self, "fold", k, low=0, high=n - 1, whole=True)

    def _items(self, given: FitInputs, task: Task) -> npt.NDArray[np.int64]:
        if task.kind != OneLabelTask.kind:
            return np.arange(len(given.inputs))
        known = np.flatnonzero(given.gold != ABSTAIN)
        if len(known) < 2:
            raise FeatureError(f"Training needs at least two gold labels; {len(known)} are known.")
        return known

    def _plan(
        self, given: FitInputs, validation: GoldSet | None, network: nn.Module | None
    ) -> FitPlan:
        plan = super()._plan(given, validation, network)
        if plan.task.kind != OneLabelTask.kind:
            if self.fold is not None:
                raise ParameterError(
                    "fold is for one label for each item: leave it out.", option="fold"
                )
            return replace(plan, gold=given.gold)
        targets = np.eye(len(plan.labels))[given.gold]
        if self.fold is not None:
            # An item without a target adds nothing to the loss. So networks that leave out
            # different folds see the same batches, and form one stack.
            targets[_items_of(self.fold, given.gold)] = 0
        return replace(plan, targets=targets)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        if plan.task.kind != OneLabelTask.kind:
            return plan.task.gold_objective(end_model, plan.gold, 0.0)
        return SoftLabelObjective(end_model, plan.targets)  # type: ignore[arg-type]


def _items_of(fold: tuple[int, int], gold: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    k, n_folds = fold
    return stratified_folds(gold, n_folds)[k]


def gold_member(committee: "Committee", gold: Validation, task: Task) -> Supervised | None:
    """Return the default member that learns from gold labels alone, with the committee's options.

    None if the committee is not to train on gold, has members of its own, or has too little gold.
    """
    n_networks = 2 * committee.networks
    enough = len(gold.gold) >= 2 * n_networks and len(np.unique(gold.gold)) > 1
    default = committee.members is None and not is_classifier(committee.end_model)
    default &= task.kind == OneLabelTask.kind  # others have no folds
    if not (committee.train_on_gold and default and enough):
        return None
    options = committee.shared_options()
    # No gold items are left to select an epoch on.
    most = default_epochs(gold.n_classes, gold_chooses=False)
    options["epochs"] = min(committee.epochs or most, most)
    options["seed"] = seed = committee.seed + _SEEDS_APART
    if committee.checkpoint is not None:
        options["checkpoint"] = f"{committee.checkpoint}.gold"
    return Supervised(reseeded(committee.end_model, seed), members=n_networks, **options)
