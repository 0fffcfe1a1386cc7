import math

import numpy as np
import pytest
import torch
from torch import nn

from wiesel import VoteMatrix
from wiesel.errors import ParameterError
from wiesel.nn.encoders import (
    EncoderLayers,
    VoteEncoder,
    Weighing,
    accuracies_of,
    encode_votes,
    encoded_width,
    label_logits,
    mlp_encoder,
    scale,
)


def tensor_of(votes: VoteMatrix) -> torch.Tensor:
    dense = torch.from_numpy(votes.one_hot().toarray())
    return dense.view(votes.n_items, votes.n_voters, votes.n_classes)


def three_classes() -> torch.Tensor:
    return tensor_of(VoteMatrix.from_dense([[0, 1, 2], [-1, 2, -1]], ["a", "b", "c"]))


def test_one_hot_encoding_has_a_flag_for_every_voter_that_abstains():
    encoded = encode_votes(three_classes(), "one_hot")
    assert encoded.shape == (2, encoded_width(3, 3, "one_hot"))
    flags = encoded[:, 9:]
    assert flags.tolist() == [[0, 0, 0], [1, 0, 1]]
    assert encoded[1, :9].tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0]


def test_index_encoding_is_the_class_index_and_minus_one_for_abstain():
    assert encode_votes(three_classes(), "index").tolist() == [[0, 1, 2], [-1, 2, -1]]


def test_signed_encoding_is_for_two_classes_only(votes: VoteMatrix):
    signed = encode_votes(tensor_of(votes), "signed")
    assert signed.tolist() == [[-1, -1, 0], [-1, 1, 0], [1, 1, 1], [0, 1, -1]]
    with pytest.raises(ParameterError, match="two classes; there are 3"):
        encode_votes(three_classes(), "signed")


@pytest.mark.parametrize("encoding", ["one_hot", "signed", "index"])
def test_features_follow_the_votes(votes: VoteMatrix, encoding: str):
    features = torch.arange(8.0).view(4, 2)
    alone = encode_votes(tensor_of(votes), encoding)
    both = encode_votes(tensor_of(votes), encoding, features)
    assert torch.equal(both, torch.cat([alone, features], dim=1))
    assert alone.shape[1] == encoded_width(3, 2, encoding)


def test_equal_scores_share_tau_2_equally():
    assert torch.allclose(accuracies_of(torch.ones(2, 5), tau_2=3.0), torch.full((2, 5), 0.6))


def test_scaling_the_scores_is_the_same_as_scaling_tau_1():
    scores = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(accuracies_of(4 * scores, tau_1=0.5), accuracies_of(scores, tau_1=2.0))


def test_the_other_activations_are_those_of_the_paper():
    scores = torch.tensor([[-1.0, 0.0, 2.0]])
    sigmoid = accuracies_of(scores, "sigmoid", tau_2=2.0)
    assert torch.allclose(sigmoid, 2 * torch.sigmoid(scores))
    assert torch.allclose(
        accuracies_of(scores, "relu", tau_2=9.0), torch.tensor([[0, 0, 2]]) + 1e-5
    )
    assert torch.allclose(accuracies_of(scores, "tanh", tau_2=9.0), torch.tanh(scores))


def test_class_conditional_softmax_is_over_voters_for_each_class():
    accuracies = accuracies_of(torch.randn(3, 4, 2), tau_2=2.0)
    assert torch.allclose(accuracies.sum(dim=1), torch.full((3, 2), 2.0))


def test_class_conditional_logits_use_the_accuracy_for_the_class_voted():
    accuracies = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]])  # two voters, two classes
    votes = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    assert torch.allclose(label_logits(accuracies, votes), torch.tensor([[0.9, 0.8]]))


def test_equal_class_conditional_accuracies_give_the_unconditional_logits():
    accuracies = torch.rand(5, 3)
    votes = torch.rand(5, 3, 4)
    conditional = accuracies.unsqueeze(2).expand(5, 3, 4)
    assert torch.allclose(label_logits(accuracies, votes), label_logits(conditional, votes))


@pytest.mark.parametrize("n_classes", [1, 2, 3, 9])
def test_logits_and_their_gradients_do_not_depend_on_how_they_are_summed(n_classes):
    accuracies = torch.rand(2, 5, 3, dtype=torch.float64, requires_grad=True)
    votes = torch.rand(2, 5, 3, n_classes, dtype=torch.float64)
    expected = torch.einsum("kiv,kivc->kic", accuracies, votes)
    assert torch.allclose(label_logits(accuracies, votes), expected)
    assert torch.autograd.gradcheck(lambda own: label_logits(own, votes), accuracies)


@pytest.mark.parametrize(
    ("hidden", "batch_norm", "kinds"),
    [
        ((), True, ["Linear"]),
        ((4,), True, ["Linear", "BatchNorm1d", "ReLU", "Dropout", "Linear"]),
        ((4,), False, ["Linear", "ReLU", "Dropout", "Linear"]),
        ((4, 3), False, ["Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]),
    ],
)
def test_the_encoder_network_has_the_layers_asked_for(hidden, batch_norm, kinds):
    network = mlp_encoder(6, 2, EncoderLayers(hidden, batch_norm, dropout=0.1))
    assert [type(layer).__name__ for layer in network] == kinds
    assert network.eval()(torch.zeros(3, 6)).shape == (3, 2)


def test_a_vote_encoder_turns_scores_into_accuracies_for_voters_and_classes():
    encoder = VoteEncoder(nn.Linear(5, 6), 3, Weighing(tau_2=2.0, class_conditional=True))
    accuracies = encoder(torch.randn(4, 5), torch.ones(4, 3, 2))
    assert accuracies.shape == (4, 3, 2)
    assert torch.allclose(accuracies.sum(dim=1), torch.full((4, 2), 2.0))


def test_with_voting_only_a_voter_that_abstains_gets_no_weight(votes: VoteMatrix):
    encoder = VoteEncoder(nn.Linear(5, 3), 3, Weighing(tau_2=2.0, voting_only=True))
    accuracies = encoder(torch.randn(4, 5), tensor_of(votes))
    voted = torch.from_numpy(votes.dense() >= 0)
    assert (accuracies[~voted] == 0).all()
    assert torch.allclose(accuracies.sum(dim=1), torch.full((4,), 2.0))


def test_with_voting_only_an_item_without_votes_has_finite_weights():
    encoder = VoteEncoder(nn.Linear(5, 3), 3, Weighing(tau_2=2.0, voting_only=True))
    assert torch.isfinite(encoder(torch.randn(1, 5), torch.zeros(1, 3, 2))).all()


@pytest.mark.parametrize(
    ("tau_2", "number"),
    [("sqrt_voters", 4.0), ("sqrt_input", 5.0), ("voters", 16.0), (2, 2.0)],
)
def test_tau_2_is_a_word_or_a_number(tau_2, number):
    assert scale(tau_2, n_voters=16, n_inputs=25) == number
    assert math.isfinite(scale(tau_2, 1, 1))


def test_a_probabilistic_vote_that_is_certain_is_encoded_as_a_plain_vote(votes: VoteMatrix):
    proba = np.where(votes.dense()[:, :, None] == np.arange(2), 1.0, 0.0)
    certain = VoteMatrix.from_proba(proba, votes.labels, votes.voters)
    for encoding in ("one_hot", "signed", "index"):
        plain = encode_votes(tensor_of(votes), encoding)
        assert torch.equal(encode_votes(tensor_of(certain), encoding), plain)
