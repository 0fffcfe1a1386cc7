"""WeaSEL: the votes are weighed by a network that learns together with the end model."""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from wiesel.end_to_end.base import EndToEndModel, Given, GoldSet
from wiesel.end_to_end.class_balance import chosen_class_balance
from wiesel.end_to_end.storage import Saved
from wiesel.end_to_end.weasel.confirmation import (
    named_votes,
    numbered_votes,
    told_votes,
    unconfirmed,
    without,
)
from wiesel.end_to_end.weasel.encoding import (
    EncoderShape,
    build_encoder,
    check_additions,
    check_hidden_sizes,
    encoder_features,
    feature_width,
)
from wiesel.end_to_end.weasel.insight import describe_item, weigh_voters
from wiesel.end_to_end.weasel.objective import Extras, WeaSELObjective
from wiesel.end_to_end.weasel.recipes import BY_RECIPE, DEFAULT_RECIPE, RECIPES
from wiesel.end_to_end.weasel.recovery import recover
from wiesel.end_to_end.weasel.teaching import Teacher
from wiesel.end_to_end.weasel.warm_start import Trial, WarmStart, choose_warm_start, warm_start_from
from wiesel.errors import SavedModelError, WieselError, WieselWarning
from wiesel.explain import Explanation
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.labels import class_prior
from wiesel.nn.encoders import Activation, Encoding, VoteEncoder
from wiesel.nn.losses import AGREEMENT_LOSSES
from wiesel.parameters import check_choice, check_number
from wiesel.training import Objective, TrainingData, TrainOptions, Validation, as_inputs
from wiesel.votes import VoteMatrix

__all__ = ["WeaSEL", "WeaSELObjective"]

_TAU_2 = ("sqrt_voters", "sqrt_input", "voters", "classes")
_BALANCES = ("votes", "validation", "auto")


