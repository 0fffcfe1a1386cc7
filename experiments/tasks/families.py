"""Families of tasks that `draw.py` lacks: what people's labeling functions do, one by one.

- catch-all: an "otherwise" rule on half to nearly all rows, where no other rule votes, or anywhere.
- large class: one class has half to nearly all items.
- uneven rules: rules of one class each, many for some classes and few for others.
- shared cause: groups of voters that mostly repeat what their first one says.
- class without rules: nobody names it.
- hierarchy: up to 77 classes, sub-classes of a few.
- own rules: the votes that come with a shared set, on resampled rows with other class sizes.

All are drawn by seed for both halves. They are small, so that a comparison takes minutes; every
second task is in the quick part.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from experiments.tasks.cards import CARDS, Card
from experiments.tasks.draw import (
    MANY,
    OTHER_STYLES,
    POOR,
    TEXT_STYLES,
    Deck,
    _class_schemes,
    _expected_sizes,
    _features,
)
from experiments.tasks.halves import REAL_HALVES, Half
from experiments.tasks.skew import class_shares
from experiments.tasks.specs import TaskSpec, VoterPlan

SEED = 40
TASKS_PER_HALF = {
    "catch-all": 12,
    "large class": 8,
    "uneven rules": 6,
    "shared cause": 6,
    "class without rules": 6,
    "hierarchy": 4,
    "own rules": 14,
}
LEFT_OUT_SETS = ("spouse", "income_crowd")
"""Sets without gold for their training rows, or with too few rows to split."""
LEFT_OUT_BASES = ("movie_reviews",)
"""The texts of imdb_136."""
SIZES = (800, 1000, 1200, 1500, 2000)
LARGEST = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
CATCH_ALL = (0.5, 0.65, 0.8, 0.93)
N_VOTERS = (5, 8, 12, 20, 40)
PRECISION = (0.55, 0.65, 0.75, 0.85)
COVERAGE = (0.3, 0.5, 0.7, 0.9)
HIERARCHIES = (20, 40, 77)
RESAMPLED = (1.0, 1.0, 2.0, 4.0)
"""How many times as often the items of the favored class of a shared set are drawn."""
FEWEST_OF_A_CLASS = 12
SPREAD_OF_THE_REST = 3
"""Beside a large class, the ratio of the second class to the smallest."""


@dataclass(frozen=True)
class FamilyPlan(VoterPlan):
    """How the voters of a family's task are drawn."""

    unnamed: Literal["", "largest", "smaller"] = ""
    """The class that no ordinary voter names: the largest, or one that is drawn."""
    catch_all: float = 0.0
    """The share of items with a vote of the catch-all voter, for the class that no other names."""
    alone: bool = True
    """Whether the catch-all votes only where no other voter does."""
    causes: int = 0
    """The number of groups of voters that share a cause."""
    uneven: bool = False
    """Whether the numbers of rules of the classes differ widely."""

    @property
    def n_honest(self) -> int:
        """The number of ordinary voters."""
        return super().n_honest - (self.catch_all > 0)

    def describe(self) -> str:
        """Return the plan in words."""
        where = "where no other votes" if self.alone else "anywhere"
        named = {"largest": "the largest class", "smaller": "a smaller class", "": ""}[self.unnamed]
        parts = [
            super().describe(),
            f"no rules for {named}" * bool(named),
            f"catch-all for it on {100 * self.catch_all:.0f} % {where}" * bool(self.catch_all),
            f"{self.causes} shared causes" * bool(self.causes),
            "uneven numbers of rules" * self.uneven,
        ]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class FamilySpec(TaskSpec):
    """A drawn task of a family."""

    family: str = ""
    largest: float | None = None
    """The share of the largest class."""
    favored: float = 1.0
    """Own rules: how many times as often the items of one class are drawn."""

    @property
    def half(self) -> Half:
        """The half of its base, or of the shared set whose rules it has."""
        return REAL_HALVES[self.base] if self.has_own_rules else CARDS[self.base].half

    @property
    def has_own_rules(self) -> bool:
        """Whether the votes are those of a shared set."""
        return self.family == "own rules"

    @property
    def is_quick(self) -> bool:
        """Whether it is in the quick part: every second task of a family."""
        return int(self.name.rpartition("-")[2]) % 2 == 1

    @property
    def shares(self) -> npt.NDArray[np.float64] | None:
        """The shares of the classes, largest first."""
        if self.largest is None:
            return super().shares
        return _shares(self.n_classes, self.largest)

    def describe(self) -> str:
        """Return the task in one line."""
        if self.has_own_rules:
            return (
                f"{self.name}: the rules of {self.base} on {self.n_train:,} items, "
                f"one class drawn {self.favored:g} times as often"
            )
        large = "" if self.largest is None else f"; largest class {100 * self.largest:.0f} %"
        return super().describe() + large


@cache
def family_specs() -> tuple[FamilySpec, ...]:
    """Return all tasks of the families; the list is always the same."""
    found = []
    for half in ("choose", "confirm"):
        for family, n_tasks in TASKS_PER_HALF.items():
            generator = random.Random(f"families {SEED} {half} {family}")
            draw = _draw_own_rules if family == "own rules" else _draw_family
            found += draw(half, family, n_tasks, generator)
    return tuple(found)


