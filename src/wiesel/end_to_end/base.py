"""What every end-to-end method shares: from checked data to a trained end model."""

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.checks import check_end_model, check_lengths, gold_validation
from wiesel.end_to_end.diagnosis import warn_if_collapsed
from wiesel.end_to_end.fine_tuning import FineTuning, fine_tune
from wiesel.end_to_end.fingerprints import run_fingerprint, short_hash
from wiesel.end_to_end.storage import Saved, save_end_to_end
from wiesel.end_to_end.together import fit_ensemble
from wiesel.errors import ParameterError, VoteError, WieselWarning
from wiesel.evaluation import choose_threshold
from wiesel.labels import LabelSpace
from wiesel.nn.ensemble import Ensemble
from wiesel.parameters import Parameterized, check_number
from wiesel.training import (
    History,
    Objective,
    TrainingData,
    TrainOptions,
    Validation,
    as_inputs,
    seeded,
    train,
)
from wiesel.training.options import resolve_device
from wiesel.training.validation import predict_logits, proba_of
from wiesel.votes import VoteMatrix

__all__ = ["EndToEndModel", "GoldSet"]

GoldSet = tuple[Any, Any]
"""A pair (X, y) of inputs and gold labels, as names or indices."""


class Given(NamedTuple):
    """What `fit` was given to learn from, as training data."""

    data: TrainingData
    votes: VoteMatrix | None
    labels: LabelSpace | None = None
    """The classes, where there are no votes that name them."""


class Run(NamedTuple):
    """A fit that is ready to be trained."""

    objective: Objective
    data: TrainingData
    validation: Validation | None
    labels: LabelSpace
    voters: tuple[str, ...]
    fingerprint: str
    random_state: Tensor


