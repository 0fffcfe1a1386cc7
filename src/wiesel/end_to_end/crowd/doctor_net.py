"""DoctorNet: one prediction per voter, averaged with learned weights."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from wiesel.end_to_end.crowd.crowd_layer import vote_cross_entropy
from wiesel.end_to_end.crowd.crowd_model import (
    CrowdModel,
    CrowdObjective,
    find_last_layer,
    represent,
    representation_width,
)
from wiesel.end_to_end.crowd.voter_models import (
    VoterMatrices,
    VoterModel,
    check_rank,
    in_parts,
    matrix_rank,
)
from wiesel.end_to_end.plan import FitPlan
from wiesel.end_to_end.storage import Saved
from wiesel.end_to_end.vote_payloads import VoteEntries
from wiesel.errors import SavedModelError
from wiesel.parameters import check_choice, check_number
from wiesel.training import Batch, Objective
from wiesel.training.inputs import Batchable

__all__ = ["DoctorNet"]

Variant = Literal["DN", "WDN", "IWDN", "BIWDN"]
_VARIANTS = ("DN", "WDN", "IWDN", "BIWDN")
_SAMPLED_ITEMS = 512


@dataclass(eq=False, kw_only=True)
class DoctorNet(CrowdModel):
    """Who said what: a head for every voter on one trunk (Guan et al., AAAI 2018).

    The end model without its last linear layer is the trunk. Each voter ("doctor") has its own
    last layer, trained on the votes it cast. The prediction averages the predictions of all
    doctors::

        DN     P(c | x) = mean over doctors of softmax(head_j(trunk(x)))_c
        WDN    a learned weight for every doctor
        IWDN   weights that depend on the item (a linear layer on the trunk)
        BIWDN  the same through a bottleneck

    The weights are trained on the vote shares of each item, with only the doctors that did not
    vote on it in the average. So no doctor is evaluated on votes that its head has memorized.
    The paper trains the weights afterwards, with frozen heads; here they are trained jointly, with
    a stop-gradient to heads and trunk. `end_model_` is the trunk with its heads. If heads would
    have more than 16 million numbers (or `rank` is given), each is a shared random head plus a
    low-rank part. Every head predicts every item, so time grows with the number of heads. Memory
    does not, because items are processed in chunks.

    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, 5, n_classes=3, coverage=0.6)
    >>> X = make_features(gold, n_features=4)
    >>> model = DoctorNet(torch.nn.Linear(4, 3), variant="WDN", epochs=1, lr=0.01).fit(X, votes)
    >>> model.predict_proba(X).shape
    (200, 3)
    """

    variant: Variant = "DN"
    """How the heads are averaged: `DN`, `WDN`, `IWDN` or `BIWDN`."""
    bottleneck: int = 3
    """BIWDN: the width of the bottleneck before the weights."""
    rank: int | None = None
    """The rank of the per-doctor part; None is a full head, unless there are too many numbers."""

    last_layer_: str | None = field(init=False, repr=False)
    """The layer of the end model that the heads replace; None puts them on top of the logits."""

    def saved_modules(self) -> dict[str, nn.Module]:
        """Return the trunk, in the user's architecture, and the heads."""
        ensemble: _Ensemble = self.end_model_  # type: ignore[assignment]
        return {"end_model": ensemble.network, "voters": self.voter_model_}

    def saved_values(self) -> dict[str, Any]:
        """Return what all crowd methods save, and the position of the heads."""
        return {**super().saved_values(), "last_layer": self.last_layer_}

    def restore_learned(self, saved: Saved) -> None:
        """Rebuild the network from trunk and heads."""
        super().restore_learned(saved)
        self.last_layer_ = saved.values["last_layer"]
        doctors: _Doctors = self.voter_model_  # type: ignore[assignment]
        width = representation_width(self.end_model_, self.last_layer_, len(self.labels_))
        if width != doctors.representations.shape[1]:
            raise SavedModelError(
                f"The saved heads read {doctors.representations.shape[1]} features; the layer "
                f"they sit on, {self.last_layer_!r}, has {width}."
            )
        self.end_model_ = _Ensemble(self.end_model_, self.last_layer_, doctors).eval()

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "variant", self.variant, _VARIANTS)
        check_number(self, "bottleneck", self.bottleneck, low=1, whole=True)
        check_rank(self, self.rank)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        n_voters, n_classes = len(plan.voters), len(plan.labels)
        last_layer = find_last_layer(end_model, n_classes, plan.data)
        width = representation_width(end_model, last_layer, n_classes)
        doctors = self._doctors(n_voters, n_classes, width)
        return _DoctorObjective(_Ensemble(end_model, last_layer, doctors))

    def _doctors(self, n_voters: int, n_classes: int, width: int) -> "_Doctors":
        rank = matrix_rank(n_voters, n_classes * (width + 1), self.rank)
        # The initialization of a linear layer, equal for all heads; the votes make them differ.
        start = torch.empty(n_classes, width + 1).uniform_(-1, 1) / math.sqrt(width)
        heads = VoterMatrices(n_voters, start, rank)
        return _Doctors(heads, _weighting(self.variant, n_voters, width, self.bottleneck))

    def _blank_voters(self, shapes: dict[str, list[int]]) -> VoterModel:
        n_items, width = shapes["representations"]
        doctors = self._doctors(len(self.voters_), len(self.labels_), width)
        doctors.representations = torch.zeros(n_items, width)
        return doctors

    def _keep(self, objective: Objective, plan: FitPlan) -> None:
        super()._keep(objective, plan)
        ensemble: _Ensemble = self.end_model_  # type: ignore[assignment]
        self.last_layer_ = ensemble.last_layer
        with torch.no_grad():
            sample = plan.data.gather(plan.data.sample(_SAMPLED_ITEMS)).inputs
            read = represent(ensemble.network, ensemble.last_layer, sample)[1]
        ensemble.doctors.representations = read.clone()


