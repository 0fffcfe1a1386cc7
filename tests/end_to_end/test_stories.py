"""Whole stories: what a new user does, from labeling functions to a loaded model."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.metrics import roc_auc_score

from wiesel import (
    LabelSpace,
    MajorityVote,
    Supervised,
    TwoStage,
    VoteMatrix,
    WeaSEL,
    apply_lfs,
    keywords,
    labeling_function,
    load_model,
    regex,
)
from wiesel.datasets.synthetic import make_features, make_votes
from wiesel.nn import MLP
from wiesel.training import seeded

# Networks of a few quick epochs may predict one class; here that is no matter.
pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.CollapseWarning")

FILLER = ("lunch", "meeting", "report", "train", "garden", "music", "winter", "coffee")


@pytest.fixture(autouse=True)
def _drawn_from_one_seed() -> Iterator[None]:
    with seeded(0):
        yield


def messages(n: int, seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    """Short texts; spam has prizes and links more often than ham, but not always."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, size=n)
    texts = []
    for label in gold:
        words = list(rng.choice(FILLER, size=4))
        for word, in_spam, in_ham in (
            ("prize", 0.6, 0.05),
            ("https://x.example", 0.5, 0.1),
            ("thanks", 0.1, 0.6),
            ("free", 0.5, 0.15),
            ("tomorrow", 0.1, 0.5),
        ):
            if rng.random() < (in_spam if label else in_ham):
                words.append(word)
        texts.append(" ".join(words))
    return pl.DataFrame({"text": texts}), gold


def bag_of_words(rows: pl.DataFrame) -> np.ndarray:
    vocabulary = (*FILLER, "prize", "https://x.example", "thanks", "free", "tomorrow")
    texts = rows["text"].to_list()
    return np.array([[float(w in t.split()) for w in vocabulary] for t in texts], np.float32)


def test_from_labeling_functions_to_a_loaded_model(tmp_path: Path):
    labels = LabelSpace("ham", "spam")

    @labeling_function
    def polite(row):
        return "ham" if "thanks" in row["text"] else None

    lfs = [
        keywords("spam", ["prize", "free"], column="text"),
        regex("spam", r"https?://", column="text"),
        polite,
    ]
    train, _ = messages(400, seed=0)
    dev, y_dev = messages(80, seed=1)
    test, y_test = messages(200, seed=2)
    votes = apply_lfs(lfs, train, labels=labels)
    X, X_dev, X_test = bag_of_words(train), bag_of_words(dev), bag_of_words(test)
    net = torch.nn.Sequential(torch.nn.Linear(13, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    model = WeaSEL(net, epochs=25, epoch_size=None, lr=0.01, seed=0, encoder=(16,))
    model.fit(X, votes, validation=(X_dev, y_dev))
    auc = roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])
    assert auc > 0.8
    item = int(np.flatnonzero(votes.covered)[0])
    explanation = model.explain(X[item], votes[item])
    assert {push.voter for push in explanation.pushes} <= set(votes.voters)
    assert explanation.label in labels
    model.save(tmp_path / "spam-model")
    loaded = load_model(tmp_path / "spam-model", end_model=net)
    assert (loaded.predict(X_test) == model.predict(X_test)).all()
    assert str(loaded.explain(X[item], votes[item])) == str(explanation)


def test_the_effects_of_an_explanation_add_up_to_the_soft_label():
    votes, gold = make_votes(200, 6, coverage=0.7, seed=3)
    X = make_features(gold, n_features=4, seed=3)
    balance = [0.7, 0.3]
    model = WeaSEL.paper(
        MLP(4, 2, hidden=(6,)), epochs=4, lr=0.01, tau_1=1.0, class_balance=balance
    )
    model.fit(X, votes)
    checked = 0
    for item in range(20):
        explanation = model.explain(X[item], votes[item])
        explained = explanation.labels.index(explanation.label)
        # Two classes: log-odds of the soft label = effects of the votes + log-odds of the prior.
        odds = np.log(explanation.soft_label[explained] / explanation.soft_label[1 - explained])
        prior = np.log(balance[explained] / balance[1 - explained])
        effects = sum(push.effect for push in explanation.pushes)
        assert odds == pytest.approx(effects + prior, abs=1e-5)
        checked += len(explanation.pushes)
    assert checked > 20


@pytest.mark.parametrize("kind", ["plain", "probabilistic"])
def test_class_conditional_effects_add_up_too(kind: str):
    votes, gold = make_votes(120, 5, coverage=0.8, seed=4)
    if kind == "probabilistic":
        proba = np.random.default_rng(0).dirichlet([1, 1], size=(120, 5))
        proba[votes.dense() < 0] = 0
        votes = VoteMatrix.from_proba(proba, votes.labels, votes.voters)
    X = make_features(gold, n_features=3, seed=4)
    model = WeaSEL.paper(
        MLP(3, 2, hidden=(6,)), epochs=3, lr=0.01, tau_1=1.0, class_conditional=True
    )
    model.fit(X, votes)
    for item in range(10):
        explanation = model.explain(X[item], votes[item])
        explained = explanation.labels.index(explanation.label)
        odds = np.log(explanation.soft_label[explained] / explanation.soft_label[1 - explained])
        assert odds == pytest.approx(sum(push.effect for push in explanation.pushes), abs=1e-5)


def two_voters(n_copies: int, n_items: int = 1200) -> tuple[np.ndarray, VoteMatrix, np.ndarray]:
    """The paper's robustness task: one perfect voter, and a coin flip duplicated many times."""
    _, gold = make_votes(n_items, 1, seed=5)
    X = make_features(gold, n_features=5, separation=1.3, seed=5)
    coin = np.random.default_rng(6).integers(0, 2, size=n_items)
    dense = np.column_stack([gold, *([coin] * n_copies)])
    return X, VoteMatrix.from_dense(dense, ["no", "yes"]), gold


@pytest.mark.slow
@pytest.mark.parametrize("n_copies", [2, 25])
def test_a_duplicated_coin_flip_does_not_fool_weasel(n_copies: int):
    """Majority vote follows the coin; WeaSEL comes near the network trained on the truth."""
    X, votes, gold = two_voters(n_copies)
    train, dev, test = slice(0, 800), slice(800, 900), slice(900, 1200)
    options = {"epochs": 60, "epoch_size": None, "lr": 3e-3, "seed": 0}
    longer = options | {"epochs": 20, "epoch_size": 3200}  # the items four times in an epoch
    net = MLP(5, 2, hidden=(20,), dropout=0.1)
    held_out = (X[dev], gold[dev])
    truth = Supervised(net, labels=votes.labels, **options)
    truth.fit(X[train], gold[train], validation=held_out)
    model = WeaSEL(net, encoder=(20,), **longer)
    model.fit(X[train], votes[train], validation=held_out)
    baseline = TwoStage(MajorityVote(), net, **options)
    baseline.fit(X[train], votes[train], validation=held_out)

    def auc(fitted) -> float:
        return float(roc_auc_score(gold[test], fitted.predict_proba(X[test])[:, 1]))

    assert auc(model) > auc(truth) - 0.02
    assert auc(model) > auc(baseline)
    soft = model.soft_labels(X[train], votes[train]).argmax(axis=1)
    assert (soft == gold[train]).mean() > 0.9