@dataclass(eq=False, kw_only=True)
class EndToEndModel(Parameterized, ABC):
    """Trains the user's own network from votes.

    A method is a dataclass with an `end_model` field. It writes `_objective` (its networks and
    losses), and may replace `_training_data`. This class does the rest: checks, training,
    selection on the validation set, prediction and saving. The end model is any `nn.Module` that
    returns logits; it is copied, and the trained copy is `end_model_`.
    """

    epochs: int = 150
    """How often training goes through all covered items."""
    lr: float = 1e-4
    """The learning rate of Adam."""
    batch_size: int = 64
    """How many items make a step."""
    epoch_size: int | None = None
    """How many items make an epoch, after which the network is looked at; None is every item
    once. Large data want fewer, small data may have more: items then come several times."""
    weight_decay: float = 7e-7
    """The weight of the squared norm of all parameters in the loss."""
    weight_average: float | None = None
    """Predict with a running average of the weights that forgets the old at this rate each step
    (0.999: about a thousand steps); None predicts with the last ones."""
    patience: int | None = None
    """Stop when the validation score has not improved for so many epochs; None never does."""
    seed: int = 0
    """Everything random in `fit` is drawn from it."""
    members: int = 1
    """How many networks to train, with the seeds `seed`, `seed + 1`, ...: an ensemble, whose
    predictions are averaged. One of Wiesel's own end models starts anew from each seed; a module
    of your own starts from the weights it has."""
    device: str = "auto"
    """Where to train: `auto`, `cpu`, `cuda`, ..."""
    checkpoint: str | Path | None = None
    """A file written after every epoch; `fit` goes on from it if it exists."""
    progress: bool | None = None
    """Show a progress bar; None shows it on a terminal."""

    labels_: LabelSpace = field(init=False, repr=False)
    """The classes seen in `fit`."""
    voters_: tuple[str, ...] = field(init=False, repr=False)
    """The voters seen in `fit`, in order."""
    end_model_: nn.Module = field(init=False, repr=False)
    """The trained end model, on the CPU and in evaluation mode."""
    history_: History = field(init=False, repr=False)
    """What happened, epoch by epoch."""
    threshold_: float | None = field(init=False, repr=False)
    """Two classes: predict the second if its probability reaches this; None is the larger one."""
    selection_: dict[str, Any] = field(init=False, repr=False)
    """Which epoch was kept, and by what measure."""
    trained_on_: dict[str, Any] = field(init=False, repr=False)
    """How many items were used, and a fingerprint of the votes."""
    members_: tuple[Self, ...] = field(init=False, repr=False)
    """The fitted members of an ensemble; empty where there is one network."""

    def fit(self, X: Any, votes: VoteMatrix, validation: GoldSet | None = None) -> Self:
        """Train on inputs and votes; `validation=(X, y)` selects the epoch and the threshold.

        Parameters
        ----------
        X
            What the end model reads: an array, a tensor, a dict of tensors, or a Dataset.
        votes
            The votes on the same items, in the same order.
        validation
            A few items with gold labels (names or indices). Nothing is trained on them.
        """
        return self._fit(self._given(X, votes), validation)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return P(class) from the inputs alone: (n_items, n_classes), as in `labels_.names`."""
        self.check_fitted()
        logits = predict_logits(self.end_model_, as_inputs(X))
        if len(logits) == 0:
            return np.empty((0, len(self.labels_)))
        return proba_of(logits)

    def member_probas(self, X: Any) -> npt.NDArray[np.float64]:
        """Return P(class) by every member: (members, n_items, n_classes); one for one network."""
        self.check_fitted()
        return np.stack([member.predict_proba(X) for member in self.members_ or (self,)])

    def spread(self, X: Any) -> npt.NDArray[np.float64]:
        """Return how far the members are apart, (n_items, n_classes): a measure of uncertainty.

        It is the standard deviation of their probabilities, and 0 where there is one network.
        """
        return self.member_probas(X).std(axis=0)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the name of the predicted class of every item."""
        proba = self.predict_proba(X)
        if self.threshold_ is None:
            chosen = proba.argmax(axis=1)
        else:
            chosen = (proba[:, 1] >= self.threshold_).astype(np.int64)
        return np.array(self.labels_.names, dtype=object)[chosen]

    def fine_tune(
        self, X: Any, y: Any, epochs: int = 40, lr: float | None = None, batch_size: int = 16
    ) -> FineTuning:
        """Go on training the fitted end model on a few gold items, if they gain from it.

        Cross-validation on them decides for how many epochs, up to `epochs`, and tunes the
        threshold; 0 leaves the model as it is. More than five items a class are needed. `lr` is
        the model's own by default.
        """
        self.check_fitted()
        lr = self.lr if lr is None else lr
        check_number(self, "epochs", epochs, low=1, whole=True)
        check_number(self, "lr", lr, low=0)
        return fine_tune(self, X, y, epochs, lr, batch_size)

    def save(self, path: str | Path) -> None:
        """Write the model as a folder of data files; `wiesel.load_model` reads it."""
        self.check_fitted()
        save_end_to_end(self, path)

    def saved_modules(self) -> dict[str, nn.Module]:
        """Return the trained modules whose weights are saved, by name."""
        return {"end_model": self.end_model_}

    def saved_values(self) -> dict[str, Any]:
        """Return what only this method learned, as values that `wiesel.saving` can encode."""
        return {}

    def saved_files(self) -> dict[str, bytes]:
        """Return further files of this method, by name."""
        return {}

    @classmethod
    def restored_options(cls, saved: Saved) -> dict[str, Any]:
        """Return options that are not stored as plain values, such as modules."""
        return {}

    def restore_learned(self, saved: Saved) -> None:
        """Set the learned attributes that only this method has, from a folder."""

    @property
    def _network(self) -> nn.Module:
        """The user's end model, as given: every method declares it, at its own position."""
        network: nn.Module = self.end_model  # type: ignore[attr-defined]
        return network

    @abstractmethod
    def _objective(
        self, end_model: nn.Module, data: TrainingData, validation: Validation | None
    ) -> Objective:
        """Return the networks and losses to train; random numbers are seeded."""

    def _training_data(self, data: TrainingData, validation: Validation | None) -> TrainingData:
        """Return the data with what the method adds to it and the items it trains on."""
        covered = np.flatnonzero(data.votes.covered)  # type: ignore[union-attr]
        if len(covered) < 2:
            raise VoteError(
                f"Only {len(covered)} of {len(data.inputs)} items have a vote; training needs two "
                "or more. Write labeling functions that vote more often."
            )
        return replace(data, used=covered)

    def _keep(self, objective: Objective, data: TrainingData) -> None:
        """Set the learned attributes that only this method has."""

    def _check_options(self) -> None:
        """Refuse values that are not allowed; whether the device exists is for `fit` to see."""
        check_number(self, "epochs", self.epochs, low=1, whole=True)
        check_number(self, "batch_size", self.batch_size, low=2, whole=True)
        check_number(self, "lr", self.lr, low=0)
        check_number(self, "weight_decay", self.weight_decay, low=0)
        check_number(self, "seed", self.seed, low=0, whole=True)
        check_number(self, "members", self.members, low=1, whole=True)
        if self.weight_average is not None:
            check_number(self, "weight_average", self.weight_average, low=0, high=1)
        if self.epoch_size is not None:
            check_number(self, "epoch_size", self.epoch_size, low=2, whole=True)
        if self.patience is not None:
            check_number(self, "patience", self.patience, low=1, whole=True)

    def _given(self, X: Any, votes: Any, encoder_X: Any = None) -> Given:
        """Return what `fit` is given as training data; nothing but X and votes by default."""
        if encoder_X is not None:
            raise ParameterError(f"{type(self).__name__} has no encoder to read encoder_X.")
        return Given(TrainingData(as_inputs(X), votes=votes), votes)

    def _fit(self, given: Given, validation: GoldSet | None) -> Self:
        """Check everything, train, and keep what was learned."""
        if self.members != 1:
            self.check_options()
            return fit_ensemble(self, given, validation)
        with seeded(self.seed):
            run = self._start(given, validation)
            history = train(
                run.objective,
                run.data,
                self._train_options(run.validation),
                run.validation,
                run.fingerprint,
            )
            self._finish(run, history)
        return self

    def _start(self, given: Given, validation: GoldSet | None, like: Run | None = None) -> Run:
        """Return a checked run; `like` is one on the same data, of a model that differs little."""
        self.check_options()
        resolve_device(self.device)
        data, votes, labels = given
        labels = labels or self._label_space(votes)
        check_lengths(data)
        network = copy.deepcopy(self._network)
        check_end_model(network, data.inputs, len(labels))
        held_out = gold_validation(validation, labels, network)
        data = self._training_data(data, held_out) if like is None else like.data
        objective = self._objective(network, data, held_out)
        voters = votes.voters if votes is not None else ()
        fingerprint = run_fingerprint(self, data, held_out)
        state = torch.get_rng_state()
        return Run(objective, data, held_out, labels, voters, fingerprint, state)

    def _finish(self, run: Run, history: History) -> None:
        """Keep what was learned."""
        self.labels_, self.voters_, self.members_ = run.labels, run.voters, ()
        self.end_model_, self.history_ = run.objective.end_model.eval(), history
        self.trained_on_ = {"items": len(run.data.items), "fingerprint": run.fingerprint}
        self._select(run.validation)
        self._keep(run.objective, run.data)
        warn_if_collapsed(self.history_, run.labels, len(self.voters_))

    def _recover(self, given: Given, validation: GoldSet | None) -> None:
        """Replace a fit that failed; a method that can tell knows how."""

    def _label_space(self, votes: VoteMatrix | None) -> LabelSpace:
        if not isinstance(votes, VoteMatrix):
            raise VoteError(
                f"votes must be a VoteMatrix; got {type(votes).__name__}. "
                "Make one with VoteMatrix.from_dense(array, labels) or apply_lfs(...)."
            )
        return votes.labels

    def _select(self, validation: Validation | None) -> None:
        """Note which epoch was kept, and tune the decision threshold for F1 (two classes)."""
        self.selection_ = {"by": "last epoch", "epoch": len(self.history_)}
        if self.history_.interrupted:
            message = f"Training was interrupted after {len(self.history_)} epochs"
            warnings.warn(f"{message}; the best weights so far are kept.", WieselWarning, 5)
        if validation is None or self.history_.best_epoch is None:
            self.threshold_ = None
            return
        name = f"validation_{validation.metric}"
        self.selection_ = {
            "by": validation.metric,
            "epoch": self.history_.best_epoch,
            "score": self.history_.kept[name],
        }
        self._tune(proba_of(predict_logits(self.end_model_, validation.inputs)), validation)

    def _tune(self, proba: npt.NDArray[np.float64], validation: Validation) -> None:
        self.threshold_ = None
        if validation.metric == "auc":
            self.threshold_ = choose_threshold(proba[:, 1], validation.gold)

    def _share(self, fitted: Self) -> None:
        """Take over what `_training_data` learned in a model that sees the same data."""

    def join(self, members: Sequence[Self], validation: GoldSet | None = None) -> Self:
        """Become the ensemble of these fitted models; `validation` tunes its threshold."""
        first = members[0]
        # What a method learned besides is the first member's, unless the method knows better.
        for name in self.learned_names():
            setattr(self, name, getattr(first, name))
        self.members_ = tuple(members)
        self.end_model_ = Ensemble(member.end_model_ for member in members).eval()
        self.history_ = History.of_members([member.history_ for member in members])
        marks = "".join(member.trained_on_["fingerprint"] for member in members)
        self.trained_on_ = {**first.trained_on_, "fingerprint": short_hash(marks)}
        kept = [member.selection_["epoch"] for member in members]
        self.selection_, self.threshold_ = {**first.selection_, "epoch": kept}, None
        held_out = gold_validation(validation, self.labels_, self.end_model_)
        if held_out is not None and "score" in self.selection_:
            proba = proba_of(predict_logits(self.end_model_, held_out.inputs))
            self.selection_["score"] = held_out.score(proba)
            self._tune(proba, held_out)
        return self

    def _train_options(self, validation: Validation | None) -> TrainOptions:
        names = TrainOptions.__dataclass_fields__
        given = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return TrainOptions(**given)
