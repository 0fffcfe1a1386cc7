"""OneCoin keeps classes in their places, or says that it may not."""

import warnings

import numpy as np
import pytest

from wiesel import MajorityVote, OneCoin
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import CollapseWarning, WieselWarning

MIRRORED = ((3, 1.0, 100, 6), (5, 0.6, 60, 1), (5, 0.6, 80, 5))


@pytest.mark.parametrize(("n_voters", "coverage", "n_items", "seed"), MIRRORED)
def test_few_skewed_items_do_not_end_in_the_mirror_image(n_voters, coverage, n_items, seed):
    accuracies = np.linspace(0.55, 0.7, n_voters)
    for rare in (0.05, 0.2):
        votes, gold = make_votes(
            n_items,
            n_voters,
            coverage=coverage,
            accuracies=accuracies,
            class_balance=(1 - rare, rare),
            seed=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WieselWarning)
            model = OneCoin().fit(votes)
            right = (model.predict_proba(votes).argmax(axis=1) == gold).mean()
        majority = MajorityVote().fit(votes).predict_proba(votes).argmax(axis=1) == gold
        assert right > majority.mean() - 0.25
        n_votes = np.bincount(votes.voter_index, minlength=n_voters)
        assert model.accuracies_ @ n_votes > n_votes.sum() / 2


def test_a_given_class_balance_that_turns_the_classes_round_is_named():
    votes, _ = make_votes(200, 3, accuracies=0.6, class_balance=(0.8, 0.2), coverage=1.0, seed=1)
    with pytest.warns(CollapseWarning, match=r"'class_0' 0\.1, 'class_1' 0\.9.*swapped"):
        OneCoin().fit(votes, [0.1, 0.9])
