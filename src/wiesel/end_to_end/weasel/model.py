"""WeaSEL: a network that weighs the votes is trained jointly with the end model."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.base import ExplainedModel
from wiesel.end_to_end.checks import check_class_balance
from wiesel.end_to_end.evidence_models import FeatureChecked
from wiesel.end_to_end.evidence_models.base import fit_label_model
from wiesel.end_to_end.plan import (
    FitInputs,
    FitPlan,
    GoldSet,
    train_options,
)
from wiesel.end_to_end.storage import Saved
from wiesel.end_to_end.vote_payloads import DensePayload
from wiesel.end_to_end.weasel.encoding import (
    build_encoder,
    check_encoder,
    encoder_features,
    feature_width,
    layers_of,
    voter_dependencies,
)
from wiesel.end_to_end.weasel.insight import weigh_item, weigh_voters
from wiesel.end_to_end.weasel.objective import WeaSELObjective
from wiesel.end_to_end.weasel.several_labels import (
    LabelGrid,
    WeaSELPresenceObjective,
    build_label_encoder,
    check_for_several_labels,
    explain_labels,
    one_sided_models,
)
from wiesel.end_to_end.weasel.spans import (
    WeaSELTokenObjective,
    build_token_encoder,
    check_for_spans,
    start_for_spans,
)
from wiesel.errors import (
    ParameterError,
    SavedModelError,
    WieselWarning,
    warn_user,
)
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.base import (
    fitted_label_model,
    label_model_arrays,
    label_model_values,
    unfitted_label_model,
)
from wiesel.label_models.pair_statistics import place_statistics
from wiesel.nn.encoders import Activation, EncoderLayers, Encoding, VoteEncoder
from wiesel.nn.end_models import shapes_only
from wiesel.nn.graph_encoder import GraphLayers
from wiesel.nn.losses import AGREEMENT_LOSSES
from wiesel.parameters import check_choice, check_number
from wiesel.spans.votes import TokenVotes
from wiesel.tasks import OneLabelTask, SeveralLabelsTask, SpansTask
from wiesel.tasks.one_label import check_one_item
from wiesel.training import Objective, as_inputs
from wiesel.training.inputs import as_batch
from wiesel.training.loop import TrainingEngine
from wiesel.training.objective import TrainingHooks

if TYPE_CHECKING:
    from wiesel.end_to_end.plan import FitInputs, GoldSet

__all__ = ["WeaSEL", "WeaSELObjective", "recover"]

_ONE_SIDED = "one_sided.safetensors."
_TAU_2 = ("sqrt_voters", "sqrt_input", "voters", "classes")
_PAPER: Final[dict[str, Any]] = {
    "tau_1": None,
    "tau_2": "sqrt_voters",
    "voting_only": False,
    "class_balance": None,
    "start": None,
    "epochs": 150,
    "epoch_size": None,
    "lr": 1e-4,
    "weight_average": None,
}
"""The paper's settings that differ from the defaults."""


