"""WeaSEL for several labels: one encoder reads all votes, and weighs the voters of each label.

For every label l the encoder distributes weight among the voters that voted on it::

    theta_l = tau_2 softmax(tau_1 e(all votes, x)_l)    over the voters on label l
    P_e(l)  = softmax(theta_l^T votes_l + log P(l))     absent, present
    P_f(l)  = sigmoid(f(x)_l)

A label whose votes all go one way is learned from its fixed soft labels (`OneSided`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.vote_payloads import DensePayload, DenseVotes
from wiesel.end_to_end.weasel.encoding import encoder_network, layers_of, weighing_of
from wiesel.errors import ParameterError, SavedModelError
from wiesel.labels import LabelSpace
from wiesel.multilabel.label_models import OneSided
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.nn.encoders import (
    Encoding,
    VoteEncoder,
    encode_votes,
    encoded_width,
    label_logits,
)
from wiesel.nn.graph_encoder import GraphLayers, NodeShape
from wiesel.tasks.one_label import VoteEffects, label_model_effects
from wiesel.tasks.presence import SoftPresenceObjective, presence_loss
from wiesel.training import Batch, Inputs, TrainingData
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.weasel.model import WeaSEL

__all__ = [
    "LabelGrid",
    "WeaSELPresenceObjective",
    "build_label_encoder",
    "check_for_several_labels",
    "explain_labels",
    "one_sided_models",
    "weigh_labels",
]

_CLASSES = LabelSpace("absent", "present")
_ITEMS = 2048


@dataclass(frozen=True)
class LabelGrid:
    """Which voters vote on each label: the encoder's columns are blocks of one width."""

    voters_on: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, votes: MultiLabelVotes) -> "LabelGrid":
        """Return the grid of the voters that vote on each label at all."""
        return cls({label: votes.voters_on(label) for label in votes.labels})

    @classmethod
    def restored(cls, values: Any, labels: LabelSpace, voters: tuple[str, ...]) -> "LabelGrid":
        """Return the stored grid, checked."""
        grid = cls({label: tuple(own) for label, own in values.items()})
        known = all({*own} <= {*voters} for own in grid.voters_on.values())
        if tuple(grid.voters_on) != labels.names or not known:
            raise SavedModelError("The saved encoder belongs to other labels or other voters.")
        return grid

    @property
    def width(self) -> int:
        """The largest number of voters on one label."""
        return max(map(len, self.voters_on.values()))

    def votes(self, votes: MultiLabelVotes) -> VoteMatrix:
        """Return the votes on all labels as one matrix: a block of columns for each label."""
        parts = [votes[label].select(voters) for label, voters in self.voters_on.items()]
        item = np.concatenate([part.item_index for part in parts])
        cells = [part.voter_index.astype(np.int64) + k * self.width for k, part in enumerate(parts)]
        column = np.concatenate(cells)
        class_index = np.concatenate([part.class_index for part in parts])
        order = np.lexsort((column, item))
        ends = np.cumsum(np.bincount(item, minlength=votes.n_items))
        return VoteMatrix(
            np.concatenate([[0], ends]).astype(np.int64),
            column[order].astype(np.int32),
            class_index[order],
            _CLASSES,
            tuple(f"{label}, {k}" for label in self.voters_on for k in range(self.width)),
            np.arange(votes.n_items),
        )

    def by_label(self, votes: Tensor) -> Tensor:
        """Return the votes of a batch as (items, labels, voters, absent or present)."""
        return votes.unflatten(-2, (len(self.voters_on), self.width))  # type: ignore[no-untyped-call]


