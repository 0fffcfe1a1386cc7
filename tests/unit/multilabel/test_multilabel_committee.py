"""Several networks for all labels: ensembles, the committee, checkpoints."""

import numpy as np
import pytest
import torch

from wiesel import Committee, DawidSkene, MajorityVote, TwoStage, WeaSEL, evaluate, load_model
from wiesel.end_to_end.storage import Saved, end_to_end_contents, restore_end_to_end
from wiesel.errors import ParameterError, SavedModelError, VoteError
from wiesel.multilabel import MultiLabelVotes
from wiesel.nn import MLP
from wiesel.tasks import SeveralLabelsTask

FAST = {
    "epochs": 4,
    "epoch_size": 300,
    "batch_size": 32,
    "lr": 0.03,
    "weight_average": None,
    "progress": False,
}


def network():
    torch.manual_seed(0)
    return MLP(3, 3, hidden=(8,), dropout=0.0)


def committee(**options):
    return Committee(network(), networks=1, **{**FAST, **options})


@pytest.fixture(scope="module")
def fitted(task):
    gold = task.X[:100], task.gold[:100], task.votes[:100]
    return committee().fit(task.X, task.votes, validation=gold)


def test_all_members_of_a_committee_learn_the_gold_labels(fitted, task):
    assert evaluate(fitted, task.X, task.gold, n_resamples=0).macro_f1 > 0.85
    assert list(fitted.member_weights_) == ["majority_vote", "feature_em", "feature_checked"]
    weights = np.stack(list(fitted.member_weights_.values()))
    assert np.allclose(weights.sum(axis=0), 1)
    blind = committee().fit(task.X, task.votes)
    moved = [
        np.abs(own.predict_proba(task.X) - other.predict_proba(task.X)).max()
        for own, other in zip(fitted.members_, blind.members_, strict=True)
    ]
    assert min(moved) > 1e-3
    honest = fitted.out_of_fold_proba(task.X)
    assert np.array_equal(honest[100:], fitted.predict_proba(task.X)[100:])
    assert not np.allclose(honest[:100], fitted.predict_proba(task.X)[:100], atol=1e-3)
    members = np.stack([member.predict_proba(task.X) for member in fitted.members_])
    mean = (weights[:, None] * members).sum(axis=0)
    assert np.allclose(fitted.predict_proba(task.X), mean, atol=1e-5)


def test_copies_of_a_voter_count_once_and_share_what_they_add(task, tmp_path):
    array = np.stack([own.dense() for own in task.votes.matrices], axis=2)
    voters = task.votes.voters
    copied = np.concatenate([array, array[:, :1], array[:, :1]], axis=1)
    votes = MultiLabelVotes.from_dense(copied, task.votes.labels, [*voters, "again", "twice"])
    model, plain = committee().fit(task.X, votes), committee().fit(task.X, task.votes)
    on = [label for label in task.votes.labels if voters[0] in task.votes.voters_on(label)]
    assert model.copies_ == {label: {"again": voters[0], "twice": voters[0]} for label in on}
    assert plain.copies_ == {}
    assert np.allclose(model.predict_proba(task.X), plain.predict_proba(task.X), atol=1e-6)
    soft = model.soft_labels(task.X, votes)
    assert np.allclose(soft, plain.soft_labels(task.X, task.votes))

    row = int(np.flatnonzero(array[:, 0, task.votes.labels.index(on[0])] >= 0)[0])
    shared = model.explain(task.X[row], votes[row]).by_label[on[0]]
    alone = plain.explain(task.X[row], task.votes[row]).by_label[on[0]]
    parts = [push.effect for push in shared.pushes if push.voter in (voters[0], "again", "twice")]
    whole = next(push.effect for push in alone.pushes if push.voter == voters[0])
    assert parts == pytest.approx([whole / 3] * 3)

    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.copies_ == model.copies_
    assert np.allclose(loaded.soft_labels(task.X, votes), soft)
    manifest, files = end_to_end_contents(model)
    manifest["learned"]["copies"] = {on[0]: {"nobody": voters[0]}}
    with pytest.raises(SavedModelError, match="copies of the saved committee"):
        restore_end_to_end(Committee, Saved(manifest, files, {}))


def test_without_gold_all_networks_count_the_same(task):
    model = committee().fit(task.X, task.votes)
    shares = {name: weights.tolist() for name, weights in model.member_weights_.items()}
    assert shares["majority_vote"] == pytest.approx([0.2] * 3)
    assert shares["feature_em"] == pytest.approx([0.4] * 3)
    assert model.threshold_.tolist() == [0.5] * 3


def test_a_committee_explains_and_comes_back(fitted, task, tmp_path):
    found = fitted.explain(task.X[17], task.votes[17])
    own = found.by_label["money"]
    assert own.soft_label[1] == pytest.approx(fitted.soft_labels(task.X, task.votes)[17, 1])
    assert "Soft labels of the members" in str(found)
    fitted.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is Committee
    assert np.array_equal(again.predict_proba(task.X), fitted.predict_proba(task.X))
    assert str(again.explain(task.X[17], task.votes[17])) == str(found)


