"""What all checks share: their error, `require`, end models and data."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import WieselError
from wiesel.labels import ABSTAIN
from wiesel.training import seeded
from wiesel.votes import VoteMatrix

__all__ = [
    "N_FEATURES",
    "ContractError",
    "DictReader",
    "Interrupted",
    "Rows",
    "Task",
    "network",
    "require",
    "require_equal",
    "require_error",
    "small_task",
    "small_votes",
    "weights",
]

N_FEATURES = 3


class Task(NamedTuple):
    """Features, votes, and the gold labels they were drawn from."""

    X: npt.NDArray[np.float32]
    votes: VoteMatrix
    gold: npt.NDArray[np.int64]

    @property
    def validation(self) -> tuple[Any, Any]:
        """A third of the items with their gold labels."""
        return self.X[::3], self.gold[::3]


def small_task(n_items: int = 40, n_classes: int = 3, n_voters: int = 5, seed: int = 0) -> Task:
    """Return well-separated classes and voters of mixed quality; two items have no votes.

    >>> small_task().votes.covered.sum()
    np.int64(38)
    """
    task = _drawn_task(n_items, n_classes, n_voters, seed)
    # Every check gets copies: a method that changes them must not change those of the next check.
    votes = VoteMatrix.from_dense(task.votes.dense(), task.votes.labels, task.votes.voters)
    return Task(task.X.copy(), votes, task.gold.copy())


@lru_cache(maxsize=8)
def _drawn_task(n_items: int, n_classes: int, n_voters: int, seed: int) -> Task:
    votes, gold = make_votes(n_items, n_voters, n_classes, coverage=0.7, seed=seed)
    dense = votes.dense()
    dense[~votes.covered, 0] = gold[~votes.covered]
    dense[[3, 4]] = -1
    votes = VoteMatrix.from_dense(dense, votes.labels, votes.voters)
    return Task(make_features(gold, N_FEATURES, separation=4.0, seed=seed), votes, gold)


def small_votes(
    n_items: int = 300, n_voters: int = 6, n_classes: int = 3, seed: int = 0
) -> VoteMatrix:
    """Return votes with accuracies from 60 to 90 %; four items have no votes by default.

    >>> small_votes().covered.sum()
    np.int64(296)
    """
    votes = _drawn_votes(n_items, n_voters, n_classes, seed)
    # Every check gets a copy: a model that changes it must not change that of the next check.
    return VoteMatrix.from_dense(votes.dense(), votes.labels, votes.voters)


@lru_cache(maxsize=8)
def _drawn_votes(n_items: int, n_voters: int, n_classes: int, seed: int) -> VoteMatrix:
    votes, _ = make_votes(n_items, n_voters, n_classes, coverage=0.6, seed=seed)
    dense = votes.dense()
    dense[[0, 5]] = ABSTAIN
    return VoteMatrix.from_dense(dense, votes.labels, votes.voters)


def network(n_classes: int = 3, seed: int = 0) -> nn.Module:
    """Return a small network with dropout, so that training draws random numbers."""
    with seeded(seed):
        return nn.Sequential(
            nn.Linear(N_FEATURES, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, n_classes)
        )


def weights(module: nn.Module) -> npt.NDArray[np.float64]:
    """Return all weights of a module as one vector."""
    parts = [value.detach().double().flatten() for value in module.state_dict().values()]
    return torch.cat(parts).numpy()


class DictReader(nn.Module):
    """Reads `{"x": ...}`, as Hugging Face models read dicts."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the logits of the inner network."""
        logits: Tensor = self.inner(inputs["x"])
        return logits


class Rows(Dataset[Any]):
    """A map-style Dataset of feature vectors."""

    def __init__(self, X: npt.NDArray[np.float32]) -> None:
        self.X = X

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, row: int) -> Tensor:
        return torch.from_numpy(self.X[row])


class _Countdown:
    """A counter shared by all copies of its module, because `fit` trains a copy."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Countdown":
        return self


class Interrupted(nn.Module):
    """Acts as if the user pressed Ctrl-C after some training steps."""

    def __init__(self, inner: nn.Module, steps: int) -> None:
        super().__init__()
        self.inner = inner
        self.left = _Countdown(steps)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits, or raise `KeyboardInterrupt`."""
        if self.training:
            if self.left.steps == 0:
                raise KeyboardInterrupt
            self.left.steps -= 1
        logits: Tensor = self.inner(features)
        return logits


class ContractError(AssertionError):
    """A method violates the contract."""


def require(condition: object, message: str) -> None:
    """Raise `ContractError` unless the condition holds.

    >>> require(1 + 1 == 2, "arithmetic is broken")
    """
    if not condition:
        raise ContractError(message)


def require_equal(first: Any, second: Any, message: str) -> None:
    """Raise `ContractError` unless two arrays are exactly equal."""
    first, second = np.asarray(first), np.asarray(second)
    # Printing an array takes longer than comparing it, so it is printed only where it differs.
    if first.shape != second.shape or not np.array_equal(first, second):
        raise ContractError(f"{message}: {first!r:.200} against {second!r:.200}")


def require_error(kind: type[WieselError], *words: str, doing: Callable[[], Any]) -> None:
    """Raise `ContractError` unless `doing` raises an error whose message contains these words."""
    try:
        doing()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        require(not missing, f"the message must say {missing}; it is: {error}")
        return
    except Exception as error:  # any other kind violates the contract
        raise ContractError(f"expected {kind.__name__}, got {type(error).__name__}: {error}") from (
            error
        )
    raise ContractError(f"expected {kind.__name__} ({', '.join(words)}), and nothing was raised")
