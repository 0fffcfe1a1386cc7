"""Generated panels of language models as judges: shared errors, graded answers, refusals."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wiesel.labels import LabelSpace
from wiesel.votes import VoteMatrix

__all__ = ["make_panel"]

_RATINGS = 10
_FAMILIES = 3
_SHARPNESS = 3.0
"""How much too sure the ratings are."""


def make_panel(
    n_items: int,
    n_judges: int = 20,
    *,
    accuracies: float | Sequence[float] = (0.55, 0.77),
    ceiling: float = 0.8,
    shared: float = 0.7,
    refusals: float = 0.02,
    seed: int = 0,
) -> tuple[VoteMatrix, npt.NDArray[np.int64]]:
    """Return votes of judges that rate items from 0 to 9, and the classes of the items.

    All judges read the same item, which points to its class in a share `ceiling` of all cases: no
    combination of judges is better than that. What a judge makes of it has an error; a share
    `shared` of its variance is common to the judges of a family. Ratings are too sure, and each
    judge has a habit. `accuracies` are the lowest and the highest that judges would have without
    habits. Judges refuse some items, and the same ones more often.

    >>> votes, gold = make_panel(1000, 5)
    >>> votes.voters, votes.distribution is not None
    (('judge_0', 'judge_1', 'judge_2', 'judge_3', 'judge_4'), True)
    """
    from scipy.special import expit
    from scipy.stats import norm

    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, n_items)
    lowest, highest = np.broadcast_to(np.asarray(accuracies, float), 2)
    reach, misleading = norm.ppf(np.linspace(lowest, highest, n_judges)), 1 / norm.ppf(ceiling)
    skill = reach / np.sqrt(1 - (reach * misleading) ** 2)
    evidence = 2 * gold - 1 + misleading * rng.standard_normal(n_items)
    families = rng.standard_normal((n_items, _FAMILIES))[:, np.arange(n_judges) % _FAMILIES]
    own = rng.standard_normal((n_items, n_judges))
    error = np.sqrt(shared) * families + np.sqrt(1 - shared) * own
    seen = evidence[:, None] * skill + error + rng.normal(0, 0.6, n_judges)
    stretch = _SHARPNESS * rng.uniform(0.6, 1.4, n_judges)
    rating = np.floor(expit(stretch * seen) * _RATINGS).clip(0, _RATINGS - 1)
    yes = (rating + 0.5) / _RATINGS
    proba = np.stack([1 - yes, yes], axis=2)
    awkward = rng.random((n_items, 1)) < 2 * refusals
    proba[rng.random((n_items, n_judges)) < np.where(awkward, 0.4, 0.2 * refusals)] = 0
    names = [f"judge_{number}" for number in range(n_judges)]
    return VoteMatrix.from_proba(proba, LabelSpace("no", "yes"), names), gold
