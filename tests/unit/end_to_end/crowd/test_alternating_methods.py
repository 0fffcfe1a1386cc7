"""Raykar, AggNet and MBEM: EM by hand, and crowds on which it must win."""

import numpy as np
import pytest
import torch
from crowd_tasks import (
    QUICK,
    adversaries,
    busy_spammers,
    confused_class,
    majority_right,
    network,
    right,
    untrained,
)
from tiny_task import ONE_PASS, linear, tiny_task
from torch import nn

from wiesel import MBEM, AggNet, DeepLogic, Raykar, VoteMatrix
from wiesel.datasets.synthetic import make_votes
from wiesel.end_to_end.crowd.crowd_model import CountedObjective, all_entries
from wiesel.end_to_end.crowd.deep_logic import VirtualEvidence
from wiesel.end_to_end.crowd.voter_models import CountedConfusions
from wiesel.end_to_end.plan import default_epochs
from wiesel.end_to_end.vote_payloads import EntryPayload
from wiesel.errors import ParameterError


def test_confusions_are_expected_counts():
    votes = VoteMatrix.from_dense([[0, 0], [1, -1], [1, 1]], ["a", "b"])
    soft = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    counted = CountedConfusions.of(all_entries(votes), soft, n_voters=2, smoothing=0.0)
    # Voter 0 has met 1.5 items of a (1 called a, 0.5 called b) and 1.5 of b, all called b.
    expected = [[[1 / 1.5, 0.5 / 1.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    assert np.allclose(counted.confusions(torch.tensor([0, 1])), expected, atol=1e-5)
    said = counted.log_votes(torch.tensor([0]), torch.tensor([1]))
    assert np.allclose(said.exp(), [[0.5 / 1.5, 1.0]], atol=1e-5)


def test_smoothing_pulls_a_voter_without_votes_to_the_crowd():
    votes = VoteMatrix.from_dense([[0, -1], [1, -1], [1, -1]], ["a", "b"])
    soft = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    counted = CountedConfusions.of(all_entries(votes), soft, n_voters=2, smoothing=1.0)
    assert np.allclose(counted.confusions(torch.tensor([1])), [[[0.5, 0.5], [0, 1]]], atol=1e-5)
    assert counted.counts.shape == (3, 2), "two pairs occur, and one row is for all others"


def test_a_probabilistic_vote_counts_by_its_shares():
    votes = VoteMatrix.from_proba([[[0.75, 0.25]], [[0.5, 0.5]]], ["a", "b"])
    entries, soft = all_entries(votes), torch.tensor([[1.0, 0.0], [0.2, 0.8]])
    counted = CountedConfusions.of(entries, soft, n_voters=1, smoothing=0.0)
    # Of 1.2 items of a, 0.75 + 0.2 * 0.5 are called a; of 0.8 items of b, 0.8 * 0.5.
    expected = [[0.85 / 1.2, 0.35 / 1.2], [0.5, 0.5]]
    assert np.allclose(counted.confusions(torch.tensor([0])), [expected], atol=1e-5)
    evidence = VirtualEvidence(1, 2, confidence=0.9, strength=2.0)
    evidence.count(entries, soft)
    # Right: 0.75 + 0.2 * 0.5 + 0.8 * 0.5 of two votes, and nine tenths of two more.
    accuracy = (1.25 + 0.9 * 2) / 4
    assert evidence.weights.item() == pytest.approx(np.log(accuracy / (1 - accuracy)), abs=1e-5)


def test_with_an_end_model_that_knows_nothing_em_never_lowers_the_likelihood():
    """Oracle 7 of methods.md 19: then it is Dawid-Skene with equally frequent classes."""
    votes, _ = make_votes(120, 6, n_classes=3, coverage=0.6, seed=4)
    objective = CountedObjective(nn.Linear(1, 3), votes, smoothing=0.0, m_epochs=1)
    answers, knows_nothing = all_entries(votes), torch.full((120, 3), np.log(1 / 3))
    likelihood = []
    for _ in range(15):
        evidence = objective.vote_evidence(answers)
        likelihood.append(torch.logsumexp(evidence + np.log(1 / 3), dim=1).sum().item())
        objective.alternate(knows_nothing, answers)
    assert likelihood[-1] > likelihood[0] + 1
    assert (np.diff(likelihood) > -1e-3).all()


def test_the_e_step_is_the_end_model_times_the_votes():
    votes = VoteMatrix.from_dense([[0], [1], [-1]], ["a", "b"])
    objective = CountedObjective(nn.Linear(1, 2), votes, smoothing=0.0, m_epochs=1)
    objective.voters.count(all_entries(votes), torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5]]))
    proba = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
    # P(vote a | class) is 0.8 / 1.2 and 0.2 / 0.8, so the first item is a with 8/11.
    objective.alternate(proba.log(), all_entries(votes))
    assert np.allclose(objective.soft_labels[0], [8 / 11, 3 / 11], atol=1e-3)
    assert np.allclose(objective.soft_labels[2], [0.9, 0.1], atol=1e-3), "no votes: the end model"


