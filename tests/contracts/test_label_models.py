"""Every registered label model keeps the contract, and a broken one is caught."""

from dataclasses import dataclass

import numpy as np
import pytest

from wiesel import (
    GLAD,
    MACE,
    DataProgramming,
    DawidSkene,
    LabelModel,
    MajorityVote,
    OneCoin,
    OrdinalDawidSkene,
    Snorkel,
    Triplet,
    VoteCounts,
    WeightedVote,
)
from wiesel.label_models import REGISTRY, CorrelatedVoters
from wiesel.testing import ContractError, check_label_model

MODELS: dict[str, LabelModel] = {
    "majority_vote": MajorityVote(),
    "majority_vote, hard": MajorityVote(hard=True),
    "weighted_vote": WeightedVote(),
    "vote_counts": VoteCounts(),
    "dawid_skene": DawidSkene(),
    "dawid_skene, silence counts": DawidSkene(abstain_as_vote=True),
    "ordinal_dawid_skene": OrdinalDawidSkene(),
    "one_coin": OneCoin(),
    "one_coin, learned balance": OneCoin(learn_class_balance=True),
    "snorkel": Snorkel(),
    "snorkel, sgd": Snorkel(optimizer="sgd"),
    "snorkel, adam": Snorkel(optimizer="adam"),
    "triplet": Triplet(),
    "triplet, median": Triplet(aggregate="median"),
    "triplet, random": Triplet(aggregate="random"),
    "triplet, chen": Triplet(reading="chen"),
    "triplet, class-conditional": Triplet(reading="class_conditional"),
    "data_programming": DataProgramming(),
    "correlated_voters": CorrelatedVoters(),
    "glad": GLAD(),
    "mace": MACE(),
}
CASES = [pytest.param(name, marks=pytest.mark.slow if "," in name else ()) for name in MODELS]


@pytest.mark.parametrize("name", CASES)
def test_every_label_model_keeps_the_contract(name: str):
    assert len(check_label_model(MODELS[name])) > 20


def test_every_registered_label_model_is_checked():
    checked = {name.split(",")[0] for name in MODELS}
    assert len(checked) >= 7
    assert checked == set(REGISTRY)


def test_every_registered_label_model_says_what_it_is():
    for name, method in REGISTRY.items():
        assert method.summary
        assert method.paper
        assert method.needs == "votes"
        assert isinstance(method.cls(), LabelModel), name


@dataclass(eq=False, kw_only=True)
class Counting(LabelModel):
    """A third party's label model: votes plus the class balance, as shares."""

    def _fit(self, votes, class_balance):
        pass

    def _predict_proba(self, votes):
        counts = votes.counts() + 1e-3 * self.class_balance_
        return counts / counts.sum(axis=1, keepdims=True)


def test_a_third_partys_label_model_keeps_the_contract():
    assert len(check_label_model(Counting())) > 20


class ForgetsToReturn(Counting):
    def fit(self, votes, class_balance=None):
        super().fit(votes, class_balance)


@dataclass(eq=False, kw_only=True)
class ChangesItsOptions(Counting):
    steps: int = 3

    def _fit(self, votes, class_balance):
        self.steps += 1


class SpoilsTheBalance(Counting):
    def fit(self, votes, class_balance=None):
        if isinstance(class_balance, np.ndarray):
            class_balance[:] = class_balance[::-1].copy()
        return super().fit(votes, class_balance)


class Remembers(Counting):
    def _fit(self, votes, class_balance):
        self.times = getattr(self, "times", 0) + 1

    def _predict_proba(self, votes):
        proba = super()._predict_proba(votes) ** self.times
        return proba / proba.sum(axis=1, keepdims=True)


class NeverUnfitted(Counting):
    def predict_proba(self, votes):
        self.class_balance_ = np.full(votes.n_classes, 1 / votes.n_classes)
        return self._predict_proba(votes)


class DoesNotNormalize(Counting):
    def _predict_proba(self, votes):
        return votes.counts()


class PredictsItsOwn(Counting):
    def predict(self, votes):
        self.check_fitted()
        return np.array(self.labels_.names, dtype=object)[votes.counts().argmin(axis=1)]


class IgnoresTheBalance(Counting):
    def _predict_proba(self, votes):
        proba = super()._predict_proba(votes)
        proba[~votes.covered] = 1 / votes.n_classes
        return proba


