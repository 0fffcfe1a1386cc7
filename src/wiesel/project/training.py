"""The fourth stage: one model for every method and seed; models trained before are loaded."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from wiesel.catalog import load_model, method
from wiesel.compare import build_method
from wiesel.end_to_end import Committee, EndToEndModel, TwoStage
from wiesel.end_to_end.checks import is_classifier
from wiesel.end_to_end.plan import votes_fingerprint
from wiesel.end_to_end.storage import save_end_to_end
from wiesel.errors import SavedModelError
from wiesel.evaluation.comparison import without_labels
from wiesel.label_models import LabelModel
from wiesel.lfs.fingerprints import digest
from wiesel.nn.encoders import EncoderLayers
from wiesel.nn.names import end_model_by_name
from wiesel.parameters import Parameterized
from wiesel.project.kinds import ProjectKind, kind_of
from wiesel.project.settings import Project, located, option_tables
from wiesel.project.vectors import Vectors, rows_of_arrays
from wiesel.saving import write_file
from wiesel.tables import RANDOM, Gold
from wiesel.tasks import SpansTask, Task, task_of
from wiesel.training.history import watching
from wiesel.version import __version__

__all__ = [
    "DEV_GOLD",
    "Trained",
    "TrainingSet",
    "end_model_name",
    "model_options",
    "train_models",
    "train_on_labels",
    "train_without_labels",
]

DEV_GOLD = "dev_gold"
"""The end model trained on the gold labels alone: the baseline that votes must beat."""

Say = Callable[[str, str], None]
"""Reports a stage to the user: its name and its result."""

Watch = Callable[[str, int, Mapping[str, Any]], None]
"""Called after every epoch with the method, the seed and the epoch's record."""


@dataclass(frozen=True)
class TrainingSet:
    """All data that models are trained on and judged by."""

    project: Project
    labels: Any
    splits: Mapping[str, Any]
    truth: Mapping[str, Any]
    """Gold labels in the form that the task takes, of the splits that have any."""
    vectors: Vectors
    votes_by_split: Mapping[str, Any]
    train_gold: Gold | None = None
    """The labels of training rows that models learn (`labels.gold_of`)."""

    @cached_property
    def kind(self) -> ProjectKind:
        """What the kind of task means for the project."""
        return kind_of(self.project)

    @cached_property
    def task(self) -> Task:
        """What an item is asked."""
        return task_of(self.labels)

    @property
    def votes(self) -> Any:
        """The votes to learn from."""
        return self.votes_by_split["train"]

    def gold(self) -> Gold | None:
        """Return the labels of dev, a random sample, and of train; None without any."""
        dev, own = self.kind.validation(self), self.train_gold
        none = np.empty(0, dtype=np.int64)
        rows = none if own is None else np.flatnonzero(self.kind.known(own.y))
        if own is None or not len(rows):
            return None if dev is None else Gold.of(dev)
        X, y, votes = rows_of_arrays(self.vectors.train, rows), own.y[rows], self.votes[rows]
        chosen = [own.chosen[row] for row in rows.tolist()]
        if dev is None:
            return Gold(y, X, votes, chosen)
        return Gold(
            np.concatenate([dev[1], y]),
            _joined(dev[0], X),
            self.task.joined_votes([dev[2], votes]) if len(dev) == 3 else None,
            [RANDOM] * len(dev[1]) + chosen,
        )

    @property
    def dev_votes(self) -> Any:
        """The votes on the dev rows; None if the voters do not vote on them."""
        return self.votes_by_split.get("dev")


@dataclass(frozen=True)
class Trained:
    """One fitted model, with its method, seed and training time."""

    method: str
    seed: int
    model: EndToEndModel
    seconds: float
    reused: bool


def train_models(
    data: TrainingSet,
    methods: Sequence[str],
    seeds: Sequence[int],
    cache: Path,
    say: Say,
    watch: Watch | None = None,
) -> list[Trained]:
    """Return a fitted model for every method and seed; models trained before come from the cache.

    `watch(method, seed, record)` is called after every epoch and may stop training. The current
    model then keeps its best weights so far, and the remaining models are not trained.
    """
    unfitted = [(name, seed, _unfitted(data, name, seed)) for name in methods for seed in seeds]
    trained = []
    for name, seed, model in unfitted:
        done = _trained(data, name, seed, model, cache / "models", watch)
        trained.append(done)
        how = f"{_length(done.model)}, {done.seconds:.1f} s"
        say("train", f"{name}, seed {seed}: {'reused' if done.reused else how}")
        if done.model.history_.interrupted:
            break
    return trained


