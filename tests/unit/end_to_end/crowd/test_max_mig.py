"""Max-MIG: the loss in all its divergences, the aggregator, and what it finds out."""

import numpy as np
import pytest
import torch
from crowd_tasks import QUICK, adversaries, busy_spammers, majority_right, network, right
from tiny_task import ONE_PASS, linear, tiny_task

from wiesel import MaxMIG, VoteMatrix
from wiesel.errors import ParameterError
from wiesel.nn import DIVERGENCES, mutual_information_loss

# Each divergence is sum over q of f(p / q); its f, to be differentiated by hand.
F = {
    "kl": lambda t: t * np.log(t),
    "reverse_kl": lambda t: -np.log(t),
    "pearson": lambda t: (t - 1) ** 2,
    "hellinger": lambda t: (1 - np.sqrt(t)) ** 2,
    "jensen_shannon": lambda t: t * np.log(t) - (t + 1) * np.log((t + 1) / 2),
}


@pytest.mark.parametrize("name", F)
def test_both_terms_of_a_divergence_follow_from_its_f(name: str):
    f, (gain, cost) = F[name], DIVERGENCES[name]
    for k in (0.2, 0.9, 1.0, 3.0):
        slope = (f(k + 1e-6) - f(k - 1e-6)) / 2e-6
        log_k = torch.tensor(k, dtype=torch.float64).log()
        assert gain(log_k).item() == pytest.approx(slope, abs=1e-5)
        assert cost(log_k).item() == pytest.approx(k * slope - f(k), abs=1e-5)


def test_total_variation_is_the_sign_made_soft():
    gain, cost = DIVERGENCES["total_variation"]
    log_k = torch.tensor([-20.0, 0.0, 20.0], requires_grad=True)
    assert gain(log_k).tolist() == cost(log_k).tolist() == [-0.5, 0.0, 0.5]
    gain(log_k).sum().backward()
    assert log_k.grad is not None
    assert log_k.grad[1] == 0.5


def test_every_divergence_has_a_test():
    assert F.keys() | {"total_variation"} == DIVERGENCES.keys()


@pytest.mark.parametrize("name", DIVERGENCES)
def test_answers_that_say_nothing_share_no_information(name: str):
    """K is 1 everywhere (oracle 8 of methods.md 19: for KL, -(1 + log 1) + 1 = 0)."""
    uniform = torch.full((5, 4), 0.25)
    assert mutual_information_loss(uniform, uniform, divergence=name).abs() < 1e-6


@pytest.mark.parametrize("name", DIVERGENCES)
def test_answers_that_agree_share_more_than_answers_that_do_not(name: str):
    sure = torch.eye(2).repeat(3, 1) * 0.8 + 0.1
    swapped = sure.roll(1, dims=0)
    agreeing = mutual_information_loss(sure, sure, divergence=name)
    independent = mutual_information_loss(sure, torch.full((6, 2), 0.5), divergence=name)
    assert agreeing < independent
    # Renaming the classes of both changes nothing: only the start tells which is which.
    renamed = mutual_information_loss(sure.flip(1), sure.flip(1), divergence=name)
    assert torch.allclose(agreeing, renamed)
    assert mutual_information_loss(sure, swapped, divergence=name) > agreeing


def test_the_first_soft_labels_are_the_product_of_the_counted_confusions():
    votes = VoteMatrix.from_dense([[0, 0], [0, 1], [1, 1], [1, -1]], ["a", "b"])
    X = np.eye(4, dtype=np.float32)[:, :3]
    model = MaxMIG(linear(), **ONE_PASS, epochs=1, lr=0.0, batch_size=4).fit(X, votes)
    # Vote shares are (1, 0), (1/2, 1/2), (0, 1), (0, 1). Voter 0 said "a" on items 0 and 1:
    # of class a it has met 1.5 items, all called "a"; of class b 2.5, of which 0.5 were.
    voter_0_a = np.log(np.array([1.5 / 1.5, 0.5 / 2.5]) + 0.01)
    voter_1_a = np.log(np.array([1.0 / 1.5, 0.0]) + 0.01)
    logits = voter_0_a + voter_1_a
    expected = np.exp(logits) / np.exp(logits).sum()
    assert np.allclose(model.soft_labels(X, votes)[0], expected, atol=1e-5)


def test_whoever_only_ever_gives_one_answer_says_something_by_giving_it():
    votes = VoteMatrix.from_dense([[0, -1], [0, -1], [0, 1], [-1, 1]], ["a", "b"])
    X = np.eye(4, dtype=np.float32)[:, :3]
    model = MaxMIG(linear(), **ONE_PASS, epochs=1, lr=0.0, batch_size=4).fit(X, votes)
    # Vote shares are (1, 0), (1, 0), (1/2, 1/2), (0, 1). Of the votes cast in class a, 2.5 of 3
    # are voter 0's "a"; in class b, 0.5 of 2: 0.3 times as often.
    logits = np.log(np.array([1.0, 0.3]) + 0.01)
    expected = np.exp(logits) / np.exp(logits).sum()
    assert np.allclose(model.soft_labels(X, votes)[0], expected, atol=1e-5)


def test_an_item_without_votes_gets_the_prior():
    X, votes, _ = tiny_task()
    balance = {"class_0": 0.8, "class_1": 0.2}
    model = MaxMIG(linear(), **ONE_PASS, epochs=1, class_balance=balance).fit(X, votes)
    silent = VoteMatrix.from_dense(np.full((1, 4), -1), votes.labels, votes.voters)
    assert np.allclose(model.soft_labels(X[:1], silent), [[0.8, 0.2]])


def test_the_joint_answer_combines_the_end_model_and_the_votes():
    X, votes, _ = tiny_task()
    model = MaxMIG(linear(), **ONE_PASS, epochs=2, lr=0.01).fit(X, votes)
    product = model.predict_proba(X) * model.soft_labels(X, votes)
    expected = product / product.sum(axis=1, keepdims=True)
    assert np.allclose(model.joint_proba(X, votes), expected, atol=1e-6)


@pytest.mark.parametrize("make_task", [adversaries, busy_spammers])
def test_it_beats_majority_vote_where_workers_mislead(make_task):
    assert right(MaxMIG(network(), **QUICK), make_task()) > majority_right(make_task) + 0.1


def test_unknown_divergences_and_starts_are_refused():
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match="'hellinger'"):
        MaxMIG(linear(), divergence="helinger").fit(X, votes)
    with pytest.raises(ParameterError, match="dawid_skene"):
        MaxMIG(linear(), start="dawid").fit(X, votes)
