"""MultiLabelWeaSEL: one encoder that weights the votes on all labels, and one network."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.explaining import VoteEffects
from wiesel.end_to_end.readings import FeatureChecked
from wiesel.end_to_end.vote_payloads import DensePayload
from wiesel.errors import FeatureError, ParameterError, WieselWarning
from wiesel.label_models import LabelModel
from wiesel.labels import LabelSpace
from wiesel.multilabel.label_models import OneSided, posteriors
from wiesel.multilabel.objectives import WeaSELPresenceObjective
from wiesel.multilabel.plan import MultiLabelPlan, SoftLabels, read_votes_on
from wiesel.multilabel.training import MultiLabelModel
from wiesel.multilabel.two_stage import label_effects
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.nn.encoders import (
    EncoderLayers,
    VoteEncoder,
    Weighing,
    encode_votes,
    encoded_width,
    label_logits,
    mlp_encoder,
)
from wiesel.parameters import check_number
from wiesel.training import Inputs, Objective, TrainingData, as_inputs
from wiesel.training.inputs import is_matrix
from wiesel.votes import VoteMatrix

__all__ = ["EncoderSizes", "MultiLabelWeaSEL", "build_encoder"]

_SCALE = 3.0
"""tau_2 as in `WeaSEL` for two classes: unanimous votes then give about 95 %."""
_GRID = LabelSpace("absent", "present")
_ITEMS = 2048


@dataclass(frozen=True)
class EncoderSizes:
    """The sizes that determine the encoder."""

    n_labels: int
    n_voters: int
    """The largest number of voters on one label."""
    n_features: int


@dataclass(eq=False)
class MultiLabelWeaSEL(MultiLabelModel):
    """WeaSEL for several labels: one encoder, one network, one output for each label.

    The encoder e reads the votes on all labels, and the features if X is a matrix. For every
    label l it distributes weight among the voters that voted on it::

        theta_l = 3 softmax(e(all votes, x)_l)              over the voters on label l
        P_e(l)  = softmax(theta_l^T votes_l + log P(l))     absent, present
        P_f(l)  = sigmoid(f(x)_l)

    Both learn from each other's predictions, as in `WeaSEL`, on the labels of an item with a vote.
    For `warm_up` epochs both learn the soft labels of `start`. A label whose votes all go one way
    is learned from its fixed soft labels (`OneSided`).

    >>> X = torch.eye(4).repeat(50, 1)
    >>> dense = X[:, None, :2].repeat(1, 3, 1)                     # three voters, two labels
    >>> votes = MultiLabelVotes.from_dense(dense, ["a", "b"])
    >>> MultiLabelWeaSEL(nn.Linear(4, 2), epochs=3, lr=0.05).fit(X, votes).predict(X[:3])
    [('a',), ('b',), ()]
    """

    end_model: nn.Module
    """Your network: any module that returns one logit for each label. It is copied."""
    _: KW_ONLY
    encoder: Sequence[int] = (70, 70)
    """The hidden sizes of the encoder; `()` is linear."""
    start: LabelModel = field(default_factory=FeatureChecked)
    """The label model whose soft labels both networks learn first; copied for every label."""
    warm_up: int = 6
    """For how many epochs both networks learn the soft labels of `start`."""

    stored_options = ("start",)

    encoder_: VoteEncoder = field(init=False, repr=False)
    """The trained encoder."""
    sizes_: EncoderSizes = field(init=False, repr=False)
    """The sizes of the encoder's input and output."""
    voters_on_: dict[str, tuple[str, ...]] = field(init=False, repr=False)
    """The voters that vote on each label."""
    one_sided_: dict[str, LabelModel] = field(init=False, repr=False)
    """The label models of labels whose votes all go one way."""

    def soft_labels(self, X: Any, votes: MultiLabelVotes) -> npt.NDArray[np.float64]:
        """Return the soft labels of the weighted votes: P(present), (n_items, n_labels)."""
        return self._weighed(X, votes)[1]

    def accuracies(self, X: Any, votes: MultiLabelVotes) -> dict[str, npt.NDArray[np.float64]]:
        """Return the weight of each voter on a label: (n_items, voters on the label)."""
        weights = self._weighed(X, votes)[0]
        return {
            label: weights[:, place, : len(voters)]
            for place, (label, voters) in enumerate(self.voters_on_.items())
        }

    def vote_effects(
        self, one: Any, votes: MultiLabelVotes
    ) -> dict[str, tuple[VoteMatrix, VoteEffects]]:
        """Return the votes on each label of one item, and their effects; `one` is a batch."""
        weights, proba = self._weighed(one, votes)
        effects = {}
        for place, (label, voters) in enumerate(self.voters_on_.items()):
            own = votes[label].select(voters)
            if label in self.one_sided_:
                effects[label] = label_effects(self.one_sided_[label], own, one)
                continue
            given = weights[0, place, own.voter_index]
            soft = np.array([1 - proba[0, place], proba[0, place]])
            effects[label] = own, VoteEffects(given[:, None] * own.vote_rows(), given, soft)
        return effects

    def _check_options(self) -> None:
        super()._check_options()
        check_number(self, "warm_up", self.warm_up, low=1, whole=True)
        sizes = list(self.encoder) if isinstance(self.encoder, (tuple, list)) else [None]
        if not all(isinstance(size, Integral) and int(size) > 0 for size in sizes):
            raise ParameterError(
                "The 'encoder' option of MultiLabelWeaSEL must be the sizes of its hidden layers, "
                f"such as (70, 70) or () for none; got {self.encoder!r:.60}."
            )
        if not isinstance(self.start, LabelModel):
            raise ParameterError(
                "The 'start' option of MultiLabelWeaSEL must be a label model, such as "
                f"MajorityVote(); got {self.start!r:.60}."
            )

    def read(self, plan: MultiLabelPlan) -> SoftLabels:
        """Return the soft labels that both networks learn first."""
        # Training continues from the start even if features cannot confirm it.
        with warnings.catch_warnings(action="ignore", category=WieselWarning):
            return read_votes_on(self.start, plan)

    def _planned(
        self, network: nn.Module, plan: MultiLabelPlan, soft: SoftLabels
    ) -> tuple[Objective, TrainingData, dict[str, Any]]:
        votes = plan.votes
        voters_on = {label: votes.voters_on(label) for label in votes.labels}
        features = _features(plan.inputs)
        n_features = 0 if features is None else features.item_bytes // 4
        most = max(map(len, voters_on.values()))
        sizes = EncoderSizes(len(votes.labels), most, n_features)
        encoder = build_encoder(self.encoder, sizes)
        objective = WeaSELPresenceObjective(
            network,
            encoder,
            (soft.proba, plan.known),
            np.nan_to_num(plan.balance, nan=0.5),
            plan.one_sided,
            self.warm_up,
        )
        payload = DensePayload(_grid(votes, voters_on), plan.inputs, features)
        learned = {
            "encoder_": encoder,
            "sizes_": sizes,
            "voters_on_": voters_on,
            "one_sided_": {k: m for k, m in soft.models.items() if isinstance(m, OneSided)},
        }
        data = TrainingData(plan.inputs, used=plan.used, payload=payload)
        return objective, data, learned

    @torch.no_grad()
    def _weighed(
        self, X: Any, votes: MultiLabelVotes
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The weights of the voters (items, labels, voters), and P(present) of every label."""
        self.check_fitted()
        votes.check_same_voters(self.voters_, self.labels_)
        if self.members_:
            parts = [member._weighed(X, votes) for member in self.members_]  # type: ignore[attr-defined]
            member_weights, member_probas = zip(*parts, strict=True)
            return np.mean(member_weights, axis=0), np.mean(member_probas, axis=0)
        inputs = as_inputs(X, votes=votes)
        features = _features(inputs)
        width = 0 if features is None else features.item_bytes // 4
        if len(inputs) != votes.n_items or width != self.sizes_.n_features:
            raise FeatureError(
                f"The encoder was trained on {self.sizes_.n_features} features of each item; got "
                f"{width} features of {len(inputs)} items, and votes on {votes.n_items}."
            )
        data = TrainingData(
            inputs, payload=DensePayload(_grid(votes, self.voters_on_), inputs, features)
        )
        present = np.nan_to_num(self.balance_, nan=0.5)
        log_prior = torch.from_numpy(np.log(np.stack([1 - present, present], axis=1)))
        weights, proba = [], []
        for batch in data.batches(data.items, _ITEMS):
            own: Tensor = batch.payload.votes
            encoded = encode_votes(own, "one_hot", batch.payload.features)
            by_label = own.unflatten(1, (self.sizes_.n_labels, -1))  # type: ignore[no-untyped-call]
            given = self.encoder_(encoded, by_label)
            logits = label_logits(given, by_label).double() + log_prior
            weights.append(given.double())
            proba.append(torch.softmax(logits, dim=-1)[..., 1])
        soft = torch.cat(proba).numpy()
        for label, model in self.one_sided_.items():
            fixed = posteriors({label: model}, votes)
            soft[:, self.labels_.index(label)] = fixed[:, 0]
        return torch.cat(weights).numpy(), soft


def build_encoder(hidden: Sequence[int], sizes: EncoderSizes) -> VoteEncoder:
    """Return a new encoder: all votes and features in, a score for each voter and label out."""
    cells = sizes.n_labels * sizes.n_voters
    n_inputs = encoded_width(cells, 2, "one_hot") + sizes.n_features
    network = mlp_encoder(n_inputs, cells, EncoderLayers(hidden=tuple(hidden)))
    network.append(nn.Unflatten(-1, (sizes.n_labels, sizes.n_voters)))
    return VoteEncoder(network, sizes.n_voters, Weighing(tau_2=_SCALE, voting_only=True))


def _grid(votes: MultiLabelVotes, voters_on: Mapping[str, tuple[str, ...]]) -> VoteMatrix:
    """The votes on all labels as one matrix: a block with the same width for each label."""
    width = max(map(len, voters_on.values()))
    parts = [votes[label].select(voters) for label, voters in voters_on.items()]
    item = np.concatenate([part.item_index for part in parts])
    cells = [part.voter_index.astype(np.int64) + k * width for k, part in enumerate(parts)]
    column = np.concatenate(cells)
    class_index = np.concatenate([part.class_index for part in parts])
    order = np.lexsort((column, item))
    ends = np.cumsum(np.bincount(item, minlength=votes.n_items))
    return VoteMatrix(
        np.concatenate([[0], ends]).astype(np.int64),
        column[order].astype(np.int32),
        class_index[order],
        _GRID,
        tuple(f"{label}, {k}" for label in votes.labels for k in range(width)),
        np.arange(votes.n_items),
    )


def _features(inputs: Inputs) -> Inputs | None:
    """What the encoder reads in addition to votes: token ids and images are not features."""
    return inputs if is_matrix(inputs) else None
