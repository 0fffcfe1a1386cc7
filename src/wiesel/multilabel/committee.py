"""MultiLabelCommittee: networks trained on several label models for all labels, averaged."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.explaining import VoteEffects, mean_effects
from wiesel.end_to_end.plan import chosen_class_balance
from wiesel.end_to_end.readings import FeatureChecked, FeatureEM, FeatureLabelModel, GoldWeighted
from wiesel.end_to_end.selection import greedy_weights
from wiesel.end_to_end.together import begun, reseeded, separate, train_all
from wiesel.errors import CollapseWarning, ParameterError, WieselWarning
from wiesel.label_models import LabelModel, MajorityVote
from wiesel.multilabel.copies import label_copies, without_copies
from wiesel.multilabel.ensembles import LabelEnsemble
from wiesel.multilabel.plan import MultiLabelPlan, MultiLabelValidation, SoftLabels
from wiesel.multilabel.training import MultiLabelModel
from wiesel.multilabel.two_stage import MultiLabelTwoStage
from wiesel.multilabel.votes import MultiLabelVotes
from wiesel.parameters import check_number
from wiesel.registry import method_name
from wiesel.training import History, Validation
from wiesel.training.validation import predict_logits
from wiesel.votes import VoteMatrix

__all__ = ["MultiLabelCommittee", "default_label_members"]

Array = npt.NDArray[np.float64]


@dataclass(eq=False)
class MultiLabelCommittee(MultiLabelModel):
    """The default for several labels: networks trained on several label models, averaged.

    Like `Committee` for one label, it reads the votes on each label in a few simple ways
    (`default_label_members`), trains networks on each, all as one stack, and averages
    their probabilities. Every network has one output for each label. Before that, copies of a
    voter on a label are found; they count as one voter.

    The frequency of a label comes from `class_balance`, else from the validation items, else from
    the votes. A member whose prediction for a label is the same for all items gets no weight for
    that label. With `validation`, the weights for each label come from greedy selection on its
    gold labels, shrunk toward equal weights if these are few.

    >>> import torch
    >>> X = torch.eye(4).repeat(50, 1)
    >>> dense = X[:, None, :2].repeat(1, 3, 1)                     # three voters, two labels
    >>> votes = MultiLabelVotes.from_dense(dense, ["a", "b"])
    >>> model = MultiLabelCommittee(torch.nn.Linear(4, 2), epochs=3, lr=0.05).fit(X, votes)
    >>> list(model.member_weights_), model.predict(X[:3])
    (['majority_vote', 'feature_em', 'feature_checked'], [('a',), ('b',), ()])
    """

    end_model: nn.Module
    """Your network: any module that returns one logit for each label. It is copied."""
    _: KW_ONLY
    networks: int = 2
    """The number of networks per label model; twice as many if it uses features."""

    fits_itself: ClassVar[bool] = True

    member_weights_: dict[str, Array] = field(init=False, repr=False)
    """The weight of each member for each label, by name: (n_labels,). The weights sum to 1."""
    copies_: dict[str, dict[str, str]] = field(init=False, repr=False)
    """For labels with copies among the voters: each copy and the voter that it copies."""

    def soft_labels(self, X: Any, votes: MultiLabelVotes) -> Array:
        """Return the mean of the members' soft labels: P(present), (n_items, n_labels)."""
        self.check_fitted()
        votes.check_same_voters(self.voters_, self.labels_)
        merged = without_copies(votes, self.copies_)
        with warnings.catch_warnings(action="ignore", category=WieselWarning):
            parts = [member.soft_labels(X, merged) for member in self.members_]
        weights = self.member_weights_.values()
        return np.sum([own * part for own, part in zip(weights, parts, strict=True)], axis=0)

    def vote_effects(
        self, one: Any, votes: MultiLabelVotes
    ) -> dict[str, tuple[VoteMatrix, VoteEffects]]:
        """Return the votes on each label of one item, and their effects; `one` is a batch."""
        merged = without_copies(votes, self.copies_)
        with warnings.catch_warnings(action="ignore", category=WieselWarning):
            parts = [member.vote_effects(one, merged) for member in self.members_]
        found = {}
        for k, label in enumerate(self.labels_):
            own, done = parts[0][label][0], self._mean_effects(k, [p[label][1] for p in parts])
            copies = self.copies_.get(label)
            found[label] = _of_copies(votes[label], own, done, copies) if copies else (own, done)
        return found

    def read(self, plan: MultiLabelPlan) -> SoftLabels:
        """Not available for a committee: each of its members reads the votes."""
        raise NotImplementedError("a committee trains its members")

    def _planned(self, network: nn.Module, plan: MultiLabelPlan, soft: SoftLabels) -> Any:
        raise NotImplementedError("a committee trains its members")

    def _check_options(self) -> None:
        super()._check_options()
        check_number(self, "networks", self.networks, low=1, whole=True)
        if self.members != 1:
            raise ParameterError(
                "A MultiLabelCommittee is an ensemble already: set the number of networks per "
                f"label model with networks=..., not members={self.members!r}."
            )

    def _fit(self, plan: MultiLabelPlan) -> None:
        self.copies_ = label_copies(plan.votes)
        labeled = plan.gold_votes
        labeled = None if labeled is None else without_copies(labeled, self.copies_)
        plan = replace(plan, votes=without_copies(plan.votes, self.copies_), gold_votes=labeled)
        plan = replace(plan, balance=_balance(plan))
        shared = {name: getattr(self, name) for name in MultiLabelModel.option_names()}
        members = default_label_members(
            self.end_model, plan.gold_votes is not None, self.networks, **shared
        )
        fits = {}
        for name, member in members.items():
            # If one member has to fall back, the others make up for it.
            with warnings.catch_warnings(action="ignore", category=WieselWarning):
                soft = member.read(plan)
            fits[name] = member.ready(plan, soft, separate(member))
        # A member that collapsed gets no weight for that label; see below.
        with warnings.catch_warnings(action="ignore", category=CollapseWarning):
            train_all([fit for own in fits.values() for fit in own], quiet=True)
        for name, own in fits.items():
            if len(own) > 1:
                members[name].join(begun([fit.model for fit in own]), plan)
        kept = begun(list(members.values()))
        fitted = {name: member for name, member in members.items() if member in kept}
        self._keep(plan)
        healthy = ~np.stack([member.stuck(plan.one_sided) for member in fitted.values()])
        self._weigh(fitted, healthy | ~healthy.any(axis=0), plan.validation)
        self._select(plan.validation)
        if not healthy.any(axis=0).all():
            self._warn_of_collapse(plan.one_sided)

    def _weigh(
        self,
        fitted: dict[str, MultiLabelTwoStage],
        able: npt.NDArray[np.bool_],
        validation: MultiLabelValidation | None,
    ) -> None:
        members = list(fitted.values())
        networks = np.array([max(1, len(member.members_)) for member in members])
        weights = networks[:, None] * able
        weights = weights / weights.sum(axis=0)
        if validation is not None:
            weights = _chosen(members, validation, weights)
        self.members_ = tuple(members)
        self.member_weights_ = dict(zip(fitted, weights, strict=True))
        self.end_model_ = self.average()
        self.history_ = History.of_members([member.history_ for member in members])

    def average(self) -> nn.Module:
        """Return the network that averages the members, with separate weights for each label."""
        weights = np.stack(list(self.member_weights_.values()))
        return LabelEnsemble([member.end_model_ for member in self.members_], weights).eval()

    def _mean_effects(self, label: int, parts: Sequence[VoteEffects]) -> VoteEffects:
        weights = {name: float(own[label]) for name, own in self.member_weights_.items()}
        mean = mean_effects(dict(zip(weights, parts, strict=True)), weights)
        return replace(mean, members=tuple(view for view in mean.members if view.weight > 0))


