"""Weighted vote: the user sets the weight of every voter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wiesel.errors import ParameterError, listed, suggest
from wiesel.label_models.base import LabelModel
from wiesel.label_models.vote_products import class_shares
from wiesel.labels import FloatArray, by_name
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["WeightedVote"]


@dataclass(eq=False, kw_only=True)
class WeightedVote(LabelModel):
    """Each class gets its share of the weights of the voters that voted for it.

    Without weights it is the soft majority vote. An item whose votes have zero weight gets the
    class balance, like an item without votes.

    >>> model = WeightedVote(weights={"keyword": 3, "link": 1, "length": 1}).fit(votes)
    >>> model.predict_proba(votes)[:2]
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """

    weights: Mapping[str, float] | Sequence[float] | FloatArray | None = None
    """The weight of every voter, by name or in the order of the voters; None gives all the same
    weight."""

    weights_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The weight of each voter."""

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        self.weights_ = _weights_in_order(self.weights, votes.voters)

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        return class_shares(votes, self.class_balance_, self.weights_)


def _weights_in_order(
    weights: Mapping[str, float] | Sequence[float] | FloatArray | None, voters: tuple[str, ...]
) -> npt.NDArray[np.float64]:
    if weights is None:
        return np.ones(len(voters))
    weights = by_name(weights)
    if isinstance(weights, Mapping):
        unknown = [name for name in weights if name not in voters]
        if unknown:
            raise ParameterError(
                f"The weights name {unknown[0]!r}, which is not a voter. "
                f"{suggest(unknown[0], voters)}",
                option="weights",
            )
        missing = [name for name in voters if name not in weights]
        if missing:
            problem = f"The weights leave out {listed(missing)}; every voter needs one."
            raise ParameterError(problem, option="weights")
        weights = [weights[name] for name in voters]
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)  # refused below
    if array.shape != (len(voters),) or not np.isfinite(array).all() or (array < 0).any():
        raise ParameterError(
            f"The weights must be {len(voters)} numbers of at least 0, one for each voter; "
            f"got {weights!r}.",
            option="weights",
        )
    return array
