"""Dawid-Skene and one-coin."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wiesel import DawidSkene, MajorityVote, OneCoin, VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.errors import CollapseWarning, DataError, ParameterError
from wiesel.label_models.dawid_skene import PSEUDO_ITEMS
from wiesel.label_models.one_coin import one_coin_joint


def one_step_by_hand(dense, n_classes):
    """One M-step from the majority vote, without smoothing, written with loops."""
    n_items, n_voters = dense.shape
    proba = np.array([[np.mean(row[row >= 0] == c) for c in range(n_classes)] for row in dense])
    confusions = np.zeros((n_voters, n_classes, n_classes))
    for i in range(n_items):
        for j in range(n_voters):
            if dense[i, j] >= 0:
                confusions[j, :, dense[i, j]] += proba[i]
    return confusions / confusions.sum(axis=2, keepdims=True), proba.sum(axis=0)


def test_the_first_step_is_the_textbooks():
    dense = np.array(
        [[0, 0, 1], [1, 1, 1], [0, 1, -1], [2, 2, 0], [1, -1, 2], [0, 0, 0], [2, 1, 2]]
    )
    votes = VoteMatrix.from_dense(dense, ["a", "b", "c"])
    model = DawidSkene(smoothing=0.0, max_iter=1, abstain_as_vote=False).fit(votes)
    confusions, mass = one_step_by_hand(dense, 3)
    np.testing.assert_allclose(model.confusions_, confusions)
    mass += PSEUDO_ITEMS
    np.testing.assert_allclose(model.class_balance_, mass / mass.sum())


@pytest.mark.parametrize("smoothing", [0.0, 0.01, 2.0])
@pytest.mark.parametrize("silence", [False, True])
def test_the_evidence_never_decreases(smoothing, silence):
    for seed in range(3):
        votes, _ = make_votes(200, 7, 3, coverage=0.5, seed=seed)
        model = DawidSkene(
            smoothing=smoothing, abstain_as_vote=silence, tol=0.0, max_iter=60, stop_at_drift=False
        ).fit(votes)
        steps = np.diff(model.evidence_)
        assert len(steps) > 5
        assert steps.min() > -1e-7


def test_hard_items_do_not_drag_the_class_balance_along():
    rng = np.random.default_rng(0)
    truth = rng.random(1000) < 0.2
    # Nearly half of the voters take a hard item of the first class for one of the second.
    hard = rng.random(1000) < 0.3
    share_of_yes = np.where(truth, 0.8, np.where(hard, 0.45, 0.1))
    dense = (rng.random((1000, 10)) < share_of_yes[:, None]).astype(int)
    votes = VoteMatrix.from_dense(dense, ["no", "yes"])
    stopped = DawidSkene().fit(votes)
    converged = DawidSkene(stop_at_drift=False).fit(votes)
    right = [(model.predict(votes) == "yes") == truth for model in (stopped, converged)]
    assert converged.evidence_[: len(stopped.evidence_)] == stopped.evidence_
    assert stopped.class_balance_[1] < converged.class_balance_[1]
    assert right[0].mean() > right[1].mean() + 0.01


@pytest.mark.parametrize("learn", [False, True])
def test_the_evidence_of_one_coin_never_decreases(learn):
    votes, _ = make_votes(200, 7, 3, coverage=0.5, class_balance=[0.6, 0.3, 0.1], seed=1)
    model = OneCoin(tol=0.0, max_iter=60, learn_class_balance=learn, stop_at_drift=False).fit(votes)
    assert len(model.evidence_) > 5
    assert np.diff(model.evidence_).min() > -1e-7


def test_the_evidence_of_probabilistic_votes_never_decreases():
    array = np.random.default_rng(0).dirichlet([0.4, 0.4, 0.4], size=(60, 5))
    votes = VoteMatrix.from_proba(array, ["a", "b", "c"])
    for model in (DawidSkene(tol=0.0, max_iter=40), OneCoin(tol=0.0, max_iter=40)):
        assert np.diff(model.fit(votes).evidence_).min() > -1e-7


def test_one_coin_is_dawid_skene_with_tied_confusions():
    votes, _ = make_votes(300, 6, 4, coverage=0.6, seed=2)
    prior = np.full(4, 0.25)
    one_coin = OneCoin().fit(votes, prior)
    wrong = (1 - one_coin.accuracies_) / 3
    tied = np.where(
        np.eye(4, dtype=bool), one_coin.accuracies_[:, None, None], wrong[:, None, None]
    )
    dawid_skene = DawidSkene(abstain_as_vote=False).fit(votes, prior)
    dawid_skene.confusions_ = tied
    np.testing.assert_allclose(
        one_coin.predict_proba(votes), dawid_skene.predict_proba(votes), atol=1e-12
    )


def test_planted_confusions_are_found():
    confusions = np.array([[[0.9, 0.1], [0.3, 0.7]]] * 3 + [[[0.6, 0.4], [0.1, 0.9]]] * 4)
    votes, gold = make_votes(
        20_000, 7, 2, accuracies=confusions, coverage=0.9, class_balance=[0.7, 0.3], seed=3
    )
    model = DawidSkene().fit(votes)
    np.testing.assert_allclose(model.confusions_, confusions, atol=0.03)
    np.testing.assert_allclose(model.class_balance_, [0.7, 0.3], atol=0.02)
    np.testing.assert_allclose(model.confusions_.sum(axis=2), 1)
    right = (model.predict_proba(votes).argmax(axis=1) == gold).mean()
    majority = (MajorityVote().fit(votes).predict_proba(votes).argmax(axis=1) == gold).mean()
    assert right > majority + 0.01


def test_planted_accuracies_are_found_by_one_coin():
    accuracies = [0.6, 0.7, 0.8, 0.9, 0.75]
    votes, _ = make_votes(20_000, 5, 3, accuracies=accuracies, coverage=0.8, seed=4)
    np.testing.assert_allclose(OneCoin().fit(votes).accuracies_, accuracies, atol=0.02)


def test_a_given_class_balance_is_kept():
    votes, _ = make_votes(300, 5, 2, seed=5)
    for model in (DawidSkene(), OneCoin(), OneCoin(learn_class_balance=True)):
        np.testing.assert_allclose(model.fit(votes, [0.9, 0.1]).class_balance_, [0.9, 0.1])


def test_gold_items_keep_their_class_while_learning():
    # Two voters always disagree; gold says that the first one is right.
    dense = np.array([[0, 1], [1, 0]] * 20)
    votes = VoteMatrix.from_dense(dense, ["a", "b"], ids=[f"item {i}" for i in range(40)])
    gold = {f"item {i}": ("a", "b")[i % 2] for i in range(4)}
    model = DawidSkene(smoothing=0.1).fit(votes, gold=gold)
    assert list(model.predict(votes)) == ["a", "b"] * 20
    other = {item: {"a": "b", "b": "a"}[name] for item, name in gold.items()}
    assert list(model.fit(votes, gold=other).predict(votes)) == ["b", "a"] * 20


def test_gold_that_fits_no_item_is_refused(votes):
    with pytest.raises(DataError, match="no items 17"):
        DawidSkene().fit(votes, gold={17: "ham"})
    with pytest.raises(DataError, match=r"by id.*dict"):
        DawidSkene().fit(votes, gold=["ham", "spam", "ham", "spam"])
    with pytest.raises(DataError, match="'eggs'"):
        DawidSkene().fit(votes, gold={0: "eggs"})


def test_initial_confusions_decide_which_way_round_the_voters_are():
    votes, gold = make_votes(500, 6, 2, accuracies=0.9, coverage=1.0, seed=6)
    liars = np.tile([[0.1, 0.9], [0.9, 0.1]], (6, 1, 1))
    told = DawidSkene().fit(votes, initial_confusions=liars)
    assert (told.predict_proba(votes).argmax(axis=1) == gold).mean() < 0.05
    truthful = DawidSkene().fit(votes, initial_confusions=1 - liars)
    assert (truthful.predict_proba(votes).argmax(axis=1) == gold).mean() > 0.95


def test_initial_confusions_of_a_wrong_shape_are_refused(votes):
    with pytest.raises(ParameterError, match=r"\(3, 2, 2\).*true, voted"):
        DawidSkene().fit(votes, initial_confusions=np.ones((3, 2)))
    with pytest.raises(ParameterError, match="sum to 1"):
        DawidSkene().fit(votes, initial_confusions=np.zeros((3, 2, 2)))


def one_sided_voters() -> tuple[VoteMatrix, np.ndarray]:
    rng = np.random.default_rng(7)
    gold = rng.integers(0, 2, 4000)
    says = np.array([0, 0, 0, 1, 1, 1])
    # A voter speaks up for its class in 60 % of the items that have it, in 20 % of the others.
    speaks = rng.random((4000, 6)) < np.where(gold[:, None] == says, 0.6, 0.2)
    return VoteMatrix.from_dense(np.where(speaks, says, -1), ["a", "b"]), gold


def test_silence_of_one_sided_voters_counts():
    votes, gold = one_sided_voters()
    model = DawidSkene().fit(votes)
    assert model.silence_counts_
    assert model.confusions_.shape == (6, 2, 3)
    np.testing.assert_allclose(model.confusions_.sum(axis=2), 1)
    np.testing.assert_allclose(model.confusions_[0, :, 0], [0.6, 0.2], atol=0.06)
    right = (model.predict_proba(votes).argmax(axis=1) == gold)[votes.covered].mean()
    deaf = DawidSkene(abstain_as_vote=False).fit(votes)
    assert right > (deaf.predict_proba(votes).argmax(axis=1) == gold)[votes.covered].mean() + 0.1


@pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")  # of seven votes
@pytest.mark.parametrize(("both", "counts"), [(3, False), (4, False), (5, False), (2, True)])
def test_silence_counts_if_one_sided_voters_cast_most_of_the_votes(both: int, counts: bool):
    # Three voters that only say `a` cast one vote each; another one casts `both` votes.
    answers = [-1] * 5
    answers[:both] = [0, 1, 0, 1, 0][:both]
    one_sided = np.where(np.eye(5)[:, :3] == 1, 0, -1)
    votes = VoteMatrix.from_dense(np.column_stack([one_sided, answers]), ["a", "b"])
    assert DawidSkene().fit(votes).silence_counts_ is counts


def test_all_items_ending_in_one_class_is_said():
    votes, _ = one_sided_voters()
    with pytest.warns(
        CollapseWarning, match=r"100 % .* ended up as 'a'.*by majority vote it is 5\d %"
    ):
        OneCoin().fit(votes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DawidSkene().fit(votes)
        # Nobody ever votes for b: there is nothing to find, and nothing is lost.
        OneCoin(learn_class_balance=True).fit(votes.select([0, 1, 2]))


def test_silence_of_voters_for_all_classes_does_not_count():
    votes, _ = make_votes(300, 5, 2, seed=8)
    model = DawidSkene().fit(votes)
    assert not model.silence_counts_
    assert model.confusions_.shape == (5, 2, 2)


def test_a_silent_voter_is_like_the_average_voter():
    votes, _ = make_votes(300, 5, 2, coverage=[0.8, 0.8, 0.8, 0.8, 0.0], seed=9)
    model = DawidSkene().fit(votes)
    silent = model.confusions_[4]
    assert (np.diag(silent) > 0.6).all()
    assert OneCoin().fit(votes).accuracies_[4] == pytest.approx(0.5)


def test_wrong_options_are_refused(votes):
    with pytest.raises(ParameterError, match=r"max_iter.*at least 1"):
        DawidSkene(max_iter=0).fit(votes)
    with pytest.raises(ParameterError, match=r"abstain_as_vote.*auto"):
        DawidSkene(abstain_as_vote="yes").fit(votes)
    with pytest.raises(ParameterError, match="smoothing"):
        OneCoin(smoothing=-1).fit(votes)


def test_a_sure_voter_leaves_the_model_finite():
    joint = one_coin_joint(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    assert np.isfinite(joint.weights).all()


@pytest.mark.parametrize("gold", [np.array([0, 1]), pd.Series([0, 1])])
def test_gold_that_is_not_by_id_is_refused(gold: Any) -> None:
    votes = VoteMatrix.from_dense([[0, 1], [1, 1]], ["a", "b"])
    with pytest.raises(DataError, match="by id"):
        DawidSkene().fit(votes, gold=gold)
