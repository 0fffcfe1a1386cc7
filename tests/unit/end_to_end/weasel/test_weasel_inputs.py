"""What X may be, which modules may read it, and what is said of what cannot be used."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from tiny_task import FROZEN, VOTES_ONLY, linear, same_weights, tiny_task, weasel, weights_of
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from wiesel import VoteMatrix
from wiesel.end_to_end.evidence_models import FeatureChecked
from wiesel.end_to_end.vote_payloads import DensePayload
from wiesel.errors import FeatureError, ParameterError, TrainingError, VoteError
from wiesel.nn import CNN
from wiesel.training import as_inputs

# Two quick epochs of a tiny network may well predict one class; here that is no matter.
pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")


class RowsDataset(Dataset[Any]):
    """A Dataset whose items are made one at a time."""

    def __init__(self, rows: Any, wrap: Any = lambda row: row) -> None:
        self.rows, self.wrap = rows, wrap

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> Any:
        return self.wrap(self.rows[position])


class Reader(nn.Module):
    """A transformer-like module: reads a dict of tensors, returns an object with logits."""

    def __init__(self, n_classes: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        layer = nn.TransformerEncoderLayer(6, nhead=2, dim_feedforward=8, batch_first=True)
        self.body = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
        self.head = nn.Linear(6, n_classes)

    def forward(self, batch: dict[str, Tensor]) -> SimpleNamespace:
        mask = batch["attention_mask"] == 0
        states = self.body(self.embedding(batch["input_ids"]), src_key_padding_mask=mask)
        return SimpleNamespace(logits=self.head(states[:, 0]))


def tokens(n_items: int) -> dict[str, Tensor]:
    ids = torch.arange(n_items * 5).view(n_items, 5) % 19 + 1
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def memory_map(X: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def read_only(X: np.ndarray) -> np.ndarray:
    copied = X.copy()
    copied.setflags(write=False)
    return copied


KINDS = {
    "array": lambda X, folder: X,
    "double array": lambda X, folder: X.astype(np.float64),
    "read-only array": lambda X, folder: read_only(X),
    "big-endian array": lambda X, folder: X.astype(">f4"),
    "reversed twice": lambda X, folder: np.ascontiguousarray(X[::-1])[::-1],
    "memory map": memory_map,
    "tensor": lambda X, folder: torch.from_numpy(X),
    "tensor with gradient": lambda X, folder: torch.from_numpy(X).requires_grad_(),
    "list": lambda X, folder: X.tolist(),
    "tuple of arrays": lambda X, folder: tuple(X),
    "sparse matrix": lambda X, folder: sp.csr_matrix(X),
    "sparse array": lambda X, folder: sp.coo_array(X),
    "polars": lambda X, folder: pl.DataFrame(X),
    "pandas": lambda X, folder: pd.DataFrame(X),
    "TensorDataset": lambda X, folder: TensorDataset(torch.from_numpy(X), torch.zeros(len(X))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_numbers_train_the_same_network_whatever_they_came_as(kind: str, tmp_path: Path):
    X, votes, gold = tiny_task()
    expected = weasel().fit(X, votes, validation=(X, gold))
    given = KINDS[kind](X, tmp_path)
    model = weasel().fit(given, votes, validation=(given, gold))
    assert same_weights(weights_of(model.end_model_), weights_of(expected.end_model_))
    assert np.array_equal(model.predict_proba(given), expected.predict_proba(X))
    assert np.array_equal(model.soft_labels(given, votes), expected.soft_labels(X, votes))


@pytest.mark.parametrize(
    "wrap",
    [lambda row: row, torch.from_numpy, lambda row: (row, "meta"), lambda row: {"x": row}],
    ids=["arrays", "tensors", "tuples", "dicts"],
)
def test_a_dataset_trains_the_same_network_as_its_rows(wrap):
    class Unwrap(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = linear()

        def forward(self, batch: Tensor | dict[str, Tensor]) -> Tensor:
            return self.layer(batch["x"] if isinstance(batch, dict) else batch)

    X, votes, gold = tiny_task()
    expected = weasel(Unwrap()).fit(X, votes, validation=(X, gold), encoder_X=X)
    dataset = RowsDataset(X, wrap)
    model = weasel(Unwrap()).fit(dataset, votes, validation=(dataset, gold), encoder_X=X)
    assert same_weights(weights_of(model.end_model_), weights_of(expected.end_model_))
    assert np.array_equal(
        model.soft_labels(dataset, votes, encoder_X=X), model.soft_labels(X, votes)
    )


def test_a_dict_of_tensors_feeds_a_transformer_and_encoder_x_its_encoder():
    X, votes, gold = tiny_task()
    texts = tokens(len(X))
    model = weasel(Reader()).fit(texts, votes, validation=(texts, gold), encoder_X=X)
    assert model.predict_proba(texts).shape == (48, 2)
    assert model.soft_labels(texts, votes, encoder_X=X).shape == (48, 2)
    one = {name: value[3] for name, value in texts.items()}
    assert model.explain(one, votes[3], encoder_X=X[3]).item == 3


def test_the_start_checks_votes_against_the_features_of_the_encoder():
    X, votes, _ = tiny_task()
    model = weasel(Reader(), start=FeatureChecked(), warm_up=1)
    plan = model._plan(model.fit_inputs(tokens(len(X)), votes, X), None, None)
    checked = FeatureChecked().fit(votes, plan.class_balance, X=X)
    assert np.allclose(plan.targets, checked.predict_proba(votes, X))
    shares = votes.counts() / np.maximum(votes.counts().sum(axis=1, keepdims=True), 1)
    assert not np.allclose(plan.targets[votes.covered], shares[votes.covered], atol=0.05)


def test_token_ids_are_no_encoder_features():
    X, votes, _ = tiny_task()
    with pytest.raises(FeatureError, match=r"encoder_X=.*EncoderLayers\(features=False\)"):
        weasel(Reader()).fit(tokens(len(X)), votes)
    with pytest.raises(FeatureError, match="plain feature vector"):
        weasel().fit(X, votes, encoder_X=np.ones((48, 2), dtype=np.int64))


def test_the_encoder_may_read_the_votes_alone():
    X, votes, _ = tiny_task()
    model = weasel(Reader(), encoder=VOTES_ONLY).fit(tokens(len(X)), votes)
    assert model.encoder_width_ == 0
    assert model.soft_labels(tokens(len(X)), votes).shape == (48, 2)
    with pytest.raises(
        ParameterError, match=r"encoder_X is given, but EncoderLayers\(features=False\)"
    ):
        weasel(Reader(), encoder=VOTES_ONLY).fit(tokens(len(X)), votes, encoder_X=X)


def test_a_dict_of_a_polars_column_and_a_list_is_read():
    class Sum(nn.Linear):
        def forward(self, batch: dict[str, Tensor]) -> Tensor:
            return super().forward(torch.stack([batch["a"], batch["b"]], dim=1))

    X, votes, _ = tiny_task()
    columns = {"a": pl.Series(X[:, 0]), "b": X[:, 1].tolist()}
    assert weasel(Sum(2, 2), encoder=VOTES_ONLY).fit(columns, votes).predict(columns).size == 48


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(4, 2)),
    ],
    ids=["sequential", "batch norm", "convolution"],
)
def test_any_module_that_returns_logits_is_an_end_model(module: nn.Module):
    X, votes, _ = tiny_task()
    model = weasel(module).fit(X, votes)
    assert type(model.end_model_) is type(module)
    assert model.end_model_ is not module


def test_images_feed_a_convolutional_network_and_can_be_explained():
    _, votes, _ = tiny_task()
    images = np.linspace(-1, 1, 48 * 16, dtype=np.float32).reshape(48, 1, 4, 4)
    model = weasel(CNN(1, 2, filters=(2, 2)), encoder=VOTES_ONLY).fit(images, votes)
    assert model.predict_proba(images).shape == (48, 2)
    # One channel: an item of the shape (1, 4, 4) is an image, not a batch of one.
    explanation = model.explain(images[5], votes[5])
    assert np.allclose(explanation.end_proba, model.predict_proba(images[5:6])[0], atol=1e-6)


def test_batch_norm_trains_where_the_last_batch_would_be_a_single_item():
    X, votes, _ = tiny_task(n_items=33, coverage=1.0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    assert len(weasel(net, batch_size=16).fit(X, votes).history_) == 2


def test_fewer_covered_items_than_a_batch_are_one_batch():
    X, votes, _ = tiny_task()
    few = VoteMatrix.from_dense(
        np.where(np.arange(48)[:, None] < 5, 1, -1).repeat(4, 1), votes.labels, votes.voters
    )
    model = weasel(batch_size=1000).fit(X, few)
    assert model.trained_on_["items"] == 5


def test_two_covered_items_are_enough_and_one_is_not():
    X, votes, _ = tiny_task()
    dense = np.full((48, 4), -1)
    dense[[3, 9]] = [[0, 0, -1, -1], [1, -1, -1, 1]]
    assert weasel().fit(X, VoteMatrix.from_dense(dense, votes.labels)).trained_on_["items"] == 2
    dense[9] = -1
    with pytest.raises(
        VoteError, match="Only 1 of 48 items have a vote; training needs at least two"
    ):
        weasel().fit(X, VoteMatrix.from_dense(dense, votes.labels))


def test_votes_that_all_abstain_are_refused():
    X, votes, _ = tiny_task()
    with pytest.raises(VoteError, match="Only 0 of 48 items have a vote"):
        weasel().fit(X, VoteMatrix.from_dense(np.full((48, 4), -1), votes.labels))


def test_one_voter_is_enough():
    X, votes, _ = tiny_task()
    model = weasel().fit(X, votes.select([votes.voters[0]]))
    assert np.allclose(model.accuracies(X, votes.select([votes.voters[0]])), 1)


class TestRefusals:
    @pytest.mark.parametrize(
        ("module", "words"),
        [
            (nn.Linear(3, 1), r"shape \(items, 2\).*returned \(8, 1\).*return two logits"),
            (nn.Linear(3, 3), r"\(items, 2\).*\(8, 3\)"),
            (nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), r"returned \(8,\).*two logits"),
            (nn.Sequential(nn.Linear(3, 2), nn.Softmax(dim=1)), "probabilities.*Drop its final"),
            (nn.Linear(7, 2), r"cannot read X: X has 3 features, and .* takes 7"),
            (nn.Embedding(9, 2), "cannot read X"),
        ],
        ids=["one logit", "three logits", "flat", "probabilities", "other width", "wants ids"],
    )
    def test_a_module_that_does_not_return_logits_is_refused_with_the_shape(self, module, words):
        X, votes, _ = tiny_task()
        with pytest.raises(FeatureError, match=words):
            weasel(module).fit(X, votes)

    @pytest.mark.parametrize(
        ("output", "words"),
        [
            (lambda logits: logits.sum(), r"returned \(\)"),
            (lambda logits: (logits, logits), "tensor of logits.*returned tuple"),
            (lambda logits: {"scores": logits}, "returned dict"),
            (lambda logits: logits.unsqueeze(1), r"returned \(8, 1, 2\)"),
            (lambda logits: logits[:3], r"for 8 items it returned \(3, 2\)"),
        ],
        ids=["scalar", "tuple", "dict", "extra dimension", "too few rows"],
    )
    def test_odd_outputs_are_named(self, output, words: str):
        class Odd(nn.Linear):
            def forward(self, features: Tensor) -> Any:
                return output(super().forward(features))

        X, votes, _ = tiny_task()
        with pytest.raises(FeatureError, match=words):
            weasel(Odd(3, 2)).fit(X, votes)

    def test_logits_may_be_in_a_dict(self):
        class InDict(nn.Linear):
            def forward(self, features: Tensor) -> Any:
                return {"logits": super().forward(features), "hidden": features}

        X, votes, _ = tiny_task()
        torch.manual_seed(0)
        plain, in_dict = nn.Linear(3, 2), InDict(3, 2)
        in_dict.load_state_dict(plain.state_dict())
        probas = [weasel(net).fit(X, votes).predict_proba(X) for net in (plain, in_dict)]
        np.testing.assert_allclose(*probas, atol=1e-6)

    @pytest.mark.parametrize(
        "error", [AssertionError(), KeyError("tokens"), AttributeError("no .size"), IndexError()]
    )
    def test_a_module_that_raises_is_quoted(self, error: Exception):
        class Broken(nn.Linear):
            def forward(self, features: Tensor) -> Tensor:
                raise error

        X, votes, _ = tiny_task()
        with pytest.raises(FeatureError, match=f"cannot read X: {type(error).__name__}"):
            weasel(Broken(3, 2)).fit(X, votes)

    def test_what_is_no_module_is_refused(self):
        X, votes, _ = tiny_task()
        with pytest.raises(ParameterError, match=r"must be a torch\.nn\.Module"):
            weasel("MLP").fit(X, votes)

    def test_a_module_without_trainable_parameters_is_refused(self):
        X, votes, _ = tiny_task()
        with pytest.raises(TrainingError, match="nothing to train"):
            weasel(linear().requires_grad_(False), encoder=FROZEN).fit(X, votes)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("kind", sorted(set(KINDS) - {"reversed twice"}))
    def test_a_feature_that_is_not_finite_is_named_by_row_and_position(self, kind, value, tmp_path):
        X, votes, _ = tiny_task()
        X[7, 2] = value
        with pytest.raises(
            FeatureError, match=rf"(?i)X is {value} at row 7, position 2.*Fill or drop"
        ):
            weasel().fit(KINDS[kind](X, tmp_path), votes)

    def test_nan_in_a_dict_a_dataset_the_encoder_s_features_and_the_validation_set(self):
        X, votes, gold = tiny_task()
        bad = X.copy()
        bad[7, 2] = np.nan
        votes_only = weasel(encoder=VOTES_ONLY)
        with pytest.raises(FeatureError, match=r"X\['a'\] is NaN at row 7, position 2"):
            votes_only.fit({"a": bad}, votes)
        with pytest.raises(FeatureError, match="X is NaN at row 7, position 2"):
            votes_only.fit(RowsDataset(bad), votes)
        with pytest.raises(FeatureError, match="encoder_X is NaN at row 7, position 2"):
            weasel().fit(X, votes, encoder_X=bad)
        with pytest.raises(FeatureError, match="validation X is NaN at row 7, position 2"):
            weasel().fit(X, votes, validation=(bad, gold))

    def test_lengths_that_differ_are_named(self):
        X, votes, gold = tiny_task()
        with pytest.raises(FeatureError, match="X has 40, votes has 48"):
            weasel().fit(X[:40], votes)
        with pytest.raises(FeatureError, match="X has 48, votes has 48, encoder_X has 47"):
            weasel().fit(X, votes, encoder_X=X[:47])
        with pytest.raises(FeatureError, match="48 inputs and 47 gold labels"):
            weasel().fit(X, votes, validation=(X, gold[:47]))
        with pytest.raises(FeatureError, match="0 inputs and 0 gold labels"):
            weasel().fit(X, votes, validation=(X[:0], gold[:0]))
        with pytest.raises(FeatureError, match="no items: X is empty"):
            weasel().fit(X[:0], votes[:0])
        with pytest.raises(FeatureError, match="must be equally long"):
            weasel().fit({"a": X, "b": X[:40]}, votes)

    def test_votes_outside_the_classes_are_refused(self):
        X, votes, _ = tiny_task()
        with pytest.raises(VoteError, match=r"'voter_1' voted 2 on row 0.*'class_0', 'class_1'"):
            weasel().fit(X, VoteMatrix.from_dense([[0, 2]], votes.labels))

    def test_votes_that_are_a_bare_array_are_refused(self):
        X, votes, _ = tiny_task()
        with pytest.raises(VoteError, match="must be a VoteMatrix; got ndarray"):
            weasel().fit(X, votes.dense())

    @pytest.mark.parametrize(
        ("validation", "error", "words"),
        [
            (5, ParameterError, r"must be \(X, y\).*or \(X, y, votes\)"),
            (lambda X, y: (X, y, y, y), ParameterError, r"must be \(X, y\)"),
            (lambda X, y: (X, y, y), ParameterError, "must be a VoteMatrix.*got ndarray"),
            (lambda X, y: (X, y, tiny_task().votes[:9]), FeatureError, "48 gold.*on 9 items"),
            (lambda X, y: (X, y, tiny_task(n_voters=3).votes), VoteError, "voter_3"),
            (lambda X, y: (X, y + 5), FeatureError, "label of row"),
            (lambda X, y: (X, np.full(48, "eggs")), FeatureError, "'eggs'.*'class_0'"),
            (lambda X, y: (X, [None] * 48), FeatureError, "row 0 is None"),
            (lambda X, y: (X[:, :2], y), FeatureError, "cannot read"),
        ],
    )
    def test_a_validation_set_that_cannot_be_used_is_refused(self, validation, error, words):
        X, votes, gold = tiny_task()
        given = validation(X, gold) if callable(validation) else validation
        with pytest.raises((error, ValueError), match=words):
            weasel().fit(X, votes, validation=given)

    @pytest.mark.parametrize(
        ("X", "words"),
        [
            ("text", "array, a tensor.*got str"),
            (None, "got NoneType"),
            (5, "got int"),
            (np.array(["a", "b"]), "array of numbers"),
            ([[1.0], [1.0, 2.0]], "not a rectangular array"),
            ([{"a": 1}], "array of numbers"),
            (torch.zeros(3, 2, dtype=torch.complex64), "array of numbers"),
            (torch.zeros(3, 2).to_sparse(), "array of numbers"),
            (sp.csr_array(np.ones((2, 2), dtype=complex)), "sparse matrix of numbers"),
            (iter([1, 2]), "got list_iterator"),
            ({}, "equally long"),
            (RowsDataset([torch.zeros(2), torch.zeros(3)]), "do not make a batch"),
            (RowsDataset(["a", "b"]), "must be tensors.*got str"),
            (pl.DataFrame({"a": ["x"]}), "array of numbers"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_what_cannot_be_read_as_inputs_is_refused(self, X, words: str):
        _, votes, _ = tiny_task(n_items=2, coverage=1.0)
        with pytest.raises(FeatureError, match=words):
            weasel(encoder=VOTES_ONLY).fit(X, votes)

    def test_a_dataset_without_a_length_is_refused(self):
        class Endless(Dataset[Tensor]):
            def __getitem__(self, position: int) -> Tensor:
                return torch.zeros(3)

        _, votes, _ = tiny_task()
        with pytest.raises(FeatureError, match="with a length"):
            weasel().fit(Endless(), votes)

    def test_an_empty_dataset_is_refused(self):
        _, votes, _ = tiny_task()
        with pytest.raises(FeatureError, match="X is empty"):
            weasel(encoder=VOTES_ONLY).fit(RowsDataset([]), votes[:0])

    def test_a_failed_fit_leaves_the_model_unfitted(self):
        X, votes, _ = tiny_task()
        model = weasel(nn.Linear(7, 2))
        with pytest.raises(FeatureError):
            model.fit(X, votes)
        assert not hasattr(model, "labels_")


class TestAfterFit:
    def test_other_voters_are_refused_by_name(self):
        X, votes, _ = tiny_task()
        model = weasel().fit(X, votes)
        with pytest.raises(VoteError, match="missing: 'voter_3'"):
            model.soft_labels(X, votes.select(votes.voters[:3]))
        with pytest.raises(VoteError, match="order differs"):
            model.soft_labels(X, votes.select(votes.voters[::-1]))

    def test_other_features_are_refused_by_their_number(self):
        X, votes, _ = tiny_task()
        model = weasel().fit(X, votes)
        with pytest.raises(FeatureError, match="trained on 3 features; these items have 2"):
            model.soft_labels(X[:, :2], votes)

    def test_no_items_give_no_rows(self):
        X, votes, _ = tiny_task()
        model = weasel().fit(X, votes)
        assert model.predict_proba(X[:0]).shape == (0, 2)
        assert model.predict(X[:0]).shape == (0,)

    def test_the_rows_of_a_prediction_do_not_depend_on_each_other(self):
        X, votes, _ = tiny_task()
        model = weasel().fit(X, votes)
        assert np.allclose(model.predict_proba(X)[10:12], model.predict_proba(X[10:12]), atol=1e-7)
        some = model.soft_labels(X[10:12], votes[10:12])
        assert np.allclose(model.soft_labels(X, votes)[10:12], some, atol=1e-7)


def test_an_item_takes_its_votes_twice_and_its_features():
    votes = VoteMatrix.from_dense([[0, 1, -1]], ["a", "b"])
    inputs = as_inputs(np.zeros((1, 5), dtype=np.float32))
    # Floats of four bytes: 3 voters and 2 statistics, 2 classes, and 5 features.
    statistics = (("fixes", 0, 1), ("fixes", 1, 2))
    assert DensePayload(votes, inputs).item_bytes == 2 * 4 * 3 * 2
    assert DensePayload(votes, inputs, inputs, statistics).item_bytes == 2 * 4 * 5 * 2 + 4 * 5
