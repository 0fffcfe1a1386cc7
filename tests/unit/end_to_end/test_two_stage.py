import numpy as np
import pytest
import torch
from sklearn.base import clone
from tiny_task import ONE_PASS, linear, same_weights, tiny_task, weights_of
from torch import nn

from wiesel import MajorityVote, Supervised, TwoStage, VoteMatrix
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.errors import FeatureError, NotFittedError, ParameterError, VoteError
from wiesel.tasks.one_label import chosen_class_balance
from wiesel.training import Validation, as_inputs

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")


def two_stage(**options) -> TwoStage:
    quick = {**ONE_PASS, "epochs": 3, "lr": 0.05, "batch_size": 16}
    return TwoStage(MajorityVote(), linear(), **{**quick, **options})


def test_the_end_model_learns_the_label_model_s_soft_labels():
    X, votes, _ = tiny_task(n_items=200)
    model = two_stage(epochs=30).fit(X, votes)
    expected = MajorityVote().fit(votes).predict_proba(votes)
    assert np.allclose(model.soft_labels(X, votes), expected)
    voted = expected.argmax(axis=1)[expected.max(axis=1) > 0.5]
    predicted = model.predict_proba(X).argmax(axis=1)[expected.max(axis=1) > 0.5]
    assert (voted == predicted).mean() > 0.7


def test_the_first_step_is_the_gradient_of_the_cross_entropy():
    """One batch, one step of Adam: every weight moves by lr against its gradient's sign."""
    X, votes, _ = tiny_task()
    model = two_stage(epochs=1, batch_size=1000, weight_decay=0.0).fit(X, votes)
    net, covered = linear(), votes.covered
    targets = torch.from_numpy(MajorityVote().fit(votes).predict_proba(votes)[covered]).float()
    log_proba = torch.log_softmax(net(torch.from_numpy(X[covered])), dim=1)
    (-(targets * log_proba).sum(dim=1).mean()).backward()
    moved = model.end_model_.weight - net.weight
    assert torch.allclose(moved, -0.05 * net.weight.grad.sign(), atol=1e-4)


@pytest.mark.parametrize(
    ("epochs", "rows", "n_epochs", "kept"),
    [
        (None, [0] * 15 + [1] * 15, 20, 1),
        (None, [0] * 14 + [1] * 15, 8, 8),
        (None, [0] * 30, 8, 8),
        (3, [0, 1], 3, 1),
    ],
    ids=["enough", "too few", "one class", "epochs given"],
)
def test_few_gold_items_or_one_class_choose_no_epoch(
    epochs: int | None, rows: list[int], n_epochs: int, kept: int
):
    """All epochs have the same score, because the network does not change: the first is best."""
    X, votes, gold = tiny_task()
    places = np.array([np.flatnonzero(gold == 0)[0], np.flatnonzero(gold == 1)[0]])[rows]
    model = two_stage(epochs=epochs, lr=1e-9).fit(X, votes, validation=(X[places], gold[places]))
    assert (len(model.history_), model.history_.best_epoch) == (n_epochs, kept)


def test_items_without_votes_are_not_trained_on():
    X, votes, _ = tiny_task(coverage=0.3)
    garbage = X.copy()
    garbage[~votes.covered] = 1e6
    one, other = two_stage().fit(X, votes), two_stage().fit(garbage, votes)
    assert same_weights(weights_of(one.end_model_), weights_of(other.end_model_))
    assert one.trained_on_["items"] == votes.covered.sum()


def test_hard_labels_are_the_most_probable_class():
    X, votes, _ = tiny_task()
    hard = two_stage(hard=True).fit(X, votes)
    winners = np.eye(2)[MajorityVote().fit(votes).predict_proba(votes).argmax(axis=1)]
    known = np.where(votes.covered, winners.argmax(axis=1), -1)
    gold = Supervised(
        linear(), labels=votes.labels, **ONE_PASS, epochs=3, lr=0.05, batch_size=16
    ).fit(X, known)
    assert same_weights(weights_of(hard.end_model_), weights_of(gold.end_model_))


def test_the_mutual_information_loss_trains_too():
    X, votes, _ = tiny_task()
    model = two_stage(loss="mig").fit(X, votes)
    assert np.isfinite(model.history_.column("loss_end_model")).all()


