"""Makes a task from its spec: base rows with classes, new splits, inputs and votes.

task = make_task(spec_named("agnews-01"))
TwoStage(MajorityVote(), net).fit(task.X_train, task.votes)
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from experiments.tasks.bases import Base, load_base
from experiments.tasks.classes import make_classes
from experiments.tasks.families import FamilySpec, own_rules, resampled_rows
from experiments.tasks.inputs import make_inputs
from experiments.tasks.rules import Material
from experiments.tasks.specs import TaskSpec
from experiments.tasks.voters import draw_votes
from wiesel import LabelSpace, VoteMatrix
from wiesel.features import Standardizer

MOST_TEST_ITEMS = 3000
TEST_ITEMS = 500
"""The desired minimum; a small base gives two fifths of its items."""
FEW_GOLD = 50

Indices = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Task:
    """A weak-supervision task: all data a method may use, and the gold to score it."""

    spec: TaskSpec
    labels: LabelSpace
    X_train: Matrix
    votes: VoteMatrix
    y_train: Indices
    """Gold for the reference row that is trained on gold, and for vote statistics."""
    X_valid: Matrix
    y_valid: Indices
    valid_votes: VoteMatrix
    X_test: Matrix
    y_test: Indices

    @property
    def name(self) -> str:
        """The name of its spec."""
        return self.spec.name

    @property
    def half(self) -> str:
        """The half of its base: choose or confirm."""
        return self.spec.half

    @property
    def metric(self) -> Literal["auc", "accuracy"]:
        """The metric of the task."""
        return "auc" if len(self.labels) == 2 else "accuracy"

    @property
    def fingerprint(self) -> str:
        """A hash of votes, inputs and gold: the same each time on one machine."""
        digest = hashlib.sha256()
        for array in (self.votes.dense(), self.valid_votes.dense(), self.X_train, self.X_valid):
            digest.update(np.ascontiguousarray(array).tobytes())
        for array in (self.X_test, self.y_train, self.y_valid, self.y_test):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def score(self, proba: npt.NDArray[np.floating]) -> float:
        """Return the metric for the predicted probabilities of the test items."""
        if self.metric == "auc":
            return float(roc_auc_score(self.y_test, proba[:, 1]))
        return float((proba.argmax(axis=1) == self.y_test).mean())

    def figures(self, model: Any) -> dict[str, float]:
        """Return a model's four figures on the test items."""
        return four_figures(model, self.X_test, self.y_test)

    def gold(self, n_items: int | None = None) -> tuple[Matrix, Indices, VoteMatrix]:
        """Return the validation items with gold and votes; with `n_items`, only the first ones.

        Items are in random order, except that one of each class comes first: a person who labels
        a few items makes sure that no class is missing.
        """
        return self.X_valid[:n_items], self.y_valid[:n_items], self.valid_votes[:n_items]


def four_figures(model: Any, X: Any, y: Indices) -> dict[str, float]:
    """Return the main score, and accuracy and macro F1 as shipped, and the log loss."""
    from sklearn.metrics import f1_score

    proba = model.predict_proba(X)
    predicted = model.labels_.indices(model.predict(X))
    of_gold = proba[np.arange(len(proba)), y]
    accuracy = float((predicted == y).mean())
    binary = proba.shape[1] == 2
    found = {
        "score": float(roc_auc_score(y, proba[:, 1])) if binary else accuracy,
        "accuracy": accuracy,
        "macro_f1": float(f1_score(y, predicted, average="macro", zero_division=0)),
        "log_loss": float(-np.log(of_gold.clip(1e-6)).mean()),
    }
    return {name: round(value, 6) for name, value in found.items()}


def make_task(spec: TaskSpec, base: Base | None = None) -> Task:
    """Return the task of a spec; the same spec always gives the same task.

    `base` are other data than those that the spec names.
    """
    if isinstance(spec, FamilySpec) and spec.has_own_rules:
        return _resampled(spec)
    base = base or load_base(spec.base)
    classes = make_classes(spec, base)
    rows = _drawn_rows(spec, classes)
    train, valid, test = _split(spec, classes[rows])
    y = classes[rows]
    votes = _votes(spec, base, rows, y, train)
    inputs = make_inputs(spec.features, base, spec.generator("inputs"))[rows]
    return _task(spec, inputs, y, votes, (train, valid, test))