def default_label_members(
    end_model: nn.Module,
    with_gold_votes: bool = False,
    networks: int = 2,
    seed: int = 0,
    **options: Any,
) -> dict[str, MultiLabelTwoStage]:
    """Return the members of a committee for several labels, unfitted, by name.

    They are the members of `Committee` for two classes, because a label is a binary task: majority
    vote, EM over votes and features, votes checked against the features and, if the gold items have
    votes, voters weighted by their precision on these items.

    >>> import torch
    >>> list(default_label_members(torch.nn.Linear(4, 2)))
    ['majority_vote', 'feature_em', 'feature_checked']
    """
    label_models: list[LabelModel] = [MajorityVote(), FeatureEM(), FeatureChecked()]
    if with_gold_votes:
        label_models.append(GoldWeighted())
    members: dict[str, MultiLabelTwoStage] = {}
    for label_model in label_models:
        network = reseeded(end_model, seed) if members else end_model
        twice = isinstance(label_model, FeatureLabelModel)
        own = {**options, "members": networks * (1 + twice), "seed": seed}
        members[method_name(type(label_model))] = MultiLabelTwoStage(label_model, network, **own)
        seed += own["members"]
    return members


def _balance(plan: MultiLabelPlan) -> Array:
    """P(present) if none is given: from validation, else estimated from the votes on a label.

    Votes in only one direction allow no estimate; such a label stays unknown, an error later.
    """
    found = plan.balance.copy()
    for k, label in enumerate(plan.labels):
        votes, held_out = plan.votes[label], None
        if plan.validation is not None:
            gold = plan.validation.presence[:, k]
            held_out = Validation(plan.validation.inputs, gold[gold >= 0], 2)
        if np.isnan(found[k]) and (held_out is not None or plan.votes.directions[label] == "both"):
            found[k] = chosen_class_balance("auto", votes.labels, votes, held_out)[1]
    return found


def _chosen(
    members: Sequence[MultiLabelModel], validation: MultiLabelValidation, equal: Array
) -> Array:
    """The weights of every label, by greedy selection on its gold labels."""
    from scipy.special import expit

    present = np.stack(
        [expit(predict_logits(m.end_model_, validation.inputs).double().numpy()) for m in members]
    )
    weights = equal.copy()
    for k in validation.judged:
        rows = np.flatnonzero(validation.presence[:, k] >= 0)
        able = np.flatnonzero(equal[:, k] > 0)
        own = present[able][:, rows, k]
        gold = Validation(validation.inputs, validation.presence[rows, k], 2)
        weights[able, k] = greedy_weights(np.stack([1 - own, own], axis=-1), gold, equal[able, k])
    return weights


def _of_copies(
    votes: VoteMatrix, merged: VoteMatrix, done: VoteEffects, copies: Mapping[str, str]
) -> tuple[VoteMatrix, VoteEffects]:
    """The votes on one label of one item, including those of copies, which share the effect."""
    voters = [name for name in votes.voters if copies.get(name, name) in merged.voters]
    own = votes.select(voters)
    cast = [merged.voters[voter] for voter in merged.voter_index]
    names = [own.voters[voter] for voter in own.voter_index]
    place = np.array([cast.index(copies.get(name, name)) for name in names], dtype=np.int64)
    n_copies = np.bincount(place, minlength=1)[place]
    added, weights = done.added[place] / n_copies[:, None], done.weights[place] / n_copies
    return own, replace(done, added=added, weights=weights)
