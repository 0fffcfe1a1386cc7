"""The base classes of crowd methods: alternation, and what sees an item's representation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.base import ExplainedModel
from wiesel.end_to_end.crowd.voter_models import CountedConfusions, VoterMatrices, VoterModel
from wiesel.end_to_end.plan import FitInputs, FitPlan, GoldSet, PlannedFit
from wiesel.end_to_end.storage import Saved
from wiesel.end_to_end.vote_payloads import EntryPayload, VoteEntries, vote_entries
from wiesel.errors import ParameterError, SavedModelError, VoteError, suggest
from wiesel.label_models.base import normalized_exp
from wiesel.nn.end_models import evaluating, logits_of
from wiesel.nn.losses import soft_cross_entropy
from wiesel.parameters import check_number
from wiesel.tasks.one_label import VoteEffects
from wiesel.training import Batch, Objective, Record, TrainingData, as_inputs
from wiesel.training.inputs import Batchable
from wiesel.training.loop import predict_logits
from wiesel.training.objective import prediction_record
from wiesel.votes import VoteMatrix

__all__ = [
    "AlternatingModel",
    "AlternatingObjective",
    "CountedObjective",
    "CrowdModel",
    "CrowdObjective",
    "all_entries",
    "find_last_layer",
    "represent",
    "representation_width",
]

_COUNTED_ITEMS = 4096
_MATRICES, _COUNTED = (6e-9, 825.0), (2e-8, 30.0)
"""Seconds for a number of a voter's matrix in one step, with its gradient, or for the probability
of a class in an E-step or an epoch (measured on one core), and the most seconds that a training
takes whose number of epochs is left open."""
_NUMBERS_AT_ONCE = 2**22
_TRIED_ITEMS = 4


class CrowdObjective(Objective):
    """An end model and a model of the voters, trained on single votes."""

    voters: VoterModel

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return how often predictions agree with the votes, on a fixed sample of items."""
        device = next(self.end_model.parameters()).device
        batch = data.diagnosed(device)
        entries: VoteEntries = batch.payload
        logits = logits_of(self.end_model, batch.inputs)
        voted = entries.counts(logits.shape[1]).argmax(dim=1)
        return prediction_record(logits.argmax(dim=1), voted, voted, logits.shape[1])