def _resampled(spec: FamilySpec) -> Task:
    """Return the votes of a shared set on other rows of its training split."""
    split = own_rules(spec.base)
    rows = resampled_rows(spec, split.gold)
    y = split.gold[rows]
    inputs = np.asarray(split.features, np.float32)[rows]
    return _task(spec, inputs, y, split.votes[rows].dense(), _split(spec, y))


def _task(
    spec: TaskSpec,
    inputs: Matrix,
    y: Indices,
    votes: npt.NDArray[np.integer],
    parts: tuple[Indices, Indices, Indices],
) -> Task:
    train, valid, test = parts
    standardizer = Standardizer().fit(inputs[train])
    X_train, X_valid, X_test = (standardizer.transform(inputs[part]) for part in parts)
    labels = LabelSpace(*(f"class {number + 1}" for number in range(spec.n_classes)))
    matrix = VoteMatrix.from_dense(votes, labels)
    return Task(
        spec,
        labels,
        X_train,
        matrix[train],
        y[train],
        X_valid,
        y[valid],
        matrix[valid],
        X_test,
        y[test],
    )


def _drawn_rows(spec: TaskSpec, classes: Indices) -> Indices:
    """Return base rows in random order, with the skew of the spec, and no more than needed."""
    generator = spec.generator("rows")
    order = generator.permutation(len(classes))
    order = order[classes[order] >= 0]
    n_wanted = spec.n_train + spec.n_valid + MOST_TEST_ITEMS
    shares = spec.shares
    if shares is None:
        return order[:n_wanted]
    available = np.bincount(classes[order], minlength=spec.n_classes)
    # Large classes stay large; among classes of similar size, the rare one is drawn.
    places = np.argsort(-available * generator.uniform(0.7, 1, spec.n_classes))
    n_items = min(n_wanted, (available[places] / shares).min())
    quotas = np.empty(spec.n_classes, int)
    quotas[places] = np.maximum(np.floor(n_items * shares), 1)
    kept = [order[classes[order] == c][: quotas[c]] for c in range(spec.n_classes)]
    return generator.permutation(np.concatenate(kept))


def _split(spec: TaskSpec, y: Indices) -> tuple[Indices, Indices, Indices]:
    """Return train, validation and test items; a class with three items is in all of them."""
    n_items = len(y)
    n_valid = min(spec.n_valid, max(FEW_GOLD, n_items // 10))
    n_test = max(n_items - spec.n_train - n_valid, min(TEST_ITEMS, int(0.4 * n_items)))
    n_test = min(n_test, MOST_TEST_ITEMS)
    n_train = min(spec.n_train, n_items - n_valid - n_test)
    generator = spec.generator("split")
    order = _spread_evenly(y, generator)
    parts = np.array_split(order, np.cumsum([n_train, n_valid, n_test])[:3])[:3]
    return tuple(_each_class_first(part, y, generator) for part in parts)


def _spread_evenly(y: Indices, generator: np.random.Generator) -> Indices:
    """Return all items in an order in which every part has about the overall class shares."""
    places = np.empty(len(y))
    for c in np.unique(y):
        own = generator.permutation(np.flatnonzero(y == c))
        places[own] = (np.arange(len(own)) + generator.random()) / len(own)
    return np.argsort(places, kind="stable")


def _each_class_first(part: Indices, y: Indices, generator: np.random.Generator) -> Indices:
    part = generator.permutation(part)
    first = np.sort(np.unique(y[part], return_index=True)[1])
    return np.concatenate([part[first], np.delete(part, first)])


def _votes(
    spec: TaskSpec, base: Base, rows: Indices, y: Indices, train: Indices
) -> npt.NDArray[np.int8]:
    generator = spec.generator("votes")
    X = base.best[rows]
    X = (X - X[train].mean(axis=0)) / np.maximum(X[train].std(axis=0), 1e-6)
    sample = _each_class_first(generator.permutation(train), y, generator)[: spec.voters.sample]
    material = Material(
        y,
        spec.n_classes,
        X,
        None if base.words is None else base.words[rows],
        sample,
        base.card.kind == "table",
    )
    return draw_votes(spec.voters, material, generator)