@dataclass(eq=False)
class WeaSEL(ExplainedModel):
    """End-to-end weak supervision (Rühling Cachay, Boecking, Dubrawski, NeurIPS 2021).

    An encoder e reads the votes and features of an item and weighs every voter on it; the weighted
    votes are a soft label. The end model f reads only the features. Each is trained toward the
    other's current prediction, which is treated as a constant::

        theta = tau_2 * softmax(tau_1 * e(votes, x))          accuracies, over the voters
        P_e   = softmax(theta^T votes + log P(y))             the soft label
        P_f   = softmax(f(x))                                 the prediction
        loss  = CE(P_f, stop(P_e)) + CE(P_e, stop(P_f))

    Items without votes are not used in training. Prediction needs only f. Three defaults differ
    from the paper, to prevent collapse: both networks first learn the soft labels of a label model
    (`start`), only voters that vote get weight (`voting_only`), and tau_2 does not grow with the
    number of voters.
    `WeaSEL.paper(net)` is the paper's own configuration.

    With several labels, one encoder reads the votes on all of them, and shares weight among the
    voters on each (`wiesel.end_to_end.weasel.several_labels`).

    >>> import torch
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> net = torch.nn.Linear(X.shape[1], 2)
    >>> model = WeaSEL(net, epochs=5, warm_up=2, lr=0.01).fit(X, votes)
    >>> model.predict_proba(X).shape
    (200, 2)
    """

    end_model: nn.Module
    """Your network: any module that returns logits. `fit` trains a copy."""
    _: KW_ONLY
    encoder: Sequence[int] | EncoderLayers | Literal["graph"] | GraphLayers | nn.Module = (70, 70)
    """Hidden sizes of the encoder (`()` is linear), `EncoderLayers(...)` to change more of it,
    `"graph"` or `GraphLayers(dependencies=[("a", "b")])` for dependent voters, or your own
    module: vector -> scores."""
    encoding: Encoding = "one_hot"
    """How votes are encoded; the paper's code used `signed` and `index`."""
    activation: Activation = "softmax"
    """Maps scores to accuracies: `softmax` over the voters, `sigmoid`, `relu` or `tanh`."""
    tau_1: float | None = 1.0
    """Multiplies the scores; None is 1 with a validation set and 1/3 without (as the paper
    recommends)."""
    tau_2: Literal["sqrt_voters", "sqrt_input", "voters", "classes"] | float = "classes"
    """Multiplies the accuracies: sqrt(voters) in the paper, sqrt(encoder inputs) in its code;
    `classes` is 3 + log(classes - 1): unanimous votes then give about 95 %."""
    voting_only: bool = True
    """Only voters that vote get weight. In the paper's model, abstaining voters get a share that is
    lost; if it is large, soft labels become vague."""
    class_conditional: bool = False
    """Whether a voter's accuracy depends on the class it votes for."""
    statistics: Sequence[tuple[str, str, str]] = ()
    """Known relations of two voters, such as [Fixes("a", "b"), Prioritizes("a", "c"),
    Reinforces("b", "c")]. Each adds a column to the votes, weighed like a voter."""
    loss: str = "symmetric"
    """`symmetric` (Algorithm 1), `encoder_target`, `end_model_target`, `no_stop_gradient`, `l1`,
    `hellinger` or `mig`."""
    class_balance: ClassBalance | Mapping[str, float] | Literal["votes", "validation", "auto"] = (
        None
    )
    """P(y): None is uniform (as in the paper's experiments), numbers, or where to estimate it;
    `auto` is the validation set if there is one, else the votes."""
    start: LabelModel | None = field(default_factory=FeatureChecked)
    """The label model whose soft labels both networks learn first (copies of a voter count once).
    None starts from random weights, as in the paper."""
    warm_up: int = 6
    """The number of epochs spent on `start`; joint training needs a larger `epochs`."""

    encoder_: VoteEncoder = field(init=False, repr=False)
    """The trained encoder."""
    class_balance_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """The value of P(y) used in training."""
    tau_1_: float = field(init=False, repr=False)
    """The value of tau_1 used in training."""
    encoder_width_: int = field(init=False, repr=False)
    """The number of features the encoder reads in addition to the votes."""
    dependencies_: tuple[tuple[str, str], ...] = field(init=False, repr=False)
    """The edges of a graph encoder, given or found; empty for other encoders."""
    grid_: LabelGrid | None = field(init=False, repr=False)
    """With several labels: the voters on each; else None."""
    one_sided_: dict[str, Any] = field(init=False, repr=False)
    """The label models of labels whose votes all go one way."""

    tasks = (OneLabelTask.kind, SeveralLabelsTask.kind, SpansTask.kind)

    @classmethod
    def paper(cls, end_model: nn.Module, **options: Any) -> Self:
        """Return the paper's configuration; `options` override it.

        >>> WeaSEL.paper(nn.Linear(4, 2)).tau_2
        'sqrt_voters'
        """
        return cls(end_model, **{**_PAPER, **options})

    def fit(
        self,
        X: Any,
        votes: Any,
        validation: GoldSet | None = None,
        encoder_X: Any = None,
        *,
        gold: Any = None,
        engine: TrainingEngine | None = None,
        hooks: TrainingHooks | None = None,
    ) -> Self:
        """Train on inputs and votes, then on gold labels; see `EndToEndModel.fit`.

        `encoder_X` holds the encoder's features if the end model reads something else, such as
        token ids or images.
        """
        given = replace(self.fit_inputs(X, votes, encoder_X), engine=engine, hooks=hooks)
        return self.fit_with_gold(given, validation, gold)

    def accuracies(self, X: Any, votes: Any, encoder_X: Any = None) -> Any:
        """Return the weight of each voter: (n_items, n_voters[, n_classes]).

        After the voters there is a column for each of the `statistics`. With several labels, it is
        a dict: for each label, the weights of the voters on it.
        """
        weights = weigh_voters(self, X, votes, encoder_X)[0]
        if self.grid_ is None:
            return weights
        named = enumerate(self.grid_.voters_on.items())
        return {label: weights[:, place, : len(voters)] for place, (label, voters) in named}

    def soft_labels(self, X: Any, votes: Any, encoder_X: Any = None) -> npt.NDArray[np.float64]:
        """Return the encoder's soft labels: (n_items, n_classes); the prior without votes."""
        return weigh_voters(self, X, votes, encoder_X)[1]

    def explain(self, x: Any, votes: Any, encoder_X: Any = None) -> Any:
        """Return the effect of each vote on one item: `model.explain(X[17], votes[17])`."""
        self.check_votes(votes)
        check_one_item(votes)
        one, features = self.input_of(x), None if encoder_X is None else as_batch(encoder_X)
        return self.task_.explanation(self, one, votes, self._effects(one, votes, features))

    def vote_effects(self, one: Any, votes: Any) -> Any:
        """Return the effects of the votes on one item; `one` is the item as a batch."""
        return self._effects(one, votes, None)

    def _effects(self, one: Any, votes: Any, features: Any) -> Any:
        if self._tags_tokens:
            return None
        if self.grid_ is None:
            return weigh_item(self, one, votes, features)
        return explain_labels(self, one, votes, weigh_voters(self, one, votes, features))

    def fit_inputs(self, X: Any, votes: Any, encoder_X: Any = None) -> FitInputs:
        """Return X, votes and the encoder's features as one value."""
        inputs = as_inputs(X, votes=votes)
        if encoder_X is not None:
            encoder_X = as_inputs(encoder_X, "encoder_X", votes)
        wanted = self._reads_features and not isinstance(votes, TokenVotes)
        return FitInputs(inputs, votes, encoder_features(inputs, encoder_X, wanted))

    @property
    def _tags_tokens(self) -> bool:
        return self.task_.kind == SpansTask.kind

    @property
    def _reads_features(self) -> bool:
        layers = layers_of(self.encoder)
        return layers is None or layers.features

    def recover(self, given: FitInputs, validation: GoldSet | None) -> None:
        """Replace a fit that collapsed to one class, with a warning."""
        if self.start is not None and not self.history_.interrupted:
            recover(self, given, validation)

    def saved_modules(self) -> dict[str, nn.Module]:
        """Return both trained networks."""
        return {"end_model": self.end_model_, "encoder": self.encoder_.network}

    def saved_values(self) -> dict[str, Any]:
        """Return the values that determine how the encoder is built and used."""
        return {
            "tau_1": self.tau_1_,
            "class_balance": self.class_balance_,
            "encoder_width": self.encoder_width_,
            "encoder_layers": _stored_layers(self.encoder, EncoderLayers),
            "graph_layers": _stored_layers(self.encoder, GraphLayers),
            "dependencies": self.dependencies_,
            "start": None if self.start is None else label_model_values(self.start),
            "voters_on": None if self.grid_ is None else self.grid_.voters_on,
            "one_sided": {k: label_model_values(own) for k, own in self.one_sided_.items()},
        }

    def saved_files(self) -> dict[str, bytes]:
        """Return the arrays of the label models of one-sided labels."""
        models = enumerate(self.one_sided_.values())
        return {f"{_ONE_SIDED}{place}": label_model_arrays(own) for place, own in models}

    @classmethod
    def restored_options(cls, saved: Saved) -> dict[str, Any]:
        """Return the start and the encoder, as the user gave them."""
        values = saved.values
        start = values["start"]
        options = {"start": None if start is None else unfitted_label_model(start)}
        if values["encoder_layers"] is not None:
            return {**options, "encoder": EncoderLayers(**values["encoder_layers"])}
        # Models saved before graph encoders existed have no such entry.
        if values.get("graph_layers") is not None:
            return {**options, "encoder": GraphLayers(**values["graph_layers"])}
        if "encoder" in saved.manifest["parameters"]:
            return options
        return {**options, "encoder": saved.blank("encoder", saved.manifest["parameters"]["seed"])}

    def restore_learned(self, saved: Saved) -> None:
        """Rebuild the encoder and load its weights."""
        values = saved.values
        if not self.voters_:
            raise SavedModelError("The saved model names no voters.")
        self.tau_1_, self.encoder_width_ = values["tau_1"], values["encoder_width"]
        check_number(self, "tau_1_", self.tau_1_, low=0)
        check_number(self, "encoder_width_", self.encoder_width_, low=0, whole=True)
        self.class_balance_ = self.task_.check_balance(values["class_balance"])
        self.dependencies_ = values.get("dependencies", ())
        stored = values.get("voters_on")
        self.grid_ = (
            None if stored is None else LabelGrid.restored(stored, self.labels_, self.voters_)
        )
        self.one_sided_ = {
            label: fitted_label_model(own, saved.files[f"{_ONE_SIDED}{place}"])
            for place, (label, own) in enumerate(values.get("one_sided", {}).items())
        }
        if not isinstance(self.encoder, nn.Module):
            with shapes_only():  # no memory before the sizes match
                saved.check(self._encoder(len(self.labels_)).network, "encoder")
        self.encoder_ = self._encoder(len(self.labels_)).eval()
        self.encoder_.network = saved.filled(self.encoder_.network, "encoder")

    def _encoder(self, n_classes: int) -> VoteEncoder:
        """A new encoder for the learned sizes."""
        if self.grid_ is not None:
            return build_label_encoder(self, self.grid_, self.encoder_width_, self.tau_1_)
        if self._tags_tokens:
            return build_token_encoder(self, len(self.voters_), self.task_.n_outputs, self.tau_1_)
        sizes = n_classes, self.encoder_width_, self.dependencies_, self.tau_1_
        return build_encoder(self, self.voters_, *sizes)

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "encoding", self.encoding, ("one_hot", "signed", "index"))
        check_choice(self, "activation", self.activation, ("softmax", "sigmoid", "relu", "tanh"))
        check_choice(self, "loss", self.loss, tuple(AGREEMENT_LOSSES))
        check_encoder(self)
        if self.tau_1 is not None:
            check_number(self, "tau_1", self.tau_1, low=0)
        if isinstance(self.tau_2, str):
            check_choice(self, "tau_2", self.tau_2, _TAU_2)
        else:
            check_number(self, "tau_2", self.tau_2, low=0)
        check_class_balance(self)
        check_number(self, "warm_up", self.warm_up, low=0, whole=True)
        if self.statistics and self.encoding == "index":
            raise ParameterError(
                "The statistics of WeaSEL are not class indices: encoding='index' cannot encode "
                "them. Use 'one_hot', or 'signed' for two classes.",
                option="encoding",
            )
        if not (self.start is None or isinstance(self.start, LabelModel)):
            raise ParameterError(
                "The 'start' option of WeaSEL must be a label model, such as MajorityVote(), or "
                f"None; got {self.start!r:.60}.",
                option="start",
            )

    def _plan(
        self, given: FitInputs, validation: GoldSet | None, network: nn.Module | None
    ) -> FitPlan:
        plan = super()._plan(given, validation, network)
        votes, grid = plan.votes, None
        if plan.task.kind == SpansTask.kind:
            check_for_spans(self)
            plan = replace(plan, learned=self._learned(plan, None, 0))
            return self._with_start(plan, start_for_spans(self.start))
        if plan.task.kind == SeveralLabelsTask.kind:
            check_for_several_labels(self)
            grid = LabelGrid.of(votes)
        # In a committee, the inputs were prepared for another method, without encoder features.
        features = given.features
        if features is None and self._reads_features:
            features = encoder_features(given.inputs, None, wanted=True)
        statistics = place_statistics(self.statistics, votes.voters)
        dense = votes if grid is None else grid.votes(votes)
        payload = DensePayload(dense, given.inputs, features, statistics)
        learned = self._learned(plan, grid, feature_width(features))
        if grid is None:
            learned["dependencies_"] = voter_dependencies(self, votes)
        data = replace(plan.data, payload=payload)
        plan = replace(plan, data=data, features=features, learned=learned)
        return self._with_start(plan, self.start)

    def _learned(self, plan: FitPlan, grid: LabelGrid | None, width: int) -> dict[str, Any]:
        """The attributes that are known before training."""
        return {
            # The balance of a label may be unknown: it is even then.
            "class_balance_": np.nan_to_num(plan.class_balance, nan=0.5),
            "grid_": grid,
            "one_sided_": {},
            "tau_1_": self._chosen_tau_1(plan),
            "encoder_width_": width,
            "dependencies_": (),
        }

    def _with_start(self, plan: FitPlan, start: LabelModel | None) -> FitPlan:
        """Return the plan with the soft labels that both networks learn first."""
        if start is None or self.warm_up == 0:
            return plan
        epochs = train_options(self, plan).epochs
        if epochs <= self.warm_up:
            warn_user(
                f"WeaSEL trains for {epochs} epochs, and learns its start in the first "
                f"{self.warm_up} (warm_up), so encoder and end model never learn from each other: "
                "this is two-stage training. Give more epochs, or a smaller warm_up.",
                WieselWarning,
            )
        fitted, targets = initial_soft_labels(start, plan)
        if plan.learned["grid_"] is not None:
            plan = replace(plan, learned={**plan.learned, "one_sided_": one_sided_models(fitted)})
        return replace(plan, targets=targets)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        learned, balance = plan.learned, plan.learned["class_balance_"]
        sizes = learned["encoder_width_"], learned["tau_1_"]
        if plan.task.kind == SpansTask.kind:
            n_tags = plan.task.n_outputs
            encoder = build_token_encoder(self, len(plan.voters), n_tags, sizes[1])
            votes, targets = plan.votes, plan.targets
            if targets is None:  # without a warm-up
                targets = np.zeros((votes.n_tokens, n_tags))
            tagger = plan.task.adapted(end_model)
            return WeaSELTokenObjective(tagger, encoder, votes, targets, self.warm_up)
        if learned["grid_"] is not None:
            encoder = build_label_encoder(self, learned["grid_"], *sizes)
            soft: Any = plan.task.objective(end_model, plan.targets, plan.votes, "ce", None)  # type: ignore[arg-type]
            return WeaSELPresenceObjective(
                soft, encoder, self.encoding, learned["grid_"], balance, self.warm_up
            )
        dependencies = learned["dependencies_"]
        encoder = build_encoder(
            self, plan.voters, len(plan.labels), sizes[0], dependencies, sizes[1]
        )
        return WeaSELObjective(
            end_model,
            encoder,
            self.encoding,
            self.loss,
            plan.class_balance,
            plan.targets,
            self.warm_up,
        )

    def _chosen_tau_1(self, plan: FitPlan) -> float:
        if self.tau_1 is not None:
            return float(self.tau_1)
        if plan.validation is not None:
            return 1.0
        warn_user(
            "There is no validation set to choose an epoch by: tau_1 is lowered to 1/3, as the "
            "paper advises, and the last epoch is kept. Set tau_1 yourself to silence this.",
            WieselWarning,
        )
        return 1 / 3

    def _keep(self, objective: Objective, plan: FitPlan) -> None:
        trained: WeaSELObjective = objective  # type: ignore[assignment]
        self.encoder_ = trained.encoder


