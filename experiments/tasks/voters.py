"""Draws all votes of a task: honest voters as planned, then copies, adversaries, constants."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from experiments.tasks.rules import (
    Material,
    Votes,
    classifier_votes,
    keyword_rule,
    one_sided_votes,
    threshold_rule,
    worker_votes,
)
from experiments.tasks.specs import VoterPlan
from wiesel.labels import ABSTAIN

LOWEST_PRECISION, HIGHEST_PRECISION = 0.35, 0.95
PRECISION_SPREAD = 0.1
ALMOST_ALL = 0.97
"""Full coverage would need a voter that always votes."""
COVERAGE_SPREAD = {"crowd": 1.0}
OTHER_COVERAGE_SPREAD = 0.5
LEAST_LIFT = 0.1
"""The minimum lift of a one-sided voter's precision above its class share, as a share of the
distance to 1."""
ATTEMPTS = 4
CLOSE_ENOUGH = 0.9
LEFT_OUT_BY_COPIES = 0.02
ADVERSARY_PRECISION = 0.1
ADVERSARY_COVERAGE = 2.0
"""As a multiple of the mean honest voter's coverage."""
LEAST_ADVERSARY_COVERAGE = 0.05


def draw_votes(plan: VoterPlan, of: Material, generator: np.random.Generator) -> Votes:
    """Return (n_items, n_voters) class indices, -1 where a voter abstains."""
    honest = _honest(plan, of, generator)
    votes = np.column_stack(
        [
            *honest,
            *_copies(honest[int(generator.integers(len(honest)))], plan.copies, generator),
            *_adversaries(of, plan.adversaries, np.mean(np.array(honest) != ABSTAIN), generator),
            *(_constant(of, generator) for _ in range(plan.constants)),
        ]
    )
    return votes[:, generator.permutation(votes.shape[1])]


def _honest(plan: VoterPlan, of: Material, generator: np.random.Generator) -> list[Votes]:
    """Draw honest voters; redraw with more votes each if they overlap too often."""
    wanted = min(plan.coverage, ALMOST_ALL)
    coverages = _coverages(plan, generator)
    for _ in range(ATTEMPTS):
        honest = list(_drawn(plan, of, coverages, generator))
        covered = (np.array(honest) != ABSTAIN).any(axis=0).mean()
        if covered >= CLOSE_ENOUGH * wanted:
            break
        coverages = (coverages * min(3.0, np.log(1 - wanted) / np.log(1 - covered))).clip(
            max=ALMOST_ALL
        )
    return honest


def _drawn(
    plan: VoterPlan,
    of: Material,
    coverages: npt.NDArray[np.float64],
    generator: np.random.Generator,
) -> Iterator[Votes]:
    shares = np.bincount(of.y, minlength=of.n_classes) / len(of.y)
    aims = zip(_precisions(plan, generator), coverages, strict=True)
    named = _named_classes(plan.n_honest, of.n_classes, generator)
    for number, (precision, coverage) in enumerate(aims):
        style = _style_of(plan, of, number)
        if style == "crowd":
            yield worker_votes(of, (precision, coverage), generator)
        elif style == "classifiers":
            yield classifier_votes(of, (precision, coverage), generator)
        else:
            share = shares[named[number]]
            # A vote that is right less often than chance is evidence against its class.
            precision = max(precision, share + LEAST_LIFT * (1 - share))
            # There cannot be more right votes than items of a class.
            aim = (precision, min(coverage, 0.9 * share / precision))
            rule = keyword_rule if style == "keywords" else threshold_rule
            fires = rule(of, named[number], aim[1], generator)
            yield one_sided_votes(of, fires, named[number], aim, generator)


def _style_of(plan: VoterPlan, of: Material, number: int) -> str:
    """Return the style of a voter; every second mixed voter may name any class."""
    if plan.style != "mixed":
        return plan.style
    if number % 2:
        return "classifiers"
    return "thresholds" if of.words is None else "keywords"


def _precisions(plan: VoterPlan, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    drawn = generator.normal(plan.precision, PRECISION_SPREAD, plan.n_honest)
    drawn += plan.precision - drawn.mean()
    return drawn.clip(LOWEST_PRECISION, HIGHEST_PRECISION)


def _coverages(plan: VoterPlan, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return the coverage of each voter that reaches the target, if voters were independent."""
    each = 1 - (1 - min(plan.coverage, ALMOST_ALL)) ** (1 / plan.n_honest)
    spread = COVERAGE_SPREAD.get(plan.style, OTHER_COVERAGE_SPREAD)
    factors = np.exp(generator.normal(0, spread, plan.n_honest))
    return (each * factors / factors.mean()).clip(max=ALMOST_ALL)


def _named_classes(n_voters: int, n_classes: int, generator: np.random.Generator) -> list[int]:
    """Return every class once if there are enough voters; some classes have more voters."""
    weights = generator.dirichlet(np.full(n_classes, 3.0))
    others = generator.choice(n_classes, max(0, n_voters - n_classes), p=weights)
    return [*generator.permutation(n_classes)[:n_voters].tolist(), *others.tolist()]


def _copies(original: Votes, n_copies: int, generator: np.random.Generator) -> Iterator[Votes]:
    for _ in range(n_copies):
        left_out = generator.random(len(original)) < LEFT_OUT_BY_COPIES
        yield np.where(left_out, np.int8(ABSTAIN), original)


def _adversaries(
    of: Material, n_voters: int, honest_coverage: float, generator: np.random.Generator
) -> Iterator[Votes]:
    """Yield adversaries that agree: all name the same wrong class for a right class."""
    wrong = (of.y + int(generator.integers(1, of.n_classes))) % of.n_classes
    coverage = max(ADVERSARY_COVERAGE * honest_coverage, LEAST_ADVERSARY_COVERAGE)
    for _ in range(n_voters):
        right = generator.random(len(of.y)) < ADVERSARY_PRECISION
        silent = generator.random(len(of.y)) > coverage
        yield np.where(silent, ABSTAIN, np.where(right, of.y, wrong)).astype(np.int8)


def _constant(of: Material, generator: np.random.Generator) -> Votes:
    return np.full(len(of.y), generator.integers(of.n_classes), np.int8)
