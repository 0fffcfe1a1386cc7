"""A committee: what its members are, what they see, and what becomes of their answers."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from forged_models import rewrite
from sklearn.linear_model import LogisticRegression
from tiny_task import ONE_PASS, linear, same_weights, tiny_task, weights_of
from torch import Tensor, nn

from wiesel import (
    Committee,
    Gold,
    GoldWeighted,
    MajorityVote,
    MaxMIG,
    TwoStage,
    VoteMatrix,
    WeaSEL,
    load_model,
)
from wiesel.end_to_end.committee import default_members
from wiesel.end_to_end.linear_models import CrossFit
from wiesel.errors import (
    FeatureError,
    NotFittedError,
    ParameterError,
    SavedModelError,
    VoteError,
    WieselWarning,
)
from wiesel.label_models.majority_vote import vote_balance
from wiesel.label_models.vote_products import alignment_offsets
from wiesel.nn import CNN, MLP, Linear
from wiesel.nn.end_models import fused_logits
from wiesel.tasks import OneLabelTask
from wiesel.tasks.one_label import agreement_weights, each_left_out, mean_agreement
from wiesel.training import seeded

# So few steps may end in one class; here that is no matter.
pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")

QUICK: dict[str, Any] = {**ONE_PASS, "epochs": 2, "lr": 0.02, "batch_size": 16, "networks": 1}
X, VOTES, GOLD = tiny_task(n_items=120, n_voters=5)
HELD_OUT = tiny_task(n_items=40, n_voters=5, seed=7)
BINARY = ["majority_vote", "feature_em", "feature_checked"]


def committee(**options: Any) -> Committee:
    with seeded(0):
        return Committee(Linear(3, 2), **{**QUICK, **options})


def copied(votes: VoteMatrix, copies: int) -> VoteMatrix:
    """The votes, with further copies of the first voter at the end."""
    dense = votes.dense()
    names = [*votes.voters, *(f"copy_{k}" for k in range(copies))]
    return VoteMatrix.from_dense(np.hstack([dense, *[dense[:, :1]] * copies]), votes.labels, names)


@pytest.fixture(scope="module")
def fitted() -> Committee:
    return committee().fit(X, VOTES)


@pytest.fixture(scope="module")
def with_gold_votes() -> Committee:
    """A voter has copies, and gold labels weigh the voters."""
    validation = (HELD_OUT.X, HELD_OUT.gold, copied(HELD_OUT.votes, 2))
    return committee().fit(X, copied(VOTES, 2), validation)


def test_without_gold_networks_count_by_agreement_and_shares_go_half_way_to_the_balance(
    fitted: Committee,
):
    assert list(fitted.member_weights_) == BINARY
    counts = np.array([max(1, len(member.members_)) for member in fitted.members_])
    assert counts.tolist() == [1, 2, 2]
    probas, weights = fitted.member_probas(X), np.array(list(fitted.member_weights_.values()))
    covered = probas[:, VOTES.covered].argmax(axis=2)
    agreement = mean_agreement(covered)
    expected = counts * agreement_weights(agreement)
    assert weights == pytest.approx(expected / expected.sum())
    assert fitted.selection_["agreement"] == pytest.approx(agreement.mean())
    assert fitted.selection_["by"] == "last epoch"
    assert np.allclose(fitted.predict_proba(X), _moved(probas, weights, fitted.offsets_), atol=1e-6)
    balance = fitted.members_[0].label_model_.class_balance_
    whole = _moved(probas, weights, 2 * fitted.offsets_)
    assert np.allclose(whole[VOTES.covered].mean(axis=0), balance, atol=1e-3)
    assert np.allclose(fitted.spread(X), fitted.member_probas(X).std(axis=0))
    assert fitted.spread(X).max() > 0


def _moved(probas: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    mean = np.tensordot(weights, probas, axes=1) * np.exp(offsets)
    return mean / mean.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("balance", [(0.8, 0.2), "about 20 % class_1"])
def test_shares_become_a_balance_that_is_known(balance: Any):
    model = committee(class_balance=balance).fit(X, VOTES)
    shares = model.predict_proba(X)[VOTES.covered].mean(axis=0)
    assert shares == pytest.approx([0.8, 0.2], abs=1e-3)


def test_a_member_that_contradicts_the_others_loses_its_weight():
    """The third agrees with either on 3 of 4 items, and these two with each other on all."""
    three = mean_agreement(np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]))
    assert three.tolist() == [0.875, 0.875, 0.75]
    assert agreement_weights(three) == pytest.approx([1, 1, (6 / 7) ** 8])
    two = mean_agreement(np.array([[0, 0, 1, 1], [0, 0, 0, 1]]))
    assert agreement_weights(two).tolist() == [1, 1], "either of two may be right"
    assert mean_agreement(np.array([[0, 1]])).tolist() == [1]
    assert np.isfinite(agreement_weights(np.zeros(3))).all()


def test_a_member_that_collapses_without_gold_is_outvoted(monkeypatch: pytest.MonkeyPatch):
    """A class of nearly all items is predicted for all: leaving that out left the outlier alone."""
    monkeypatch.setattr(OneLabelTask, "collapsed", lambda task, history: np.array(True))
    assert list(committee().fit(X, VOTES).member_weights_) == BINARY


def test_shares_that_agree_already_are_left_alone():
    proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    offsets = alignment_offsets(proba.mean(axis=0), np.log(proba))
    assert offsets == pytest.approx([0, 0], abs=1e-12)


def test_offsets_come_back_from_disk_and_must_fit(fitted: Committee, tmp_path: Path):
    assert np.abs(fitted.offsets_).max() > 0
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.offsets_.tolist() == list(fitted.offsets_)

    def forge(manifest: dict[str, Any]) -> None:
        manifest["learned"]["offsets"] = [1.0]

    rewrite(tmp_path / "model", forge)
    with pytest.raises(SavedModelError, match="offsets"):
        load_model(tmp_path / "model")


def test_what_members_say_of_the_votes_is_averaged(fitted: Committee):
    parts = [member.soft_labels(X, VOTES) for member in fitted.members_]
    weights = list(fitted.member_weights_.values())
    assert np.allclose(fitted.soft_labels(X, VOTES), np.tensordot(weights, parts, axes=1))


def test_a_member_is_what_its_own_fit_gives(fitted: Committee):
    shared = {name: value for name, value in QUICK.items() if name != "networks"}
    alone = default_members(fitted.end_model, 2, networks=1, **shared)
    for name, member in zip(fitted.member_weights_, fitted.members_, strict=True):
        found = alone[name].fit(X, VOTES).predict_proba(X)
        assert np.allclose(member.predict_proba(X), found, atol=1e-3)


def test_more_classes_are_learned_by_mutual_information_too():
    members = default_members(linear(3, 3), n_classes=3, networks=3)
    assert {member.loss for member in members.values()} == {"ce", "mig"}
    assert all(m.class_balance == "auto" for m in members.values() if m.loss == "mig")
    seeds = [seed for m in members.values() for seed in range(m.seed, m.seed + m.members)]
    assert len(set(seeds)) == len(seeds), "no two networks share a seed"


def test_a_known_class_balance_reaches_every_member(tmp_path: Path):
    model = committee(class_balance={"class_0": 0.8, "class_1": 0.2}).fit(X, VOTES)
    balances = [member.label_model_.class_balance_ for member in model.members_]
    assert len(balances) == len(BINARY)
    assert all(np.allclose(balance, [0.8, 0.2]) for balance in balances)
    uniform = committee(class_balance=[0.5, 0.5]).fit(X, VOTES).predict_proba(X)[:, 0].mean()
    assert model.predict_proba(X)[:, 0].mean() > uniform
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").class_balance == model.class_balance
    known = default_members(linear(3, 3), 3, class_balance="votes")
    assert {member.class_balance for member in known.values()} == {"votes"}


def test_gold_adds_networks_that_learn_it_alone_and_changes_the_others(fitted: Committee):
    model = committee().fit(X, VOTES, gold=(HELD_OUT.X, HELD_OUT.gold))
    assert list(model.member_weights_) == [*BINARY, "gold"]
    weights = np.array([*model.member_weights_.values()])
    assert weights.sum() == pytest.approx(1)
    mixed = np.tensordot(weights, model.member_probas(X), axes=1)
    assert np.allclose(model.predict_proba(X), mixed, atol=1e-6)
    moved = np.abs(model.member_probas(X)[:3] - fitted.member_probas(X)).max(axis=(1, 2))
    assert (moved > 1e-3).all()


def test_labels_decide_how_much_the_networks_that_learn_them_alone_count():
    """If votes name the wrong class they count more than before any label; else they may not."""
    wrong = VoteMatrix.from_dense(np.repeat(1 - GOLD[:, None], 3, axis=1), VOTES.labels)
    right = VoteMatrix.from_dense(np.repeat(GOLD[:, None], 3, axis=1), VOTES.labels)
    few = (X[:40], GOLD[:40])
    poor, good = (committee().fit(X, votes, gold=few) for votes in (wrong, right))
    # Before any label: one of the two networks counts 40 / (40 + 50) as much as the five others.
    before = 2 * 40 / 90 / (5 + 2 * 40 / 90)
    assert poor.member_weights_["gold"] > before + 0.05
    assert good.member_weights_["gold"] < poor.member_weights_["gold"] - 0.1
    vote_members = [weight for name, weight in poor.member_weights_.items() if name != "gold"]
    assert sum(vote_members) == pytest.approx(1 - poor.member_weights_["gold"])


def test_rows_that_were_searched_do_not_weigh_the_networks():
    searched = Gold(HELD_OUT.gold, HELD_OUT.X, chosen="searched")
    model = committee().fit(X, VOTES, gold=searched)
    share = 2 * 40 / 90 / (5 + 2 * 40 / 90)
    assert model.member_weights_["gold"] == pytest.approx(share)


def test_validation_gold_and_labels_of_training_items_are_learned_alike():
    rows = np.arange(40)
    some = [VOTES.labels.names[k] if row < 40 else None for row, k in enumerate(GOLD)]
    by_rows = committee().fit(X, VOTES, gold=some)
    apart = committee().fit(X, VOTES, gold=(X[rows], GOLD[rows], VOTES[rows]))
    held_out = committee().fit(X, VOTES, validation=(X[rows], GOLD[rows]))
    named = committee().fit(X, VOTES, gold=Gold(some))
    expected = by_rows.predict_proba(X)
    for model in (apart, held_out, named):
        assert np.allclose(model.predict_proba(X), expected, atol=1e-6)
    both = committee().fit(X, VOTES, (X[:20], GOLD[:20]), gold=(X[20:40], GOLD[20:40]))
    assert len(both.learned_gold_.items) == 40


def test_chosen_items_are_learned_but_change_neither_balance_nor_threshold():
    """Only a random sample says how frequent a class is."""
    spam = np.flatnonzero(HELD_OUT.gold == 1)
    ham = np.flatnonzero(HELD_OUT.gold == 0)[:2]
    rows = np.concatenate([spam, ham])
    gold = HELD_OUT.X[rows], HELD_OUT.gold[rows]
    balances = {}
    for way in ("random", "uncertain"):
        given = Gold(gold[1], gold[0], chosen=way)
        model = committee().fit(X, VOTES, gold=given)
        balances[way] = model.members_[0].label_model_.class_balance_[1]
        assert len(model.learned_gold_.items) == len(rows)
    blind = committee().fit(X, VOTES).members_[0].label_model_.class_balance_[1]
    votes = vote_balance(VOTES)[1]
    assert balances["uncertain"] == pytest.approx(blind)
    posterior = (len(spam) + 30 * votes) / (len(rows) + 30)
    assert balances["random"] == pytest.approx(posterior)
    assert model.threshold_ is None


def test_a_class_that_gold_lacks_keeps_the_share_that_votes_give_it():
    X3, votes, gold = tiny_task(n_items=120, n_classes=3)
    rows = np.flatnonzero(gold < 2)[:50]
    model = Committee(Linear(3, 3), **QUICK).fit(X3, votes, gold=(X3[rows], gold[rows]))
    balance = model.members_[0].label_model_.class_balance_
    assert balance[2] == pytest.approx(45 * vote_balance(votes)[2] / 95)


def test_gold_is_learned_and_still_tells_the_truth():
    """Labels drawn at random can be learned by heart; the honest predictions must not show it."""
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(60, 40)).astype(np.float32), rng.integers(0, 2, 60)
    votes = VoteMatrix.from_dense(rng.integers(0, 2, (60, 3)), VOTES.labels)
    model = Committee(Linear(40, 2), **QUICK).fit(noise, votes, (noise, labels))
    by_heart = (model.predict_proba(noise).argmax(axis=1) == labels).mean()
    assert by_heart > 0.8
    unseen = model.out_of_fold_proba(noise)
    assert (unseen.argmax(axis=1) == labels).mean() < 0.7
    shuffled = rng.permutation(60)
    assert np.allclose(model.out_of_fold_proba(noise[shuffled]), unseen[shuffled])
    others = rng.normal(size=(5, 40)).astype(np.float32)
    assert np.array_equal(model.out_of_fold_proba(others), model.predict_proba(others))


def test_gold_that_was_learned_is_no_gold_to_fine_tune_on(with_gold_votes: Committee):
    held_out = (HELD_OUT.X, HELD_OUT.gold)
    with pytest.raises(ParameterError, match=r"already learned.*fit it again with all of them"):
        with_gold_votes.fine_tune(*held_out)
    apart = committee(train_on_gold=False).fit(X, VOTES, held_out)
    assert apart.fine_tune(*held_out).items == 40


def test_gold_need_not_be_trained_on():
    validation = (HELD_OUT.X, HELD_OUT.gold)
    model = committee(train_on_gold=False).fit(X, VOTES, validation)
    assert list(model.member_weights_) == BINARY
    assert model.learned_gold_ is None
    proba = model.predict_proba(validation[0])
    assert np.array_equal(model.out_of_fold_proba(*validation), proba)


def test_gold_of_one_class_is_ignored_and_a_warning_says_so(fitted: Committee):
    """It cannot teach what the other class looks like."""
    with pytest.warns(WieselWarning, match="All 40 gold labels are 'class_0'.*ignored"):
        model = committee().fit(
            X, VOTES, (HELD_OUT.X, np.zeros_like(HELD_OUT.gold), HELD_OUT.votes)
        )
    assert model.member_weights_ == fitted.member_weights_
    assert np.array_equal(model.predict_proba(X), fitted.predict_proba(X))


def test_three_labels_change_little(fitted: Committee):
    rows = np.array([*np.flatnonzero(GOLD == 0)[:2], np.flatnonzero(GOLD == 1)[0]])
    model = committee().fit(X, VOTES, gold=(X[rows], GOLD[rows]))
    assert np.abs(model.predict_proba(X) - fitted.predict_proba(X)).max() < 0.15


def test_members_of_the_users_own_learn_gold_in_their_own_way():
    quick = {name: value for name, value in QUICK.items() if name != "networks"}
    members = [
        TwoStage(MajorityVote(), LogisticRegression()),
        TwoStage(GoldWeighted(), Linear(3, 2), **quick),
    ]
    model = Committee(Linear(3, 2), members=members).fit(
        X, VOTES, gold=(HELD_OUT.X, HELD_OUT.gold, HELD_OUT.votes)
    )
    classifier, network = (member.predict_proba(X) for member in model.members_)
    alone = TwoStage(MajorityVote(), LogisticRegression()).fit(X, VOTES)
    assert not np.allclose(classifier, alone.predict_proba(X))
    assert np.allclose(model.predict_proba(X), (classifier + network) / 2, atol=1e-6)
    assert len(model.learned_gold_.items) == 40


def test_copies_of_a_voter_count_once(fitted: Committee):
    many = copied(VOTES, 9)
    model = committee().fit(X, many)
    assert model.copies_ == {f"copy_{k}": VOTES.voters[0] for k in range(9)}
    assert model.voters_ == many.voters
    assert model.members_[0].voters_ == VOTES.voters
    assert np.allclose(model.soft_labels(X, many), fitted.soft_labels(X, VOTES))
    assert np.allclose(model.predict_proba(X), fitted.predict_proba(X))


def test_an_explanation_names_every_voter_and_every_member(with_gold_votes: Committee):
    model, votes = with_gold_votes, copied(VOTES, 2)
    item = int(np.flatnonzero(VOTES.dense()[:, 0] >= 0)[0])
    found = model.explain(X[item], votes[item])
    assert len(found.pushes) == votes[item].n_votes
    pushes = {push.voter: push.effect for push in found.pushes}
    own = [pushes[name] for name in (VOTES.voters[0], "copy_0", "copy_1")]
    assert np.allclose(own, own[0]), "copies share what their original adds"
    readers = [name for name in model.member_weights_ if name != "gold"]
    assert [view.name for view in found.members] == readers, "gold has nothing to say of votes"
    weights = [view.weight for view in found.members]
    shown = np.average([view.soft_label for view in found.members], axis=0, weights=weights)
    assert np.allclose(shown, found.soft_label)
    assert np.allclose(found.soft_label, model.soft_labels(X[[item]], votes[item])[0])
    for name in readers:
        assert name in str(found)


def test_a_certain_member_does_not_decide_the_explanation(fitted: Committee):
    """Majority vote is certain of unanimous votes: its log-odds, which are infinite, hid all."""
    for item in np.flatnonzero(VOTES.covered)[:20]:
        found = fitted.explain(X[item], VOTES[item])
        own = found.labels.index(found.label)
        without = fitted.soft_labels(
            X[[item] * VOTES[item].n_votes], each_left_out(VOTES[item])[1:]
        )
        before, after = without[:, own], found.soft_label[own]
        wanted = np.log(after / (1 - after)) - np.log(before / (1 - before))
        effects = {push.voter: push.effect for push in found.pushes}
        shown = [effects[VOTES.voters[voter]] for voter in VOTES[item].voter_index]
        assert np.allclose(shown, wanted, atol=1e-6)


def test_it_comes_back_from_disk_with_copies_and_gold(with_gold_votes: Committee, tmp_path: Path):
    model, votes = with_gold_votes, copied(VOTES, 2)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.soft_labels(X, votes), model.soft_labels(X, votes))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert str(loaded.explain(X[3], votes[3])) == str(model.explain(X[3], votes[3]))
    assert loaded.member_weights_ == model.member_weights_
    assert loaded.copies_ == model.copies_
    assert loaded.selection_ == model.selection_
    held_out = (HELD_OUT.X, HELD_OUT.gold)
    assert np.array_equal(loaded.out_of_fold_proba(*held_out), model.out_of_fold_proba(*held_out))
    assert (loaded.members, loaded.networks) == (None, 1)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("weights", [{"gold": 1.0}, {"majority_vote": 1.0}, {"gold": -1.0}])
def test_weights_from_a_file_must_fit(
    with_gold_votes: Committee, tmp_path: Path, weights: dict[str, float]
):
    """Soft labels need a member that reads votes, and every member has a weight."""
    with_gold_votes.save(tmp_path / "model")

    def forge(manifest: dict[str, Any]) -> None:
        found = manifest["learned"]["member_weights"]
        full = {**dict.fromkeys(found, 0.0), **weights}
        manifest["learned"]["member_weights"] = full if "gold" in weights else weights

    rewrite(tmp_path / "model", forge)
    with pytest.raises(SavedModelError):
        load_model(tmp_path / "model")


def test_a_committee_whose_members_all_collapsed_keeps_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OneLabelTask, "collapsed", lambda task, history: np.array(True))
    model = committee().fit(X, VOTES, (HELD_OUT.X, HELD_OUT.gold))
    assert list(model.member_weights_) == [*BINARY, "gold"]
    assert np.allclose(model.soft_labels(X, VOTES).sum(axis=1), 1)


@pytest.mark.parametrize("given", [[], ["weasel"], {WeaSEL(linear())}, WeaSEL(linear())])
def test_members_are_a_list_of_methods(given: Any):
    with pytest.raises(ParameterError, match="must be a list of methods, such as"):
        committee(members=given).fit(X, VOTES)


def test_members_of_the_users_own_choice(tmp_path: Path):
    quick = {name: value for name, value in QUICK.items() if name != "networks"}
    members = [
        WeaSEL(Linear(3, 2), encoder=(4,), warm_up=1, **quick),
        TwoStage(MajorityVote(), LogisticRegression()),
        TwoStage(MajorityVote(), Linear(3, 2), **quick, members=2),
    ]
    model = Committee(Linear(3, 2), members=members).fit(X, VOTES)
    assert list(model.member_weights_) == ["weasel", "majority_vote", "majority_vote_3"]
    own = FaithfulVote(linear(), warm_up=1, **quick)
    named = Committee(linear(), members=[MaxMIG(linear(), **quick), own])
    assert list(named.fit(X, VOTES).member_weights_) == ["max_mig", "faithful_vote"]
    assert all(not hasattr(member, "end_model_") for member in members), "they are copied"
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert len(model.explain(X[0], VOTES[0]).members) == 3
    assert model.members_[0].encoder_width_ == 3, "its encoder reads the features, as alone"
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.allclose(loaded.predict_proba(X), model.predict_proba(X))
    assert [type(member).__name__ for member in loaded.members] == ["WeaSEL", *["TwoStage"] * 2]


class FaithfulVote(WeaSEL):
    """A method that nobody has registered."""


class Choosy(MajorityVote):
    """A label model that wants more voters than there are."""

    def _fit(self, votes: Any, class_balance: Any) -> None:
        raise VoteError("Choosy needs nine voters; there are 5.")


def test_a_member_that_cannot_learn_says_why():
    with pytest.raises(VoteError, match="Choosy needs nine voters"):
        committee(members=[TwoStage(Choosy(), Linear(3, 2))]).fit(X, VOTES)


def no_overlap() -> VoteMatrix:
    dense = np.full((120, 5), -1)
    dense[np.arange(120), np.arange(120) % 5] = GOLD
    return VoteMatrix.from_dense(dense, VOTES.labels)


def one_sided() -> VoteMatrix:
    three = VoteMatrix.from_dense(VOTES.dense(), ["a", "b", "c"], VOTES.voters)
    assert (three.class_index < 2).all()
    return three


def probabilistic() -> VoteMatrix:
    one_hot = VOTES.one_hot().toarray().reshape(120, 5, 2)
    return VoteMatrix.from_proba(0.8 * one_hot + 0.2 * one_hot.mean(2, keepdims=True), VOTES.labels)


@pytest.mark.parametrize(
    "votes",
    [VOTES.select(VOTES.voters[:1]), VOTES.select(VOTES.voters[:2]), no_overlap(), one_sided()],
    ids=["one voter", "two voters", "no overlap", "a class without votes"],
)
def test_unusual_votes_are_learned_from(votes: VoteMatrix):
    model = Committee(Linear(3, votes.n_classes), **QUICK)
    proba = model.fit(X, votes).predict_proba(X)
    assert np.isfinite(proba).all()
    assert np.allclose(model.soft_labels(X, votes).sum(axis=1), 1)


def test_probabilistic_votes_are_learned_from():
    votes = probabilistic()
    model = committee().fit(X, votes)
    assert np.allclose(model.soft_labels(X, votes).sum(axis=1), 1)
    assert len(model.explain(X[0], votes[0]).pushes) == votes[0].n_votes


class DictNet(nn.Linear):
    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return super().forward(inputs["x"])


@pytest.mark.filterwarnings("ignore:Left out of the committee")  # two epochs may be too few
def test_inputs_need_not_be_vectors(fitted: Committee):
    net = DictNet(3, 2)
    model = Committee(net, **QUICK).fit({"x": X}, VOTES)
    assert "feature_checked" in model.member_weights_, "its votes fall back to equal ones"
    assert model.explain({"x": X[0]}, VOTES[0]).members
    images = np.zeros((120, 1, 4, 4), dtype=np.float32) + GOLD[:, None, None, None]
    assert Committee(CNN(1, 2, filters=(2, 2)), **QUICK).fit(images, VOTES).spread(images).size
    sparse = sp.csr_array(X)
    assert np.allclose(
        committee().fit(sparse, VOTES).predict_proba(sparse), fitted.predict_proba(X), atol=1e-4
    )


class Interrupting(nn.Linear):
    """Stands for Ctrl-C in the second epoch."""

    steps = 0

    def forward(self, features: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
            if self.steps > 12:
                raise KeyboardInterrupt
        return super().forward(features)


def test_an_interrupted_committee_keeps_what_was_learned():
    with pytest.warns(WieselWarning, match="interrupted after 1 epochs"):
        model = Committee(Interrupting(3, 2), **{**QUICK, "epochs": 9}).fit(X, VOTES)
    assert model.history_.interrupted
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_goes_on_from_its_checkpoints(n_classes: int, tmp_path: Path):
    X, votes, _ = tiny_task(n_items=60, n_classes=n_classes)
    file = tmp_path / "run.ckpt"

    def model(**options: Any) -> Committee:
        with seeded(0):
            return Committee(Linear(3, n_classes), **{**QUICK, **options})

    whole = model(epochs=4).fit(X, votes)
    model(epochs=2, checkpoint=file).fit(X, votes)
    resumed = model(epochs=4, checkpoint=file).fit(X, votes)
    assert same_weights(weights_of(resumed.end_model_), weights_of(whole.end_model_))
    assert len(list(tmp_path.iterdir())) == n_classes - 1, "one for each loss"


def test_wrong_options_are_refused():
    for members in ([], [MajorityVote()], [nn.Linear(3, 2)], 5):
        with pytest.raises(ParameterError, match="'members' option of Committee"):
            committee(members=members).fit(X, VOTES)
    with pytest.raises(ParameterError, match="checkpoint of its own"):
        committee(members=[WeaSEL(linear())], checkpoint="run.ckpt").fit(X, VOTES)
    with pytest.raises(ParameterError, match="a class_balance of its own"):
        committee(members=[WeaSEL(linear())], class_balance="votes").fit(X, VOTES)
    with pytest.raises(ParameterError, match="'class_balance' option of Committee"):
        committee(class_balance="gold").fit(X, VOTES)
    with pytest.raises(ParameterError, match="networks"):
        committee(networks=0).fit(X, VOTES)
    for use in (lambda m: m.predict(X), lambda m: m.spread(X), lambda m: m.save("nowhere")):
        with pytest.raises(NotFittedError, match="Committee"):
            use(committee())


def test_members_share_the_linear_models_of_the_features(monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []
    original = CrossFit.__init__

    def counted(self: CrossFit, *arguments: Any) -> None:
        made.append(1)
        original(self, *arguments)

    monkeypatch.setattr(CrossFit, "__init__", counted)
    committee(epochs=1).fit(X, VOTES)
    assert len(made) == 2  # without and with random units, for all members together


def test_after_a_failed_fit_a_committee_is_not_fitted():
    model = Committee(linear(n_features=5))
    with pytest.raises(FeatureError, match="5"):
        model.fit(X, VOTES)
    with pytest.raises(NotFittedError):
        model.predict_proba(X)


def test_a_refused_option_leaves_the_members_as_they_are():
    members = [TwoStage(MajorityVote(), linear())]
    model = Committee(linear(), members=members, lr=-1.0)
    with pytest.raises(ParameterError, match="'lr' option"):
        model.fit(X, VOTES)
    assert model.members is members


def test_label_models_with_the_same_options_are_fitted_once_for_both_losses():
    votes = VoteMatrix.from_dense(np.arange(360).reshape(120, 3) % 3, ["a", "b", "c"])
    model = Committee(Linear(3, 3), **{**QUICK, "epochs": 1}).fit(X, votes)
    members = dict(zip(model.member_weights_, model.members_, strict=True))
    assert members["feature_em"].label_model_ is members["feature_em_mig"].label_model_


def test_an_invalid_option_of_a_member_is_refused_if_another_has_the_same_soft_labels():
    members = [TwoStage(MajorityVote(), linear()), TwoStage(MajorityVote(), linear(), loss="mse")]  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="'loss' option"):
        Committee(linear(), members=members).fit(X, VOTES)


def test_one_item_is_predicted_by_all_networks_at_once_as_in_a_batch(tmp_path: Path) -> None:
    held_out, held_votes, held_gold = HELD_OUT
    network = MLP(3, 2, hidden=(4,))
    model = Committee(network, **QUICK).fit(X, VOTES, (held_out, held_gold, held_votes))
    model.save(tmp_path / "model")
    many = np.repeat(X[:40], 2, axis=0)
    for each in (model, load_model(tmp_path / "model")):
        assert fused_logits(each.end_model_, torch.zeros(1, 3)) is not None
        singles = np.concatenate([each.predict_proba(many[k : k + 1]) for k in range(0, 80, 2)])
        assert singles == pytest.approx(each.predict_proba(many)[::2], abs=1e-6)