def train_on_labels(
    data: TrainingSet, seed: int, cache: Path, say: Say, watched: bool = False
) -> Trained | None:
    """Return the end model trained only on the gold labels that models learn.

    Return None if there are no test rows to evaluate it on, if the labels are of fewer than two
    classes, or if the end model only learns from label models. `watch` does not see the epochs of
    this reference; if its training is stopped, the reference is left out.
    """
    if "test" not in data.truth:
        return None
    gold = data.gold()
    if gold is None or not data.kind.can_learn(gold):
        return None
    if data.project.end_model.name.startswith("sklearn:"):
        return None
    model = _unfitted(data, DEV_GOLD, seed)
    if data.task.kind == SpansTask.kind:  # taggers train long, and few documents need less
        model.set_params(
            epoch_size=min(model.get_params()["epoch_size"] or len(gold), 20 * len(gold))
        )
    done = _trained(data, DEV_GOLD, seed, model, cache / "models", _unseen if watched else None)
    return _said(done, f"{len(gold):,} labels alone, to compare with", say)


def train_without_labels(
    data: TrainingSet, name: str, seed: int, cache: Path, say: Say, watched: bool = False
) -> Trained | None:
    """Return the main method trained on votes alone, as if there were no labels.

    Return None if there are none, or if the method learns nothing else. Taggers, which train long,
    are not trained once more.
    """
    if data.task.kind == SpansTask.kind or name == "supervised":
        return None
    if data.gold() is None:
        return None
    parts: dict[str, Any] = {
        part: {split: own for split, own in getattr(data, part).items() if split != "dev"}
        for part in ("splits", "truth", "votes_by_split")
    }
    blind = replace(data, **parts, train_gold=None)
    model = _unfitted(data, name, seed)
    done = _trained(blind, name, seed, model, cache / "models", _unseen if watched else None)
    return _said(done, f"{without_labels(name)}, to compare with", say)


def _said(done: Trained, what: str, say: Say) -> Trained | None:
    """A reference after its line in the log; None if its training was stopped."""
    if done.model.history_.interrupted:
        return None
    how = "reused" if done.reused else f"{_length(done.model)}, {done.seconds:.1f} s"
    say("train", f"{what}: {how}")
    return done


def _unseen(method: str, seed: int, record: Mapping[str, Any]) -> None:
    """Watch training without reporting anything."""


def end_model_name(project: Project) -> str:
    """Return the name of the end model, relative to the current folder."""
    kind, _, place = project.end_model.name.partition(":")
    if kind in ("module", "transformer"):
        return f"{kind}:{project.path(place)}"
    return project.end_model.name


def model_options(project: Project, name: str, seed: int) -> dict[str, Any]:
    """Return the options of a method in a project.

    The class balance of `[training]` is a fact about the data: baselines without such an option do
    not get it. The main method must have it.
    """
    options = {**project.method_options(name), "seed": seed}
    cls: Any = method(name).cls
    known = TwoStage.option_names() if issubclass(cls, LabelModel) else cls.option_names()
    if name != project.method.name and "class_balance" not in (
        *known,
        *project.options.get(name, ()),
    ):
        options.pop("class_balance", None)
    if (networks := kind_of(project).networks) is not None and cls is not Committee:
        options.setdefault("members", networks)
    return options


def _length(model: EndToEndModel) -> str:
    """Describe the length of training; a scikit-learn classifier has no epochs."""
    n_epochs = len(model.history_)
    if is_classifier(model.end_model):  # type: ignore[attr-defined]
        return "fitted"
    return f"{n_epochs} epoch{'' if n_epochs == 1 else 's'}"


def _unfitted(data: TrainingSet, name: str, seed: int) -> EndToEndModel:
    project = data.project
    settings = project.end_model
    with located(project, "end_model.name", "end_model"):
        network = end_model_by_name(
            end_model_name(project),
            data.vectors.train,
            data.task.n_outputs,
            seed=seed,
            options=settings.options,
        )
    own = "supervised" if name == DEV_GOLD else name
    with located(project, "method.name", *option_tables(own)):
        options = model_options(project, own, seed)
        if name == "weasel" and not _is_readable(data.vectors.train):
            # The encoder cannot use token ids or images as features, so it reads only the votes.
            options.setdefault("encoder", EncoderLayers(features=False))
        model = build_method(own, network, data.labels, options)
        model.check_options()
    return model


def _is_readable(inputs: Any) -> bool:
    """Whether the encoder of votes can read inputs: a matrix of numbers, or documents."""
    if isinstance(inputs, dict):
        return False
    return not hasattr(inputs, "ndim") or (inputs.ndim == 2 and inputs.dtype.kind == "f")


