"""COINNet: confusion matrices that are the same for all items except a few outliers."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.confusion_net import (
    LikelihoodObjective,
    StochasticMatrices,
    starting_matrix,
)
from wiesel.end_to_end.crowd.crowd_model import CrowdModel, all_entries
from wiesel.end_to_end.crowd.voter_models import check_rank, matrix_rank
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.parameters import check_number
from wiesel.training import Batch, Objective
from wiesel.votes import VoteMatrix

__all__ = ["COINNet"]

_POWER = 0.2
"""The power of the squared norm of an outlier; far below 1, so that most outliers are zero."""
_SMALLEST = 1e-6


@dataclass(eq=False, kw_only=True)
class COINNet(CrowdModel):
    """Crowds with outlier items: instance-independent confusions and sparse exceptions.

    Nguyen, Ibrahim and Fu 2024, "Noisy label learning with instance-dependent outliers", NeurIPS.
    Voter j votes on item i with the probabilities::

        p_ij = f(x_i) A_j + e_ij           e_ij sums to 0 over the classes
        loss = - mean log p_ij[vote] - volume * log det F'F
               + outliers * mean over votes of (|e_ij|^2)^0.2

    A_j is the voter's confusion matrix, F the predictions of a batch. e_ij is a free vector for
    every vote that was cast (memory: votes times classes); the last term keeps most of them at
    zero. Votes that no matrix explains, because the item confuses all voters, are explained by e
    and influence neither A nor f. If the matrices would have more than 16 million numbers (or
    `rank` is given), they are low-rank.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> model = COINNet(torch.nn.Linear(4, 3), epochs=1, lr=0.01).fit(X, votes)
    >>> model.confusions(["voter_4"]).sum(axis=2).round(6)
    array([[1., 1., 1.]])
    """

    volume: float = 0.01
    """The weight of the term that makes predictions certain and diverse."""
    outliers: float = 0.01
    """The weight of the penalty on outliers."""
    initial_accuracy: float = 0.8
    """The initial diagonal of the confusion matrices."""
    rank: int | None = None
    """The rank of the per-voter part; None is a full matrix, unless there are too many."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "volume", self.volume, low=0)
        check_number(self, "outliers", self.outliers, low=0)
        check_number(self, "initial_accuracy", self.initial_accuracy, low=0.01, high=0.99)
        check_rank(self, self.rank)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        votes: VoteMatrix = plan.votes
        matrices = self._voter_model(votes.n_voters, votes.n_classes)
        return _OutlierObjective(end_model, matrices, votes, self.volume, self.outliers)

    def _voter_model(self, n_voters: int, n_classes: int) -> StochasticMatrices:
        rank = matrix_rank(n_voters, n_classes**2, self.rank)
        return StochasticMatrices(
            n_voters, starting_matrix(self.initial_accuracy, n_classes), rank=rank
        )


class _OutlierObjective(LikelihoodObjective):
    """The likelihood of the votes, with an outlier vector for each vote."""

    def __init__(
        self,
        end_model: nn.Module,
        matrices: StochasticMatrices,
        votes: VoteMatrix,
        volume: float,
        strength: float,
    ) -> None:
        super().__init__(end_model, matrices, "volume_f", volume)
        entries = all_entries(votes)
        # The position of each item's first vote; not learned state.
        self.bounds: np.ndarray[tuple[int], np.dtype[np.int64]] = entries.bounds
        self.sparsity = strength
        self.exceptions = nn.Parameter(torch.zeros(len(entries), votes.n_classes))

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return minus the mean log likelihood of a vote, the volume, and the outlier penalty."""
        exceptions = self._exceptions_of(batch)
        # A root has no gradient at zero, where all outliers start.
        sizes = (exceptions.square().sum(dim=1) + _SMALLEST) ** _POWER
        return {**super().losses(batch), "outliers": self.sparsity * sizes.mean()}

    def log_cast(self, log_proba: Tensor, batch: Batch) -> Tensor:
        """Return the log probability of every vote as it was cast: (n_votes,)."""
        entries: VoteEntries = batch.payload
        matrices = self.voters.confusions(entries.voters)
        explained = torch.einsum("nc,ncl->nl", log_proba.exp()[entries.items], matrices)
        proba = (explained + self._exceptions_of(batch)).clamp_min(_SMALLEST)
        cast = proba[torch.arange(len(entries)), entries.classes] / proba.sum(dim=1)
        return cast.log()

    def _exceptions_of(self, batch: Batch) -> Tensor:
        """The outlier vectors of a batch's votes, each with a mean of zero over the classes."""
        entries: VoteEntries = batch.payload
        # The position of a vote: its item's first vote plus its offset within the item.
        items = entries.items.cpu().numpy()
        within = np.arange(len(entries)) - entries.bounds[items]
        place = torch.from_numpy(self.bounds[batch.rows.cpu().numpy()[items]] + within)
        own = self.exceptions[place.to(self.exceptions.device)]
        return own - own.mean(dim=1, keepdim=True)
