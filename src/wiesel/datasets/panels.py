"""Generated panels of language models as judges: shared errors, graded answers, refusals."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError
from wiesel.labels import LabelSpace
from wiesel.votes import VoteMatrix

__all__ = ["make_panel"]

_RATINGS = 10
_COARSE = np.array([0, 0, 0, 2, 2, 5, 5, 8, 8, 8])
_SHARPNESS = 3.0
"""How much too sure the ratings are."""


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
