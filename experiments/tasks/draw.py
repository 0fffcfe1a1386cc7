"""Draws the specs of a base: every property from a separate deck, shuffled by seed.

A deck deals each of its cards once before it is shuffled again, so that even a few tasks of a base
differ in all properties. Python's generator is used because it does not change with NumPy.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from experiments.tasks.cards import Card
from experiments.tasks.skew import class_shares, n_items_with_skew
from experiments.tasks.specs import Style, TaskSpec, VoterPlan

SEED = 17
RAREST = 8
"""The minimum number of training items of the rarest class."""
SMALLEST_POOL = 700
"""The minimum number of items left after picking and skewing the classes."""
TRAINED_ON = 0.55
"""The maximum share of items for training, if that leaves fewer than LARGEST_REST."""
LARGEST_REST = 3500
UNEVEN = 0.6
"""Clusters have unequal sizes, so the items left by a skew are estimated from this share."""
SIGNAL = 5
"""The votes are worth at least 20 right votes plus this many per class, enough to learn from."""
LARGEST_SAMPLE = 300
"""Numbers of gold items on which rules are found."""

SIZES = (300, 500, 800, 1200, 1200, 2000, 2000, 3000, 3000, 4500, 6000)
LARGE_SIZES = (1000, 2500, 6000, 12000, 20000)
N_VOTERS = (3, 5, 8, 12, 20, 30, 50, 80, 150, 300)
BINARY_PRECISION = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
PRECISION = (0.35, 0.45, 0.5, 0.55, 0.6, 0.65, 0.75, 0.85, 0.95)
COVERAGE = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
SKEW = (None, None, None, 2, 3, 5, 10, 20, 50)
VALID_SIZES = (100, 150, 200, 250, 400, 500)
TRAPS = (
    {},
    {},
    {},
    {"copies": 0.3},
    {"copies": 0.6},
    {"adversaries": 1},
    {"adversaries": 1, "copies": 0.3},
    {"constants": 1},
    {"constants": 1, "adversaries": 1},
)
"""Copies as a share of the voters, rounded up."""

TEXT_STYLES: tuple[Style, ...] = (
    "keywords",
    "keywords",
    "keywords",
    "mixed",
    "crowd",
    "classifiers",
)
OTHER_STYLES: tuple[Style, ...] = ("thresholds", "thresholds", "mixed", "crowd", "classifiers")
ANY_CLASS: tuple[Style, ...] = ("crowd", "classifiers")


MANY = 10
POOR = ("tfidf-20", "projection-8", "projection-16", "columns-8", "columns-12")
"""Features that cannot separate many classes, even with gold."""


class Deck:
    """Cards in random order; each is dealt once before any is dealt twice."""

    def __init__(self, cards: Sequence[Any], generator: random.Random):
        self.cards, self.generator, self.left = list(cards), generator, []

    def draw(self) -> Any:
        """Return the next card."""
        if not self.left:
            self.left = self.generator.sample(self.cards, len(self.cards))
        return self.left.pop()

    def draw_until(self, fits: Callable[[Any], bool], default: Any = None) -> Any:
        """Return the next card that fits, or the default; skipped cards stay on top."""
        if not any(fits(card) for card in self.cards):
            return default
        passed = []
        while not fits(card := self.draw()):
            passed.append(card)
        self.left += reversed(passed)
        return card


def draw_specs(card: Card) -> list[TaskSpec]:
    """Return the tasks of a base."""
    generator = random.Random(f"tasks {SEED} {card.name}")
    decks = {name: Deck(cards, generator) for name, cards in _cards_of(card).items()}
    return [_draw_spec(card, number, decks) for number in range(1, card.n_tasks + 1)]


def _cards_of(card: Card) -> dict[str, Sequence[Any]]:
    room = _room(card.n_items)
    sizes = LARGE_SIZES if card.n_items > 15_000 else [n for n in SIZES if n <= room] or [300]
    return {
        "classes": _class_schemes(card),
        "features": _features(card),
        "style": TEXT_STYLES if card.kind == "text" else OTHER_STYLES,
        "n_train": sizes,
        "n_voters": N_VOTERS,
        "binary_precision": BINARY_PRECISION,
        "precision": PRECISION,
        "coverage": COVERAGE,
        "skew": SKEW,
        "n_valid": VALID_SIZES,
        "traps": TRAPS,
        "sample": (10, 20, 40),
    }


def _class_schemes(card: Card) -> list[tuple[str, int]]:
    """Return the class schemes, with their numbers of classes, that leave enough items."""
    k = card.n_classes
    if k == 2:
        schemes = [("own", 2)] * 10 + [("clusters", n) for n in (4, 8, 20)]
    else:
        schemes = [("own", k)] * 4 + [("merge", 2), ("one against the rest", 2), ("merge", 2)]
        schemes += [("pick", 2), ("pick", 2), ("pick", 3), ("pick", 5), ("merge", 3)]
        schemes += [("clusters", n) for n in (12, 20) if n > k]
    if card.kind == "text":
        schemes += [("length", 2 * k)]
    if card.crossing:
        schemes += [("crossing", 8)]
    return [(name, n) for name, n in schemes if _is_possible(card, name, n)]


def _is_possible(card: Card, scheme: str, n_classes: int) -> bool:
    if scheme == "pick":
        enough = card.n_items * n_classes / card.n_classes >= SMALLEST_POOL
        return n_classes < card.n_classes and enough
    if scheme == "merge":
        return n_classes < card.n_classes
    return card.n_items >= 40 * n_classes


def _features(card: Card) -> list[str]:
    if card.kind == "text":
        kinds = ["tfidf-200", "tfidf-100", "tfidf-50", "tfidf-20", "projection-16"]
        return kinds + (
            ["minilm", "minilm", "minilm", "columns-8"] if "minilm" in card.features else []
        )
    if card.kind == "table":
        return ["all", "all", "all", "columns-8", "projection-8"]
    return ["all", "all", "all", "columns-12", "projection-16"] + ["pixels"] * (
        len(card.features) > 1
    )


def _draw_spec(card: Card, number: int, decks: dict[str, Deck]) -> TaskSpec:
    classes, n_classes = decks["classes"].draw()
    sizes = _expected_sizes(card, classes, n_classes)
    skew = None
    if classes != "one against the rest":
        skew = decks["skew"].draw_until(lambda ratio: _leaves_enough(sizes, ratio))
    room = _room(n_items_with_skew(sizes, skew))
    fewest = 30 * n_classes if skew is None else RAREST / class_shares(n_classes, skew)[-1]
    most = max(size for size in (*SIZES, *LARGE_SIZES) if size <= max(room, 300))
    n_train = decks["n_train"].draw_until(lambda size: fewest <= size <= room, default=most)
    return TaskSpec(
        name=f"{card.name}-{number:02d}",
        base=card.name,
        classes=classes,
        n_classes=n_classes,
        skew=skew,
        n_train=n_train,
        n_valid=decks["n_valid"].draw(),
        features=decks["features"].draw_until(lambda kind: n_classes < MANY or kind not in POOR),
        voters=_draw_voters(n_classes, n_train, decks),
    )


def _room(n_items: float) -> float:
    """Return how many of the items may be used for training, so that enough remain for test."""
    return max(TRAINED_ON * n_items, n_items - LARGEST_REST)


def _expected_sizes(card: Card, classes: str, n_classes: int) -> list[float]:
    """Return the approximate number of items of each class."""
    if classes == "own":
        return sorted(card.class_sizes, reverse=True)
    share = {"pick": n_classes / card.n_classes, "clusters": UNEVEN}.get(classes, 1.0)
    return [share * card.n_items / n_classes] * n_classes


def _leaves_enough(sizes: Sequence[float], skew: int | None) -> bool:
    """Whether a skew, which removes items, leaves enough of them."""
    if skew is None:
        return True
    left = n_items_with_skew(sizes, skew)
    return left >= SMALLEST_POOL and left * class_shares(len(sizes), skew)[-1] >= 2 * RAREST


def _draw_voters(n_classes: int, n_train: int, decks: dict[str, Deck]) -> VoterPlan:
    style, traps = decks["style"].draw(), decks["traps"].draw()
    fewest = 3 if style in ANY_CLASS else 1.5 * n_classes
    covered = 0.6 * n_train if traps.get("constants") else max(100, 10 * n_classes)
    coverage = decks["coverage"].draw_until(
        lambda c: c == 1 or (c * n_train >= covered and _most_voters(c, n_train) >= fewest)
    )
    n_voters = decks["n_voters"].draw_until(
        lambda count: fewest <= count <= max(_most_voters(coverage, n_train), 2 * fewest)
    )
    counts = {**traps, "copies": math.ceil(traps.get("copies", 0) * n_voters)}
    if n_voters - sum(counts.values()) < fewest:
        counts = {}
    precision = decks["binary_precision" if n_classes == 2 else "precision"].draw_until(
        lambda share: _signal(share, n_classes) * coverage * n_train >= 20 + SIGNAL * n_classes,
        default=0.95,
    )
    sample = min(decks["sample"].draw() * n_classes, LARGEST_SAMPLE)
    return VoterPlan(style, n_voters, precision, coverage, sample, **counts)


def _most_voters(coverage: float, n_train: int) -> float:
    """Return the maximum number of voters: with more, each would have fewer than three votes."""
    return n_train * -math.log(1 - min(coverage, 0.97)) / 3


def _signal(precision: float, n_classes: int) -> float:
    """Return how many right votes one vote is worth at a precision; 0 at chance level."""
    above_chance = (precision - 1 / n_classes) / (1 - 1 / n_classes)
    return max(above_chance, 0.0) ** 2