class WeaSELPresenceObjective(SoftPresenceObjective):
    """The end model, one encoder that reads all votes, and the losses that make them agree.

    Both learn `targets` in the first `warm_up` epochs. One-sided labels are always learned from
    them: if nobody ever votes against a label, voter weights cannot express its absence.
    """

    log_prior: Tensor
    fixed: Tensor

    def __init__(
        self,
        soft: SoftPresenceObjective,
        encoder: VoteEncoder,
        encoding: Encoding,
        grid: LabelGrid,
        balance: npt.NDArray[np.float64],
        warm_up: int,
    ) -> None:
        arrays = soft.targets.double().numpy(), soft.known.bool().numpy(), soft.one_sided
        super().__init__(soft.end_model.network, *arrays)  # type: ignore[arg-type]
        self.encoder, self.encoding, self.grid = encoder, encoding, grid
        self.warm_up = warm_up
        self.is_warming_up = warm_up > 0
        prior = np.log(np.stack([1 - balance, balance]))
        self.register_buffer("log_prior", torch.from_numpy(prior).float())
        self.register_buffer("fixed", torch.from_numpy(soft.one_sided).float())

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Set whether the networks still learn the initial soft labels."""
        self.is_warming_up = epoch <= self.warm_up

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the encoder's whole input: all votes and the features."""
        own: DenseVotes = batch.payload
        encoded = encode_votes(own.votes, self.encoding, own.features)
        return replace(batch, payload=DenseVotes(own.votes, encoded))

    def weigh(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the voters' shares (items, labels, voters) and the logits of the soft labels."""
        own: DenseVotes = batch.payload
        by_label = self.grid.by_label(own.votes)
        shares, logits = self.encoder.soft_label(own.features, by_label)  # type: ignore[arg-type]
        return shares, logits.mT + self.log_prior

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the end model and of the encoder."""
        logits = self.end_model(batch.inputs)
        _, label = self.weigh(batch)
        known, start = self.known[batch.rows], super()._target(batch)
        voted = known * (1 - self.fixed)
        if self.is_warming_up:
            return {
                "end_model": presence_loss(logits, start, known),
                "encoder": presence_loss(label, start, voted),
            }
        wanted = torch.where(self.fixed.bool(), start, torch.softmax(label.detach(), dim=1))
        predicted = torch.softmax(logits.detach(), dim=1)
        return {
            "end_model": presence_loss(logits, wanted, known),
            "encoder": presence_loss(label, predicted, voted),
        }

    def _target(self, batch: Batch) -> Tensor:
        if self.is_warming_up:
            return super()._target(batch)
        soft = torch.softmax(self.weigh(batch)[1], dim=1)
        return torch.where(self.fixed.bool(), super()._target(batch), soft)


def check_for_several_labels(options: "WeaSEL") -> None:
    """Refuse the options that are for one label for each item."""
    graph = isinstance(layers_of(options.encoder), GraphLayers)
    wrong = {
        "encoder": graph,
        "class_conditional": options.class_conditional,
        "statistics": bool(options.statistics),
        "loss": options.loss != "symmetric",
        "start": options.start is None,
        "warm_up": options.warm_up < 1,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ParameterError(
                f"WeaSEL for several labels learns a start first, with the symmetric loss, and has "
                f"no graph, class-conditional weights or statistics: leave out "
                f"{name}={getattr(options, name)!r:.60}.",
                option=name,
            )


def build_label_encoder(
    options: "WeaSEL", grid: LabelGrid, n_features: int, tau_1: float
) -> VoteEncoder:
    """Return a new encoder: all votes and features in, a score for each voter and label out."""
    n_labels, n_columns = len(grid.voters_on), len(grid.voters_on) * grid.width
    nodes = NodeShape(n_columns, encoded_width(1, 2, options.encoding), n_features, 1)
    network = encoder_network(options.encoder, nodes, [])
    sequence = network if isinstance(network, nn.Sequential) else nn.Sequential(network)
    sequence.append(nn.Unflatten(-1, (n_labels, grid.width)))
    weighing = weighing_of(options, n_columns, n_features, 2, tau_1)
    encoder = VoteEncoder(sequence, grid.width, weighing)
    layers = layers_of(options.encoder)
    return encoder if layers is None or layers.trained else encoder.requires_grad_(False)


@torch.no_grad()
def weigh_labels(
    model: "WeaSEL", given: Any, features: Inputs | None, votes: MultiLabelVotes
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the weights of the voters (items, labels, voters), and P(present) of every label."""
    grid: LabelGrid = model.grid_  # type: ignore[assignment]
    data = TrainingData(
        given.inputs, payload=DensePayload(grid.votes(votes), given.inputs, features)
    )
    present = model.class_balance_
    log_prior = torch.from_numpy(np.log(np.stack([1 - present, present], axis=1)))
    weights, proba = [], []
    for batch in data.batches(data.items, _ITEMS):
        own: Tensor = batch.payload.votes
        encoded = encode_votes(own, model.encoding, batch.payload.features)
        by_label = grid.by_label(own)
        shares = model.encoder_(encoded, by_label)
        logits = label_logits(shares, by_label).double() + log_prior
        weights.append(shares.double())
        proba.append(torch.softmax(logits, dim=-1)[..., 1])
    soft = torch.cat(proba).numpy()
    for label, one_sided in model.one_sided_.items():
        own_votes = votes[label].select(one_sided.voters_)
        soft[:, model.labels_.index(label)] = one_sided.predict_proba(own_votes)[:, 1]
    return torch.cat(weights).numpy(), soft


def explain_labels(
    model: "WeaSEL",
    one: Any,
    votes: MultiLabelVotes,
    weighed: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
) -> dict[str, tuple[VoteMatrix, VoteEffects]]:
    """Return the votes on each label of one item, and their effects; `one` is a batch."""
    weights, proba = weighed
    effects = {}
    for place, (label, voters) in enumerate(model.grid_.voters_on.items()):  # type: ignore[union-attr]
        own = votes[label].select(voters)
        if label in model.one_sided_:
            effects[label] = own, label_model_effects(model.one_sided_[label], one, own)
            continue
        shares = weights[0, place, own.voter_index]
        soft = np.array([1 - proba[0, place], proba[0, place]])
        effects[label] = own, VoteEffects(shares[:, None] * own.vote_rows(), shares, soft)
    return effects


def one_sided_models(fitted: Any) -> dict[str, OneSided]:
    """Return the label models of labels whose votes all go one way."""
    return {label: own for label, own in fitted.models_.items() if isinstance(own, OneSided)}
