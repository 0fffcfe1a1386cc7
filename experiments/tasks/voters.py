"""Draws all votes of a task: honest voters as planned, then copies, adversaries, constants."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from experiments.tasks.families import FamilyPlan
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
EVENNESS, UNEVEN = 3.0, 0.3
"""How even the numbers of voters of the classes are: the parameter of a Dirichlet distribution."""
REPEATED = 0.7
"""The share of items on which a voter with a shared cause repeats another."""
ADVERSARY_PRECISION = 0.1
ADVERSARY_COVERAGE = 2.0
"""As a multiple of the mean honest voter's coverage."""
LEAST_ADVERSARY_COVERAGE = 0.05


def draw_votes(plan: VoterPlan, of: Material, generator: np.random.Generator) -> Votes:
    """Return (n_items, n_voters) class indices, -1 where a voter abstains."""
    honest = _honest(plan, of, generator)
    if isinstance(plan, FamilyPlan):
        honest = _with_causes(honest, plan.causes, generator)
        if plan.catch_all:
            honest.append(_catch_all(plan, of, honest, generator))
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
    named = _named_classes(plan, of, generator)
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


def _named_classes(plan: VoterPlan, of: Material, generator: np.random.Generator) -> list[int]:
    """Return every class once if there are enough voters; some classes have more voters."""
    classes, evenness = np.arange(of.n_classes), EVENNESS
    if isinstance(plan, FamilyPlan):
        classes = np.setdiff1d(classes, [_unnamed_class(plan, of)])
        evenness = UNEVEN if plan.uneven else EVENNESS
    weights = generator.dirichlet(np.full(len(classes), evenness))
    others = generator.choice(classes, max(0, plan.n_honest - len(classes)), p=weights)
    return [*generator.permutation(classes)[: plan.n_honest].tolist(), *others.tolist()]


def _unnamed_class(plan: FamilyPlan, of: Material) -> int:
    """Return the class that no ordinary voter names, -1 if there is none."""
    by_size = np.argsort(-np.bincount(of.y, minlength=of.n_classes), kind="stable")
    return -1 if not plan.unnamed else int(by_size[0 if plan.unnamed == "largest" else 1])


def _with_causes(honest: list[Votes], n_causes: int, generator: np.random.Generator) -> list[Votes]:
    """Return voters in groups that mostly repeat the first of their group; half of them in all."""
    if not n_causes:
        return honest
    order = generator.permutation(len(honest))[: max(2 * n_causes, len(honest) // 2)]
    changed = list(honest)
    for group in np.array_split(order, n_causes):
        for voter in group[1:]:
            same = generator.random(len(honest[voter])) < REPEATED
            changed[voter] = np.where(same, honest[group[0]], honest[voter]).astype(np.int8)
    return changed


def _catch_all(
    plan: FamilyPlan, of: Material, honest: list[Votes], generator: np.random.Generator
) -> Votes:
    """Return votes for the class that no other names: where the others are silent, or anywhere."""
    silent = (np.array(honest) == ABSTAIN).all(axis=0)
    allowed = np.flatnonzero(silent) if plan.alone else np.arange(len(of.y))
    votes = np.full(len(of.y), ABSTAIN, np.int8)
    fires = generator.permutation(allowed)[: round(plan.catch_all * len(of.y))]
    votes[fires] = _unnamed_class(plan, of)
    return votes


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
