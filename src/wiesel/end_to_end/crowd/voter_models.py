"""Models of voters: the confusion matrix of each voter, in several parametrizations.

Confusions are always (n_voters, true class, voted class), and their rows sum to 1. Training never
needs a dense array of them: modules compute those of the voters in a batch.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.parameters import check_number

__all__ = [
    "CountedConfusions",
    "VoteSlots",
    "VoterMatrices",
    "VoterModel",
    "check_rank",
    "in_parts",
    "matrix_rank",
]

_SMALLEST = 1e-6
_MOST_NUMBERS = 2**24


class VoterModel(nn.Module):
    """The confusion matrices of the voters."""

    n_voters: int
    n_classes: int

    def confusions(self, voters: Tensor) -> Tensor:
        """Return P(voted | true class) of some voters: (len(voters), true, voted)."""
        raise NotImplementedError

    def log_votes(self, voters: Tensor, classes: Tensor) -> Tensor:
        """Return what votes say: log P(voter votes class | true class), (n_votes, true)."""
        chosen = self.confusions(voters)[torch.arange(len(voters)), :, classes]
        return chosen.clamp_min(_SMALLEST).log()


class VoteSlots(nn.Module):
    """Numbers the (voter, class) pairs that were ever cast, so that only those take memory."""

    slots: Tensor

    def __init__(self, n_voters: int, n_classes: int) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.register_buffer("slots", torch.full((n_voters * n_classes,), -1))

    def number(self, entries: VoteEntries) -> int:
        """Give every pair in the entries a number, and return how many there are."""
        columns = torch.unique(entries.voters * self.n_classes + entries.classes)
        self.slots.fill_(-1)
        self.slots[columns] = torch.arange(len(columns))
        return len(columns)

    def forward(self, voters: Tensor, classes: Tensor) -> Tensor:
        """Return the number of every pair; -1 for one that was never cast."""
        return self.slots[voters * self.n_classes + classes]

    def of_voters(self, voters: Tensor) -> Tensor:
        """Return the numbers of all pairs of some voters: (len(voters), n_classes)."""
        classes = torch.arange(self.n_classes, device=voters.device)
        return self(voters[:, None], classes[None, :])


class CountedConfusions(VoterModel):
    """Confusions as expected counts, the M-step of Dawid-Skene; only pairs that occur are kept.

    The confusions of a voter with few votes are shrunk toward those of all voters together, which
    count as `smoothing` pseudo-votes for an average cell.
    """

    counts: Tensor
    totals: Tensor
    pooled: Tensor

    def __init__(self, n_voters: int, n_classes: int, n_pairs: int, smoothing: float) -> None:
        super().__init__()
        self.n_voters, self.n_classes, self.smoothing = n_voters, n_classes, smoothing
        self.slots = VoteSlots(n_voters, n_classes)
        # Slot -1 selects the last row, which is zero: a pair that was never cast has no counts.
        self.register_buffer("counts", torch.zeros(n_pairs + 1, n_classes))
        self.register_buffer("totals", torch.zeros(n_voters, n_classes))
        self.register_buffer("pooled", torch.full((n_classes, n_classes), 1 / n_classes))

    @classmethod
    def of(
        cls, entries: VoteEntries, soft_labels: Tensor, n_voters: int, smoothing: float
    ) -> "CountedConfusions":
        """Return the confusions counted from votes and the soft labels of their items."""
        slots = VoteSlots(n_voters, soft_labels.shape[1])
        model = cls(n_voters, soft_labels.shape[1], slots.number(entries), smoothing)
        model.slots = slots
        model.count(entries, soft_labels)
        return model

    @torch.no_grad()
    def count(self, entries: VoteEntries, soft_labels: Tensor) -> None:
        """Update the counts: every vote counts for each true class with its soft label."""
        expected = soft_labels[entries.items] * entries.mass[:, None]
        self.counts.zero_().index_add_(0, self.slots(entries.voters, entries.classes), expected)
        self.totals.zero_().index_add_(0, entries.voters, expected)
        pooled = self.pooled.zero_().t()
        pooled.index_add_(0, entries.classes, expected)
        self.pooled += _SMALLEST
        self.pooled /= self.pooled.sum(dim=1, keepdim=True)

    def confusions(self, voters: Tensor) -> Tensor:
        """Return P(voted | true class) of some voters: (len(voters), true, voted)."""
        counts = self.counts[self.slots.of_voters(voters)].transpose(1, 2) + self._pseudo_votes()
        return counts / counts.sum(dim=2, keepdim=True)

    def log_votes(self, voters: Tensor, classes: Tensor) -> Tensor:
        """Return what votes say: log P(voter votes class | true class), (n_votes, true)."""
        pseudo_votes = self._pseudo_votes()
        votes = self.counts[self.slots(voters, classes)] + pseudo_votes.t()[classes]
        return (votes / (self.totals[voters] + pseudo_votes.sum(dim=1))).log()

    def _pseudo_votes(self) -> Tensor:
        return self.smoothing * self.n_classes * self.pooled + _SMALLEST


class VoterMatrices(nn.Module):
    """A matrix for every voter: a shared start plus a per-voter matrix, full or of low rank.

    The factorized form is `start + left_j @ right`, with `right` shared by all voters:
    n_voters * rows * rank numbers instead of n_voters * rows * columns. The start is fixed,
    because a parameter that changes all voters at once could permute the classes.
    """

    start: Tensor

    def __init__(self, n_voters: int, start: Tensor, rank: int | None = None) -> None:
        super().__init__()
        rows, columns = start.shape
        self.register_buffer("start", start.clone())
        self.left = nn.Parameter(torch.zeros(n_voters, rows, columns if rank is None else rank))
        self.right: nn.Parameter | None = None
        if rank is not None:
            self.right = nn.Parameter(torch.randn(rank, columns) / rank**0.5)

    def forward(self, voters: Tensor | None = None) -> Tensor:
        """Return the matrices of some voters, or of all: (len(voters), rows, columns)."""
        own = self.left if voters is None else self.left[voters]
        return self.start + (own if self.right is None else own @ self.right)

    def times(self, vectors: Tensor, voters: Tensor | None = None) -> Tensor:
        """Return every matrix times every vector: (len(vectors), len(voters), rows).

        Low-rank matrices are never multiplied out.
        """
        if self.right is None:
            return torch.einsum("nd,jcd->njc", vectors, self(voters))
        own = self.left if voters is None else self.left[voters]
        together = torch.einsum("nr,jcr->njc", vectors @ self.right.t(), own)
        return (vectors @ self.start.t())[:, None] + together


def check_rank(owner: object, rank: int | None) -> None:
    """Refuse a rank that is neither None nor a positive whole number."""
    if rank is not None:
        check_number(owner, "rank", rank, low=1, whole=True)


def matrix_rank(n_voters: int, numbers: int, rank: int | None) -> int | None:
    """Return the rank to use: the option, else None unless full matrices would be too large.

    >>> matrix_rank(59, 8 * 8, None), matrix_rank(10_000, 100 * 100, None)
    (None, 8)
    """
    return 8 if rank is None and n_voters * numbers > _MOST_NUMBERS else rank


def in_parts(function: Callable[..., Tensor], row_numbers: int, *tensors: Tensor) -> Tensor:
    """Return function(*tensors), in chunks of rows if each row needs `row_numbers` temporaries.

    With several chunks, gradients recompute each chunk, so that only one is in memory.
    """
    size = max(1, _MOST_NUMBERS // row_numbers)
    if len(tensors[0]) <= size:
        return function(*tensors)
    parts = zip(*(torch.split(tensor, size) for tensor in tensors), strict=True)
    return torch.cat([checkpoint(function, *part, use_reentrant=False) for part in parts])
