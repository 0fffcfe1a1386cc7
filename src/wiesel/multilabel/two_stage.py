"""MultiLabelTwoStage: a label model for each label, then one network for all of them."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.explaining import VoteEffects
from wiesel.end_to_end.two_stage import each_left_out, proba_of_votes
from wiesel.errors import ParameterError
from wiesel.label_models import LabelModel
from wiesel.multilabel.objectives import SoftPresenceObjective
from wiesel.multilabel.plan import MultiLabelPlan, SoftLabels, posteriors_of, read_votes_on
from wiesel.multilabel.training import MultiLabelModel
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.training import Objective, TrainingData, as_inputs
from wiesel.votes import VoteMatrix

__all__ = ["MultiLabelTwoStage", "label_effects"]


@dataclass(eq=False)
class MultiLabelTwoStage(MultiLabelModel):
    """A label model for each label first, then one network on all soft labels.

    The network has one logit for each label and learns all labels together with a shared body.
    The loss is the cross-entropy to P(present | votes), over the labels of an item with a vote.

    >>> import torch
    >>> from wiesel import MajorityVote
    >>> X = torch.eye(4).repeat(50, 1)
    >>> dense = X[:, None, :2].repeat(1, 3, 1)                     # three voters, two labels
    >>> votes = MultiLabelVotes.from_dense(dense, ["a", "b"])
    >>> model = MultiLabelTwoStage(MajorityVote(), torch.nn.Linear(4, 2), lr=0.05).fit(X, votes)
    >>> model.predict(X[:3])
    [('a',), ('b',), ()]
    """

    label_model: LabelModel
    """Any label model, also `FeatureEM`, `FeatureChecked` or `GoldWeighted`; copied for every
    label."""
    end_model: nn.Module
    """Your network: any module that returns one logit for each label. It is copied."""
    _: KW_ONLY

    stored_options = ("label_model",)

    label_models_: dict[str, LabelModel] = field(init=False, repr=False)
    """The fitted label model of every label."""

    def soft_labels(self, X: Any, votes: MultiLabelVotes) -> npt.NDArray[np.float64]:
        """Return the soft labels of the label models; X is for those that use features."""
        self.check_fitted()
        votes.check_same_voters(self.voters_, self.labels_)
        return posteriors_of(self.label_models_, votes, X)

    def vote_effects(
        self, one: Any, votes: MultiLabelVotes
    ) -> dict[str, tuple[VoteMatrix, VoteEffects]]:
        """Return the votes on each label of one item, and their effects; `one` is a batch."""
        return {
            label: label_effects(model, votes[label].select(model.voters_), one)
            for label, model in self.label_models_.items()
        }

    def _check_options(self) -> None:
        super()._check_options()
        if not isinstance(self.label_model, LabelModel):
            raise ParameterError(
                "The first argument of MultiLabelTwoStage is a label model such as "
                f"MajorityVote(); got {self.label_model!r:.60}."
            )

    def read(self, plan: MultiLabelPlan) -> SoftLabels:
        """Return the soft labels of the label model, fitted for each label."""
        return read_votes_on(self.label_model, plan)

    def _planned(
        self, network: nn.Module, plan: MultiLabelPlan, soft: SoftLabels
    ) -> tuple[Objective, TrainingData, dict[str, Any]]:
        objective = SoftPresenceObjective(network, soft.proba, plan.known)
        data = TrainingData(plan.inputs, used=plan.used)
        return objective, data, {"label_models_": soft.models}


def label_effects(model: LabelModel, votes: VoteMatrix, one: Any) -> tuple[VoteMatrix, VoteEffects]:
    """Return the votes on one label of one item, and how far each moves the label model."""
    repeated = as_inputs(one).take(np.zeros(votes.n_votes + 1, dtype=np.int64))
    proba = proba_of_votes(model, each_left_out(votes), repeated)
    log_proba = np.log(np.clip(proba, 1e-12, None))
    added = log_proba[0] - log_proba[1:]
    return votes, VoteEffects(added, np.abs(added).max(axis=1, initial=0), proba[0])
