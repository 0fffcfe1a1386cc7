"""The classes of a task, derived from those of its base.

- own: the base's classes.
- pick: some of them; items of the others are left out.
- merge: all of them, in groups; one against the rest: one of them and all others.
- length: each class, crossed with whether a text is longer than the median of its class.
- crossing: each class, crossed with the base's other label (Amazon: sentiment and domain).
- clusters: each class split into sub-classes by k-means on the base's best features, more for
  larger classes; where a cluster has fewer than 20 items, the class is sliced instead, into equal
  parts along its first principal direction.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from experiments.tasks.bases import Base
from experiments.tasks.specs import TaskSpec

Classes = npt.NDArray[np.int64]

LEFT_OUT = -1
SMALLEST_CLUSTER = 20
CLUSTERED_COLUMNS = 50


def make_classes(spec: TaskSpec, base: Base) -> Classes:
    """Return the class of every item of the base; -1 for items that are left out."""
    classes = _SCHEMES[spec.classes](base, spec.n_classes, spec.generator("classes"))
    if len(np.unique(classes[classes >= 0])) != spec.n_classes:
        raise ValueError(f"{spec.name} should have {spec.n_classes} classes: {spec.describe()}")
    return classes


def _own(base: Base, n_classes: int, generator: np.random.Generator) -> Classes:
    return base.gold


def _pick(base: Base, n_classes: int, generator: np.random.Generator) -> Classes:
    picked = generator.choice(_frequent(base), n_classes, replace=False)
    mapping = np.full(base.card.n_classes, LEFT_OUT)
    mapping[picked] = np.arange(n_classes)
    return mapping[base.gold]


def _merge(base: Base, n_classes: int, generator: np.random.Generator) -> Classes:
    mapping = np.arange(base.card.n_classes) % n_classes
    return generator.permutation(mapping)[base.gold]


def _one_against_the_rest(base: Base, n_classes: int, generator: np.random.Generator) -> Classes:
    return (base.gold == generator.choice(_frequent(base))).astype(np.int64)


def _frequent(base: Base) -> Classes:
    """Return the classes without TREC's rarest, which would leave about ten test items."""
    return np.flatnonzero(np.bincount(base.gold) >= 0.04 * len(base))


def _length(base: Base, n_classes: int, generator: np.random.Generator) -> Classes:
    # Ties in length are broken at random, so that both parts have the same size.
    lengths = base.lengths + generator.random(len(base))
    medians = np.array([np.median(lengths[base.gold == c]) for c in range(base.card.n_classes)])
    return 2 * base.gold + (lengths > medians[base.gold])


def _crossing(base: Base, n_classes: int, generator: np.random.Generator) -> Classes:
    return base.gold * (base.crossing.max() + 1) + base.crossing


def _clusters(base: Base, n_classes: int, generator: np.random.Generator) -> Classes:
    classes = np.empty(len(base), np.int64)
    first = 0
    for own, n_parts in enumerate(_parts_per_class(np.bincount(base.gold), n_classes)):
        rows = np.flatnonzero(base.gold == own)
        classes[rows] = first + _split(base.best[rows, :CLUSTERED_COLUMNS], n_parts, generator)
        first += n_parts
    return classes


def _parts_per_class(sizes: npt.NDArray[np.int64], n_parts: int) -> npt.NDArray[np.int64]:
    """Return one part per class, then add parts to the class whose parts are largest."""
    parts = np.ones(len(sizes), np.int64)
    while parts.sum() < n_parts:
        parts[np.argmax(sizes / parts)] += 1
    return parts


def _split(X: npt.NDArray[np.float32], n_parts: int, generator: np.random.Generator) -> Classes:
    from sklearn.cluster import KMeans

    if n_parts == 1:
        return np.zeros(len(X), np.int64)
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-6)
    seed = int(generator.integers(2**31))
    found = KMeans(n_parts, n_init=1, max_iter=30, random_state=seed).fit_predict(X)
    if np.bincount(found, minlength=n_parts).min() >= SMALLEST_CLUSTER:
        return found.astype(np.int64)
    direction = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][0]
    ranks = np.argsort(np.argsort(X @ direction, kind="stable"), kind="stable")
    return ranks * n_parts // len(X)


_SCHEMES: dict[str, Callable[[Base, int, np.random.Generator], Classes]] = {
    "own": _own,
    "pick": _pick,
    "merge": _merge,
    "one against the rest": _one_against_the_rest,
    "length": _length,
    "crossing": _crossing,
    "clusters": _clusters,
}
