"""Data programming: a generative model of the votes, with dependencies between voters."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from wiesel.label_models.base import LabelModel
from wiesel.label_models.expectation_maximization import Expectations, VoteSums, maximize
from wiesel.label_models.factor_graph import Component, Dependency, find_components, widened
from wiesel.label_models.one_coin import one_coin_joint
from wiesel.label_models.vote_products import LogJoint, Widen, posterior, vote_totals
from wiesel.labels import FloatArray
from wiesel.parameters import check_number
from wiesel.votes import VoteMatrix, VoteSource

__all__ = ["DataProgramming"]


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

    def _check_options(self) -> None:
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