class WeighsByPosition(Counting):
    def _predict_proba(self, votes):
        proba = super()._predict_proba(votes)
        late = votes.covered & (np.arange(votes.n_items) > votes.n_items // 2)
        proba[late] = proba[late] ** 2 / (proba[late] ** 2).sum(axis=1, keepdims=True)
        return proba


class TrustsTheFirstVoter(Counting):
    def _predict_proba(self, votes):
        counts = votes.counts() + 1e-3 * self.class_balance_
        first = votes.voter_index == 0
        np.add.at(counts, (votes.item_index[first], votes.class_index[first]), 2)
        return counts / counts.sum(axis=1, keepdims=True)


class PrefersTheFirstClass(Counting):
    def _predict_proba(self, votes):
        counts = votes.counts() * ([1.5] + [1] * (votes.n_classes - 1)) + 1e-3 * self.class_balance_
        return counts / counts.sum(axis=1, keepdims=True)


class Underflows(Counting):
    def _predict_proba(self, votes):
        with np.errstate(all="ignore"):
            likelihood = 0.1 ** (votes.votes_per_item[:, None] - votes.counts()) * 0.5**80
            proba = likelihood**4 * self.class_balance_
            return proba / proba.sum(axis=1, keepdims=True)


class VotesAgainst(Counting):
    def _predict_proba(self, votes):
        counts = votes.counts().max(axis=1, keepdims=True) - votes.counts() + self.class_balance_
        return counts / counts.sum(axis=1, keepdims=True)


class BelievesTheBalance(Counting):
    def predict_proba(self, votes):
        self.check_fitted()
        votes.check_same_voters(self.voters_, self.labels_)
        return self._predict_proba(votes)

    def _predict_proba(self, votes):
        proba = 2.0 ** votes.counts() * self.class_balance_
        return proba / proba.sum(axis=1, keepdims=True)


class FlipsTheCommonClass(Counting):
    def _predict_proba(self, votes):
        proba = super()._predict_proba(votes)
        if self.class_balance_.max() > 0.98:
            proba[votes.covered] = proba[votes.covered][:, ::-1]
        return proba


class AcceptsAnyVoters(Counting):
    def predict_proba(self, votes):
        self.check_fitted()
        return self._predict_proba(votes)


class CannotReadDistributions(Counting):
    def _predict_proba(self, votes):
        if votes.distribution is not None:
            raise TypeError("no distributions")
        return super()._predict_proba(votes)


class NeedsAllVotesAtOnce(Counting):
    def _fit(self, votes, class_balance):
        self.share = votes.covered.mean()


class TrustsTheMinority(Counting):
    def _predict_proba(self, votes):
        counts = votes.counts()
        close = counts.max(axis=1) < 0.6 * counts.sum(axis=1)
        counts[close] = (counts[close] > 0) * (votes.n_voters - counts[close])
        counts += 1e-3 * self.class_balance_
        return counts / counts.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (ForgetsToReturn, "fit must return self"),
        (ChangesItsOptions, "options changed"),
        (SpoilsTheBalance, "class balance was changed"),
        (Remembers, "second fit differs"),
        (NeverUnfitted, "NotFittedError"),
        (DoesNotNormalize, "sum to 1"),
        (PredictsItsOwn, "predict and predict_proba disagree"),
        (IgnoresTheBalance, "items without votes"),
        (WeighsByPosition, "items in another order"),
        (TrustsTheFirstVoter, "voters in another order"),
        (PrefersTheFirstClass, "classes in another order"),
        (VotesAgainst, "none of its voters gave"),
        (Underflows, "must be finite"),
        (BelievesTheBalance, "no warning says so"),
        (FlipsTheCommonClass, "most frequent class were lost"),
        (AcceptsAnyVoters, "VoteError"),
        (CannotReadDistributions, "no distributions"),
        (NeedsAllVotesAtOnce, "covered"),
        (TrustsTheMinority, "majority vote has"),
    ],
)
def test_a_label_model_that_breaks_the_contract_is_caught(broken, complaint):
    with pytest.raises(ContractError, match=complaint):
        check_label_model(broken())


def test_the_complaint_names_the_model_and_the_rule():
    with pytest.raises(ContractError, match=r"DoesNotNormalize .*probabilities are probabilities"):
        check_label_model(DoesNotNormalize())
