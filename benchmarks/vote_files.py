"""Votes on disk as plain arrays, readable in Wiesel's and the peers' environments."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).parents[1] / ".cache" / "benchmarks" / "votes"


@dataclass(frozen=True)
class Planted:
    """A specification of planted votes: size, coverage of the voters, class balance."""

    n_items: int
    n_voters: int
    n_classes: int = 2
    coverage: tuple[float, float] = (0.1, 0.5)
    """The lowest and highest coverage, evenly spaced between voters; equal values fix it."""
    balance: tuple[float, ...] | None = None
    seed: int = 0

    @property
    def title(self) -> str:
        """The shape as shown in a table."""
        low, high = (f"{100 * rate:g}" for rate in self.coverage)
        votes = f"{low} %" if low == high else f"{low}-{high} %"
        classes = "" if self.n_classes == 2 else f", {self.n_classes} classes"
        return f"{_short(self.n_items)} x {_short(self.n_voters)} at {votes}{classes}"

    @property
    def coverages(self) -> np.ndarray:
        """P(votes) of every voter, in an order independent of their accuracies."""
        rates = np.linspace(*self.coverage, self.n_voters)
        return np.random.default_rng(self.seed).permutation(rates)


class StoredVotes(NamedTuple):
    """Votes ordered by item; the entries indptr[i]:indptr[i + 1] belong to item i."""

    indptr: np.ndarray
    voter: np.ndarray
    label: np.ndarray
    gold: np.ndarray
    """The class of every item; -1 if unknown."""
    n_voters: int
    n_classes: int

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.indptr) - 1

    @property
    def item(self) -> np.ndarray:
        """The item of every vote."""
        return np.repeat(np.arange(self.n_items), np.diff(self.indptr))

    def dense(self, dtype: Any = np.int64) -> np.ndarray:
        """Items x voters, -1 where a voter abstains."""
        array = np.full((self.n_items, self.n_voters), -1, dtype=dtype)
        array[self.item, self.voter] = self.label
        return array


def planted_folder(planted: Planted) -> Path:
    """Return the folder of these votes, after drawing them if needed."""
    from wiesel.datasets.synthetic import make_votes

    name = "-".join(str(value) for value in asdict(planted).values())
    folder = FOLDER / "".join(c if c.isalnum() or c in "-." else "_" for c in name)
    if not (folder / "sizes.json").exists():
        votes, gold = make_votes(
            planted.n_items,
            planted.n_voters,
            planted.n_classes,
            coverage=planted.coverages,
            class_balance=planted.balance,
            seed=planted.seed,
        )
        save_votes(folder, votes, gold)
    return folder


def save_votes(folder: Path, votes: Any, gold: np.ndarray) -> None:
    """Write a `VoteMatrix` and the gold labels of its items as .npy files."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "indptr.npy", votes.indptr)
    np.save(folder / "voter.npy", votes.voter_index)
    np.save(folder / "label.npy", votes.class_index)
    np.save(folder / "gold.npy", gold.astype(np.int16))
    sizes = {"n_voters": votes.n_voters, "n_classes": votes.n_classes}
    (folder / "sizes.json").write_text(json.dumps(sizes))


def load_votes(folder: Path) -> StoredVotes:
    """Return the votes of a folder."""
    sizes = json.loads((folder / "sizes.json").read_text())
    names = ("indptr", "voter", "label", "gold")
    return StoredVotes(*(np.load(folder / f"{name}.npy") for name in names), **sizes)


def _short(count: int) -> str:
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count >= size and count % (size // 10) == 0:
            return f"{count / size:g}{letter}"
    return str(count)