def _draw_own_rules(
    half: str, family: str, n_tasks: int, generator: random.Random
) -> list[FamilySpec]:
    names = [n for n, of in REAL_HALVES.items() if of == half and n not in LEFT_OUT_SETS]
    sets, favored = Deck(names, generator), Deck(RESAMPLED, generator)
    sizes = Deck(SIZES, generator)
    drawn = [sets.draw() for _ in range(n_tasks)]
    return [
        FamilySpec(
            name=f"{family}-{half}-{number:02d}".replace(" ", "_"),
            base=name,
            classes="own",
            n_classes=CARDS[name].n_classes if name in CARDS else 2,
            skew=None,
            n_train=sizes.draw(),
            n_valid=100,
            features="own",
            voters=FamilyPlan("mixed", 0, 0.0, 0.0, 0),
            family=family,
            favored=favored.draw(),
        )
        for number, name in enumerate(drawn, start=1)
    ]


def _draw_family(
    half: str, family: str, n_tasks: int, generator: random.Random
) -> list[FamilySpec]:
    cards = [c for c in CARDS.values() if c.half == half and c.name not in LEFT_OUT_BASES]
    decks: dict[str, Deck] = {
        "size": Deck(SIZES, generator),
        "largest": Deck(LARGEST, generator),
        "catch_all": Deck(CATCH_ALL, generator),
        "alone": Deck((True, True, False), generator),
        "unnamed": Deck(("largest", "largest", "smaller"), generator),
        "n_voters": Deck(N_VOTERS, generator),
        "precision": Deck(PRECISION, generator),
        "coverage": Deck(COVERAGE, generator),
        "hierarchy": Deck(HIERARCHIES, generator),
        "causes": Deck((1, 2, 3), generator),
        "text": Deck(TEXT_STYLES, generator),
        "other": Deck(OTHER_STYLES, generator),
        **{c.name: Deck(_features(c), generator) for c in cards},
        **{f"classes {c.name}": Deck(_class_schemes(c), generator) for c in cards},
    }
    found: list[FamilySpec] = []
    bases = Deck(cards, generator)
    while len(found) < n_tasks:
        card: Card = bases.draw()
        spec = _draw_spec(card, family, half, len(found) + 1, decks)
        if spec is not None:
            found.append(spec)
    return found


def _draw_spec(
    card: Card, family: str, half: str, number: int, decks: dict[str, Deck]
) -> FamilySpec | None:
    """Return the next task, or None if the base is too small for what was drawn."""
    classes, n_classes = decks[f"classes {card.name}"].draw()
    if family == "hierarchy":
        classes, n_classes = "clusters", decks["hierarchy"].draw()
    largest = decks["largest"].draw() if family in ("large class", "catch-all") else None
    n_train = decks["size"].draw()
    fewest = 3 if family in ("uneven rules", "class without rules") else 2
    if largest is not None and number % 4:
        fewest = 3  # bases of two classes would leave few such tasks of several
    enough = _n_items(card, classes, n_classes, largest)
    smallest = 1 / n_classes if largest is None else _shares(n_classes, largest)[-1]
    if n_classes < fewest or enough < 700 or enough * smallest < FEWEST_OF_A_CLASS:
        return None
    features = decks[card.name].draw_until(lambda kind: n_classes < MANY or kind not in POOR)
    return FamilySpec(
        name=f"{family}-{half}-{number:02d}".replace(" ", "_"),
        base=card.name,
        classes=classes,
        n_classes=n_classes,
        skew=None,
        n_train=n_train,
        n_valid=100,
        features=features,
        voters=_draw_plan(card, family, n_classes, decks),
        family=family,
        largest=largest,
    )


def _draw_plan(card: Card, family: str, n_classes: int, decks: dict[str, Deck]) -> FamilyPlan:
    style = decks["text" if card.kind == "text" else "other"].draw()
    n_voters = max(decks["n_voters"].draw(), n_classes + 2)
    coverage, options = decks["coverage"].draw(), {}
    if family == "catch-all":
        share = decks["catch_all"].draw()
        options = {
            "unnamed": decks["unnamed"].draw(),
            "catch_all": share,
            "alone": decks["alone"].draw(),
        }
        coverage = 1 - share if options["alone"] else coverage
    elif family == "class without rules":
        options = {"unnamed": decks["unnamed"].draw()}
    elif family == "uneven rules":
        options = {"uneven": True}
    elif family == "shared cause":
        options = {"causes": decks["causes"].draw()}
    if family in ("catch-all", "class without rules", "uneven rules"):
        style = "thresholds" if card.kind != "text" else "keywords"
    sample = min(20 * n_classes, 300)
    return FamilyPlan(style, n_voters, decks["precision"].draw(), coverage, sample, **options)


def _n_items(card: Card, classes: str, n_classes: int, largest: float | None) -> float:
    """Return about how many items a task can have."""
    if classes == "one against the rest":
        return 0.0 if largest is not None else float(card.n_items)
    sizes = sorted(_expected_sizes(card, classes, n_classes), reverse=True)
    if largest is None:
        return float(sum(sizes))
    return float((np.array(sizes) / _shares(n_classes, largest)).min())


def _shares(n_classes: int, largest: float) -> npt.NDArray[np.float64]:
    rest = class_shares(n_classes - 1, SPREAD_OF_THE_REST) if n_classes > 2 else np.ones(1)
    return np.array([largest, *(1 - largest) * rest])


@lru_cache(maxsize=2)
def own_rules(name: str) -> Any:
    """Return the training split of a shared set, with its own votes."""
    from wiesel.datasets import load_dataset

    return load_dataset(name).train


def resampled_rows(spec: FamilySpec, gold: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return rows of a shared set in random order, drawn with other class sizes, none twice."""
    generator, y = spec.generator("rows"), np.asarray(gold)
    weights = np.where(y == generator.choice(np.unique(y)), spec.favored, 1.0)
    n_rows = min(int(0.9 * len(y)), spec.n_train + spec.n_valid + 1500)
    # The first of exponential waiting times: a draw without replacement by weight.
    return np.argsort(generator.exponential(1, len(y)) / weights)[:n_rows]
