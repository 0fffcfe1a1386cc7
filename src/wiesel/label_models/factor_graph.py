"""Voters that depend on each other, as a factor graph small enough to be enumerated.

Voters are connected if a dependency names both. Within a connected component every combination
of votes is a state, so all sums are exact; different components are independent given the class.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import ParameterError
from wiesel.label_models.pair_statistics import STATISTICS, voter_positions
from wiesel.label_models.vote_products import OneHot
from wiesel.labels import FloatArray

__all__ = ["DEPENDENCIES", "Component", "Dependency", "find_components", "widened"]

DEPENDENCIES = ("similar", "fixing", "reinforcing", "exclusive", *STATISTICS)

Dependency = tuple[str, str, str]
"""A kind and two voters, such as ("fixing", "a", "b"): b fixes mistakes of a, `Fixes("b", "a")`."""

_TURNED = {"fixes": "fixing", "reinforces": "reinforcing"}
"""The same factors, with the other voter first."""

MOST_STATES = 50_000
"""Votes times classes of a component: nine voters for two classes, five voters for five."""


@dataclass(frozen=True)
class Component:
    """Voters that depend on each other: every state of their votes, with its factors.

    P(votes | class) ~ exp(factors . weights). The weights are those of the voters' accuracies,
    then of their propensities to vote, then of the dependencies.
    """

    voters: tuple[int, ...]
    dependencies: tuple[tuple[str, int, int], ...]
    """Kind and the positions of both voters within the component."""
    positions: tuple[int, ...]
    """The positions of these dependencies in the user's list."""
    n_classes: int

    @cached_property
    def states(self) -> npt.NDArray[np.int64]:
        """All combinations of votes: (n_states, n_voters), -1 abstains.

        The state number has one digit for each voter: 0 if it abstains, else its class plus 1.
        """
        digits = range(-1, self.n_classes)
        return np.array(list(itertools.product(digits, repeat=len(self.voters))))

    @cached_property
    def factors(self) -> npt.NDArray[np.float64]:
        """The value of every factor: (n_factors, n_states, n_classes)."""
        true = np.arange(self.n_classes)
        votes = self.states.T[:, :, None]
        accuracies = [_accuracy(vote, true) for vote in votes]
        propensities = [np.broadcast_to(vote >= 0, accuracies[0].shape) for vote in votes]
        dependencies = [
            np.broadcast_to(_dependency(kind, votes[j], votes[k], true), accuracies[0].shape)
            for kind, j, k in self.dependencies
        ]
        return np.array([*accuracies, *propensities, *dependencies], dtype=np.float64)

    def log_likelihood(self, weights: FloatArray) -> npt.NDArray[np.float64]:
        """Return log P(votes | class): (n_states, n_classes)."""
        from scipy.special import logsumexp

        scores = np.tensordot(weights, self.factors, axes=1)
        return scores - logsumexp(scores, axis=0)

    def fit(
        self, counts: FloatArray, start: FloatArray, center: FloatArray, strength: float
    ) -> npt.NDArray[np.float64]:
        """Return the weights under which expected counts of the states are most likely.

        The weights have a normal prior around `center`; accuracies stay better than chance.
        """
        from scipy.optimize import minimize

        observed = np.tensordot(self.factors, counts, axes=([1, 2], [0, 1]))
        per_class = counts.sum(axis=0)

        def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
            log_likelihood = self.log_likelihood(weights)
            modelled = np.exp(log_likelihood) * per_class
            pull = strength * (weights - center)
            value = -float((counts * log_likelihood).sum()) + float(pull @ (weights - center)) / 2
            gradient = np.tensordot(self.factors, modelled, axes=([1, 2], [0, 1])) - observed
            return value, gradient + pull

        n_voters = len(self.voters)
        bounds = [(0.0, 5.0)] * n_voters + [(-15.0, 15.0)] * (len(start) - n_voters)
        found = minimize(
            loss, np.asarray(start, np.float64), jac=True, method="L-BFGS-B", bounds=bounds
        )
        return found.x

    def accuracies(self, weights: FloatArray, prior: FloatArray) -> npt.NDArray[np.float64]:
        """Return P(right | votes) of each voter under the weights."""
        proba = np.exp(self.log_likelihood(weights)) * prior
        true = np.arange(self.n_classes)
        votes = self.states.T[:, :, None]
        right = [float((proba * (vote == true)).sum()) for vote in votes]
        voted = [float((proba * (vote >= 0)).sum()) for vote in votes]
        return np.array(right) / np.array(voted)


