"""ImplyLoss and ASTRA: their formulas, gold labels among the items, and planted rules."""

import numpy as np
import pytest
import torch
from crowd_tasks import untrained
from tiny_task import linear, tiny_task

from wiesel import ASTRA, ImplyLoss, VoteMatrix
from wiesel.datasets.synthetic import make_features
from wiesel.end_to_end.rules.astra import teacher_labels
from wiesel.end_to_end.rules.imply_loss import agreed_labels
from wiesel.end_to_end.vote_payloads import EntryPayload, vote_entries
from wiesel.errors import CollapseWarning, FeatureError, ParameterError, WieselError
from wiesel.training import TrainingData

QUICK = {"epochs": 15, "lr": 0.02, "batch_size": 32, "epoch_size": None, "weight_average": None}
VOTES = VoteMatrix.from_dense([[0, 1, -1], [1, 1, 0], [-1, -1, -1]], ["no", "yes"], list("abc"))


def test_the_teacher_mixes_votes_student_and_filler_as_in_the_paper():
    entries = vote_entries(VOTES.one_hot(), 2)
    proba = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    weights = torch.tensor([0.5, 1.0, 0.2, 0.4, 0.6, 0.8, 0.0, 0.5])
    found = teacher_labels(proba, entries, weights)
    # Item 0: a says no with 0.5, b yes with 1, the student counts 0.8; 3 - 2.3 is spread.
    no, yes, filler = 0.5 + 0.8 * 0.9, 1.0 + 0.8 * 0.1, 0.7 / 2
    assert found[0].tolist() == pytest.approx([(no + filler) / 3, (yes + filler) / 3])
    # Item 2 has no votes: half of the student, half of nothing known.
    assert found[2].tolist() == pytest.approx([0.5 * 0.2 + 0.25, 0.5 * 0.8 + 0.25])
    assert torch.allclose(found.sum(dim=1), torch.ones(3))


def test_the_losses_of_imply_loss_are_those_of_the_paper():
    X = np.zeros((3, 3), dtype=np.float32)
    model = ImplyLoss(linear(), gamma=0.1)
    given = model.fit_inputs(X, VOTES)
    objective = untrained(model, X, VOTES)
    objective.gold[:] = torch.tensor([1, -1, -1])
    with torch.no_grad():  # every rule holds with 1/2, whatever the item
        objective.rules.sources.zero_()
        objective.end_model.bias.copy_(torch.tensor([0.0, 1.0]))
    batch = TrainingData(given.inputs, payload=EntryPayload(VOTES)).gather(np.arange(3))
    losses = {name: value.item() for name, value in objective.losses(batch).items()}
    yes = 1 / (1 + np.exp(-1))
    assert losses["labeled"] == pytest.approx(-np.log(yes), rel=1e-5)
    # On item 0 (yes) a is wrong: -log(1/2); b is right: (1 - 0.5^0.2) / 0.2.
    assert losses["rules"] == pytest.approx((np.log(2) + (1 - 0.5**0.2) / 0.2) / 2, rel=1e-5)
    # On item 1 a and b say yes, c says no.
    implied = [-np.log(1 - 0.5 * (1 - p)) for p in (yes, yes, 1 - yes)]
    assert losses["implication"] == pytest.approx(0.1 * np.mean(implied), rel=1e-5)


def test_the_losses_of_astra_are_those_of_the_paper():
    X = np.zeros((3, 3), dtype=np.float32)
    model = ASTRA(linear())
    given = model.fit_inputs(X, VOTES)
    objective = untrained(model, X, VOTES)
    objective.gold[:] = torch.tensor([1, -1, -1])
    with torch.no_grad():  # rules and student weigh 1/2 on every item
        objective.rules.sources.zero_()
        objective.end_model.bias.copy_(torch.tensor([0.0, 1.0]))
    batch = TrainingData(given.inputs, payload=EntryPayload(VOTES)).gather(np.arange(3))
    losses = {name: value.item() for name, value in objective.losses(batch).items()}
    yes = 1 / (1 + np.exp(-1))
    # Half of all votes and of the student, filled up to the number of sources: (no, yes).
    taught = [
        np.array([0.5 + 0.5 * (1 - yes) + 0.75, 0.5 + 0.5 * yes + 0.75]) / 3,
        np.array([0.5 + 0.5 * (1 - yes) + 1.0, 1.0 + 0.5 * yes + 1.0]) / 4,
        np.array([0.5 * (1 - yes) + 0.25, 0.5 * yes + 0.25]),
    ]
    entropies = [-(q * np.log(q)).sum() for q in taught[1:]]
    assert losses["teacher"] == pytest.approx(
        (-np.log(taught[0][1]) + sum(entropies)) / 3, rel=1e-5
    )


