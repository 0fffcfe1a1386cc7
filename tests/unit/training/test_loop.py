import math
from collections.abc import Callable
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wiesel.errors import ParameterError, TrainingError
from wiesel.nn.end_models import evaluating, logits_of
from wiesel.training import (
    Batch,
    Objective,
    Record,
    TrainingData,
    TrainOptions,
    Validation,
    as_inputs,
    seeded,
    train,
)
from wiesel.training.loop import predict_logits
from wiesel.training.objective import SoftLabelObjective, check_losses, resolve_device

QUICK = {"lr": 0.1, "batch_size": 4}
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(12, 2)
GOLD = (X[:, 0] > 0).astype(np.int64)


class Regression(Objective):
    """A linear model with the plainest of losses; `on_step` may interfere."""

    def __init__(self, on_step: Callable[[int], None] = lambda step: None) -> None:
        super().__init__()
        with seeded(0):
            self.end_model = nn.Linear(2, 2)
        self.on_step, self.steps, self.epochs = on_step, 0, []

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        self.steps += 1
        self.on_step(self.steps)
        logits, gold = self.end_model(batch.inputs), torch.from_numpy(GOLD)[batch.rows]
        return {"end_model": torch.nn.functional.cross_entropy(logits, gold)}

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        self.epochs.append(epoch)

    def diagnose(self, data: TrainingData) -> Record:
        return {"bias": self.end_model.bias.sum().item()}


def data() -> TrainingData:
    return TrainingData(as_inputs(X))


def held_out(gold: np.ndarray = GOLD) -> Validation:
    return Validation(as_inputs(X), gold, 2)


def test_every_epoch_visits_every_item_once_in_a_new_order():
    seen: list[list[int]] = []

    class Watching(Regression):
        def losses(self, batch: Batch) -> dict[str, Tensor]:
            seen.append(batch.rows.tolist())
            return super().losses(batch)

    with seeded(1):
        train(Watching(), data(), TrainOptions(epochs=2, **QUICK))
    epochs = [list(chain(*seen[:3])), list(chain(*seen[3:]))]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(12))
    assert epochs[0] != epochs[1]


def test_the_history_has_mean_losses_and_what_the_objective_tells():
    objective = Regression()
    history = train(objective, data(), TrainOptions(epochs=3, **QUICK))
    assert history.column("epoch") == objective.epochs == [1, 2, 3]
    assert set(history.last) == {"epoch", "loss_end_model", "bias"}
    assert history.column("loss_end_model")[-1] < history.column("loss_end_model")[0]
    assert history.last["bias"] == pytest.approx(objective.end_model.bias.sum().item())


def test_the_loss_of_the_first_epoch_is_the_mean_over_batches():
    losses = []

    class Noting(Regression):
        def losses(self, batch: Batch) -> dict[str, Tensor]:
            found = super().losses(batch)
            losses.append(found["end_model"].item())
            return found

    history = train(Noting(), data(), TrainOptions(epochs=1, **QUICK))
    assert history.last["loss_end_model"] == pytest.approx(np.mean(losses))


def test_the_weights_of_the_best_epoch_are_kept():
    """The validation labels are reversed, so the first epoch is the best."""
    reversed_gold = held_out(1 - GOLD)
    objective = Regression()
    history = train(objective, data(), TrainOptions(epochs=5, **QUICK), reversed_gold)
    assert history.best_epoch == 1
    assert history.column("validation_auc")[-1] < history.column("validation_auc")[0]
    score = reversed_gold.score(
        torch.softmax(predict_logits(objective.end_model, as_inputs(X)), 1).double().numpy()
    )
    assert score == pytest.approx(history.column("validation_auc")[0])


def test_epochs_before_the_first_are_not_selected():
    """The validation labels are reversed, so every epoch is worse than the one before."""
    options = TrainOptions(epochs=5, first_epoch=3, **QUICK)
    history = train(Regression(), data(), options, held_out(1 - GOLD))
    assert history.best_epoch == 3


def test_patience_stops_when_the_score_no_longer_improves():
    history = train(
        Regression(), data(), TrainOptions(epochs=50, patience=3, **QUICK), held_out(1 - GOLD)
    )
    assert len(history) == history.best_epoch + 3


def test_patience_needs_a_validation_set_to_count():
    history = train(Regression(), data(), TrainOptions(epochs=6, patience=1, **QUICK))
    assert len(history) == 6


class TestInterruption:
    @staticmethod
    def at(step: int) -> Callable[[int], None]:
        def interrupt(now: int) -> None:
            if now == step:
                raise KeyboardInterrupt

        return interrupt

    def test_before_the_first_epoch_that_may_be_selected_it_keeps_the_last_weights(self):
        options = TrainOptions(epochs=9, first_epoch=5, **QUICK)
        history = train(Regression(self.at(8)), data(), options, held_out(1 - GOLD))
        assert history.interrupted
        assert history.best_epoch == len(history) == 2

    def test_it_keeps_the_best_weights_so_far(self):
        objective = Regression(self.at(8))  # three steps an epoch: in the third epoch
        history = train(objective, data(), TrainOptions(epochs=9, **QUICK), held_out(1 - GOLD))
        assert history.interrupted
        assert len(history) == 2
        proba = torch.softmax(predict_logits(objective.end_model, as_inputs(X)).double(), 1).numpy()
        assert held_out(1 - GOLD).score(proba) == max(history.column("validation_auc"))

    def test_in_the_first_epoch_it_keeps_what_there_is(self):
        objective = Regression(self.at(2))
        history = train(objective, data(), TrainOptions(epochs=9, **QUICK), held_out())
        assert history.interrupted
        assert len(history) == 0
        assert history.best_epoch is None

    def test_it_leaves_networks_ready_to_predict(self):
        objective = Regression(self.at(5))
        train(objective, data(), TrainOptions(epochs=9, **QUICK))
        assert not objective.training
        assert all(parameter.grad is None for parameter in objective.parameters())

    def test_in_the_middle_of_validation_the_history_stays_consistent(self):
        class Impatient(Validation):
            def score(self, proba: np.ndarray) -> float:
                if len(scores) == 2:
                    raise KeyboardInterrupt
                scores.append(super().score(proba))
                return scores[-1]

        scores: list[float] = []
        validation = Impatient(as_inputs(X), GOLD, 2)
        history = train(Regression(), data(), TrainOptions(epochs=9, **QUICK), validation)
        assert history.interrupted
        assert history.column("validation_auc") == scores
        assert history.kept["validation_auc"] == max(scores)