@dataclass(eq=False)
class WeaSEL(EndToEndModel):
    """End-to-end weak supervision (Rühling Cachay, Boecking, Dubrawski, NeurIPS 2021).

    An encoder e reads an item's votes and features and gives every voter an accuracy for this
    item; the weighted votes make a soft label. The end model f reads the features alone. Each is
    trained towards the other's current answer, which counts as a constant::

        theta = tau_2 * softmax(tau_1 * e(votes, x))          accuracies, over the voters
        P_e   = softmax(theta^T votes + log P(y))             the soft label
        P_f   = softmax(f(x))                                 the prediction
        loss  = CE(P_f, stop(P_e)) + CE(P_e, stop(P_f))

    Items without votes are not trained on. Predictions need only f.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> net = torch.nn.Linear(X.shape[1], 2)
    >>> model = WeaSEL(net, epochs=5, lr=0.01, tau_1=1/3).fit(X, votes)
    >>> model.predict_proba(X).shape
    (200, 2)
    """

    end_model: nn.Module
    """Your network: any module that returns logits. It is copied, never changed."""
    _: KW_ONLY
    encoder: Sequence[int] | nn.Module = (70, 70)
    """Hidden sizes of the encoder (`()` is linear), or your own module: vector -> scores."""
    batch_norm: bool = True
    """Whether the encoder has BatchNorm layers."""
    dropout: float = 0.3
    """The dropout of the encoder."""
    encoding: Encoding = "one_hot"
    """How the encoder reads votes; `signed` and `index` are what the paper's code did."""
    encoder_features: bool = True
    """Whether the encoder reads features beside the votes."""
    train_encoder: bool = True
    """False keeps the encoder as it was initialized (the paper's "WeaSEL-random")."""
    equal_start: bool = BY_RECIPE
    """Start at the equal-weight vote: the encoder's last layer begins at zero."""
    activation: Activation = "softmax"
    """From scores to accuracies: `softmax` over the voters, `sigmoid`, `relu` or `tanh`."""
    tau_1: float | None = BY_RECIPE
    """Multiplies the scores; None is 1 with a validation set and 1/3 without (paper's advice)."""
    tau_2: Literal["sqrt_voters", "sqrt_input", "voters", "classes"] | float = BY_RECIPE
    """Multiplies the accuracies: sqrt(voters) in the paper, sqrt(encoder inputs) in its code;
    `classes` is 3 + log(classes - 1): votes that agree are believed to about 95 %."""
    voting_only: bool = BY_RECIPE
    """Share the weight among the voters that voted. In the paper's model those that abstain
    get a share too, which is lost; where they get nearly all of it, soft labels are vague."""
    none_slot: bool = False
    """With `voting_only`: let the encoder give weight to none of the voters, too."""
    count_power: float = 0.0
    """Multiply the accuracies by (votes on the item) ** count_power: 0 is the paper's, 1 lets
    every vote add its weight, as a count does."""
    class_conditional: bool = False
    """Whether a voter's accuracy depends on the class it votes for."""
    loss: str = "symmetric"
    """`symmetric` (Algorithm 1), `encoder_target`, `end_model_target`, `no_stop_gradient`, `l1`,
    `hellinger` or `mig`."""
    class_balance: ClassBalance | Literal["votes", "validation", "auto"] = BY_RECIPE
    """P(y): None is uniform (as in the paper's experiments), numbers, or where to estimate it;
    `auto` is the validation set if there is one, else the votes."""
    recipe: Literal["paper", "robust"] = DEFAULT_RECIPE
    """Which set of options holds where you give none: see `wiesel.end_to_end.weasel.recipes`."""
    warm_start: LabelModel | Literal["auto"] | None = BY_RECIPE
    """The label model whose soft labels both networks learn first; `auto` tries several and
    takes the best on the validation set."""
    warm_up: int = BY_RECIPE
    """How many epochs they learn it."""
    slow_targets: bool = BY_RECIPE
    """Take targets from the running averages of both networks (`weight_average`), in evaluation
    mode, instead of from the networks as they are."""
    prediction_weight: float = BY_RECIPE
    """How much the end model's own prediction counts in its target, beside the votes."""
    align: bool = BY_RECIPE
    """Bring the class shares of the targets to the class balance."""
    uncovered: bool = BY_RECIPE
    """Train the end model on items without votes too, towards its own sharpened prediction."""
    drop_unconfirmed: bool = BY_RECIPE
    """Without a validation set, and of more than two classes: leave out the votes of voters that
    name a class whatever the item is, as far as features and other voters can tell."""
    fall_back: bool = BY_RECIPE
    """Fit again, closer to the votes, where training has collapsed to one class."""
    pull: float = 0.0
    """The weight of a loss that pulls the voters' shares towards equal ones."""
    early_learning: float = 0.0
    """The weight of early-learning regularization (Liu et al. 2020): the end model is held to
    what it predicted before it learned the noise by heart."""
    epochs: int = BY_RECIPE
    """How often training goes through the items."""
    patience: int | None = BY_RECIPE
    """Stop after so many epochs without a better validation score; None goes through all."""
    blind_epochs: int | None = BY_RECIPE
    """The number of epochs where no validation set chooses among them; None is `epochs`."""
    epoch_size: int | None = BY_RECIPE
    """How many items make an epoch; None is every item once."""
    lr: float = BY_RECIPE
    """The learning rate of Adam."""
    weight_average: float | None = BY_RECIPE
    """Predict with a running average of the weights that forgets the old at this rate each step
    (0.999: about a thousand steps); None predicts with the last ones."""
    members: int = BY_RECIPE
    """How many networks to train, with the seeds `seed`, `seed + 1`, ...: an ensemble."""

    encoder_: VoteEncoder = field(init=False, repr=False)
    """The trained encoder."""
    class_balance_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The P(y) that was used."""
    tau_1_: float = field(init=False, repr=False)
    """The tau_1 that was used."""
    encoder_width_: int = field(init=False, repr=False)
    """How many features the encoder reads beside the votes."""
    warm_start_: dict[str, Any] = field(init=False, repr=False)
    """The label model that was started from, and the validation scores of all that were tried."""
    unheard_: dict[str, list[str]] = field(init=False, repr=False)
    """The voters whose votes for some classes were left out (`drop_unconfirmed`), and which."""

    def __post_init__(self) -> None:
        self._follow_recipe()

    def set_params(self, **params: Any) -> Self:
        """Set options by name; a new recipe changes those that were as the old one had them."""
        old = RECIPES[self.recipe]
        super().set_params(**params)
        if "recipe" in params:
            for name, value in old.items():
                if name not in params and getattr(self, name) == value:
                    setattr(self, name, BY_RECIPE)
            self._follow_recipe()
        return self

    def fit(
        self, X: Any, votes: VoteMatrix, validation: GoldSet | None = None, encoder_X: Any = None
    ) -> Self:
        """Train on inputs and votes; `validation=(X, y)` selects the epoch and the threshold.

        `encoder_X` holds the encoder's features where they are not the end model's inputs: token
        ids or images are no encoder features.
        """
        given = self._given(X, votes, encoder_X)
        self._fit(given, validation)
        self._recover(given, validation)
        return self

    def accuracies(
        self, X: Any, votes: VoteMatrix, encoder_X: Any = None
    ) -> npt.NDArray[np.float64]:
        """Return how much each voter counts: (n_items, n_voters[, n_classes])."""
        return weigh_voters(self, X, votes, encoder_X)[0]

    def soft_labels(
        self, X: Any, votes: VoteMatrix, encoder_X: Any = None
    ) -> npt.NDArray[np.float64]:
        """Return what the weighted votes say: (n_items, n_classes); without votes, the prior."""
        return weigh_voters(self, X, votes, encoder_X)[1]

    def explain(self, x: Any, votes: VoteMatrix, encoder_X: Any = None) -> Explanation:
        """Return which voter pushed one item which way: `model.explain(X[17], votes[17])`."""
        return describe_item(self, x, votes, encoder_X)

    def saved_modules(self) -> dict[str, nn.Module]:
        """Return both trained networks."""
        return {"end_model": self.end_model_, "encoder": self.encoder_.network}

    def saved_values(self) -> dict[str, Any]:
        """Return what decides how the encoder is built and used."""
        return {
            "tau_1": self.tau_1_,
            "class_balance": self.class_balance_,
            "encoder_width": self.encoder_width_,
            "warm_start": self.warm_start_,
            "unheard": self.unheard_,
        }

    @classmethod
    def restored_options(cls, saved: Saved) -> dict[str, Any]:
        """Return the user's encoder, if the model was trained with one."""
        if "encoder" in saved.manifest["parameters"]:
            return {}
        return {"encoder": saved.blank("encoder", saved.manifest["parameters"]["seed"])}

    def restore_learned(self, saved: Saved) -> None:
        """Rebuild the encoder and fill it."""
        values = saved.values
        if not self.voters_:
            raise SavedModelError("The saved model names no voters.")
        self.tau_1_, self.encoder_width_ = values["tau_1"], values["encoder_width"]
        check_number(self, "tau_1_", self.tau_1_, low=0)
        check_number(self, "encoder_width_", self.encoder_width_, low=0, whole=True)
        self.class_balance_ = values["class_balance"]
        self.warm_start_ = values["warm_start"]
        self.unheard_ = values.get("unheard", {})
        try:
            numbered_votes(self.unheard_, self.voters_, self.labels_)
        except (WieselError, AttributeError, TypeError) as problem:
            raise SavedModelError("The votes it leaves out are not of its voters.") from problem
        class_prior(self.labels_, self.class_balance_)
        shape = EncoderShape(len(self.voters_), len(self.labels_), self.encoder_width_)
        if not isinstance(self.encoder, nn.Module):
            with torch.device("meta"):  # as for a shipped end model: no memory before it fits
                saved.check(build_encoder(self, shape, self.tau_1_).network, "encoder")
        self.encoder_ = build_encoder(self, shape, self.tau_1_).eval()
        self.encoder_.network = saved.filled(self.encoder_.network, "encoder")

    def _check_options(self) -> None:
        super()._check_options()
        check_choice(self, "recipe", self.recipe, tuple(RECIPES))
        check_choice(self, "encoding", self.encoding, ("one_hot", "signed", "index"))
        check_choice(self, "activation", self.activation, ("softmax", "sigmoid", "relu", "tanh"))
        check_choice(self, "loss", self.loss, tuple(AGREEMENT_LOSSES))
        check_hidden_sizes(self)
        check_number(self, "dropout", self.dropout, low=0, high=1)
        if self.tau_1 is not None:
            check_number(self, "tau_1", self.tau_1, low=0)
        if isinstance(self.tau_2, str):
            check_choice(self, "tau_2", self.tau_2, _TAU_2)
        else:
            check_number(self, "tau_2", self.tau_2, low=0)
        if isinstance(self.class_balance, str):
            check_choice(self, "class_balance", self.class_balance, _BALANCES)
        check_additions(self)

    def _follow_recipe(self) -> None:
        check_choice(self, "recipe", self.recipe, tuple(RECIPES))
        if self.epochs is not BY_RECIPE:
            for name in ("patience", "blind_epochs"):
                if getattr(self, name) is BY_RECIPE:
                    setattr(self, name, None)
        for name, value in RECIPES[self.recipe].items():
            if getattr(self, name) is BY_RECIPE:
                setattr(self, name, value)

    def _given(self, X: Any, votes: Any, encoder_X: Any = None) -> Given:
        inputs = as_inputs(X)
        features = encoder_features(inputs, encoder_X, self.encoder_features)
        return Given(TrainingData(inputs, votes, features), votes)

    def _objective(
        self, end_model: nn.Module, data: TrainingData, validation: Validation | None
    ) -> "WeaSELObjective":
        tau_1 = self._choose_tau_1(validation)
        votes: VoteMatrix = data.votes  # type: ignore[assignment]
        shape = EncoderShape(votes.n_voters, votes.n_classes, feature_width(data.features))
        encoder = build_encoder(self, shape, tau_1)
        balance = self._balance
        extras = Extras(
            teacher=self._teacher(balance),
            warm_up=self.warm_up if data.targets is not None else 0,
            warm_loss=self.warm_start_.get("loss", "ce"),
            balance=balance,
            pull=self.pull,
            early_learning=self.early_learning,
            n_items=len(data.inputs),
        )
        # Aligned targets have the balance already: it would count twice.
        prior = class_prior(votes.labels, None) if self.align else balance
        return WeaSELObjective(end_model, encoder, self.encoding, prior, self.loss, extras)

    def _teacher(self, balance: npt.NDArray[np.float64]) -> Teacher | None:
        if not (self.align or self.uncovered or self.slow_targets or self.prediction_weight):
            return None
        return Teacher(balance, prediction_weight=self.prediction_weight, align=self.align)

    def _training_data(self, data: TrainingData, validation: Validation | None) -> TrainingData:
        data = super()._training_data(self._heard(data, validation), validation)
        self._balance = chosen_class_balance(self.class_balance, data.votes, validation)  # type: ignore[arg-type]
        start = self._warm_start(data, validation)
        self.warm_start_ = {}
        if start is not None:
            self.warm_start_ = {"name": start.name, "loss": start.loss, "scores": start.scores}
            data = replace(data, targets=start.soft_labels)
        return replace(data, used=None) if self.uncovered else data

    def _heard(self, data: TrainingData, validation: Validation | None) -> TrainingData:
        """Return the data without votes that nothing confirms, and say which they were."""
        votes: VoteMatrix = data.votes  # type: ignore[assignment]
        self.unheard_ = {}
        if not self.drop_unconfirmed or validation is not None or votes.n_classes == 2:
            return data
        found = unconfirmed(votes, data.inputs)
        if not found.any():
            return data
        self.unheard_ = named_votes(found, votes.voters, votes.labels)
        warnings.warn(
            f"{told_votes(self.unheard_)}: the other voters and the features confirm none of it. "
            "These votes are left out; drop_unconfirmed=False keeps them.",
            WieselWarning,
            stacklevel=6,
        )
        return replace(data, votes=without(votes, found))

    def _warm_start(self, data: TrainingData, validation: Validation | None) -> WarmStart | None:
        if self.warm_start is None or self.warm_up == 0:
            return None
        if isinstance(self.warm_start, LabelModel):
            return warm_start_from(self.warm_start, data.votes, self._balance)  # type: ignore[arg-type]
        if validation is None:
            return choose_warm_start(data, self._balance, None)
        options = replace(
            self._train_options(validation),
            epochs=self.warm_up,
            slow_targets=False,
            checkpoint=None,
            progress=False,
        )
        trial = Trial(self._network, validation, options, self.seed)
        return choose_warm_start(data, self._balance, trial)

    def _train_options(self, validation: Validation | None) -> TrainOptions:
        options = super()._train_options(validation)
        if validation is None and self.blind_epochs is not None:
            return replace(options, epochs=self.blind_epochs)
        return options

    def _share(self, fitted: Self) -> None:
        self.warm_start_, self._balance = fitted.warm_start_, fitted._balance
        self.unheard_ = fitted.unheard_

    def _recover(self, given: Given, validation: GoldSet | None) -> None:
        if self.fall_back and not self.history_.interrupted:
            recover(self, given, validation)

    def _choose_tau_1(self, validation: Validation | None) -> float:
        if self.tau_1 is not None:
            return float(self.tau_1)
        if validation is not None:
            return 1.0
        warnings.warn(
            "There is no validation set to choose an epoch by: tau_1 is lowered to 1/3, as the "
            "paper advises, and the last epoch is kept. Set tau_1 yourself to silence this.",
            WieselWarning,
            stacklevel=6,
        )
        return 1 / 3

    def _keep(self, objective: Objective, data: TrainingData) -> None:
        trained: WeaSELObjective = objective  # type: ignore[assignment]
        self.encoder_ = trained.encoder
        self.tau_1_ = trained.encoder.weighing.tau_1
        self.class_balance_ = trained.class_balance
        self.encoder_width_ = feature_width(data.features)