class _Doctors(VoterModel):
    """The doctors' predictions for an item, and their weights."""

    representations: Tensor

    def __init__(self, heads: VoterMatrices, weighting: nn.Module | None) -> None:
        super().__init__()
        self.n_voters, self.n_classes = len(heads.left), len(heads.start)
        self.heads = heads
        self.weighting = weighting
        width = heads.start.shape[1] - 1
        # A sample of training items; confusions compare doctors with the average on them.
        self.register_buffer("representations", torch.empty(0, width))

    def votes(self, represented: Tensor, entries: VoteEntries) -> Tensor:
        """Return the logits of every vote that was cast: (n_votes, n_classes)."""
        rows = _with_constant(represented)
        if self.n_voters <= rows.shape[1]:
            # All heads on all items is then cheaper than a copy of the head for every vote.
            return self.heads.times(rows)[entries.items, entries.voters]
        return torch.einsum("ncd,nd->nc", self.heads(entries.voters), rows[entries.items])

    def opinions(self, represented: Tensor, voters: Tensor | None = None) -> Tensor:
        """Return the predictions of some or all doctors: (items, voters, classes)."""
        return torch.softmax(self.heads.times(_with_constant(represented), voters), dim=2)

    def mean_opinion(self, represented: Tensor) -> Tensor:
        """Return the (weighted) mean of all doctors' predictions: (items, classes)."""
        return in_parts(self._mean_opinion, self.n_voters * self.n_classes, represented)

    def mixed(self, represented: Tensor, weights: Tensor) -> Tensor:
        """Return predictions averaged with weights (items, voters); only weights get a gradient."""
        return in_parts(self._mixed, self.n_voters * self.n_classes, represented, weights)

    def weights(self, represented: Tensor) -> Tensor:
        """Return the logits of the doctors' weights: (items, voters), or one row for all items."""
        if self.weighting is None:
            return represented.new_zeros(1, self.n_voters)
        logits: Tensor = self.weighting(represented)
        return logits

    def confusions(self, voters: Tensor) -> Tensor:
        """Return each doctor's mean prediction by the class of the average: (n, true, voted)."""
        average = self.mean_opinion(self.representations)
        is_said = nn.functional.one_hot(average.argmax(dim=1), self.n_classes)
        # For a class that is never predicted, use the items on which it is most probable.
        shares = is_said + 1e-6 * average.clamp_min(1e-30)
        shares = shares / shares.sum(dim=0)

        def of_some(some: Tensor) -> Tensor:
            return torch.einsum("nc,njl->jcl", shares, self.opinions(self.representations, some))

        return in_parts(of_some, len(average) * self.n_classes, voters)

    def _mixed(self, represented: Tensor, weights: Tensor) -> Tensor:
        with torch.no_grad():
            opinions = self.opinions(represented)
        return torch.einsum("nj,njc->nc", weights, opinions)

    def _mean_opinion(self, represented: Tensor) -> Tensor:
        weights = torch.softmax(self.weights(represented), dim=1).expand(len(represented), -1)
        return torch.einsum("nj,njc->nc", weights, self.opinions(represented))