def initial_soft_labels(
    label_model: LabelModel, plan: FitPlan
) -> tuple[LabelModel, npt.NDArray[np.float64]]:
    """Return a fitted label model and its soft labels, in which copies of a voter count once.

    A label model that uses features gets those of the encoder, because the end model may read
    token ids or images.
    """
    task, copies = plan.task, plan.task.copies(plan.votes)
    merged, gold = task.without_copies(plan.votes, copies), plan.gold
    if gold is not None and gold.votes is not None:
        gold = replace(gold, votes=task.without_copies(gold.votes, copies))
    inputs = plan.data.inputs if plan.features is None else plan.features
    data = replace(plan.data, inputs=inputs)
    single = replace(plan, data=data, votes=merged, gold=gold)
    # If features do not confirm the votes, training still starts from these soft labels.
    with warnings.catch_warnings(action="ignore", category=WieselWarning):
        return task.fit_label_model(label_model, single, plan.class_balance, fit_label_model)


def _stored_layers(encoder: object, kind: type) -> dict[str, Any] | None:
    return vars(encoder).copy() if isinstance(encoder, kind) else None


def recover(model: "WeaSEL", given: "FitInputs", validation: "GoldSet | None") -> None:
    """Drop collapsed members, or train on the start alone if all collapsed; with a warning."""
    members = model.members_ or (model,)
    healthy = [member for member in members if not model.task_.collapsed(member.history_).all()]
    if len(healthy) == len(members):
        return
    if healthy:
        n_dropped, kept = len(members) - len(healthy), len(healthy)
        model.join(healthy, validation)
        model.selection_ = {**model.selection_, "dropped_members": n_dropped}
        warn_user(
            f"{n_dropped} members collapsed to one class and were dropped; {kept} are kept.",
            WieselWarning,
        )
        return
    # The checkpoint belongs to the collapsed run, not to the new one.
    changes = {"warm_up": len(model.history_), "checkpoint": None}
    fitted = type(model)(**{**model.get_params(deep=False), **changes})
    # Warnings about another collapse or the long warm-up would tell the user nothing new.
    with warnings.catch_warnings(action="ignore", category=WieselWarning):
        fitted.fit_given(given, validation)
    for name in model.learned_names():
        setattr(model, name, getattr(fitted, name))
    model.selection_ = {**model.selection_, "fell_back_to": "the start alone"}
    message = "Training collapsed to one class; the start alone was learned instead."
    warn_user(message, WieselWarning)
