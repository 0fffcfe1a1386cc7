"""Crowds with planted faults, on which majority vote goes wrong in a known way."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from tiny_task import ONE_PASS, Task, linear

from wiesel import EndToEndModel, MajorityVote, TwoStage, VoteMatrix
from wiesel.datasets.synthetic import make_features, make_votes, planted_confusions

N_CLASSES = 3
N_FEATURES = 4
QUICK = {**ONE_PASS, "epochs": 20, "lr": 0.015, "batch_size": 32}


def good(accuracy: float) -> npt.NDArray[np.float64]:
    return planted_confusions(1, N_CLASSES, accuracy)[0]


def constant(voted: int) -> npt.NDArray[np.float64]:
    """A spammer that always gives the same answer."""
    return np.tile(np.eye(N_CLASSES)[voted], (N_CLASSES, 1))


def crowd(confusions: list[npt.NDArray[np.float64]], coverage: list[float], n: int = 500) -> Task:
    votes, gold = make_votes(
        n, len(confusions), N_CLASSES, accuracies=np.stack(confusions), coverage=coverage, seed=3
    )
    return Task(make_features(gold, N_FEATURES, separation=2.0, seed=3), votes, gold)


@cache
def adversaries() -> Task:
    """Two busy workers that name the next class, six good ones."""
    adversary = 0.8 * np.roll(np.eye(N_CLASSES), 1, axis=1) + 0.2 / N_CLASSES
    return crowd([adversary] * 2 + [good(0.85)] * 6, [0.5] * 2 + [0.3] * 6)


@cache
def busy_spammers() -> Task:
    """Three workers that answer nearly everything with class 0, six good ones with less time."""
    return crowd([constant(0)] * 3 + [good(0.9)] * 6, [0.9] * 3 + [0.25] * 6)


@cache
def many_lazy_spammers() -> Task:
    """Twelve workers that say class 0 now and then, four good ones that do the work."""
    return crowd([constant(0)] * 12 + [good(0.9)] * 4, [0.05] * 12 + [0.5] * 4)


@cache
def confused_class() -> Task:
    """Four workers take class 0 for class 1, five do not."""
    biased = good(0.9).copy()
    biased[0] = [0.2, 0.75, 0.05]
    return crowd([biased] * 4 + [good(0.9)] * 5, [0.6] * 4 + [0.5] * 5)


def network() -> Any:
    return linear(N_FEATURES, N_CLASSES)


def right(model: EndToEndModel, task: Task) -> float:
    """The share of items the end model gets right, trained on their votes."""
    fitted = model.fit(task.X, task.votes)
    return float((fitted.predict_proba(task.X).argmax(axis=1) == task.gold).mean())


@cache
def majority_right(make_task: Callable[[], Task]) -> float:
    """The same for the same network trained on the majority vote."""
    return right(TwoStage(MajorityVote(), network(), **QUICK), make_task())


def untrained(model: EndToEndModel, X: npt.NDArray[np.float32], votes: VoteMatrix) -> Any:
    """The untrained objective that `fit` would train."""
    return model.planned(model.fit_inputs(X, votes), None).objective
