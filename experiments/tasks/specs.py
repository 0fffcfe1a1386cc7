"""Numeric specs of generated tasks; data are read only when a task is made."""

import json
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from typing import Literal

import numpy as np
import numpy.typing as npt

from experiments.tasks.cards import CARDS
from experiments.tasks.halves import Half
from experiments.tasks.skew import class_shares

Style = Literal["keywords", "thresholds", "classifiers", "crowd", "mixed"]

STYLES: dict[Style, str] = {
    "keywords": "keyword voters of one class each",
    "thresholds": "threshold voters of one class each",
    "classifiers": "small classifiers that name any class",
    "crowd": "crowd workers that name any class",
    "mixed": "voters, half of one class, half of any",
}


@dataclass(frozen=True)
class VoterPlan:
    """How the voters of a task are drawn."""

    style: Style
    n_voters: int
    """The number of voters, traps included."""
    precision: float
    """The target mean precision of honest voters; each voter's is between 0.35 and 0.95."""
    coverage: float
    """The target share of items covered by honest voters, if they were independent."""
    sample: int
    """The number of gold items on which rules are found."""
    copies: int = 0
    """The number of voters that copy one other voter."""
    adversaries: int = 0
    """The number of voters that name a wrong class, always the same one for each right class."""
    constants: int = 0
    """The number of voters that name one class for every item."""

    @property
    def n_honest(self) -> int:
        """The number of voters that are not traps."""
        return self.n_voters - self.copies - self.adversaries - self.constants

    def describe(self) -> str:
        """Return the plan in words."""
        traps = [
            f"{self.copies} of them copies" * bool(self.copies),
            f"adversaries: {self.adversaries}" * bool(self.adversaries),
            f"constant voters: {self.constants}" * bool(self.constants),
        ]
        return ", ".join(
            [
                f"{self.n_voters} {STYLES[self.style]}",
                f"precision {self.precision:.2f}",
                f"coverage {100 * self.coverage:.0f} %",
                f"found on {self.sample} gold items",
                *filter(None, traps),
            ]
        )


@dataclass(frozen=True)
class TaskSpec:
    """A drawn task: everything but the data."""

    name: str
    base: str
    classes: str
    """How classes are derived from the base's: see `classes.py`."""
    n_classes: int
    skew: int | None
    """The ratio of the largest class to the smallest; None leaves the sizes unchanged."""
    n_train: int
    """The maximum number of training items; a small base or a rare class may allow fewer."""
    n_valid: int
    features: str
    """The inputs of the end model: see `inputs.py`."""
    voters: VoterPlan

    @property
    def half(self) -> Half:
        """The half of its base."""
        return CARDS[self.base].half

    @property
    def is_binary(self) -> bool:
        """Whether the task has two classes."""
        return self.n_classes == 2

    @property
    def shares(self) -> npt.NDArray[np.float64] | None:
        """The shares of the classes, largest first; None leaves the sizes unchanged."""
        return None if self.skew is None else class_shares(self.n_classes, self.skew)

    @property
    def fingerprint(self) -> str:
        """A fingerprint that is the same for the same spec on any machine."""
        text = json.dumps(asdict(self), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:12]

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a random generator for one purpose of this task, independent of other purposes."""
        digest = sha256(f"{self.fingerprint} {purpose}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little"))

    def describe(self) -> str:
        """Return the task in one line."""
        skew = "" if self.skew is None else f", 1:{self.skew}"
        return (
            f"{self.name}: {self.n_classes} classes ({self.classes}{skew}), "
            f"{self.n_train:,} items, {self.features}; {self.voters.describe()}"
        )


@cache
def all_specs() -> tuple[TaskSpec, ...]:
    """Return all tasks; the list is always the same."""
    from experiments.tasks.draw import draw_specs

    return tuple(spec for card in CARDS.values() for spec in draw_specs(card))


def spec_named(name: str) -> TaskSpec:
    """Return one task by name."""
    if name not in _by_name():
        raise KeyError(f"There is no task {name!r}; `python -m experiments tasks --list` has all.")
    return _by_name()[name]


@cache
def _by_name() -> dict[str, TaskSpec]:
    from experiments.tasks.families import family_specs

    return {spec.name: spec for spec in (*all_specs(), *family_specs())}