def test_what_rules_and_end_model_say_together():
    with pytest.warns(CollapseWarning):  # all items look the same
        model = ImplyLoss(linear(), **QUICK).fit(np.zeros((3, 3), dtype=np.float32), VOTES)
    proba = model.predict_proba(np.zeros((3, 3), dtype=np.float32))
    weights = model.rule_weights(np.zeros((3, 3), dtype=np.float32), VOTES)
    assert (weights > 0).tolist() == (VOTES.dense() >= 0).tolist()
    together = model.soft_labels(np.zeros((3, 3), dtype=np.float32), VOTES)
    a, b = weights[0, :2]
    no = proba[0, 0] + (a + (1 - b)) / 2
    assert together[0, 0] == pytest.approx(no / 2, rel=1e-5)
    assert together[2] == pytest.approx(proba[2], rel=1e-5)


def test_items_whose_voters_agree_stand_in_for_labeled_ones():
    mixed = VoteMatrix.from_dense([[0, 0], [1, 0], [1, -1], [-1, -1]], ["no", "yes"])
    assert agreed_labels(mixed).tolist() == [0, -1, -1, -1]
    alone = VoteMatrix.from_dense([[0, -1], [-1, 1], [-1, -1]], ["no", "yes"])
    assert agreed_labels(alone).tolist() == [0, 1, -1]


def planted(seed: int = 0):
    """One rule is right on one side of a feature and wrong on the other; two rules are weak."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(2, size=600)
    X = make_features(gold, n_features=3, separation=1.0, seed=seed)
    side = rng.normal(size=600)
    X = np.c_[X, 2 * side].astype(np.float32)
    columns = [np.where(side > 0, gold, 1 - gold)]
    columns += [np.where(rng.random(600) < 0.62, gold, 1 - gold) for _ in range(2)]
    few = np.where(np.arange(600) < 120, gold, -1)
    return X, VoteMatrix.from_dense(np.stack(columns, axis=1), ["no", "yes"]), few, side


@pytest.mark.parametrize("method", [ImplyLoss, ASTRA])
def test_gold_labels_teach_where_a_rule_holds(method):
    X, votes, few, side = planted()
    end_model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), linear(16, seed=1))
    model = method(end_model, **QUICK).fit(X, votes, gold=few)
    weights = model.rule_weights(X, votes)[:, 0]
    assert weights[side > 0.5].mean() > weights[side < -0.5].mean() + 0.1


@pytest.mark.parametrize("method", [ImplyLoss, ASTRA])
def test_labeled_items_are_trained_on_even_without_votes(method):
    X, votes, gold = tiny_task()
    silent = np.flatnonzero(~votes.covered)
    assert len(silent)
    few = np.full(len(gold), -1)
    few[silent] = gold[silent]
    with_gold = method(linear(), **QUICK).fit(X, votes, gold=few)
    without = method(linear(), **QUICK).fit(X, votes)
    assert with_gold.trained_on_["items"] > without.trained_on_["items"]
    names = [None if label < 0 else votes.labels.names[label] for label in few]
    by_name = method(linear(), **QUICK).fit(X, votes, gold=names)
    assert np.array_equal(by_name.predict_proba(X), with_gold.predict_proba(X))


@pytest.mark.parametrize("method", [ImplyLoss, ASTRA])
def test_gold_labels_that_make_no_sense_are_refused(method):
    X, votes, gold = tiny_task()
    with pytest.raises(FeatureError, match=r"each of the 48 items.*has 5"):
        method(linear()).fit(X, votes, gold=gold[:5])
    with pytest.raises(WieselError, match="maybe"):
        method(linear()).fit(X, votes, gold=["maybe"] * 48)
    with pytest.raises(ParameterError, match="'hidden'"):
        method(linear(), hidden=0).fit(X, votes)
    with pytest.raises(ParameterError, match=r"'(gamma|warm_up)'"):
        method(linear(), **{"gamma" if method is ImplyLoss else "warm_up": -1}).fit(X, votes)


def test_votes_can_be_explained():
    X, votes, _ = tiny_task()
    for method in (ImplyLoss, ASTRA):
        model = method(linear(), **QUICK).fit(X, votes)
        item = int(np.flatnonzero(votes.covered)[0])
        explained = model.explain(X[item], votes[item])
        weights = model.rule_weights(X[item : item + 1], votes[item])
        assert max(push.weight for push in explained.pushes) == pytest.approx(weights.max())
