"""WeaSEL: the votes are weighed by a network that learns together with the end model."""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.base import EndToEndModel, Given, GoldSet
from wiesel.end_to_end.diagnosis import DIAGNOSED_ITEMS, prediction_record, voter_record
from wiesel.end_to_end.encoding import (
    EncoderShape,
    build_encoder,
    check_hidden_sizes,
    chosen_class_balance,
    encoder_features,
    feature_width,
)
from wiesel.end_to_end.insight import describe_item, weigh_voters
from wiesel.end_to_end.storage import Saved
from wiesel.errors import SavedModelError, WieselWarning
from wiesel.explain import Explanation
from wiesel.label_models import ClassBalance
from wiesel.labels import class_prior
from wiesel.nn.encoders import Activation, Encoding, VoteEncoder, encode_votes, label_logits
from wiesel.nn.losses import AGREEMENT_LOSSES
from wiesel.parameters import check_choice, check_number
from wiesel.training import Batch, Objective, Record, TrainingData, Validation, as_inputs
from wiesel.training.validation import logits_of
from wiesel.votes import VoteMatrix

__all__ = ["WeaSEL", "WeaSELObjective"]

_TAU_2 = ("sqrt_voters", "sqrt_input", "voters")


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
    equal_start: bool = False
    """Start at the equal-weight vote: the encoder's last layer begins at zero."""
    activation: Activation = "softmax"
    """From scores to accuracies: `softmax` over the voters, `sigmoid`, `relu` or `tanh`."""
    tau_1: float | None = None
    """Multiplies the scores; None is 1 with a validation set and 1/3 without (paper's advice)."""
    tau_2: Literal["sqrt_voters", "sqrt_input", "voters"] | float = "sqrt_voters"
    """Multiplies the accuracies: sqrt(voters) in the paper, sqrt(encoder inputs) in its code."""
    voting_only: bool = False
    """Share the weight among the voters that voted. In the paper's model those that abstain
    get a share too, which is lost; where they get nearly all of it, soft labels are vague."""
    class_conditional: bool = False
    """Whether a voter's accuracy depends on the class it votes for."""
    loss: str = "symmetric"
    """`symmetric` (Algorithm 1), `encoder_target`, `end_model_target`, `no_stop_gradient`, `l1`,
    `hellinger` or `mig`."""
    class_balance: ClassBalance | Literal["votes", "validation"] = None
    """P(y): None is uniform (as in the paper's experiments), numbers, or where to estimate it."""

    encoder_: VoteEncoder = field(init=False, repr=False)
    """The trained encoder."""
    class_balance_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The P(y) that was used."""
    tau_1_: float = field(init=False, repr=False)
    """The tau_1 that was used."""
    encoder_width_: int = field(init=False, repr=False)
    """How many features the encoder reads beside the votes."""

    def fit(
        self, X: Any, votes: VoteMatrix, validation: GoldSet | None = None, encoder_X: Any = None
    ) -> Self:
        """Train on inputs and votes; `validation=(X, y)` selects the epoch and the threshold.

        `encoder_X` holds the encoder's features where they are not the end model's inputs: token
        ids or images are no encoder features.
        """
        return self._fit(self._given(X, votes, encoder_X), validation)

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
        class_prior(self.labels_, self.class_balance_)
        shape = EncoderShape(len(self.voters_), len(self.labels_), self.encoder_width_)
        if not isinstance(self.encoder, nn.Module):
            with torch.device("meta"):  # as for a shipped end model: no memory before it fits
                saved.check(build_encoder(self, shape, self.tau_1_).network, "encoder")
        self.encoder_ = build_encoder(self, shape, self.tau_1_).eval()
        self.encoder_.network = saved.filled(self.encoder_.network, "encoder")

    def _check_options(self) -> None:
        super()._check_options()
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
            check_choice(self, "class_balance", self.class_balance, ("votes", "validation"))

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
        balance = chosen_class_balance(self.class_balance, votes, validation)
        return WeaSELObjective(end_model, encoder, self.encoding, balance, self.loss)

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
        self.tau_1_ = trained.encoder.tau_1
        self.class_balance_ = trained.class_balance
        self.encoder_width_ = feature_width(data.features)


class WeaSELObjective(Objective):
    """The two networks of Algorithm 1 and the losses that make them agree."""

    stackable = True
    log_prior: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        encoder: VoteEncoder,
        encoding: Encoding,
        class_balance: npt.NDArray[np.float64],
        loss: str,
    ) -> None:
        super().__init__()
        self.end_model = end_model
        self.encoder = encoder
        self.encoding: Encoding = encoding
        self.agreement = AGREEMENT_LOSSES[loss]
        self.class_balance = class_balance
        self.register_buffer("log_prior", torch.from_numpy(np.log(class_balance)).float())

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the encoder's whole input, votes and features, in `features`."""
        votes: Tensor = batch.votes  # type: ignore[assignment]
        return replace(batch, features=encode_votes(votes, self.encoding, batch.features))

    def weigh(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the accuracies and the logits of the soft labels of a prepared batch."""
        accuracies = self.encoder(batch.features, batch.votes)
        logits = label_logits(accuracies, batch.votes) + self.log_prior.unsqueeze(-2)  # type: ignore[arg-type]
        return accuracies, logits

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the end model and of the encoder."""
        _, label = self.weigh(batch)
        return self.agreement(logits_of(self.end_model, batch.inputs), label)

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how far the two agree, and who has the say, on a fixed sample of items."""
        device = self.log_prior.device
        batch = self.prepare(data.gather(data.sample(DIAGNOSED_ITEMS), device))
        accuracies, label = self.weigh(batch)
        predicted = logits_of(self.end_model, batch.inputs).argmax(dim=1)
        voted = batch.votes.sum(dim=1).argmax(dim=1)  # type: ignore[union-attr]
        record = prediction_record(predicted, label.argmax(dim=1), voted, label.shape[1])
        return record | voter_record(accuracies, batch.votes)  # type: ignore[arg-type]
