"""Expectation maximization around an end model, shared by Raykar, AggNet, MBEM and DeepLogic.

The end model is trained on soft labels (M-step, by gradient). Between epochs, the soft labels and
the model of the voters are updated in closed form (E-step, and the rest of the M-step).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.crowd_model import CrowdModel, CrowdObjective, all_entries
from wiesel.end_to_end.crowd.voter_models import CountedConfusions, VoterModel
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.nn.end_models import logits_of
from wiesel.nn.losses import soft_cross_entropy
from wiesel.parameters import check_number
from wiesel.training import Batch, TrainingData
from wiesel.training.loop import predict_logits
from wiesel.votes import VoteMatrix

__all__ = ["AlternatingModel", "AlternatingObjective", "CountedObjective"]


class AlternatingObjective(CrowdObjective):
    """An end model trained on soft labels that are updated every few epochs.

    A subclass sets `voters`, whose `count` learns from soft labels, and the buffer `soft_labels`.
    """

    soft_labels: Tensor
    # An end model that has memorized its targets must not outweigh all voters.
    least_proba = 1e-3

    def __init__(self, end_model: nn.Module, votes: VoteMatrix, m_epochs: int) -> None:
        super().__init__()
        self.end_model = end_model
        self.m_epochs = m_epochs
        # Not a buffer: the votes are the user's data, not learned state.
        self.answers = all_entries(votes)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of the end model on the soft labels."""
        logits = logits_of(self.end_model, batch.inputs)
        return {"end_model": soft_cross_entropy(logits, self.soft_labels[batch.rows])}

    @torch.no_grad()
    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Update soft labels and voters if it is time for an E-step."""
        if epoch == 1 or (epoch - 1) % self.m_epochs:
            return
        logits = predict_logits(self.end_model, data.inputs).to(self.soft_labels.device)
        self.alternate(torch.log_softmax(logits, dim=1), self.answers.to(logits.device))

    def alternate(self, log_proba: Tensor, answers: VoteEntries) -> None:
        """Take the E-step from the end model's predictions, then learn the voters again."""
        prior = (log_proba.exp() + self.least_proba).log()
        self.soft_labels.copy_(torch.softmax(prior + self.vote_evidence(answers), dim=1))
        self.voters.count(answers, self.soft_labels)  # type: ignore[operator]

    def vote_evidence(self, answers: VoteEntries) -> Tensor:
        """Return the sum of log P(vote | class) over the votes of every item."""
        return answers.sum_by_item(self.voters.log_votes(answers.voters, answers.classes))


class CountedObjective(AlternatingObjective):
    """An alternating objective that counts the confusions of every voter."""

    voters: CountedConfusions

    def __init__(
        self, end_model: nn.Module, votes: VoteMatrix, smoothing: float, m_epochs: int
    ) -> None:
        super().__init__(end_model, votes, m_epochs)
        counts = self.answers.counts(votes.n_classes)
        uniform = torch.full_like(counts, 1 / votes.n_classes)
        total = counts.sum(dim=1, keepdim=True)
        soft_labels = torch.where(total > 0, counts / total.clamp_min(1e-12), uniform)
        self.register_buffer("soft_labels", soft_labels)
        self.voters = CountedConfusions.of(self.answers, soft_labels, votes.n_voters, smoothing)


@dataclass(eq=False, kw_only=True)
class AlternatingModel(CrowdModel):
    """A method that alternates between training the end model and updating soft labels."""

    smoothing: float = 1.0
    """Pseudo-votes per cell of each voter's confusions, distributed as for all voters together."""
    m_epochs: int = 1
    """The number of epochs between E-steps."""

    def _check_options(self) -> None:
        super()._check_options()
        check_number(self, "smoothing", self.smoothing, low=0)
        check_number(self, "m_epochs", self.m_epochs, low=1, whole=True)

    def _blank_voters(self, shapes: dict[str, list[int]]) -> VoterModel:
        n_pairs, n_classes = shapes["counts"]
        return CountedConfusions(len(self.voters_), n_classes, n_pairs - 1, self.smoothing)