class _Ensemble(nn.Module):
    """The trunk and its doctors as one network that returns logits."""

    def __init__(self, network: nn.Module, last_layer: str | None, doctors: _Doctors) -> None:
        super().__init__()
        self.network, self.last_layer, self.doctors = network, last_layer, doctors

    def forward(self, end_model_inputs: Batchable) -> Tensor:
        """Return the logarithm of the mean prediction."""
        # A name that no key of the user's input dict has; such a key would be passed by keyword.
        _, represented = represent(self.network, self.last_layer, end_model_inputs)
        return self.doctors.mean_opinion(represented).clamp_min(1e-12).log()


class _DoctorObjective(CrowdObjective):
    """Heads are trained on their doctors' votes; weights learn which doctors to trust."""

    end_model: _Ensemble

    def __init__(self, ensemble: _Ensemble) -> None:
        super().__init__()
        self.end_model = ensemble

    @property
    def voters(self) -> _Doctors:  # type: ignore[override]
        """The heads and their weights."""
        return self.end_model.doctors

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy of the votes, and that of the weighted predictions."""
        entries: VoteEntries = batch.payload
        network, last_layer = self.end_model.network, self.end_model.last_layer
        _, represented = represent(network, last_layer, batch.inputs)
        logits = self.voters.votes(represented, entries)
        losses = {"votes": vote_cross_entropy(torch.log_softmax(logits, dim=1), entries)}
        if self.voters.weighting is not None:
            losses["weights"] = self._weight_loss(represented.detach(), entries)
        return losses

    def _weight_loss(self, represented: Tensor, entries: VoteEntries) -> Tensor:
        doctors = self.voters
        shape = (len(represented), doctors.n_voters)
        has_voted = torch.zeros(shape, dtype=torch.bool, device=represented.device)
        has_voted[entries.items, entries.voters] = True
        has_voted &= ~has_voted.all(dim=1, keepdim=True)
        logits = doctors.weights(represented).expand(shape)
        weights = torch.softmax(logits.masked_fill(has_voted, -torch.inf), dim=1)
        mixed = doctors.mixed(represented, weights).clamp_min(1e-12).log()
        counts = entries.counts(doctors.n_classes)
        return -(counts / counts.sum(dim=1, keepdim=True) * mixed).sum(dim=1).mean()


class _SameForAll(nn.Module):
    """Weights that do not depend on the item."""

    def __init__(self, n_voters: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_voters))

    def forward(self, represented: Tensor) -> Tensor:
        """Return the one row of weights."""
        return self.logits[None, :]


def _weighting(variant: str, n_voters: int, width: int, bottleneck: int) -> nn.Module | None:
    if variant == "WDN":
        return _SameForAll(n_voters)
    if variant == "IWDN":
        return nn.Linear(width, n_voters)
    if variant == "BIWDN":
        return nn.Sequential(nn.Linear(width, bottleneck), nn.Linear(bottleneck, n_voters))
    return None


def _with_constant(represented: Tensor) -> Tensor:
    """The representation with a 1 appended, so that a head's last column is its bias."""
    return torch.cat([represented, represented.new_ones(len(represented), 1)], dim=1)
