"""On planted truth every label model beats majority vote, and Snorkel its own library's steps."""

from functools import cache

import numpy as np
import pytest

from wiesel import MajorityVote, Snorkel
from wiesel.datasets.synthetic import make_votes
from wiesel.label_models import REGISTRY

CASES = {
    "balanced": (20, 0.5, (0.5, 0.5)),
    "skewed": (20, 0.5, (0.8, 0.2)),
    "balanced, sparse": (100, 0.03, (0.5, 0.5)),
    "skewed, sparse": (100, 0.03, (0.8, 0.2)),
    "5 classes": (20, 0.5, (0.2,) * 5),
    "5 classes, skewed": (20, 0.5, (0.4, 0.25, 0.15, 0.12, 0.08)),
    "5 classes, sparse": (100, 0.03, (0.2,) * 5),
    "5 classes, skewed, sparse": (100, 0.03, (0.4, 0.25, 0.15, 0.12, 0.08)),
}


@cache
def planted(case, seed):
    n_voters, coverage, balance = CASES[case]
    # Where an item has ten votes instead of three, fewer items tell as much.
    n_items = 20_000 if "sparse" in case else 8_000
    votes, gold = make_votes(
        n_items, n_voters, len(balance), coverage=coverage, class_balance=balance, seed=seed
    )
    return votes, gold, balance


def accuracy(model, votes, gold):
    return (model.predict_proba(votes).argmax(axis=1) == gold)[votes.covered].mean()


@cache
def majority_accuracy(case, seed):
    votes, gold, balance = planted(case, seed)
    return accuracy(MajorityVote().fit(votes, balance), votes, gold)


@cache
def fitted(method, case, seed, informed=True):
    """The method with its defaults; `informed` says whether it is given the class balance."""
    votes, _, balance = planted(case, seed)
    return REGISTRY[method].cls().fit(votes, balance if informed else None)


pytestmark = pytest.mark.filterwarnings("ignore:.*outweighs all votes:wiesel.errors.WieselWarning")
"""A skewed class balance may outweigh a lone vote, and says so."""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", [name for name in REGISTRY if "vote" not in name])
def test_every_method_finds_the_truth_at_least_as_well_as_majority_vote(method, case):
    gains = []
    for seed in range(2):
        votes, gold, _ = planted(case, seed)
        found = accuracy(fitted(method, case, seed), votes, gold)
        gains.append(found - majority_accuracy(case, seed))
    assert np.mean(gains) > -0.002


@pytest.mark.slow
@pytest.mark.parametrize("informed", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_snorkel_beats_the_steps_of_the_snorkel_library(case, informed):
    true = np.linspace(0.6, 0.9, CASES[case][0])
    ahead = []
    for seed in range(2):
        votes, gold, _ = planted(case, seed)
        ours = fitted("snorkel", case, seed, informed)
        # Either is given the balance or estimates it in the same way: that is done once.
        theirs = Snorkel(optimizer="sgd", seed=seed).fit(votes, ours.class_balance_)
        errors = [np.abs(model.accuracies_ - true).mean() for model in (theirs, ours)]
        labels = [accuracy(model, votes, gold) for model in (ours, theirs)]
        ahead.append((errors[0] - errors[1], labels[0] - labels[1]))
    better_accuracies, better_labels = np.mean(ahead, axis=0)
    assert better_accuracies > -0.002
    assert better_labels > -0.002