@dataclass(eq=False, kw_only=True)
class CrowdModel(ExplainedModel):
    """An end-to-end method that also learns how each voter confuses the classes.

    A method implements `_objective`, whose `voters` is a `VoterModel`, and `_voter_model`, which
    returns an untrained one. If its sizes depend on more than voters and classes, `_blank_voters`
    returns one for loading.
    """

    end_model: nn.Module = field(kw_only=False)
    """Your network: any module that returns logits. `fit` trains a copy."""

    _share_names: ClassVar[tuple[str, ...]] = ("class_balance_",)
    """The learned attributes that are class shares; an ensemble has the mean of its members'."""

    voter_model_: VoterModel = field(init=False, repr=False)
    """The fitted model of the voters; `confusions()` reads it."""
    class_balance_: npt.NDArray[np.float64] = field(init=False, repr=False)
    """P(class) among the training items, according to the trained end model."""

    def confusions(self, voters: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
        """Return P(voted | true class) of some voters, or all: (n_voters, true, voted)."""
        self.check_fitted()
        position = {name: index for index, name in enumerate(self.voters_)}
        wanted = self.voters_ if voters is None else voters
        for name in wanted:
            if name not in position:
                raise VoteError(f"There is no voter {name!r}. {suggest(name, self.voters_)}")
        return self._confusions(np.array([position[name] for name in wanted], dtype=np.int64))

    def voter_accuracies(self) -> npt.NDArray[np.float64]:
        """Return P(right | votes) of every voter, as the model estimates it."""
        self.check_fitted()
        positions = np.arange(len(self.voters_))
        size = self._at_once()
        parts = np.split(positions, range(size, len(positions), size))
        diagonals = [np.einsum("jcc->jc", self._confusions(part)) for part in parts]
        return np.concatenate(diagonals) @ self.class_balance_

    def soft_labels(self, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return P(class | x, votes): (n_items, n_classes), by Bayes' rule.

        The end model's prediction is the prior; the voters' confusions give the likelihood.
        """
        X = self.inputs_of(X, votes)
        return normalized_exp(self._log_start(X) + self._log_votes(X, votes))

    def vote_effects(self, one: Any, votes: VoteMatrix) -> VoteEffects:
        """Return the effects of the votes on one item; `one` is the item as a batch."""
        accuracies = np.einsum("jcc->jc", self._confusions(votes.voter_index.astype(np.int64)))
        weights = accuracies @ self.class_balance_
        return VoteEffects(self._added(votes), weights, self.soft_labels(one, votes)[0])

    def join(self, members: Sequence[Self], validation: GoldSet | None = None) -> Self:
        """Become the ensemble of these fitted models, with the mean of their class shares."""
        super().join(members, validation)
        for name in self._share_names:
            setattr(self, name, np.mean([getattr(member, name) for member in members], axis=0))
        return self

    def saved_modules(self) -> dict[str, nn.Module]:
        """Return the end model and the model of the voters."""
        return {"end_model": self.end_model_, "voters": self.voter_model_}

    def saved_values(self) -> dict[str, Any]:
        """Return the class shares and the sizes of the model of the voters."""
        shares = {name.removesuffix("_"): getattr(self, name) for name in self._share_names}
        shapes = {name: list(part.shape) for name, part in self.voter_model_.state_dict().items()}
        return {**shares, "voter_shapes": shapes}

    def restore_learned(self, saved: Saved) -> None:
        """Rebuild the model of the voters and load its weights."""
        for name in self._share_names:
            setattr(self, name, self._shares(saved.values[name.removesuffix("_")]))
        shapes = saved.values["voter_shapes"]
        self.voter_model_ = saved.restored(lambda: self._blank_voters(shapes), "voters", self.seed)

    def _voter_model(self, n_voters: int, n_classes: int) -> VoterModel:
        """Return an untrained model of the voters."""
        raise NotImplementedError

    def _blank_voters(self, shapes: dict[str, list[int]]) -> VoterModel:
        """Return an empty model of the voters, of the shapes its tensors were saved with."""
        return self._voter_model(len(self.voters_), len(self.labels_))

    def _shares(self, values: Any) -> npt.NDArray[np.float64]:
        """Return the saved class shares, after a check."""
        shares = np.asarray(values, dtype=np.float64)
        # A class that is never predicted may have a share of zero.
        if shares.shape != (len(self.labels_),) or not (shares >= 0).all() or shares.sum() > 1.01:
            raise SavedModelError(
                f"The saved class balance must be {len(self.labels_)} shares that sum to 1; "
                f"found {values!r:.60}."
            )
        return shares

    def _plan(
        self, given: FitInputs, validation: GoldSet | None, network: nn.Module | None
    ) -> FitPlan:
        plan = super()._plan(given, validation, network)
        payload = EntryPayload(plan.votes)
        return replace(plan, data=replace(plan.data, payload=payload))

    def planned(
        self, given: FitInputs, validation: GoldSet | None, plan: FitPlan | None = None
    ) -> PlannedFit:
        """Return a fit that is ready to be trained; one that would take hours is refused."""
        fit = super().planned(given, validation, plan)
        if self.epochs is None:
            _refuse_endless(fit)
        return fit

    def _keep(self, objective: Objective, plan: FitPlan) -> None:
        self.voter_model_ = objective.voters  # type: ignore[assignment]
        data = plan.data
        logits = predict_logits(self.end_model_, data.inputs, data.sample(_COUNTED_ITEMS))
        self.class_balance_ = torch.softmax(logits.double(), dim=1).mean(dim=0).numpy()

    def _log_start(self, X: Any) -> npt.NDArray[np.float64]:
        """The log prior of items before their votes: log P(class | x)."""
        return np.log(np.maximum(self.predict_proba(X), 1e-12))

    @torch.no_grad()
    def _log_votes(self, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """What the votes add to the log probability of every class: (n_items, n_classes)."""
        self.check_votes(votes)
        self.task_.check_items(FitInputs(as_inputs(X, votes=votes), votes))
        entries = all_entries(votes)
        return entries.sum_by_item(self._vote_evidence(entries)).double().numpy()

    @torch.no_grad()
    def _vote_evidence(self, entries: VoteEntries) -> Tensor:
        """What every vote adds to the log probability of every class, some votes at a time."""
        size = self._at_once()
        starts = range(0, len(entries), size)
        parts = [(entries.voters[k : k + size], entries.classes[k : k + size]) for k in starts]
        found = [self._mean_log_votes(voters, classes) for voters, classes in parts]
        return torch.cat(found) if found else torch.empty(0, len(self.labels_))

    def _mean_log_votes(self, voters: Tensor, classes: Tensor) -> Tensor:
        """Log P(vote | class) of some votes, the mean over the members of an ensemble."""
        found = [m.voter_model_.log_votes(voters, classes) for m in self.members_ or (self,)]
        return found[0] if len(found) == 1 else torch.stack(found).mean(dim=0)

    def _at_once(self) -> int:
        """The number of confusion matrices that fit into memory."""
        return max(1, _NUMBERS_AT_ONCE // len(self.labels_) ** 2)

    @torch.no_grad()
    def _confusions(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        wanted = torch.from_numpy(positions)
        found = [m.voter_model_.confusions(wanted).double() for m in self.members_ or (self,)]
        return torch.stack(found).mean(dim=0).numpy()

    def _added(self, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """What each vote on one item adds to the log probability of every class."""
        entries = all_entries(votes)
        evidence = (self._vote_evidence(entries) * entries.mass[:, None]).double().numpy()
        added = np.zeros((votes.n_votes, votes.n_classes))
        # A probabilistic vote has an entry for each class.
        np.add.at(added, np.searchsorted(votes.voter_index, entries.voters.numpy()), evidence)
        return added


def _refuse_endless(fit: PlannedFit) -> None:
    """Refuse a training of so many epochs on so large matrices that it would take hours.

    Whoever gives a number of epochs has decided; this is only about the number left open, which
    grows with the classes, as the matrices do with their square.
    """
    votes: VoteMatrix = fit.plan.votes
    n_classes, options = votes.n_classes, fit.options
    n_items = options.epoch_size or len(fit.plan.data.items)
    per_item = votes.n_votes / max(1, len(fit.plan.data.items))
    voters: VoterModel = fit.objective.voters  # type: ignore[assignment]
    if isinstance(voters, CountedConfusions):
        # Not the items beyond an epoch: whoever has many of them expects to wait.
        numbers = n_items * n_classes * (1 + per_item / getattr(fit.model, "m_epochs", 1))
        (each, most), power = _COUNTED, 2
        why = f"every epoch computes {n_classes:,} probabilities for each item and each vote"
    else:
        steps = math.ceil(n_items / options.batch_size)
        numbers = float(steps * sum(parameter.numel() for parameter in voters.parameters()))
        if any(isinstance(part, VoterMatrices) for part in voters.modules()):
            numbers += n_items * per_item * n_classes**2  # a matrix for each vote
        (each, most), power = _MATRICES, 3
        why = f"its matrices have {n_classes:,} x {n_classes:,} numbers"
    seconds = numbers * options.epochs * each
    if seconds <= most:
        return
    # One epoch per class, and a cost per epoch that grows with the classes, or with their square.
    size = int(n_classes * (most / seconds) ** (1 / power))
    epochs = max(1, int(most / (numbers * each)))
    raise ParameterError(
        f"{type(fit.model).__name__} would train {options.epochs:,} epochs for {n_classes:,} "
        f"classes, about {math.ceil(seconds / 60):,} minutes on one core: {why}. These votes train "
        f"in {'minutes' if power == 3 else 'seconds'} with up to about {size:,} classes. Give the "
        f"number of epochs yourself, such as epochs={epochs:,}, or use TwoStage or Committee, "
        "which need fewer epochs and have no such matrices."
    )


def all_entries(votes: VoteMatrix) -> VoteEntries:
    """Return all votes of a matrix one by one."""
    return vote_entries(votes.one_hot(), votes.n_classes)


class AlternatingObjective(CrowdObjective):
    """An end model trained on soft labels that are updated every few epochs.

    A subclass sets `voters`, whose `count` learns from soft labels, and the buffer `soft_labels`.
    """

    soft_labels: Tensor
    # An end model that has memorized its targets must not outweigh all voters.
    least_proba = 1e-3

    def __init__(self, end_model: nn.Module, votes: VoteMatrix, m_epochs: int) -> None:
        super().__init__()
        self.end_model = end_model
        self.m_epochs = m_epochs
        # Not a buffer: the votes are the user's data, not learned state.
        self.answers = all_entries(votes)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of the end model on the soft labels."""
        logits = logits_of(self.end_model, batch.inputs)
        return {"end_model": soft_cross_entropy(logits, self.soft_labels[batch.rows])}

    @torch.no_grad()
    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Update soft labels and voters if it is time for an E-step."""
        if epoch == 1 or (epoch - 1) % self.m_epochs:
            return
        logits = predict_logits(self.end_model, data.inputs).to(self.soft_labels.device)
        self.alternate(torch.log_softmax(logits, dim=1), self.answers.to(logits.device))

    def alternate(self, log_proba: Tensor, answers: VoteEntries) -> None:
        """Take the E-step from the end model's predictions, then learn the voters again."""
        prior = (log_proba.exp() + self.least_proba).log()
        self.soft_labels.copy_(torch.softmax(prior + self.vote_evidence(answers), dim=1))
        self.voters.count(answers, self.soft_labels)  # type: ignore[operator]

    def vote_evidence(self, answers: VoteEntries) -> Tensor:
        """Return the sum of log P(vote | class) over the votes of every item."""
        return answers.sum_by_item(self.voters.log_votes(answers.voters, answers.classes))


class CountedObjective(AlternatingObjective):
    """An alternating objective that counts the confusions of every voter."""

    voters: CountedConfusions

    def __init__(
        self, end_model: nn.Module, votes: VoteMatrix, smoothing: float, m_epochs: int
    ) -> None:
        super().__init__(end_model, votes, m_epochs)
        counts = self.answers.counts(votes.n_classes)
        uniform = torch.full_like(counts, 1 / votes.n_classes)
        total = counts.sum(dim=1, keepdim=True)
        soft_labels = torch.where(total > 0, counts / total.clamp_min(1e-12), uniform)
        self.register_buffer("soft_labels", soft_labels)
        self.voters = CountedConfusions.of(self.answers, soft_labels, votes.n_voters, smoothing)


@dataclass(eq=False, kw_only=True)
class AlternatingModel(CrowdModel):
    """A method that alternates between training the end model and updating soft labels."""

    smoothing: float = 1.0
    """Pseudo-votes per cell of each voter's confusions, distributed as for all voters together."""
    m_epochs: int = 1
    """The number of epochs between E-steps."""

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "smoothing", self.smoothing, low=0)
        check_number(self, "m_epochs", self.m_epochs, low=1, whole=True)

    def _blank_voters(self, shapes: dict[str, list[int]]) -> VoterModel:
        n_pairs, n_classes = shapes["counts"]
        return CountedConfusions(len(self.voters_), n_classes, n_pairs - 1, self.smoothing)


@torch.no_grad()
def find_last_layer(network: nn.Module, n_classes: int, data: TrainingData) -> str | None:
    """Return the name of the linear layer whose output the network returns, or None.

    >>> import numpy as np
    >>> from wiesel.training import as_inputs
    >>> data = TrainingData(as_inputs(np.ones((4, 3))))
    >>> find_last_layer(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), 2, data)
    '2'
    """
    names = [
        name
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear) and layer.out_features == n_classes
    ]
    if not names:
        return None
    seen: list[tuple[Tensor, Tensor]] = []
    hook = network.get_submodule(names[-1]).register_forward_hook(
        lambda _, arguments, output: seen.append((arguments[0], output))
    )
    try:
        with evaluating(network):
            logits = logits_of(network, data.gather(data.sample(_TRIED_ITEMS)).inputs)
    finally:
        hook.remove()
    makes_logits = len(seen) == 1 and seen[0][0].ndim == 2 and torch.equal(seen[0][1], logits)
    return names[-1] if makes_logits else None


def represent(
    network: nn.Module, last_layer: str | None, inputs: Batchable
) -> tuple[Tensor, Tensor]:
    """Return the logits of some items, and the input of the last layer."""
    if last_layer is None:
        logits = logits_of(network, inputs)
        return logits, logits
    seen: list[Tensor] = []
    hook = network.get_submodule(last_layer).register_forward_pre_hook(
        lambda _, arguments: seen.append(arguments[0])
    )
    try:
        return logits_of(network, inputs), seen[0]
    finally:
        hook.remove()


def representation_width(network: nn.Module, last_layer: str | None, n_classes: int) -> int:
    """Return the number of features of a representation."""
    if last_layer is None:
        return n_classes
    layer: nn.Linear = network.get_submodule(last_layer)  # type: ignore[assignment]
    return layer.in_features