def test_mbem_believes_hard_answers_only():
    votes = VoteMatrix.from_dense([[0], [1], [1], [0]], ["a", "b"])
    X = np.zeros((4, 3), dtype=np.float32)
    objective = untrained(MBEM(linear()), X, votes)
    unsure = torch.tensor([[0.51, 0.49], [0.49, 0.51], [0.51, 0.49], [0.51, 0.49]])
    objective.voters.smoothing = 0.0
    objective.alternate(unsure.log(), all_entries(votes))
    # Answers a, b, a, a: of class a the voter called two a and one b; of class b it called it b.
    expected = [[2 / 3, 1 / 3], [0.0, 1.0]]
    assert np.allclose(objective.voters.confusions(torch.tensor([0]))[0], expected, atol=1e-4)
    assert np.allclose(objective.class_balance, [4 / 6, 2 / 6])
    assert np.allclose(objective.soft_labels[0], [1.0, 0.0], atol=1e-4)
    assert np.allclose(objective.soft_labels[1], [4 / 10, 6 / 10], atol=1e-3)


def test_soft_labels_are_found_again_only_every_m_epochs():
    X, votes, _ = tiny_task()
    objective = CountedObjective(linear(), votes, smoothing=1.0, m_epochs=3)
    data, first = _data(X, votes), objective.soft_labels.clone()
    changes = []
    for epoch in range(1, 8):
        objective.start_epoch(epoch, data)
        changes.append(not torch.equal(first, objective.soft_labels))
        first = objective.soft_labels.clone()
    assert changes == [False, False, False, True, False, False, True]


@pytest.mark.parametrize("cls", [Raykar, AggNet, MBEM, DeepLogic])
def test_the_default_epochs_contain_an_e_step(cls):
    assert cls(linear()).m_epochs < default_epochs(2, gold_chooses=False)


@pytest.mark.parametrize("cls", [Raykar, AggNet])
@pytest.mark.parametrize("make_task", [adversaries, busy_spammers])
def test_em_beats_majority_vote_where_workers_mislead(cls, make_task):
    assert right(cls(network(), **QUICK), make_task()) > majority_right(make_task) + 0.1


@pytest.mark.parametrize("make_task", [adversaries, confused_class])
def test_mbem_beats_majority_vote_where_the_network_can_tell(make_task):
    assert right(MBEM(network(), **QUICK), make_task()) > majority_right(make_task) + 0.05


def test_two_classes_give_sensitivity_and_specificity():
    confusions = np.array([[[0.9, 0.1], [0.4, 0.6]]] * 2 + [[[0.7, 0.3], [0.05, 0.95]]] * 3)
    votes, gold = make_votes(2000, 5, accuracies=confusions, coverage=0.8, seed=2)
    X = (gold[:, None] + 0.3 * np.random.default_rng(0).standard_normal((2000, 3))).astype("f4")
    model = Raykar(linear(), **ONE_PASS, epochs=20, lr=0.02).fit(X, votes)
    found = model.confusions()
    assert np.abs(found - confusions).max() < 0.05


def test_wrong_options_are_refused():
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match="m_epochs"):
        Raykar(linear(), m_epochs=0).fit(X, votes)
    with pytest.raises(ParameterError, match="smoothing"):
        AggNet(linear(), smoothing=-1).fit(X, votes)


def _data(X, votes):
    from wiesel.training import TrainingData, as_inputs

    return TrainingData(as_inputs(X), payload=EntryPayload(votes))