class TestDivergence:
    def test_a_loss_that_is_not_finite_ends_training_with_advice(self):
        class Bad(Regression):
            def losses(self, batch: Batch) -> dict[str, Tensor]:
                found = super().losses(batch)
                return {"end_model": found["end_model"] * (math.nan if self.steps > 3 else 1.0)}

        words = r"loss of the end model became nan in epoch 2\. Lower the learning rate \(lr=0\.1"
        with pytest.raises(TrainingError, match=words):
            train(Bad(), data(), TrainOptions(epochs=5, **QUICK))

    def test_weights_that_overflow_are_noticed_by_the_validation_set(self):
        options = TrainOptions(epochs=3, lr=1e38, batch_size=100)
        with pytest.raises(TrainingError, match=r"became (infinite or NaN|nan|inf) in epoch"):
            train(Regression(), data(), options, held_out())


def test_nothing_to_train_is_said():
    objective = Regression()
    objective.requires_grad_(False)
    with pytest.raises(TrainingError, match="nothing to train"):
        train(objective, data(), TrainOptions())


def test_a_network_that_is_kept_as_it_is_does_not_stop_the_other():
    class TwoLosses(Regression):
        def losses(self, batch: Batch) -> dict[str, Tensor]:
            return super().losses(batch) | {"frozen": torch.tensor(1.0)}

    history = train(TwoLosses(), data(), TrainOptions(epochs=1, **QUICK))
    assert history.last["loss_frozen"] == 1.0


def test_a_bar_is_shown_on_request_only(capsys: pytest.CaptureFixture[str]):
    train(Regression(), data(), TrainOptions(epochs=2, **QUICK))
    assert capsys.readouterr() == ("", "")
    train(Regression(), data(), TrainOptions(epochs=2, progress=True, **QUICK), held_out())
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2/2" in shown.err
    assert "auc" in shown.err


def test_devices_are_named_or_found():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ParameterError, match="device 'gpu' cannot be used here"):
        resolve_device("gpu")


class TestValidation:
    def test_two_classes_are_scored_by_auc_and_more_by_accuracy(self):
        proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]])
        two = Validation(as_inputs(np.zeros((4, 1))), np.array([0, 0, 1, 1]), 2)
        # Of the four pairs (0, 1), three are in order.
        assert (two.metric, two.score(proba)) == ("auc", 0.75)
        three = Validation(as_inputs(np.zeros((2, 1))), np.array([0, 2]), 3)
        assert three.score(np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])) == 0.5
        one_class = Validation(as_inputs(np.zeros((2, 1))), np.array([1, 1]), 2)
        assert one_class.metric == "accuracy"

    def test_evaluation_mode_ends_as_every_part_was(self):
        module = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
        module[1].eval()

        def fail() -> None:
            with evaluating(module):
                assert not module.training
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert [part.training for part in module.modules()] == [True, True, False]

    def test_many_items_are_predicted_in_parts(self, monkeypatch: pytest.MonkeyPatch):
        module = nn.Linear(2, 2)
        whole = predict_logits(module, as_inputs(X))
        monkeypatch.setattr("wiesel.training.loop._PREDICTED_ITEMS", 5)
        assert torch.allclose(predict_logits(module, as_inputs(X)), whole)
        assert predict_logits(module, as_inputs(X), np.array([3])).shape == (1, 2)
        assert len(predict_logits(module, as_inputs(X[:0]))) == 0

    def test_logits_may_be_an_attribute(self):
        class Wrapped(nn.Linear):
            def forward(self, inputs):
                return SimpleNamespace(logits=super().forward(inputs))

        assert logits_of(Wrapped(2, 3), torch.zeros(1, 2)).shape == (1, 3)

    def test_a_dict_is_handed_over_by_keyword_where_forward_has_these_names(self):
        class ByKeyword(nn.Linear):
            def forward(self, input_ids, attention_mask):
                return super().forward(input_ids * attention_mask)

        inputs = {"input_ids": torch.ones(1, 2), "attention_mask": torch.ones(1, 2)}
        assert logits_of(ByKeyword(2, 3), inputs).shape == (1, 3)


def test_the_history_counts_the_classes_that_are_most_probable():
    """The network returns its input, so the largest number of each row is its prediction."""
    targets = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]])
    logits = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
    objective = SoftLabelObjective(nn.Identity(), targets)
    assert objective.diagnose(TrainingData(as_inputs(logits))) == {
        "agreement": 0.5,
        "predicted_shares": [0.25, 0.25, 0.5],
        "voted_shares": [0.5, 0.25, 0.25],
    }


@pytest.mark.parametrize("loss", [0.5, torch.tensor(1), torch.tensor([0.5, 0.5]), torch.zeros(0)])
def test_a_loss_is_one_number_of_torch_for_each_network(loss):
    check_losses({"own": torch.tensor([0.5])}, "Own", 1)
    with pytest.raises(TrainingError, match=r"The loss 'own' of Own must be a tensor with one"):
        check_losses({"own": loss}, "Own", 1)
