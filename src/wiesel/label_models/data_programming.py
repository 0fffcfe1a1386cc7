"""Data programming: a generative model of the votes, with dependencies between voters."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wiesel.errors import ParameterError
from wiesel.label_models.base import LabelModel
from wiesel.label_models.expectation_maximization import Expectations, VoteSums, maximize
from wiesel.label_models.one_coin import one_coin_joint
from wiesel.label_models.pair_statistics import STATISTICS, voter_positions
from wiesel.label_models.vote_products import LogJoint, OneHot, Widen, posterior, vote_totals
from wiesel.labels import FloatArray
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = [
    "DEPENDENCIES",
    "Component",
    "DataProgramming",
    "Dependency",
    "find_components",
    "widened",
]

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


@dataclass(eq=False, kw_only=True)
class DataProgramming(LabelModel):
    """Each voter votes with some propensity and is right with some accuracy above chance.

    P(votes | class) ~ exp(sum of weight * factor): for every voter an accuracy factor (+1 right,
    -1 wrong, 0 silent) and a propensity factor (1 if it votes), and for every dependency

        similar      1 if both vote the same (or both abstain)
        fixing       1 if the first is wrong and the second right, -1 if only the second votes
        reinforcing  1 if both are right, -1 if only the second votes
        exclusive   -1 if both vote
        prioritizes  where both vote: 1 if only the first is right, -1 if only the second is

    The weights maximize the likelihood of the votes, by EM with exact sums: voters without
    dependencies have a closed form, connected ones are enumerated. The class balance is given or
    uniform. With dependencies, a probabilistic vote counts as its most probable class.

    Ratner, De Sa, Wu, Selsam and Ré 2016, "Data programming: creating large training sets,
    quickly", NeurIPS.

    >>> model = DataProgramming(dependencies=[("similar", "keyword", "link")]).fit(votes)
    >>> model.dependency_weights_.shape
    (1,)
    """

    dependencies: Sequence[Dependency] = ()
    """Kinds and voters, such as [("similar", "a", "b"), ("fixing", "a", "c")]: c fixes a. The
    statistics of `WeaSEL` work, too: `Fixes("c", "a")`, `Prioritizes`, `Reinforces`."""
    accuracy: float = 0.7
    """The prior accuracy of all voters."""
    smoothing: float = 10.0
    """The number of pseudo-votes behind that prior."""
    max_iter: int = 100
    """The maximum number of EM steps."""
    tol: float = 1e-5
    """Stop when the mean log evidence per item grows by less."""

    accuracies_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(right | votes) of each voter."""
    propensities_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(votes) of each voter."""
    component_weights_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The factor weights of voters with dependencies, component by component."""
    dependency_weights_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The weight of every dependency, in the order given; 0 means no dependency."""
    evidence_: list[float] = field(init=False, repr=False)
    """The log probability of votes and weights after every step; it never decreases."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "accuracy", self.accuracy, low=0, high=1)
        check_number(self, "smoothing", self.smoothing, low=0)
        check_number(self, "max_iter", self.max_iter, low=1, whole=True)
        check_number(self, "tol", self.tol, low=0)

    def _fit(self, votes: VoteSource, class_balance: npt.NDArray[np.float64] | None) -> None:
        components = find_components(self.dependencies, votes.voters, len(votes.labels))
        self.propensities_ = vote_totals(votes).sum(axis=1) / votes.n_items
        centers = [self._center(component) for component in components]
        weights = list(centers)

        def m_step(expected: Expectations) -> tuple[LogJoint, float]:
            self.accuracies_ = self._accuracies(expected.votes)
            density = _log_density(self.accuracies_, self.accuracy, self.smoothing)
            first = 0
            for i, (component, center) in enumerate(zip(components, centers, strict=True)):
                counts = expected.patterns[first : first + len(component.states)]
                weights[i] = component.fit(counts, weights[i], center, self.smoothing)
                first += len(component.states)
                density[list(component.voters)] = 0
                density[component.voters[0]] = -_half_square(weights[i] - center, self.smoothing)
            return self._log_joint(components, weights), float(density.sum())

        sums = VoteSums(votes, widen=_widen(components))
        self.evidence_ = maximize(sums, sums.majority(), m_step, self.max_iter, self.tol)
        self._keep(components, weights)

    def _keep(self, components: Sequence[Component], weights: Sequence[FloatArray]) -> None:
        self.component_weights_ = np.concatenate([np.zeros(0), *weights])
        self.dependency_weights_ = np.zeros(len(self.dependencies))
        for component, own in zip(components, weights, strict=True):
            self.dependency_weights_[list(component.positions)] = own[2 * len(component.voters) :]
            right = component.accuracies(own, self.class_balance_)
            self.accuracies_[list(component.voters)] = right

    def _predict_proba(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        components = find_components(self.dependencies, votes.voters, votes.n_classes)
        sizes = [len(component.factors) for component in components]
        weights = np.split(self.component_weights_, np.cumsum(sizes))[: len(sizes)]
        joint = self._log_joint(components, weights)
        if components:
            votes = replace(votes, distribution=None)
        return posterior(votes, joint, self.class_balance_, widen=_widen(components))

    def _center(self, component: Component) -> npt.NDArray[np.float64]:
        """The prior means of the weights: the given accuracy, and each voter's propensity."""
        accuracy = np.clip(self.accuracy, 1e-3, 1 - 1e-3)
        others = component.n_classes - 1
        weight = max(0.0, 0.5 * np.log(others * accuracy / (1 - accuracy)))
        propensity = np.clip(self.propensities_[list(component.voters)], 1e-6, 1 - 1e-6)
        votes = np.exp(weight) + others * np.exp(-weight)
        silent = np.log(propensity / (1 - propensity)) - np.log(votes)
        no_dependency = np.zeros(len(component.dependencies))
        return np.concatenate([np.full(len(component.voters), weight), silent, no_dependency])

    def _accuracies(self, expected_votes: FloatArray) -> npt.NDArray[np.float64]:
        """The accuracies of voters without dependencies, none of them below chance."""
        right = np.trace(expected_votes, axis1=1, axis2=2) + self.smoothing * self.accuracy
        total = expected_votes.sum(axis=(1, 2)) + self.smoothing
        known = np.divide(right, total, out=np.full(len(total), self.accuracy), where=total > 0)
        return np.clip(known, 1 / expected_votes.shape[2], 1 - 1e-6)

    def _log_joint(
        self, components: Sequence[Component], weights: Sequence[FloatArray]
    ) -> LogJoint:
        """The model: accuracies of independent voters, joint states of connected ones."""
        joint = one_coin_joint(self.accuracies_, self.class_balance_)
        alone = np.ones(len(self.accuracies_))
        for component in components:
            alone[list(component.voters)] = 0
        tables = [c.log_likelihood(own) for c, own in zip(components, weights, strict=True)]
        votes = joint.weights * np.repeat(alone, len(self.class_balance_))[:, None]
        return LogJoint(np.concatenate([votes, *tables]), joint.offset)


def _widen(components: Sequence[Component]) -> Widen | None:
    return partial(widened, components=components) if components else None


def _log_density(accuracies: FloatArray, center: float, strength: float) -> npt.NDArray[np.float64]:
    """The log density of each accuracy, up to a constant."""
    wrong = np.maximum(1 - accuracies, 1e-300)
    right = np.maximum(accuracies, 1e-300)
    return strength * (center * np.log(right) + (1 - center) * np.log(wrong))


def _half_square(difference: FloatArray, strength: float) -> float:
    return strength * float(difference @ difference) / 2


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
