"""The base class of end-to-end methods: checks, training, prediction and saving."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.checks import (
    check_divisible,
    check_end_model,
    check_same_features,
    check_training_numbers,
    checked_proba,
    covered_items,
    explained,
    feature_facts,
    gold_items,
    gold_validation,
    network_copy,
    predicted_proba,
    validation_items,
)
from wiesel.end_to_end.feature_reader import FeatureReader, ReadsFeatures
from wiesel.end_to_end.fine_tuning import (
    FineTuning,
    LearnedGold,
    checked_gold,
    fine_tune,
    learn_gold,
)
from wiesel.end_to_end.plan import (
    FitInputs,
    FitPlan,
    GoldSet,
    PlannedFit,
    options_key,
    plan_all,
    short_hash,
    split_networks,
    started,
    train_all,
    train_options,
    warn_if_votes_are_ignored,
)
from wiesel.end_to_end.storage import Saved, save_end_to_end
from wiesel.errors import ParameterError, SavedModelError, TrainingError, WieselWarning, warn_user
from wiesel.labels import LabelSpace
from wiesel.nn.stacking import reseeded
from wiesel.parameters import check_number
from wiesel.scikit_learn import Classifier
from wiesel.tables import in_order_of
from wiesel.tasks import OneLabelTask, SpansTask, Task, task_of, task_of_votes
from wiesel.tasks.one_label import check_one_item
from wiesel.training import History, Objective, TrainingData, Validation, as_inputs, seeded
from wiesel.training.loop import TrainingEngine, predict_logits
from wiesel.training.objective import TrainingHooks, resolve_device

__all__ = ["ONLY_NETWORKS", "EndToEndModel", "ExplainedModel", "GoldSet"]

Array = npt.NDArray[np.float64]
ONLY_NETWORKS = ("seed", "lr", "end_model")
"""Options that change the networks, but not their training data."""


@dataclass(eq=False, kw_only=True)
class EndToEndModel(ReadsFeatures, Classifier, ABC):
    """Trains the user's own network from votes.

    A method is a dataclass with an `end_model` field. It implements `_objective` (its networks and
    losses) and may extend `_plan`, which prepares everything before training. This class provides
    the rest: checks, training, selection on the validation set, prediction and saving. The
    end model is any `nn.Module` that returns logits; it is copied, and the trained copy is
    `end_model_`.
    """

    epochs: int | None = None
    """The number of epochs of `epoch_size` items; None is 20 with a validation set, of which the
    best is kept, and 8 without, or with fewer than 30 items, but at least one for each class."""
    lr: float = 1e-3
    """The learning rate of Adam."""
    batch_size: int = 64
    """The number of items per step."""
    epoch_size: int | None = 3200
    """The number of items per epoch; None is every item once. If it exceeds the number of items,
    they repeat."""
    weight_decay: float = 7e-7
    """The weight of the squared norm of all parameters in the loss."""
    weight_average: float | None = 0.99
    """Predict with a running average of the weights, with this decay per step: 0.99 averages about
    a hundred steps. Give None, which uses the last weights, if training takes fewer steps."""
    patience: int | None = None
    """Stop after this many epochs without a better validation score; None never stops early."""
    seed: int = 0
    """The seed of all random numbers in `fit`."""
    members: int = 1
    """The number of networks to train and average, with the seeds `seed`, `seed + 1`, ... Wiesel's
    end models are initialized from these seeds. The first starts from the weights of `end_model` if
    somebody trained or set them, as do all if it is your own module."""
    device: str = "auto"
    """Where to train: `auto`, `cpu`, `cuda`, ..."""
    checkpoint: str | Path | None = None
    """A file written after every epoch; if it exists, `fit` resumes from it."""
    progress: bool | None = None
    """Show a progress bar; None shows it on a terminal and in a notebook."""

    tasks: ClassVar[tuple[str, ...]] = (OneLabelTask.kind,)
    """The kinds of tasks that the method can do."""
    differ_in_plan: ClassVar[tuple[str, ...]] = ONLY_NETWORKS
    """The options in which models with the same plan may differ."""
    differ_in_stack: ClassVar[tuple[str, ...]] = ONLY_NETWORKS
    """The options in which models may differ whose networks are trained as one stack."""
    fits_itself: ClassVar[bool] = False
    """Whether the method overrides `fit_given`, because it has no single network to train."""

    labels_: LabelSpace = field(init=False, repr=False)
    """The classes seen in `fit`."""
    voters_: tuple[str, ...] = field(init=False, repr=False)
    """The voters seen in `fit`, in order."""
    end_model_: nn.Module = field(init=False, repr=False)
    """The trained end model, on the CPU and in evaluation mode."""
    history_: History = field(init=False, repr=False)
    """The losses and metrics of every epoch."""
    threshold_: Any = field(init=False, repr=False)
    """For two classes: predict the second if its probability is at least this; None is argmax. With
    several labels: an array, each is predicted from its own threshold on."""
    calibration_: Array | None = field(init=False, repr=False)
    """(n_labels, 2): the scale and offset of the logits; None leaves them as trained."""
    selection_: dict[str, Any] = field(init=False, repr=False)
    """Which epoch was kept, and by which metric."""
    learned_gold_: LearnedGold | None = field(init=False, repr=False)
    """Honest predictions of the gold items that were learned; None without any."""
    trained_on_: dict[str, Any] = field(init=False, repr=False)
    """How many items and features were used, and a fingerprint of the votes."""
    members_: tuple[Any, ...] = field(init=False, repr=False)
    """The fitted members of an ensemble; empty for a single network."""

    @property
    def task_(self) -> Task:
        """The kind of task that the model was fitted for."""
        return task_of(self.labels_)

    def fit(
        self,
        X: Any,
        votes: Any,
        validation: GoldSet | None = None,
        *,
        gold: Any = None,
        engine: TrainingEngine | None = None,
        hooks: TrainingHooks | None = None,
    ) -> Self:
        """Train on inputs and votes, then on gold labels.

        Parameters
        ----------
        X
            What the end model reads: an array, a tensor, a dict of tensors, or a Dataset.
        votes
            The votes on the same items, matched by id if X has ids, else in the same order: a
            `VoteMatrix`, or `MultiLabelVotes` for several labels.
        validation
            Held-out items with gold labels (names or indices, or sets of labels): (X, y), or (X, y,
            votes). They select the epoch and the threshold. `Committee` learns from them, too.
        gold
            Labels to learn from: of the items of X, None where they are unknown; or of further
            items, as `validation`; or a `wiesel.Gold`, which says how the items were chosen.
        engine
            Other processes that train, such as `RayTrain(workers=2)`; None is this one.
        hooks
            An optimizer, a schedule of the learning rate, and a function that is called after every
            epoch, as `wiesel.training.TrainingHooks`.
        """
        given = replace(self.fit_inputs(X, votes), engine=engine, hooks=hooks)
        return self.fit_with_gold(given, validation, gold)

    def fit_with_gold(self, given: FitInputs, validation: GoldSet | None, gold: Any) -> Self:
        """Fit on the result of `fit_inputs`, and learn gold labels in the form of `fit`."""
        given = self.with_gold(given, gold)
        self.fit_given(given, validation)
        self.recover(given, validation)
        if given.labeled is not None and not self.fits_itself:
            learn_gold(self, given.labeled)
        return self

    def with_gold(self, given: FitInputs, gold: Any) -> FitInputs:
        """Return the arguments of `fit` with gold labels in the form of `fit`, checked."""
        if gold is None:
            return given
        task = self._task(given)
        return replace(given, labeled=checked_gold(gold_items(gold, given, task), task))

    def predict_proba(self, X: Any, votes: Any = None) -> Array:
        """Return P(class) from the inputs alone: (n_items, n_classes), as in `labels_.names`.

        With several labels, it is P(present) of each: (n_items, n_labels). A model that was saved
        with its features also takes texts, rows or pictures. With `votes` on the items, such as
        answers of the language models that it learned from, a `Committee` uses these, too, where
        there are any, and so does every method that finds spans; for others see
        `wiesel.end_to_end.WithVotes`.
        """
        self.check_fitted()
        inputs = self.inputs_of(X)
        check_same_features(self.trained_on_, inputs, type(self).__name__)
        with explained(self.end_model_, inputs):
            logits = predict_logits(self.task_.predicting(self.end_model_), inputs)
        proba = checked_proba(self.task_.proba(logits, self.calibration_))
        return proba if votes is None else self.proba_with_votes(X, votes, proba)

    def proba_with_votes(self, X: Any, votes: Any, proba: Array) -> Array:
        """Return P(class) from a prediction and from the votes on the same items."""
        raise ParameterError(
            f"{type(self).__name__} predicts from X alone. Committee uses votes, too; so does "
            "wiesel.end_to_end.WithVotes(model, label_model)."
        )

    def out_of_fold_proba(self, X: Any, y: Any = None) -> Array:
        """Return P(class), of gold items from `fit` by networks that have not learned them.

        Use it instead of `predict_proba` to evaluate a model on gold that it has learned. Other
        items are predicted as by `predict_proba`. The labels `y` are not needed.
        """
        inputs = self.inputs_of(X)
        proba = predicted_proba(self, inputs, self.task_.n_rows(inputs))
        seen = self.learned_gold_
        return proba if seen is None else seen.replaced(inputs, proba)

    def member_probas(self, X: Any) -> Array:
        """Return P(class) by every member, or by the one network: (members, n_items, n_classes)."""
        self.check_fitted()
        X = self.inputs_of(X)
        n_rows = self.task_.n_rows(X)
        return np.stack([predicted_proba(member, X, n_rows) for member in self.members_ or (self,)])

    def spread(self, X: Any) -> Array:
        """Return how much the members disagree, (n_items, n_classes): a measure of uncertainty.

        It is the standard deviation of their probabilities, and 0 for a single network.
        """
        return self.member_probas(X).std(axis=0)

    def predict(self, X: Any, votes: Any = None) -> Any:
        """Return the name of the predicted class of every item, or its labels as a tuple.

        With `votes`, it is the most probable class by `predict_proba(X, votes)`, without threshold.
        """
        self.check_fitted()
        if votes is not None:
            return self.task_.decide(self.predict_proba(X, votes), None, X)
        X = self.task_.items(X)
        return self.task_.decide(predicted_proba(self, X), self.threshold_, X)

    def one(self, label: str) -> Any:
        """With several labels, return the binary classifier of one of them."""
        self.check_fitted()
        return self.task_.one(self, label)

    def fine_tune(self, X: Any, y: Any) -> FineTuning:
        """Learn further gold items, a random sample: networks are pulled toward their weights.

        Gold is given as names or indices, or sets of labels. The items also tune the threshold, by
        predictions of networks that have not seen them.
        """
        self.check_fitted()
        return fine_tune(self, self.inputs_of(X), in_order_of(X, y, "y", "X"))

    def save(self, path: str | Path, features: Any = None, column: str = "text") -> None:
        """Write the model as a folder of data files; `wiesel.load_model` reads it.

        With the fitted `features` that made X, the loaded model predicts from texts, rows or
        pictures; `column` is the text column of a table of rows.
        """
        self.check_fitted()
        reader = self.reader_ if features is None else FeatureReader(features, column)
        save_end_to_end(self, path, reader)

    def saved_modules(self) -> dict[str, nn.Module]:
        """Return the trained modules whose weights are saved, by name."""
        return {"end_model": self.end_model_}

    def saved_values(self) -> dict[str, Any]:
        """Return method-specific learned attributes as values that `wiesel.saving` can encode."""
        return {}

    def saved_files(self) -> dict[str, bytes]:
        """Return additional files of this method, by name."""
        return {}

    @classmethod
    def restored_options(cls, saved: Saved) -> dict[str, Any]:
        """Return options that are not stored as plain values, such as modules."""
        return {}

    @classmethod
    def from_members(cls, members: Sequence[Self], options: dict[str, Any], saved: Saved) -> Self:
        """Return the ensemble of restored models, with the options of the first one."""
        n_dropped = saved.manifest["selection"].get("dropped_members", 0)
        if len(members) != options["members"] - n_dropped:
            raise SavedModelError(
                f"The saved ensemble should have {options['members']!r} members; it has others."
            )
        model = copy.copy(members[0]).set_params(members=options["members"], seed=options["seed"])
        return model.join(members)

    def restore_learned(self, saved: Saved) -> None:
        """Set the method-specific learned attributes from a folder."""

    def _features_seen(self) -> dict[str, Any]:
        return self.trained_on_

    @property
    def network(self) -> nn.Module:
        """The user's end model, as given; each method declares the field, in its own position."""
        return self.end_model  # type: ignore[attr-defined]

    def shared_options(self) -> dict[str, Any]:
        """Return the options that all methods have, except `members`, for members of this one."""
        names = [name for name in EndToEndModel.option_names() if name != "members"]
        return {name: getattr(self, name) for name in names}

    @abstractmethod
    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        """Return the networks and losses to train; random numbers are seeded."""

    def _keep(self, objective: Objective, plan: FitPlan) -> None:
        """Set the method-specific learned attributes."""

    def check_options(self) -> None:
        """Refuse invalid option values; `fit` checks whether the device exists."""
        super().check_options()
        check_training_numbers(self)
        self._check_members()

    def _check_members(self) -> None:
        check_number(self, "members", self.members, low=1, whole=True)

    def fit_inputs(self, X: Any, votes: Any, encoder_X: Any = None) -> FitInputs:
        """Return the arguments of `fit` as one value; by default only X and votes."""
        if encoder_X is not None:
            raise ParameterError(f"{type(self).__name__} has no encoder to read encoder_X.")
        return FitInputs(as_inputs(X, votes=votes), votes)

    def fit_given(self, given: FitInputs, validation: GoldSet | None) -> Self:
        """Fit on the result of `fit_inputs`: check, plan, train and store the results."""
        self.check_options()
        parts = split_networks(self)
        train_all(plan_all(parts, given, validation))
        if len(parts) > 1:
            self.join(started(parts), validation)
        return self

    def planned(
        self, given: FitInputs, validation: GoldSet | None, plan: FitPlan | None = None
    ) -> PlannedFit:
        """Return a fit that is ready to be trained; `plan` is one made for an equal `plan_key`."""
        with seeded(self.seed):
            self.check_options()
            # The same seed is the same model, whoever made the network before.
            network = reseeded(self.network, self.seed, again=False)
            network = network_copy(network, given.inputs)
            plan = self._plan(given, validation, network) if plan is None else plan
            objective = self._checked_objective(network, plan)
            check_divisible(self, objective, given.engine)
            options = train_options(self, plan, given)
            return PlannedFit(self, plan, objective, plan.data, options)

    def _checked_objective(self, network: nn.Module, plan: FitPlan) -> Objective:
        """Return the objective; it and its targets are checked, because both may be a user's."""
        name = type(self).__name__
        if plan.targets is not None:
            n_items, source = plan.task.n_rows(plan.data.inputs), f"The targets by {name}"
            plan.task.checked_proba(plan.targets, source, n_items, zeros=True)
        objective: Any = self._objective(network, plan)
        if not isinstance(getattr(objective, "end_model", None), nn.Module):
            raise TrainingError(
                f"{name}._objective must return a wiesel.training.Objective with the network to "
                f"train as its `end_model`; got {type(objective).__name__}."
            )
        made: Objective = objective
        return made

    def plan_key(self) -> str:
        """Return a key that is equal for models with the same plan."""
        return options_key(self, self.differ_in_plan)

    def stack_key(self) -> str:
        """Return a key that is equal for models whose networks can be trained as one stack."""
        return options_key(self, self.differ_in_stack)

    def _plan(
        self, given: FitInputs, validation: GoldSet | None, network: nn.Module | None
    ) -> FitPlan:
        """Check the inputs, and make all decisions that precede training.

        `network` is the copy of the end model to train; None if the end model trains itself.
        """
        resolve_device(self.device)
        task = self._task(given)
        task.check_items(given)
        if network is not None:
            check_end_model(network, given.inputs, task)
        held_out, gold = gold_validation(validation, task, network), given.labeled
        if gold is None and task.learns_gold:
            gold = validation_items(validation, held_out, given.votes)
        balance = getattr(self, "class_balance", None)
        return FitPlan(
            data=TrainingData(given.inputs, used=self._items(given, task)),
            task=task,
            labels=task.labels,
            voters=() if given.votes is None else given.votes.voters,
            votes=given.votes,
            class_balance=task.class_balance(
                balance, given.votes, None if gold is None else gold.sample
            ),
            validation=held_out,
            gold=gold,
        )

    def _items(self, given: FitInputs, task: Task) -> npt.NDArray[np.int64]:
        """Return the positions of the items to train on: those with votes."""
        return covered_items(task.used(given.inputs, given.votes))

    def finish(self, fit: PlannedFit, history: History) -> None:
        """Store the results of a fit."""
        plan, objective = fit.plan, fit.objective
        self.labels_, self.voters_, self.members_, self.reader_ = plan.labels, plan.voters, (), None
        self.end_model_, self.history_ = plan.task.original(objective.end_model).eval(), history
        self.trained_on_ = {
            "items": len(plan.data.items),
            "fingerprint": fit.fingerprint,
            **feature_facts(plan.data.inputs),
        }
        for name, value in plan.learned.items():
            setattr(self, name, value)
        self._select(plan.validation)
        self._keep(objective, plan)
        warn_if_votes_are_ignored(self)

    def recover(self, given: FitInputs, validation: GoldSet | None) -> None:
        """Replace a failed fit; methods that can detect failure override this."""

    def _task(self, given: FitInputs) -> Task:
        """Return the task of the arguments of `fit`; refuse a kind that the method cannot do."""
        task = task_of(given.labels) if given.labels else task_of_votes(given.votes)
        task.check_does(self)
        return task

    def _select(self, validation: Validation | None) -> None:
        """Record which epoch was kept, and tune the thresholds."""
        self.threshold_, self.calibration_ = self.task_.default_threshold, None
        self.learned_gold_ = None
        self.selection_ = {"by": "last epoch", "epoch": len(self.history_)}
        if self.history_.interrupted:
            message = f"Training was interrupted after {len(self.history_)} epochs"
            warn_user(f"{message}; the best weights so far are kept.", WieselWarning)
        if validation is None or self.history_.best_epoch is None:
            return
        self.selection_ = {
            "by": validation.metric,
            "epoch": self.history_.best_epoch,
            "score": self.history_.kept[f"validation_{validation.metric}"],
        }
        self._tune(validation, validation.proba_by(self.end_model_))

    def _tune(self, validation: Validation, proba: Array) -> None:
        """Calibrate, if the option says so, and tune the thresholds."""
        if getattr(self, "calibrated", False):
            logits = predict_logits(self.task_.predicting(self.end_model_), validation.inputs)
            self.calibration_ = self.task_.calibration(logits, validation)
            proba = self.task_.proba(logits, self.calibration_)
        self.threshold_ = validation.best_threshold(proba)

    def join(self, members: Sequence[Self], validation: GoldSet | None = None) -> Self:
        """Become the ensemble of these fitted models; `validation` tunes its threshold."""
        first = members[0]
        # Other learned attributes are those of the first member, unless the method overrides this.
        for name in self.learned_names():
            setattr(self, name, getattr(first, name))
        self.members_, self.reader_ = tuple(members), None
        self.end_model_ = self.task_.average([member.end_model_ for member in members])
        self.history_ = History.of_members([member.history_ for member in members])
        marks = "".join(member.trained_on_["fingerprint"] for member in members)
        self.trained_on_ = {**first.trained_on_, "fingerprint": short_hash(marks)}
        held_out = gold_validation(validation, self.task_, None)
        proba = None if held_out is None else held_out.proba_by(self.end_model_)
        self._select_for_all(held_out, proba)
        return self

    def _select_for_all(self, validation: Validation | None, proba: Array | None) -> None:
        """Record which epochs the members kept; score their average, and tune its threshold."""
        first, epochs = self.members_[0].selection_, [m.selection_["epoch"] for m in self.members_]
        self.selection_ = {"by": first["by"], "epoch": epochs}
        self.threshold_, self.calibration_ = self.task_.default_threshold, None
        self.learned_gold_ = None
        if validation is not None and proba is not None and "score" in first:
            self.selection_["score"] = validation.score(proba)
            self._tune(validation, proba)


@dataclass(eq=False, kw_only=True)
class ExplainedModel(EndToEndModel):
    """A method with soft labels, which knows the effect of each vote on an item."""

    @abstractmethod
    def soft_labels(self, X: Any, votes: Any) -> Array:
        """Return the soft labels that the votes give: as `predict_proba`, from votes."""

    def proba_with_votes(self, X: Any, votes: Any, proba: Array) -> Array:
        """Return P(tag) of texts from the tagger and from the votes on the same tokens."""
        if not isinstance(self.task_, SpansTask):
            return super().proba_with_votes(X, votes, proba)
        self.check_votes(votes)
        inputs = self.inputs_of(X, votes)
        self.task_.check_items(FitInputs(inputs, votes))
        return self.task_.with_votes(proba, self.soft_labels(inputs, votes))

    def explain(self, x: Any, votes: Any) -> Any:
        """Return the effect of each vote on one item: `model.explain(X[17], votes[17])`."""
        self.check_votes(votes)
        check_one_item(votes)
        one = self.input_of(x)
        return self.task_.explanation(self, one, votes, self.vote_effects(one, votes))

    @abstractmethod
    def vote_effects(self, one: Any, votes: Any) -> Any:
        """Return the effects of the votes on one item; `one` is the item as a batch."""
