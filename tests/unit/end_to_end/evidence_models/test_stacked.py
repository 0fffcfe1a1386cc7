"""A panel is combined as a few gold labels teach."""

import numpy as np
import pytest

from wiesel import Committee, LabelSpace, TwoStage, VoteMatrix
from wiesel.datasets import make_panel
from wiesel.end_to_end import GoldWeighted, Stacked
from wiesel.end_to_end.evidence_models.stacked import _Problem
from wiesel.errors import ParameterError, VoteError
from wiesel.label_models import CorrelatedVoters
from wiesel.nn import Linear

LABELS = LabelSpace("no", "yes")


def right(proba: np.ndarray, gold: np.ndarray) -> float:
    return float((proba.argmax(axis=1) == gold).mean())


def log_loss(proba: np.ndarray, gold: np.ndarray) -> float:
    return float(-np.log(proba[np.arange(len(gold)), gold]).mean())


@pytest.mark.parametrize("seed", range(3))
def test_two_hundred_labels_teach_how_to_combine_a_panel(seed: int) -> None:
    votes, gold = make_panel(2500, 20, seed=seed)
    few, rest = votes[:200], votes[200:]
    stacked = Stacked().fit(votes, gold=(few, gold[:200])).predict_proba(rest)
    weighted = GoldWeighted().fit(votes, gold=(few, gold[:200])).predict_proba(rest)
    alone = CorrelatedVoters().fit(votes).predict_proba(rest)
    dense = rest.dense()
    best = max((d[d >= 0] == gold[200:][d >= 0]).mean() for d in dense.T)
    assert right(stacked, gold[200:]) > max(best, right(weighted, gold[200:]))
    assert right(stacked, gold[200:]) > right(alone, gold[200:]) - 0.01
    assert log_loss(stacked, gold[200:]) < 0.6 * log_loss(alone, gold[200:])


def test_gold_corrects_a_panel_whose_majority_shares_an_error() -> None:
    """Seven voters repeat one that knows nothing; three others are right on 80 %."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 2000)

    def noisy(truth: np.ndarray, accuracy: float) -> np.ndarray:
        return np.where(rng.random(2000) < accuracy, truth, 1 - truth)

    rumor = rng.integers(0, 2, 2000)
    columns = [noisy(rumor, 0.9) for _ in range(7)] + [noisy(gold, 0.8) for _ in range(3)]
    votes = VoteMatrix.from_dense(np.stack(columns, axis=1), LABELS)
    model = Stacked().fit(votes, gold=(votes[:200], gold[:200]))
    assert right(CorrelatedVoters().fit(votes).predict_proba(votes), gold) < 0.6
    assert right(model.predict_proba(votes[200:]), gold[200:]) > 0.85


def test_offsets_follow_the_gold_classes() -> None:
    """All voters say yes too often: a habit that gold shows."""
    votes, gold = make_panel(2000, 10, seed=4)
    rare = np.flatnonzero((gold == 0) | (np.arange(2000) % 5 == 0))
    votes, gold = votes[rare], gold[rare]
    model = Stacked().fit(votes, gold=(votes[:200], gold[:200]))
    share = model.predict_proba(votes)[:, 1].mean()
    assert share == pytest.approx(gold.mean(), abs=0.06)


def test_labels_that_tell_the_voters_apart_choose_a_weak_penalty() -> None:
    """The strongest penalty is far worse on held-out items than the best, by many standard errors.

    Of two groups of three voters, one is right on 90 % and one on 50 %.
    """
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 1000)
    chance = [rng.integers(0, 2, 1000) for _ in range(3)]
    good = [np.where(rng.random(1000) < 0.9, gold, 1 - gold) for _ in range(3)]
    one_hot = np.eye(2)[np.stack(chance + good, axis=1)]
    problem = _Problem(np.full((1000, 2), np.log(0.5)), one_hot - 0.5, np.eye(2)[gold], 1.0)
    losses = []
    for penalty in (0.1, 300.0):
        learned = problem.solve(np.arange(500), penalty)
        proba = problem._log_proba(learned, problem.logs[500:], problem.standardized[500:])
        losses.append(-proba[np.arange(500), gold[500:]])
    difference = losses[1] - losses[0]
    assert difference.mean() > 4 * difference.std() / np.sqrt(500), "what the test supposes"
    assert problem.best_penalty() < 300
    alike = _Problem(problem.logs, problem.standardized, np.eye(2)[rng.integers(0, 2, 1000)], 1.0)
    assert alike.best_penalty() == 300, "if the voters tell nothing, nothing is learned"


def test_few_labels_do_not_choose_voters() -> None:
    votes, gold = make_panel(800, 12, seed=0)
    model = Stacked().fit(votes, gold=(votes[:8], gold[:8]))
    assert model.penalty_ == 300
    assert np.abs(model.evidence_).max() < 0.1


def test_networks_and_committees_learn_from_it() -> None:
    votes, gold = make_panel(300, 6, seed=0)
    X = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
    validation = (X[:60], gold[:60], votes[:60])
    fast = {"epochs": 1, "epoch_size": 64}
    model = TwoStage(Stacked(), Linear(4, 2), **fast).fit(X, votes, validation=validation)
    assert model.predict_proba(X).shape == (300, 2)
    members = [TwoStage(Stacked(), Linear(4, 2), **fast)]
    committee = Committee(Linear(4, 2), members=members)
    assert committee.fit(X, votes, validation=validation).predict_proba(X).shape == (300, 2)


def test_it_needs_gold_of_the_same_voters() -> None:
    votes, gold = make_panel(100, 4)
    with pytest.raises(ParameterError, match=r"Stacked needs votes on items with gold"):
        Stacked().fit(votes)
    with pytest.raises(VoteError):
        Stacked().fit(votes, gold=(votes.select(votes.voters[:2]), gold))
    with pytest.raises(ParameterError, match="prior_labels"):
        Stacked(prior_labels=0.0).fit(votes, gold=(votes, gold))