def test_the_user_s_label_model_stays_unfitted():
    X, votes, _ = tiny_task()
    label_model = MajorityVote()
    model = TwoStage(label_model, linear(), **ONE_PASS, epochs=1).fit(X, votes)
    assert model.label_model is label_model
    with pytest.raises(NotFittedError):
        label_model.predict(votes)
    assert model.label_model_.predict(votes).shape == (48,)


def test_options_of_the_label_model_are_reached_by_name():
    model = two_stage().set_params(label_model__hard=True, epochs=9)
    assert model.label_model.hard
    assert model.get_params()["label_model__hard"] is True
    assert clone(model).label_model.hard
    with pytest.raises(ParameterError, match="MajorityVote has no option 'hart'"):
        model.set_params(label_model__hart=True)
    with pytest.raises(ParameterError, match="'end_model' of this TwoStage is a Linear"):
        model.set_params(end_model__bias=False)


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (TwoStage("majority_vote", linear()), ParameterError, "label model such as MajorityVote"),
        (TwoStage(linear(), MajorityVote()), ParameterError, "first argument of TwoStage"),
        (TwoStage(MajorityVote(ties="coin"), linear()), ParameterError, "'ties' option"),
        (two_stage(loss="l2"), ParameterError, "'loss' option of TwoStage.*'ce', 'mig'"),
        (TwoStage(MajorityVote(), nn.Linear(9, 2)), FeatureError, "cannot read X"),
    ],
)
def test_what_cannot_work_is_refused_before_training(model, error, words: str):
    X, votes, _ = tiny_task()
    with pytest.raises(error, match=words):
        model.fit(X, votes)
    assert not hasattr(model, "labels_")


def test_other_voters_are_refused():
    X, votes, _ = tiny_task()
    model = two_stage().fit(X, votes)
    with pytest.raises(VoteError, match="missing: 'voter_3'"):
        model.soft_labels(X, votes.select(votes.voters[:3]))


def test_an_explanation_says_what_leaving_out_each_vote_would_change():
    X, votes, _ = tiny_task()
    model = two_stage().fit(X, votes)
    item = int(np.flatnonzero(votes.votes_per_item >= 2)[0])
    explanation = model.explain(X[item], votes[item])
    assert {push.voter for push in explanation.pushes} == {
        votes.voters[voter] for voter in votes[item].voter_index
    }
    soft_label = model.soft_labels(X[[item]], votes[item])[0]
    assert explanation.soft_label == pytest.approx(tuple(soft_label))
    for push in explanation.pushes:
        towards = push.vote == explanation.label
        assert push.effect == 0 or (push.effect > 0) == towards


def test_mutual_information_does_not_mind_which_share_of_the_votes_a_class_got():
    votes, gold = make_votes(600, n_voters=5, accuracies=0.8, coverage=0.6, seed=2)
    X = make_features(gold, n_features=4, separation=1.5, seed=2)
    # Nine in ten of the votes for the second class are lost.
    dense = votes.dense()
    dense[(dense == 1) & (np.random.default_rng(0).random(dense.shape) < 0.9)] = -1
    skewed = VoteMatrix.from_dense(dense, votes.labels)
    accuracy = {}
    for loss, balance in (("ce", None), ("mig", None), ("mig", [0.9, 0.1])):
        options = {**ONE_PASS, "epochs": 40, "lr": 0.01, "class_balance": balance}
        model = TwoStage(MajorityVote(), linear(4, 2), loss=loss, **options).fit(X, skewed)
        accuracy[loss, balance is None] = (model.predict_proba(X).argmax(axis=1) == gold).mean()
    assert accuracy["mig", True] > accuracy["ce", True] + 0.05
    assert accuracy["mig", False] < accuracy["mig", True], "the balance that is given counts"


@pytest.mark.parametrize("n_gold", [2, 300])
def test_gold_items_are_added_to_the_votes(n_gold: int):
    votes = VoteMatrix.from_dense([[0], [0], [1], [2]], ["a", "b", "c"])
    gold = np.zeros(n_gold, dtype=np.int64)
    held_out = Validation(as_inputs(np.zeros((n_gold, 1))), gold, 3)
    found = chosen_class_balance("auto", votes.labels, votes, held_out)
    # Half of the votes are for a: they count as 45 items, of which 22.5 are a.
    counts = np.array([n_gold + 22.5, 11.25, 11.25])
    assert found == pytest.approx(counts / counts.sum(), abs=1e-3)
