"""Choosing among models without gold."""

import numpy as np
import pytest
from tiny_task import linear, tiny_task

from wiesel import MajorityVote, TwoStage, VoteMatrix
from wiesel.end_to_end.blind_choice import choose_without_gold, noisy_losses
from wiesel.errors import ParameterError

QUICK = {"epochs": 4, "batch_size": 16, "epoch_size": None, "weight_average": None}


def candidates(*rates: float) -> list[TwoStage]:
    return [TwoStage(MajorityVote(), linear(), lr=rate, **QUICK) for rate in rates]


def test_a_model_that_learns_is_chosen_before_one_that_does_not():
    X, votes, _ = tiny_task(n_items=120, n_voters=6)
    models = candidates(0.0, 0.05, 1e-6)
    choice = choose_without_gold(models, X, votes)
    assert choice.best == 1
    assert choice.ranks[1] < min(choice.ranks[0], choice.ranks[2])
    assert "held_out_voters_log" in choice.losses
    assert all(values.shape == (3,) for values in choice.losses.values())
    assert not any(hasattr(model, "end_model_") for model in models)


def test_the_same_seed_gives_the_same_choice_and_few_voters_are_not_held_out():
    X, votes, _ = tiny_task()
    once, twice = (choose_without_gold(candidates(0.0, 0.05), X, votes, seed=3) for _ in range(2))
    assert np.array_equal(once.ranks, twice.ranks)
    assert "held_out_voters_log" not in once.losses
    assert "answers_error" in once.losses


def test_losses_by_hand():
    votes = VoteMatrix.from_dense([[0, 0, 1], [1, 1, 1], [0, -1, -1]], ["no", "yes"])
    proba = np.array([[0.8, 0.2], [0.6, 0.4], [0.5, 0.5]])
    losses = noisy_losses(proba, votes)
    assert losses["majority_error"] == pytest.approx(1 / 3)
    assert losses["majority_log"] == pytest.approx(-np.log([0.8, 0.4, 0.5]).mean())
    # Items 0, 1 and 2 agree by 2/3, 1 and 1; item 1 is wrong.
    assert losses["majority_agreed_error"] == pytest.approx(1 / (2 / 3 + 2))
    # Wrong are one vote on item 0, and three on item 1, of seven.
    assert losses["answers_error"] == pytest.approx(4 / 7)


def test_nothing_to_choose_from_is_refused():
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match="no models"):
        choose_without_gold([], X, votes)
    with pytest.raises(ParameterError, match="at least two folds; got folds=1"):
        choose_without_gold(candidates(0.1), X, votes, folds=1)