def _trained(
    data: TrainingSet,
    name: str,
    seed: int,
    model: EndToEndModel,
    cache: Path,
    watch: Watch | None = None,
) -> Trained:
    folder = cache / f"{name}-{seed}-{_key(data, name, model)}"
    known = _loaded(folder, model)
    if known is not None:
        return Trained(name, seed, *known, reused=True)
    cache.mkdir(parents=True, exist_ok=True)
    checkpoint = folder.with_suffix(".checkpoint")
    model.set_params(checkpoint=str(checkpoint))
    start = time.perf_counter()
    watched = watching(partial(watch, name, seed)) if watch else nullcontext()
    with watched, located(data.project, "", *option_tables(name)):
        _fit(data, name, model)
    seconds = time.perf_counter() - start
    if model.history_.interrupted:
        if watch is None:
            raise KeyboardInterrupt
        model.set_params(checkpoint=None)
        return Trained(name, seed, model, seconds, reused=False)
    # The checkpoint is no longer needed, and a saved model must not refer to it.
    model.set_params(checkpoint=None)
    save_end_to_end(model, folder)
    write_file(_note(folder), json.dumps({"seconds": seconds}).encode())
    # Members that cannot be stacked have one checkpoint each, with a number after the name.
    for file in cache.glob(f"{checkpoint.name}*"):
        file.unlink(missing_ok=True)
    return Trained(name, seed, model, seconds, reused=False)


def _fit(data: TrainingSet, name: str, model: EndToEndModel) -> None:
    X: Any = data.vectors.train
    if name == DEV_GOLD:
        # Rows that are trained on must not choose the epoch as well.
        labels: Any = data.gold()
        model.fit(labels.X, labels.y)
        return
    held_out = data.kind.validation(data)
    if name == "supervised":
        model.fit(X, data.truth["train"], validation=held_out)
        return
    gold, engine = None, data.project.training_engine
    if data.task.learns_gold:
        gold = data.gold()
        # A committee learns the dev rows; a single method also needs them to choose its epoch.
        held_out = None if isinstance(model, Committee) else held_out
    model.fit(X, data.votes, held_out, gold=gold, engine=engine)


def _key(data: TrainingSet, name: str, model: EndToEndModel) -> str:
    """Return a key that changes when the model, its options or its training data change."""
    options = {key: _described(value) for key, value in model.get_params().items()}
    learn_from, gold_votes, more = DEV_GOLD, None, data.train_gold
    if name == "supervised":
        learn_from = digest(data.truth["train"])
    elif name != DEV_GOLD:
        learn_from = _votes_key(data, data.votes)
    if data.dev_votes is not None and name != DEV_GOLD:
        gold_votes = _votes_key(data, data.dev_votes)
    gold = data.truth.get("dev")
    if more is None or name == "supervised" or not data.kind.known(more.y).any():
        return digest(__version__, options, data.vectors.key, learn_from, gold, gold_votes)
    also = more.y, list(more.chosen)
    return digest(__version__, options, data.vectors.key, learn_from, gold, gold_votes, also)


def _votes_key(data: TrainingSet, votes: Any) -> str:
    return "-".join(map(votes_fingerprint, data.task.matrices(votes)))


def _described(value: Any) -> Any:
    """Return an option in a hashable form; a network becomes its text and its weights."""
    if hasattr(value, "state_dict"):
        weights = [(name, part.numpy(force=True)) for name, part in value.state_dict().items()]
        return digest(str(value), weights)
    if isinstance(value, Parameterized) or not hasattr(value, "get_params"):
        return type(value).__name__ if isinstance(value, Parameterized) else repr(value)
    # A scikit-learn classifier: its name alone would not reflect a changed option.
    return digest(type(value).__name__, sorted(value.get_params().items(), key=str))


def _note(folder: Path) -> Path:
    return folder.with_suffix(".json")


def _loaded(folder: Path, model: EndToEndModel) -> tuple[EndToEndModel, float] | None:
    """Return the saved model; None if there is none or it is damaged."""
    if not _note(folder).is_file():
        return None
    try:
        note = json.loads(_note(folder).read_bytes())
        network = model.end_model  # type: ignore[attr-defined]
        own = None if is_classifier(network) else network
        found: EndToEndModel = load_model(folder, end_model=own)
        return found, float(note["seconds"])
    except (SavedModelError, ValueError, KeyError):
        return None


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, dict):
        return {name: np.concatenate([part, second[name]]) for name, part in first.items()}
    return np.concatenate([first, second])
