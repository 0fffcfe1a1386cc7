"""What WeaSEL can do beyond the paper's recipe, piece by piece."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tiny_task import linear, tiny_task, weasel

from wiesel import MajorityVote, TwoStage, VoteMatrix, WeaSEL, load_model
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.end_to_end.class_balance import aligned_to, chosen_class_balance
from wiesel.end_to_end.soft_labels import SoftLabelObjective
from wiesel.end_to_end.together import fit_together
from wiesel.end_to_end.weasel.recipes import RECIPES
from wiesel.end_to_end.weasel.teaching import Teacher
from wiesel.end_to_end.weasel.warm_start import (
    CANDIDATES,
    agreed_soft_labels,
    choose_warm_start,
    starts,
)
from wiesel.errors import ParameterError
from wiesel.labels import LabelSpace
from wiesel.nn import MLP
from wiesel.nn.encoders import VoteEncoder, Weighing
from wiesel.training import TrainingData, TrainOptions, as_inputs, seeded, train

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")

# So few steps may well end in one class; falling back is tested on its own.
QUICK: dict[str, Any] = {
    "epochs": 4,
    "epoch_size": 96,
    "warm_up": 2,
    "blind_epochs": 3,
    "fall_back": False,
}
EVEN = np.array([0.5, 0.5])


def robust(seed: int = 0, **options: Any) -> WeaSEL:
    with seeded(seed):
        network = MLP(3, 2, hidden=(6, 4))
    return WeaSEL(network, recipe="robust", encoder=(5,), seed=seed, **QUICK | options)


def held_out() -> tuple[Any, Any]:
    X, _, gold = tiny_task(seed=9)
    return X, gold


class FixedScores(torch.nn.Module):
    """An encoder network that gives the same scores to every item."""

    def __init__(self, *scores: float) -> None:
        super().__init__()
        self.scores = torch.tensor([scores])

    def forward(self, encoded: torch.Tensor) -> torch.Tensor:
        return self.scores.expand(len(encoded), -1)


def weights(votes: torch.Tensor, *scores: float, **options: Any) -> torch.Tensor:
    n_voters = votes.shape[1]
    weighing = Weighing(voting_only=True, **options)
    encoder = VoteEncoder(FixedScores(*scores), n_voters, weighing)
    return encoder(votes.flatten(start_dim=1), votes)


TWO_OF_THREE = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])


def test_a_recipe_fills_in_what_the_user_left_open():
    model = WeaSEL(linear(), recipe="robust", lr=0.5)
    assert model.lr == 0.5
    assert model.voting_only is True
    assert model.warm_start == "auto"


def test_what_the_user_says_counts_even_if_it_is_the_default_of_the_other_recipe():
    model = WeaSEL(linear(), recipe="robust", voting_only=False, members=1)
    assert (model.voting_only, model.members) == (False, 1)


def test_the_papers_recipe_is_the_papers():
    model = WeaSEL(linear(), recipe="paper")
    assert (model.tau_2, model.epochs, model.lr) == ("sqrt_voters", 150, 1e-4)
    assert not any((model.align, model.slow_targets, model.uncovered, model.warm_start))


def test_recipes_set_the_same_options():
    assert RECIPES["paper"].keys() == RECIPES["robust"].keys()


def test_a_clone_has_the_same_options():
    model = WeaSEL(linear(), recipe="robust", lr=0.5)
    assert clone(model).get_params()["lr"] == 0.5
    assert clone(model).get_params()["align"] is True


def test_a_new_recipe_changes_what_the_old_one_had_set_and_nothing_else():
    model = WeaSEL(linear(), recipe="robust", lr=0.5).set_params(recipe="paper")
    assert (model.lr, model.members, model.align) == (0.5, 1, False)


def test_an_unknown_recipe_is_refused_with_the_names():
    with pytest.raises(ParameterError, match="robust"):
        WeaSEL(linear(), recipe="rubost")


def test_the_teacher_lets_votes_update_the_prediction():
    teacher = Teacher(EVEN, prediction_weight=1.0, align=False)
    end, label = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]])
    for_end_model, for_encoder = teacher(end, label, torch.ones(1))
    assert torch.allclose(for_end_model, torch.softmax(end + label, -1))
    assert torch.allclose(for_encoder, torch.softmax(end, -1))


def test_without_weight_for_predictions_the_target_is_the_soft_label():
    teacher = Teacher(EVEN, prediction_weight=0.0, align=False)
    label = torch.tensor([[2.0, 0.0]])
    for_end_model, _ = teacher(torch.tensor([[0.0, 9.0]]), label, torch.ones(1))
    assert torch.allclose(for_end_model, torch.softmax(label, -1))


def test_an_item_without_votes_is_taught_its_sharpened_prediction():
    teacher = Teacher(EVEN, prediction_weight=0.0, align=False)
    end = torch.tensor([[1.0, 0.0]])
    for_end_model, _ = teacher(end, torch.zeros(1, 2), torch.zeros(1))
    assert torch.allclose(for_end_model, torch.softmax(2 * end, -1))


def test_aligned_targets_come_to_have_the_class_balance():
    teacher = Teacher(EVEN, prediction_weight=0.0, align=True)
    label = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    for _ in range(600):
        targets, _ = teacher(torch.zeros(3, 2), label, torch.ones(3))
    # Proportional, not exact: the shares are those before the correction.
    assert abs(targets.mean(dim=0)[0] - 0.5) < 0.05
    assert torch.softmax(label, -1).mean(dim=0)[0] > 0.7


def test_soft_labels_can_be_aligned_exactly():
    proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    aligned = aligned_to(np.array([0.3, 0.7]), proba)
    assert aligned.mean(axis=0) == pytest.approx([0.3, 0.7], abs=1e-3)
    assert (np.diff(aligned[:, 0]) < 0).all(), "the order of the items stays"


def test_the_balance_is_the_validation_sets_if_there_is_one():
    X, votes, _ = tiny_task()
    model = robust(members=1).fit(X, votes, validation=(X[:40], [0] * 10 + [1] * 30))
    tried = {name for name, candidate in CANDIDATES.items() if candidate.loss == "ce"}
    assert model.warm_start_["scores"].keys() == tried, "of two classes"
    assert model.selection_["by"] == "auc"


def voted(shares: list[int], n_voters: int) -> VoteMatrix:
    """Items on which one voter votes, so many for each class; the others abstain."""
    votes = np.full((sum(shares), n_voters), -1)
    votes[:, 0] = np.repeat(np.arange(len(shares)), shares)
    return VoteMatrix.from_dense(votes, LabelSpace(*"abc"[: len(shares)]))


def test_without_gold_voters_that_abstain_are_believed_half():
    balance = chosen_class_balance("auto", voted([81, 9, 1], n_voters=1000), None)
    assert balance == pytest.approx(np.array([9, 3, 1]) / 13, abs=0.01)


def test_without_gold_voters_that_never_abstain_are_believed():
    balance = chosen_class_balance("auto", voted([81, 9, 1], n_voters=1), None)
    assert balance == pytest.approx(np.array([81, 9, 1]) / 91, abs=0.01)


def test_without_gold_the_votes_for_two_classes_are_believed():
    balance = chosen_class_balance("auto", voted([9, 1], n_voters=50), None)
    assert balance == pytest.approx([0.9, 0.1], abs=0.01)


def training_data(X: np.ndarray, votes: VoteMatrix) -> TrainingData:
    return TrainingData(as_inputs(X), votes)


def without_features(votes: VoteMatrix) -> TrainingData:
    return training_data(np.zeros((votes.n_items, 1)), votes)


def soft_labels_of(name: str, data: TrainingData, balance: np.ndarray) -> np.ndarray:
    return next(starts([name], data, balance)).soft_labels


def test_without_gold_votes_of_two_classes_are_checked_against_the_features():
    X, votes, _ = tiny_task()
    data = training_data(X, votes)
    start = choose_warm_start(data, EVEN, None)
    assert start.name == "cross-checked"
    assert np.array_equal(start.soft_labels, soft_labels_of("cross-checked", data, EVEN))


def test_of_two_classes_the_votes_alone_say_what_is_cross_checked():
    X, votes, _ = tiny_task()
    data = training_data(X, votes)
    for balance in ([0.2, 0.8], [0.9, 0.1]):
        found = soft_labels_of("cross-checked", data, np.array(balance))
        assert np.array_equal(found, soft_labels_of("cross-checked", data, EVEN))


def test_where_the_features_cannot_tell_the_committee_does():
    _, votes, _ = tiny_task()
    data = without_features(votes)
    start = choose_warm_start(data, EVEN, None)
    assert start.name == "committee"
    assert np.array_equal(start.soft_labels, soft_labels_of("committee", data, EVEN))


def test_without_gold_the_start_of_more_classes_is_mutual_information():
    data = without_features(voted([8, 5, 2], n_voters=4))
    start = choose_warm_start(data, np.full(3, 1 / 3), None)
    assert (start.name, start.loss) == ("vote counts, aligned, mig", "mig")


def test_the_committee_leaves_out_whoever_is_alone():
    sure, other = np.array([[0.9, 0.1]]), np.array([[0.0, 1.0]])
    assert agreed_soft_labels([sure, sure, sure, sure, other]) == pytest.approx(sure, abs=1e-5)


def test_a_committee_of_which_no_two_agree_says_nothing():
    alone = list(np.eye(5)[:, None, :])
    assert agreed_soft_labels(alone) == pytest.approx(np.full((1, 5), 0.2))


def test_label_models_of_pairs_are_left_out_where_voters_are_thousands():
    data = without_features(voted([20, 20], n_voters=3_001))
    assert not list(starts(["snorkel", "triplet"], data, EVEN))
    assert len(list(starts(["majority_vote", "committee"], data, EVEN))) == 2


@pytest.mark.parametrize("name", list(CANDIDATES))
def test_every_candidate_gives_soft_labels(name: str):
    X, votes, _ = tiny_task()
    soft_labels = soft_labels_of(name, training_data(X, votes), np.array([0.4, 0.6]))
    assert soft_labels.shape == (votes.n_items, 2)
    assert np.allclose(soft_labels.sum(axis=1), 1)


def test_aligned_candidates_have_the_class_balance_on_covered_items():
    _, votes, _ = tiny_task()
    balance = np.array([0.3, 0.7])
    soft_labels = soft_labels_of("majority_vote, aligned", without_features(votes), balance)
    assert soft_labels[votes.covered].mean(axis=0) == pytest.approx(balance, abs=0.01)


@pytest.mark.parametrize("start", ["commitee", MajorityVote])
def test_what_is_no_start_is_refused(start: object):
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match=r"a label model, such as MajorityVote\(\), 'auto'"):
        robust(warm_start=start).fit(X, votes)


def test_a_warm_up_alone_is_two_stage_training():
    X, votes, _ = tiny_task()
    shared = {"epochs": 3, "lr": 0.01, "batch_size": 16, "seed": 4}
    start = MajorityVote()
    model = weasel(warm_start=start, warm_up=3, train_encoder=False, dropout=0.0, **shared)
    alone = TwoStage(start, linear(), **shared)
    model.fit(X, votes)
    alone.fit(X, votes)
    # The encoder draws its first weights before the order of the items is drawn.
    assert np.abs(model.predict_proba(X) - alone.predict_proba(X)).max() < 0.05
    assert model.warm_start_ == {"name": "MajorityVote", "loss": "ce", "scores": {}}


def test_the_best_start_is_chosen_where_one_label_model_is_much_better():
    votes, gold = make_votes(
        600, n_voters=8, accuracies=[0.95, 0.95, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5], coverage=0.9, seed=0
    )
    X = make_features(gold, n_features=4, seed=0)
    with seeded(0):
        network = MLP(4, 2, hidden=(8,))
    model = WeaSEL(network, recipe="robust", members=1, epochs=6, epoch_size=640)
    model.fit(X, votes, validation=(X[:150], gold[:150]))
    scores = model.warm_start_["scores"]
    assert model.warm_start_["name"] == max(scores, key=scores.__getitem__)


def test_mutual_information_does_not_mind_which_share_of_the_votes_a_class_got():
    votes, gold = make_votes(600, n_voters=5, accuracies=0.8, coverage=0.6, seed=2)
    X = make_features(gold, n_features=4, separation=1.5, seed=2)
    # Nine in ten of the votes for the second class are lost.
    dense = votes.dense()
    dense[(dense == 1) & (np.random.default_rng(0).random(dense.shape) < 0.9)] = -1
    skewed = VoteMatrix.from_dense(dense, votes.labels)
    targets = soft_labels_of("majority_vote, mig", without_features(skewed), EVEN)
    data = TrainingData(as_inputs(X), targets=targets, used=np.flatnonzero(skewed.covered))
    accuracy = {}
    for loss in ("ce", "mig"):
        with seeded(0):
            objective = SoftLabelObjective(MLP(4, 2, hidden=(8,)), loss, EVEN)
            train(objective, data, TrainOptions(epochs=40, lr=0.01, progress=False))
        predicted = objective.end_model(torch.from_numpy(X)).argmax(dim=1).numpy()
        accuracy[loss] = (predicted == gold).mean()
    assert accuracy["mig"] > accuracy["ce"] + 0.05


def test_interrupting_the_choice_of_a_start_interrupts_fit():
    X, votes, _ = tiny_task()

    class Interrupted(torch.nn.Linear):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            if self.training:
                raise KeyboardInterrupt
            return super().forward(values)

    model = WeaSEL(Interrupted(3, 2), recipe="robust", members=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, votes, validation=held_out())


def test_a_stack_of_the_robust_recipe_is_what_separate_training_gives():
    X, votes, _ = tiny_task()
    models = [robust(seed, members=1, warm_start=MajorityVote()) for seed in (0, 3)]
    alone = [copy.deepcopy(model).fit(X, votes, held_out()) for model in models]
    fit_together(models, X, votes, held_out())
    for ours, theirs in zip(models, alone, strict=True):
        assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
        assert ours.selection_["epoch"] == theirs.selection_["epoch"]


def test_items_without_votes_are_trained_on_only_where_asked():
    X, votes, _ = tiny_task(coverage=0.3)
    covered = int(votes.covered.sum())
    assert covered < len(X)
    assert robust(members=1).fit(X, votes, held_out()).trained_on_["items"] == len(X)
    model = robust(members=1, uncovered=False).fit(X, votes, held_out())
    assert model.trained_on_["items"] == covered


def test_blind_epochs_count_where_there_is_no_validation_set():
    X, votes, _ = tiny_task()
    assert len(robust(members=1).fit(X, votes).history_) == 3
    assert len(robust(members=1).fit(X, votes, held_out()).history_) == 4


def test_an_ensemble_of_the_robust_recipe_comes_back_from_disk(tmp_path):
    X, votes, _ = tiny_task()
    model = robust(members=2).fit(X, votes, held_out())
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.allclose(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.warm_start_ == model.warm_start_


def test_an_epoch_has_as_many_items_as_asked():
    X, votes, _ = tiny_task()
    seen: list[int] = []

    class Counting(torch.nn.Linear):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            if self.training:
                seen.append(len(values))
            return super().forward(values)

    weasel(Counting(3, 2), epochs=1, epoch_size=80, batch_size=16).fit(X, votes)
    assert sum(seen) == 80


def test_a_none_slot_takes_weight_from_all_voters():
    assert weights(TWO_OF_THREE, 0.0, 0.0, 0.0).sum().item() == pytest.approx(1)
    shared = weights(TWO_OF_THREE, 0.0, 0.0, 0.0, 0.0, none_slot=True)
    assert shared.tolist() == [[pytest.approx(1 / 3), pytest.approx(1 / 3), 0.0]]


def test_count_aware_weights_grow_with_the_votes():
    counted = weights(TWO_OF_THREE, 0.0, 0.0, 0.0, count_power=1.0)
    assert counted.tolist() == [[pytest.approx(1), pytest.approx(1), 0.0]]


def test_a_pull_keeps_the_weights_near_equal():
    X, votes, _ = tiny_task()
    options = {"voting_only": True, "equal_start": True, "epochs": 30, "lr": 0.05}
    free = weasel(**options).fit(X, votes).accuracies(X, votes)
    held = weasel(pull=20.0, **options).fit(X, votes).accuracies(X, votes)
    several = votes.votes_per_item > 1
    spread = [np.where(a[several] > 0, a[several], np.nan) for a in (free, held)]
    wide, narrow = (np.nanstd(part, axis=1).mean() for part in spread)
    assert narrow < wide / 2


def test_early_learning_regularization_holds_predictions_to_what_they_were():
    X, votes, _ = tiny_task()
    plain = weasel(epochs=20).fit(X, votes).predict_proba(X)
    held = weasel(epochs=20, early_learning=5.0).fit(X, votes).predict_proba(X)
    assert np.isfinite(held).all()
    # Its gradient favors the class that was predicted: predictions become surer.
    assert held.max(axis=1).mean() > plain.max(axis=1).mean()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"slow_targets": True}, "weight_average"),
        ({"loss": "mig", "align": True}, "symmetric"),
        ({"none_slot": True, "class_conditional": True}, "class_conditional"),
        ({"warm_up": -1}, "warm_up"),
        ({"prediction_weight": -1.0}, "prediction_weight"),
        ({"epoch_size": 0}, "epoch_size"),
        ({"class_balance": "vots"}, "auto"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], word: str):
    X, votes, _ = tiny_task()
    with pytest.raises(ParameterError, match=word):
        weasel(**options).fit(X, votes)
