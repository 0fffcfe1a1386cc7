"""Supervised: the end model trained on gold labels, the reference in every comparison."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.base import EndToEndModel
from wiesel.end_to_end.plan import FitInputs, FitPlan, GoldSet
from wiesel.errors import FeatureError, ParameterError, as_list
from wiesel.labels import ABSTAIN, LabelSpace
from wiesel.spans.tags import SpanLabels
from wiesel.tables import in_order_of
from wiesel.tasks import OneLabelTask, SeveralLabelsTask, SpansTask, Task, task_of
from wiesel.training import Objective, as_inputs
from wiesel.training.loop import TrainingEngine
from wiesel.training.objective import SoftLabelObjective, TrainingHooks
from wiesel.training.token_inputs import TokenInputs
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    pass

__all__ = ["Supervised"]


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

    def fit(  # type: ignore[override]  # its labels are gold: there is no other gold
        self,
        X: Any,
        y: Any,
        validation: GoldSet | None = None,
        *,
        engine: TrainingEngine | None = None,
        hooks: TrainingHooks | None = None,
    ) -> Self:
        """Train on inputs and gold labels, given as names or indices."""
        given = replace(self.fit_inputs(X, y), engine=engine, hooks=hooks)
        return self.fit_given(given, validation)

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
        try:
            names = sorted({span[2] for own in y for span in own})
        except (IndexError, TypeError):
            raise ParameterError(
                "Gold of documents is a list of spans (start, end, label) for each, such as "
                f"[[(0, 3, 'PER')], []]; got {y!r:.60}."
            ) from None
        if not names:
            raise ParameterError(
                "The documents have no gold span, so their labels are needed: "
                "Supervised(net, labels=['PER', 'LOC'])."
            )
        return SpanLabels.of(names)

    def _classes(self, y: Any) -> LabelSpace:
        if self.labels is not None:
            return LabelSpace.of(self.labels)
        values = as_list(y, "Gold labels", "['ham', 'spam']", ParameterError)
        if np.ndim(y) > 1:
            raise ParameterError(f"Gold labels are one for each item; got the shape {np.shape(y)}.")
        names = {value for value in values if value is not None}
        if not all(isinstance(name, str) for name in names):
            raise ParameterError(
                "Gold labels are given as indices, so the class names are needed: "
                "Supervised(net, labels=['ham', 'spam'])."
            )
        return LabelSpace(*sorted(names))

    tasks = (OneLabelTask.kind, SeveralLabelsTask.kind, SpansTask.kind)

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
            return replace(plan, learned_gold=given.gold)
        return replace(plan, targets=np.eye(len(plan.labels))[given.gold])

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        if plan.task.kind != OneLabelTask.kind:
            return plan.task.gold_objective(end_model, plan.learned_gold, 0.0)
        return SoftLabelObjective(end_model, plan.targets)  # type: ignore[arg-type]
