"""What multi-label methods share: one network with an output for each label."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.checks import check_training_numbers
from wiesel.end_to_end.explaining import VoteEffects
from wiesel.end_to_end.feature_reader import as_batch
from wiesel.end_to_end.plan import ReadyFit, train_options
from wiesel.end_to_end.together import begun, separate, train_all
from wiesel.errors import CollapseWarning, WieselWarning, listed, warn_user
from wiesel.evaluation import choose_threshold
from wiesel.multilabel.ensembles import LabelEnsemble
from wiesel.multilabel.explaining import MultiLabelExplanation, check_one, explain_labels
from wiesel.multilabel.label_models import Balance
from wiesel.multilabel.objectives import PresenceLogits
from wiesel.multilabel.plan import MultiLabelPlan, MultiLabelValidation, SoftLabels, checked_plan
from wiesel.multilabel.report import MultiLabelReport, evaluate_presence
from wiesel.multilabel.space import MultiLabelSpace
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.parameters import Parameterized, check_number
from wiesel.row_ids import in_order_of
from wiesel.training import History, Objective, TrainingData, as_inputs, seeded
from wiesel.training.objective import resolve_device
from wiesel.training.validation import predict_logits
from wiesel.votes import VoteMatrix

__all__ = ["LabelsFit", "MultiLabelModel", "OneLabel"]

Gold = tuple[Any, Any] | tuple[Any, Any, MultiLabelVotes]
"""A few items with gold labels: (X, sets of labels), or (X, sets of labels, votes on them)."""

_FEW = 10
"""With fewer gold items with a label, or without it, its logit is not calibrated."""
_RARE = 0.15
"""A rarer label may have a probability below 0.5 for all items; then its threshold is lower."""


@dataclass(eq=False, kw_only=True)
class MultiLabelModel(Parameterized, ABC):
    """Trains the user's network, with one logit for each label, from votes on all labels.

    A label of an item enters the loss if somebody voted on it. `validation` chooses the epoch
    (mean ROC-AUC over the labels) and a threshold for each label.
    """

    class_balance: Balance | Literal["validation"] = None
    """P(present) of labels by name, if known; `validation` counts the validation items. A label
    whose votes all go one way needs it."""
    calibrated: bool = False
    """Fit a scale and an offset of every label's logit on the validation items (Platt scaling)."""
    epochs: int | None = None
    """How many times training goes through `epoch_size` items; None means 20 times with a
    validation set and 8 times without."""
    lr: float = 1e-3
    """The learning rate of Adam."""
    batch_size: int = 64
    """The number of items per step."""
    epoch_size: int | None = 3200
    """The number of items in an epoch; None means every item once."""
    weight_decay: float = 7e-7
    """The weight of the squared norm of all parameters in the loss."""
    weight_average: float | None = 0.99
    """Predict with a running average of the weights; None predicts with the last weights."""
    patience: int | None = None
    """Stop after this many epochs without a better validation score; None never stops early."""
    seed: int = 0
    """The seed of all random numbers in `fit`."""
    members: int = 1
    """How many networks to train, with the seeds `seed`, `seed + 1`, ...; their probabilities are
    averaged. Wiesel's end models are initialized from each seed; your own module starts from its
    current weights."""
    device: str = "auto"
    """Where to train: `auto`, `cpu`, `cuda`, ..."""
    checkpoint: str | Path | None = None
    """A file written after every epoch; `fit` continues from it if it exists."""
    progress: bool | None = None
    """Show a progress bar; None shows it on a terminal and in a notebook."""

    stored_options: ClassVar[Sequence[str]] = ()
    """Options that are objects, and are stored as objects."""
    fits_itself: ClassVar[bool] = False
    """Whether only the method's members have networks, not the method itself."""

    labels_: MultiLabelSpace = field(init=False, repr=False)
    """The labels seen in `fit`."""
    voters_: tuple[str, ...] = field(init=False, repr=False)
    """The voters seen in `fit`, in order."""
    end_model_: nn.Module = field(init=False, repr=False)
    """The trained network, with one logit for each label."""
    history_: History = field(init=False, repr=False)
    """The history of training, epoch by epoch."""
    thresholds_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """(n_labels,): a label is predicted from this probability on."""
    calibration_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """(n_labels, 2): the scale and offset of the logits; 1 and 0 leave them as trained."""
    balance_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """(n_labels,): the P(present) that was used; NaN if unknown."""
    selection_: dict[str, Any] = field(init=False, repr=False)
    """Which epoch was kept, and by which metric."""
    members_: tuple["MultiLabelModel", ...] = field(init=False, repr=False)
    """The fitted members of an ensemble; empty for a single network."""

    def fit(self, X: Any, votes: MultiLabelVotes, validation: Gold | None = None) -> Self:
        """Train on inputs and votes on the same items.

        `validation=(X, gold)`, with a set of labels for each item, chooses the epoch and the
        thresholds. With (X, gold, votes), label models also use the votes on these items.
        """
        self.check_options()
        resolve_device(self.device)
        with seeded(self.seed):
            network = copy.deepcopy(self.network)
            plan = checked_plan(network, X, votes, validation, self.class_balance)
        self._fit(plan)
        return self

    def _fit(self, plan: MultiLabelPlan) -> None:
        parts = separate(self)
        fits = self.ready(plan, self.read(plan), parts)
        # The user cannot change that a method has no stacked form.
        train_all(fits, quiet=not vars(type(fits[0].objective)).get("stackable", False))
        if len(parts) > 1:
            self.join(begun(parts), plan)

    def ready(
        self, plan: MultiLabelPlan, soft: SoftLabels, parts: "Sequence[MultiLabelModel]"
    ) -> "list[LabelsFit]":
        """Return the fits of this model's networks, all on the same soft labels."""
        fits = []
        for part in parts:
            with seeded(part.seed):
                objective, data, learned = part._planned(copy.deepcopy(part.network), plan, soft)
                options = train_options(part, 2, plan.validation is not None)
                fits.append(LabelsFit(part, plan, objective, data, options, learned=learned))
        return fits

    def finish(self, fit: "LabelsFit", history: History) -> None:
        """Store what a network has learned."""
        plan = fit.plan
        wrapped: PresenceLogits = fit.objective.end_model  # type: ignore[assignment]
        self.end_model_, self.history_, self.members_ = wrapped.network.eval(), history, ()
        for name, value in fit.learned.items():
            setattr(self, name, value)
        self._keep(plan)
        self._select(plan.validation)
        if len(history):
            self._warn_of_collapse(plan.one_sided)

    def join(self, members: "Sequence[MultiLabelModel]", plan: MultiLabelPlan) -> None:
        """Become the ensemble of these fitted models."""
        for name in self.learned_names():
            if hasattr(members[0], name):
                setattr(self, name, getattr(members[0], name))
        self.members_ = tuple(members)
        self.end_model_ = self.average()
        self.history_ = History.of_members([member.history_ for member in members])
        self._select(plan.validation)

    def average(self) -> nn.Module:
        """Return the network that averages the members."""
        return LabelEnsemble(member.end_model_ for member in self.members_).eval()

    def _keep(self, plan: MultiLabelPlan) -> None:
        self.labels_, self.voters_, self.balance_ = plan.labels, plan.votes.voters, plan.balance

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return P(present) from the inputs alone: (n_items, n_labels), as in `labels_.names`."""
        from scipy.special import expit

        self.check_fitted()
        inputs = as_inputs(X)
        if not len(inputs):
            return np.empty((0, len(self.labels_)))
        logits = predict_logits(self.end_model_, inputs).double().numpy()
        scale, offset = self.calibration_.T
        proba: npt.NDArray[np.float64] = expit(logits * scale + offset)
        return proba

    def predict(self, X: Any) -> list[tuple[str, ...]]:
        """Return the labels of every item, in the order of the labels."""
        proba = self.predict_proba(X)
        return self.labels_.sets(proba >= self.thresholds_)

    def evaluate(
        self, X: Any, gold: Any, *, n_resamples: int = 1000, seed: int = 0
    ) -> MultiLabelReport:
        """Return how well it predicts gold labels, for each label and for all labels together."""
        return evaluate_presence(
            self.predict_proba(X),
            in_order_of(X, gold, "gold", "X"),
            self.labels_,
            thresholds=self.thresholds_,
            n_resamples=n_resamples,
            seed=seed,
        )

    def one(self, label: str) -> "OneLabel":
        """Return the binary classifier of one label, for any tool that accepts a classifier."""
        self.check_fitted()
        return OneLabel(self, label)

    def save(self, path: str | Path) -> None:
        """Write the model as a folder of data files; `wiesel.load_model` reads it."""
        from wiesel.multilabel.storage import save_multilabel

        self.check_fitted()
        save_multilabel(self, path)

    def explain(self, x: Any, votes: MultiLabelVotes) -> MultiLabelExplanation:
        """Return which voter pushed which label which way: `model.explain(X[17], votes[17])`."""
        self.check_fitted()
        check_one(votes, self)
        one = as_batch(x)
        return explain_labels(self, one, votes, self.vote_effects(one, votes))

    def stack_key(self) -> str:
        """Return a key that is equal for models whose networks can be trained as one stack."""
        left_out = ("seed", "lr", "end_model", *self.stored_options)
        options = {k: v for k, v in self.get_params(deep=False).items() if k not in left_out}
        return f"{type(self).__name__}{options!r}"

    @property
    def network(self) -> nn.Module:
        """The user's end model, as given."""
        network: nn.Module = self.end_model  # type: ignore[attr-defined]
        return network

    @abstractmethod
    def soft_labels(self, X: Any, votes: MultiLabelVotes) -> npt.NDArray[np.float64]:
        """Return the soft labels of the votes: P(present), (n_items, n_labels)."""

    @abstractmethod
    def vote_effects(
        self, one: Any, votes: MultiLabelVotes
    ) -> dict[str, tuple[VoteMatrix, VoteEffects]]:
        """Return the votes on each label of one item, and their effects; `one` is a batch."""

    @abstractmethod
    def read(self, plan: MultiLabelPlan) -> SoftLabels:
        """Return the soft labels that the networks learn, or start from."""

    @abstractmethod
    def _planned(
        self, network: nn.Module, plan: MultiLabelPlan, soft: SoftLabels
    ) -> "tuple[Objective, TrainingData, dict[str, Any]]":
        """Return what to train, the items, and the learned attributes only this method has."""

    def _check_options(self) -> None:
        check_training_numbers(self)
        check_number(self, "members", self.members, low=1, whole=True)

    def _select(self, validation: MultiLabelValidation | None) -> None:
        """Record which epoch was kept, calibrate, and tune the thresholds for F1."""
        from scipy.special import expit

        n_labels, epoch = len(self.labels_), self.history_.best_epoch or len(self.history_)
        kept = [member.selection_["epoch"] for member in self.members_] or epoch
        self.selection_ = {"by": "last epoch", "epoch": kept}
        self.thresholds_ = np.full(n_labels, 0.5)
        self.calibration_ = np.tile([1.0, 0.0], (n_labels, 1))
        if self.history_.interrupted and not self.members_:
            message = f"Training was interrupted after {len(self.history_)} epochs"
            warn_user(f"{message}; the best weights so far are kept.", WieselWarning)
        if validation is None or not len(self.history_):
            return
        logits = predict_logits(self.end_model_, validation.inputs).double().numpy()
        score = validation.score(np.stack([expit(-logits), expit(logits)], axis=1))
        self.selection_ = {"by": validation.metric, "epoch": kept, "score": score}
        for k in validation.judged:
            known = validation.presence[:, k] >= 0
            gold = validation.presence[known, k]
            if self.calibrated:
                self.calibration_[k] = _calibration(logits[known, k], gold)
            scale, offset = self.calibration_[k]
            proba = expit(logits[known, k] * scale + offset)
            self.thresholds_[k] = choose_threshold(proba, gold)

    def stuck(self, one_sided: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return the labels that are predicted for all items or for none, contrary to the votes."""
        record = self.history_.kept
        wanted, found = np.array(record["present_wanted"]), np.array(record["present"])
        stuck = ((found < 0.005) | (found > 0.995)) & (wanted > _RARE) & (wanted < 1 - _RARE)
        alike: npt.NDArray[np.bool_] = stuck & ~one_sided
        return alike

    def _warn_of_collapse(self, one_sided: npt.NDArray[np.bool_]) -> None:
        stuck = self.stuck(one_sided)
        names = [name for name, is_stuck in zip(self.labels_, stuck, strict=True) if is_stuck]
        if names:
            warn_user(
                f"The network predicts the same for {listed(names)} on all training items. "
                "Remedies: a validation set (its best epoch is kept), a lower lr, or "
                "class_balance={...} if you know how common the label is.",
                CollapseWarning,
            )


@dataclass(frozen=True)
class LabelsFit(ReadyFit):
    """A fit of one network that is ready to be trained."""

    model: MultiLabelModel
    plan: MultiLabelPlan
    learned: Mapping[str, Any] = field(kw_only=True)
    """The learned attributes that only this method has, including its trained networks."""


@dataclass(frozen=True)
class OneLabel:
    """The binary classifier of one label, for `evaluate` and explanations."""

    model: MultiLabelModel
    label: str

    @property
    def labels_(self) -> Any:
        """The two classes."""
        return self.model.labels_.binary(self.label)

    @property
    def threshold_(self) -> float:
        """The label is predicted from this probability on."""
        return float(self.model.thresholds_[self.model.labels_.index(self.label)])

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return P(absent), P(present) of every item."""
        present = self.model.predict_proba(X)[:, self.model.labels_.index(self.label)]
        return np.stack([1 - present, present], axis=1)


def _calibration(
    logits: npt.NDArray[np.float64], gold: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """The scale and offset that fit gold labels best, slightly regularized; 1 and 0 with few."""
    if min(gold.sum(), len(gold) - gold.sum()) < _FEW:
        return 1.0, 0.0
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=10.0).fit(logits[:, None], gold)
    scale = float(fitted.coef_[0, 0])
    # If the network ranks a label the wrong way round, do not silently reverse it.
    return (scale, float(fitted.intercept_[0])) if scale > 0 else (1.0, 0.0)