def find_components(
    dependencies: Sequence[Dependency], voters: tuple[str, ...], n_classes: int
) -> list[Component]:
    """Return the connected components of the dependencies; raise an error if they are invalid."""
    from scipy.sparse.csgraph import connected_components

    edges = [_edge(dependency, voters) for dependency in dependencies]
    graph = sp.coo_array(
        (np.ones(len(edges)), ([j for _, j, _ in edges], [k for _, _, k in edges])),
        shape=(len(voters), len(voters)),
    )
    _, member_of = connected_components(graph, directed=False)
    components = []
    for number in sorted({int(member_of[j]) for _, j, _ in edges}):
        members = tuple(int(j) for j in np.flatnonzero(member_of == number))
        mine = [i for i, (_, j, _) in enumerate(edges) if member_of[j] == number]
        _check_size(members, voters, n_classes)
        inside = tuple(
            (edges[i][0], members.index(edges[i][1]), members.index(edges[i][2])) for i in mine
        )
        components.append(Component(members, inside, tuple(mine), n_classes))
    return components


def widened(one_hot: OneHot, components: Sequence[Component]) -> OneHot:
    """Return one-hot votes with a further column for every state of every component."""
    parts: list[OneHot] = [one_hot]
    for component in components:
        n_classes, n_voters = component.n_classes, len(component.voters)
        digit = np.zeros((one_hot.shape[1], 1))
        for place, voter in enumerate(component.voters):
            scale = (n_classes + 1) ** (n_voters - 1 - place)
            rows = slice(voter * n_classes, (voter + 1) * n_classes)
            digit[rows, 0] = scale * np.arange(1, n_classes + 1)
        state = np.rint(np.asarray(one_hot @ digit))[:, 0].astype(np.int32)
        pointers = np.arange(len(state) + 1, dtype=np.int32)
        shape = (len(state), len(component.states))
        parts.append(sp.csr_array((np.ones(len(state)), state, pointers), shape=shape))
    return sp.hstack(parts, format="csr") if components else one_hot


def _accuracy(vote: npt.NDArray[np.int64], true: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.where(vote < 0, 0, np.where(vote == true, 1, -1))


def _dependency(
    kind: str,
    j: npt.NDArray[np.int64],
    k: npt.NDArray[np.int64],
    true: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """The value of a factor of voters j and k (Ratner et al. 2016, section 4)."""
    if kind == "similar":
        return np.where(j == k, 1, 0)
    if kind == "exclusive":
        return np.where((j >= 0) & (k >= 0), -1, 0)
    if kind == "prioritizes":
        return np.where((j >= 0) & (k >= 0), (j == true).astype(int) - (k == true), 0)
    j_is_apt = (j >= 0) & (j != true) if kind == "fixing" else j == true
    return np.where((j < 0) & (k >= 0), -1, np.where(j_is_apt & (k == true), 1, 0))


def _edge(dependency: Dependency, voters: tuple[str, ...]) -> tuple[str, int, int]:
    if len(dependency) != 3:
        raise ParameterError(
            f"A dependency is a kind and two voters, such as ('similar', 'a', 'b'); "
            f"got {dependency!r}.",
            option="dependencies",
        )
    kind = dependency[0]
    if kind not in DEPENDENCIES:
        raise ParameterError(
            f"There is no dependency {kind!r}; allowed are {', '.join(map(repr, DEPENDENCIES))}.",
            option="dependencies",
        )
    first, second = voter_positions("dependency", dependency, voters)
    return (_TURNED[kind], second, first) if kind in _TURNED else (kind, first, second)


def _check_size(members: tuple[int, ...], voters: tuple[str, ...], n_classes: int) -> None:
    n_states = (n_classes + 1) ** len(members) * n_classes
    if n_states > MOST_STATES:
        names = ", ".join(repr(voters[j]) for j in members[:5])
        raise ParameterError(
            f"The dependencies connect {len(members)} voters ({names}, ...): {n_states:,} states "
            f"of {n_classes} classes, at most {MOST_STATES:,} are enumerated. Leave out some "
            "dependencies, so that fewer voters are connected.",
            option="dependencies",
        )
