"""Synthetic votes, features and panels of judges, for tests and benchmarks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError
from wiesel.labels import FloatArray, IntArray, LabelSpace, class_prior
from wiesel.votes import VoteMatrix

__all__ = ["make_features", "make_panel", "make_votes", "planted_confusions"]

_BATCH = 2**20
_RATINGS = 10
_COARSE = np.array([0, 0, 0, 2, 2, 5, 5, 8, 8, 8])
_SHARPNESS = 3.0
"""How much too sure the ratings are."""


def make_votes(
    n_items: int,
    n_voters: int,
    n_classes: int = 2,
    *,
    accuracies: float | Sequence[float] | FloatArray | None = None,
    coverage: float | Sequence[float] | FloatArray = 0.3,
    class_balance: Mapping[str, float] | Sequence[float] | FloatArray | None = None,
    seed: int = 0,
) -> tuple[VoteMatrix, npt.NDArray[np.int64]]:
    """Return votes that are independent given the label, and the labels they were drawn from.

    `accuracies` is P(correct | votes): one number, one per voter, or confusion matrices
    (n_voters, true, voted). By default, the accuracies are evenly spaced from 0.6 to 0.9.
    `coverage` is P(votes): one number or one per voter. Time and memory grow with the number of
    votes, not with items x voters.

    >>> votes, gold = make_votes(1000, 20, n_classes=3, coverage=0.1, seed=1)
    >>> votes
    VoteMatrix(1,000 items x 20 voters, 3 classes, 2,044 votes, 89.0 % of the items covered)
    """
    labels = LabelSpace(*(f"class_{c}" for c in range(n_classes)))
    rng = np.random.default_rng(seed)
    prior = class_prior(labels, class_balance)
    gold = np.searchsorted(np.cumsum(prior)[:-1], rng.random(n_items), side="right")
    thresholds = np.cumsum(planted_confusions(n_voters, n_classes, accuracies), axis=2)
    rates = _per_voter("coverage", coverage, n_voters)
    n_votes_of_item = np.zeros(n_items, dtype=np.int64)
    voters, classes = [np.empty(0, np.int32)], [np.empty(0, np.int16)]
    for item, voter in _cast_votes(n_items, rates, rng):
        # The last threshold is 1 up to rounding; skip it, so that no draw exceeds the last class.
        passed = rng.random(len(item))[:, None] >= thresholds[voter, gold[item], :-1]
        n_votes_of_item += np.bincount(item, minlength=n_items)
        voters.append(voter.astype(np.int32))
        classes.append(passed.sum(axis=1, dtype=np.int16))
    indptr = np.concatenate([[0], np.cumsum(n_votes_of_item)])
    names = tuple(f"voter_{j}" for j in range(n_voters))
    ids = np.arange(n_items)
    chosen, voted = np.concatenate(voters), np.concatenate(classes)
    return VoteMatrix(indptr, chosen, voted, labels, names, ids), gold.astype(np.int64)


def make_features(
    gold: IntArray, n_features: int = 2, *, separation: float = 3.0, seed: int = 0
) -> npt.NDArray[np.float32]:
    """Return a Gaussian blob per class, with unit variance: (n_items, n_features).

    The centers are `separation` away from the origin, in random directions that are as far apart
    as the number of features allows.

    >>> make_features(np.array([0, 1, 1]), n_features=4).shape
    (3, 4)
    """
    rng = np.random.default_rng(seed)
    n_classes = int(gold.max()) + 1 if len(gold) else 1
    directions = rng.standard_normal((max(n_classes, n_features), n_features))
    if n_classes <= n_features:
        directions = np.linalg.qr(directions)[0]
    directions = directions[:n_classes]
    centers = separation * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    noise = rng.standard_normal((len(gold), n_features), dtype=np.float32)
    return noise + centers.astype(np.float32)[gold]


def planted_confusions(
    n_voters: int, n_classes: int, accuracies: float | Sequence[float] | FloatArray | None = None
) -> npt.NDArray[np.float64]:
    """Return the confusion matrices (n_voters, true, voted) that `make_votes` draws from.

    >>> planted_confusions(1, 3, accuracies=0.8)[0].round(2).tolist()
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    """
    given = np.linspace(0.6, 0.9, n_voters) if accuracies is None else np.asarray(accuracies)
    if given.ndim == 3:
        return _checked_confusions(given, n_voters, n_classes)
    rates = _per_voter("accuracies", given, n_voters)[:, None, None]
    wrong = (1 - rates) / (n_classes - 1)
    right = np.eye(n_classes)
    confusions: npt.NDArray[np.float64] = rates * right + wrong * (1 - right)
    return confusions


def _cast_votes(
    n_items: int, rates: FloatArray, rng: np.random.Generator
) -> Iterator[tuple[IntArray, IntArray]]:
    """The item and voter of each vote, in batches ordered by item, then voter.

    The cells of the items x voters table are visited in geometric jumps at the highest coverage;
    voters with a lower coverage then skip some of their cells.
    """
    n_voters, highest = len(rates), float(rates.max(initial=0.0))
    last, position = n_items * n_voters, -1
    size = int(min(_BATCH, 1.1 * last * highest + 100))
    while highest > 0 and position < last - 1:
        cells = position + np.cumsum(rng.geometric(highest, size=size))
        position = int(cells[-1])
        cells = cells[cells < last]
        voter = cells % n_voters
        turns = rng.random(len(cells)) * highest < rates[voter]
        yield cells[turns] // n_voters, voter[turns]


def _per_voter(name: str, value: Any, n_voters: int) -> npt.NDArray[np.float64]:
    rates = np.asarray(value, dtype=np.float64)
    if rates.shape not in ((), (n_voters,)) or not ((rates >= 0) & (rates <= 1)).all():
        raise ParameterError(
            f"{name} must be a number from 0 to 1, or {n_voters} of them, one for each voter; "
            f"got {value!r}."
        )
    return np.broadcast_to(rates, n_voters)


def _checked_confusions(given: Any, n_voters: int, n_classes: int) -> npt.NDArray[np.float64]:
    confusions = np.asarray(given, dtype=np.float64)
    shape = (n_voters, n_classes, n_classes)
    if (
        confusions.shape != shape
        or (confusions < 0).any()
        or abs(confusions.sum(2) - 1).max() > 1e-6
    ):
        raise ParameterError(
            f"Confusion matrices must have the shape {shape} (voter, true class, voted class) and "
            f"rows that sum to 1; got the shape {confusions.shape}."
        )
    return confusions


def make_panel(  # noqa: PLR0913 - each keyword is a property of panels
    n_items: int,
    n_judges: int = 20,
    *,
    accuracies: float | Sequence[float] = (0.55, 0.77),
    ceiling: float = 0.8,
    shared: float = 0.7,
    refusals: float = 0.02,
    families: int | Sequence[int] = 3,
    habits: float = 0.6,
    tendency: float = 0.0,
    coarse: float = 0.0,
    seed: int = 0,
) -> tuple[VoteMatrix, npt.NDArray[np.int64]]:
    """Return votes of judges that rate items from 0 to 9, and the classes of the items.

    All judges read the same item, which points to its class in a share `ceiling` of all cases: no
    combination of judges is better than that. What a judge makes of it has an error; a share
    `shared` of its variance is common to the judges of a family. Ratings are too sure, and each
    judge has a habit: it leans to one class, as do all by `tendency`, with differences between
    judges of `habits`. `accuracies` are the lowest and the highest that judges would have without
    habits. `families` is their number, or their sizes; then accuracies come in no order. A share
    `coarse` of the judges uses four ratings only. Judges refuse some items, and the same ones more
    often.

    >>> votes, gold = make_panel(1000, 5)
    >>> votes.voters, votes.distribution is not None
    (('judge_0', 'judge_1', 'judge_2', 'judge_3', 'judge_4'), True)
    """
    from scipy.special import expit
    from scipy.stats import norm

    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, n_items)
    lowest, highest = np.broadcast_to(np.asarray(accuracies, float), 2)
    steps = np.linspace(lowest, highest, n_judges)
    if isinstance(families, int):
        family = np.arange(n_judges) % families
    else:
        family, steps = np.repeat(np.arange(len(families)), families), rng.permutation(steps)
    if len(family) != n_judges:
        raise ParameterError(f"families has to add up to {n_judges} judges; got {families}.")
    reach, misleading = norm.ppf(steps), 1 / norm.ppf(ceiling)
    skill = reach / np.sqrt(1 - (reach * misleading) ** 2)
    evidence = 2 * gold - 1 + misleading * rng.standard_normal(n_items)
    of_family = rng.standard_normal((n_items, family.max() + 1))[:, family]
    own = rng.standard_normal((n_items, n_judges))
    error = np.sqrt(shared) * of_family + np.sqrt(1 - shared) * own
    seen = evidence[:, None] * skill + error + tendency + rng.normal(0, habits, n_judges)
    stretch = _SHARPNESS * rng.uniform(0.6, 1.4, n_judges)
    rating = np.floor(expit(stretch * seen) * _RATINGS).clip(0, _RATINGS - 1)
    some = np.arange(n_judges) < round(coarse * n_judges)
    rating = np.where(some, _COARSE[rating.astype(np.int64)], rating)
    yes = (rating + 0.5) / _RATINGS
    proba = np.stack([1 - yes, yes], axis=2)
    awkward = rng.random((n_items, 1)) < 2 * refusals
    proba[rng.random((n_items, n_judges)) < np.where(awkward, 0.4, 0.2 * refusals)] = 0
    names = [f"judge_{number}" for number in range(n_judges)]
    return VoteMatrix.from_proba(proba, LabelSpace("no", "yes"), names), gold