@pytest.mark.parametrize("weights", [{}, {"majority_vote": [1.0]}, dict.fromkeys("abcde", "x")])
def test_a_changed_weight_of_a_saved_committee_is_refused(fitted, weights):
    manifest, files = end_to_end_contents(fitted)
    manifest["learned"]["member_weights"] = weights
    with pytest.raises(SavedModelError):
        restore_end_to_end(Committee, Saved(manifest, files, {}))


def test_a_label_without_label_model_is_refused(fitted):
    manifest, files = end_to_end_contents(fitted)
    stored = manifest["members"][0]["learned"]["label_model"]
    stored["label_models"] = dict(list(stored["label_models"].items())[:1])
    with pytest.raises(SavedModelError, match="lacks the label model of a label"):
        restore_end_to_end(Committee, Saved(manifest, files, {}))


def test_a_member_that_predicts_a_label_alike_does_not_count_for_it(task, monkeypatch):
    def collapsed(own, history):
        # FeatureEM is the second of three members.
        stuck = np.zeros(3, dtype=bool)
        stuck[2] = history is histories[1] if len(histories) == 3 else False
        return stuck

    histories = []

    def able(own, given):
        histories.extend(given)
        return original(own, given)

    original = SeveralLabelsTask.able
    monkeypatch.setattr(SeveralLabelsTask, "able", able)
    monkeypatch.setattr(SeveralLabelsTask, "collapsed", collapsed)
    weights = committee(epochs=2).fit(task.X, task.votes).member_weights_
    assert weights["feature_em"][2] == 0
    assert weights["feature_em"][0] > 0
    assert sum(own[2] for own in weights.values()) == pytest.approx(1)


def test_votes_in_one_direction_need_a_balance_or_gold(task):
    votes = task.one_sided()
    with pytest.raises(VoteError, match="class_balance"):
        committee().fit(task.X, votes)
    model = committee(epochs=2).fit(task.X, votes, validation=(task.X[:100], task.gold[:100]))
    counted = model.members_[0].label_model_.models_["law"].class_balance_[1]
    assert counted == pytest.approx((task.gold[:100, 2].sum() + 1) / 102)


def test_a_committee_has_networks_not_members(task):
    with pytest.raises(ParameterError, match="option 'networks'"):
        committee(members=3).fit(task.X, task.votes)


@pytest.mark.filterwarnings("ignore:The 2 networks of WeaSEL are trained one by one")
@pytest.mark.parametrize("kind", ["two_stage", "weasel"])
def test_an_ensemble_is_the_mean_of_its_members(kind, task, tmp_path):
    options = {**FAST, "epochs": 3, "members": 2}
    model = (
        TwoStage(MajorityVote(), network(), **options)
        if kind == "two_stage"
        else WeaSEL(network(), encoder=(8,), start=MajorityVote(), warm_up=1, **options)
    ).fit(task.X, task.votes, validation=(task.X[:100], task.gold[:100]))
    probas = [member.predict_proba(task.X) for member in model.members_]
    assert not np.allclose(*probas)
    assert np.allclose(model.predict_proba(task.X), np.mean(probas, axis=0), atol=1e-5)
    soft = [member.soft_labels(task.X, task.votes) for member in model.members_]
    assert np.allclose(model.soft_labels(task.X, task.votes), np.mean(soft, axis=0))
    assert len(model.selection_["epoch"]) == 2
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.members == 2
    assert np.array_equal(again.predict_proba(task.X), model.predict_proba(task.X))
    assert np.array_equal(again.threshold_, model.threshold_)


def test_a_stack_of_networks_learns_what_each_would_alone(task):
    """Members of an ensemble are trained as one stack, each with its own seed."""
    options = {**FAST, "epochs": 2}
    both = TwoStage(DawidSkene(), network(), members=2, **options)
    both.fit(task.X, task.votes)
    alone = TwoStage(DawidSkene(), both.members_[1].end_model, seed=1, **options)
    alone.fit(task.X, task.votes)
    mine = both.members_[1].predict_proba(task.X)
    assert np.allclose(mine, alone.predict_proba(task.X), atol=1e-4)


@pytest.mark.parametrize("members", [1, 2])
def test_a_fit_goes_on_from_its_checkpoint(members, task, tmp_path):
    file = tmp_path / "fit.ckpt"

    def model(epochs, checkpoint=None, **options):
        own = {**FAST, "epochs": epochs, "members": members, **options}
        return TwoStage(MajorityVote(), network(), checkpoint=checkpoint, **own)

    through = model(3).fit(task.X, task.votes)
    model(2, file).fit(task.X, task.votes)
    resumed = model(3, file).fit(task.X, task.votes)
    assert len(resumed.history_) == 3
    assert np.allclose(resumed.predict_proba(task.X), through.predict_proba(task.X), atol=1e-6)
    with pytest.raises(SavedModelError, match="other options or other data"):
        model(3, file, lr=0.01).fit(task.X, task.votes)
    fewer = MultiLabelVotes.from_dense(task.said[:, :5], task.votes.labels.names)
    with pytest.raises(SavedModelError, match="other options or other data"):
        model(3, file).fit(task.X, fewer)
