"""Committee, the default method: networks trained on several label models, averaged."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import compress
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.base import EndToEndModel, ExplainedModel
from wiesel.end_to_end.checks import check_training_numbers, gold_validation, gold_votes
from wiesel.end_to_end.fine_tuning import FineTuning
from wiesel.end_to_end.plan import (
    FitInputs,
    FitPlan,
    GoldSet,
    PlannedFit,
    check_class_balance,
    inputs_digest,
)
from wiesel.end_to_end.readings import (
    FeatureChecked,
    FeatureEM,
    FeatureLabelModel,
    GoldWeighted,
)
from wiesel.end_to_end.selection import (
    gold_share,
    greedy_weights,
    is_usable,
    out_of_fold_probas,
)
from wiesel.end_to_end.storage import Saved
from wiesel.end_to_end.supervised import Supervised, gold_member
from wiesel.end_to_end.together import begun, plan_all, reseeded, separate, train_all
from wiesel.end_to_end.two_stage import TwoStage
from wiesel.errors import ParameterError, SavedModelError, WieselWarning, warn_user
from wiesel.label_models import ClassBalance, LabelModel, MajorityVote
from wiesel.parameters import check_number
from wiesel.registry import method_name
from wiesel.row_ids import in_order_of
from wiesel.tasks import Task
from wiesel.training import History, Objective, Validation

__all__ = ["Committee", "default_members"]

Members = dict[str, EndToEndModel]

_GOLD = "gold"
"""The name of the member that learns from gold labels."""


@dataclass(eq=False)
class Committee(ExplainedModel):
    """The default: networks trained on several label models, averaged.

    No label model is best on all data, and without gold nothing shows which one is best here. So
    several are combined (see `default_members`). Each has its own networks; all networks are
    trained as stacks, and their probabilities are averaged. Copies of a voter count once.

    Without gold, all networks have equal weight. With `validation=(X, y)` the weights come from
    greedy selection, shrunk toward equal weights if items are few, and a further member learns from
    the gold labels alone. Each of its networks leaves out a fold of these items, and selection,
    score and threshold use its predictions for that fold only. With `validation=(X, y, votes)` yet
    another member weighs every voter by its precision on these items. Fewer than 30 items mislead
    as often as they help, which a warning says.

    >>> import torch
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> model = Committee(torch.nn.Linear(4, 2), epochs=1, lr=0.01).fit(X, votes)
    >>> list(model.member_weights_)
    ['majority_vote', 'feature_em', 'feature_checked']
    """

    end_model: nn.Module
    """Your network: any module that returns logits. `fit` trains a copy."""
    _: KW_ONLY
    members: Sequence[EndToEndModel] | None = None  # type: ignore[assignment]
    """The methods to average, each with its own end model and options; None uses
    `default_members`."""
    networks: int = 2
    """The number of networks of each default member; twice as many if it learns from features."""
    class_balance: ClassBalance | Mapping[str, float] | Literal["votes", "validation", "auto"] = (
        None
    )
    """P(class) for the default members: numbers, or where to estimate it (`auto` is the validation
    set if there is one, else the votes); None is `auto`. With several labels: P(present) by name;
    that of the other labels is estimated."""
    train_on_gold: bool = True
    """Whether networks of a default committee also train on the validation items. If so, use
    `out_of_fold_proba` instead of `predict_proba` to evaluate the committee on them."""
    calibrated: bool = False
    """With several labels: fit a scale and an offset of every label's logit on the validation items
    (Platt scaling)."""

    member_weights_: dict[str, Any] = field(init=False, repr=False)
    """The weight of each member, by name; weights sum to 1. With several labels, an array: the
    weight for each label."""
    offsets_: Any = field(init=False, repr=False)
    """What is added to the logits of the average, one number for each class: without gold, the
    shares of its predictions become the class balance. None with gold or members of your own."""
    copies_: dict[str, Any] = field(init=False, repr=False)
    """Maps each voter that is a copy to the voter it copies; with several labels, by label."""

    tasks = TwoStage.tasks
    fits_itself = True

    def fit_given(self, given: FitInputs, validation: GoldSet | None) -> Self:
        """Fit on what `fit_inputs` returned."""
        self.check_options()
        task, votes = self._task(given), given.votes
        copies = task.copies(votes)
        merged = replace(given, votes=task.without_copies(votes, copies))
        # Every member tries its own network on the validation set.
        held_out = gold_validation(validation, task, None)
        labeled = gold_votes(validation, held_out, votes)
        if held_out is not None and self.members is None and not is_usable(held_out, task):
            validation = held_out = labeled = None
        if labeled is not None and validation is not None:
            validation = (*validation[:2], task.without_copies(labeled, copies))
        balance = task.member_balance(self.class_balance, merged.votes, held_out)
        members = self._members(task, balance, labeled is not None)
        # If one member has to fall back, the others make up for it.
        with warnings.catch_warnings(action="ignore", category=WieselWarning):
            fits = _planned(members, merged, validation)
        gold = None if held_out is None else gold_member(self, held_out, task)
        if gold is not None and held_out is not None:
            members[_GOLD] = gold
            labeled_items = FitInputs(held_out.inputs, gold=held_out.gold, labels=task.labels)
            fits[_GOLD] = plan_all(gold.without_folds(), labeled_items, None)
        blind = self.members is None and held_out is None and task.compares_members
        fitted = _fitted(members, fits, merged, validation, any_collapsed=blind)
        # Learned attributes are set last: after a failed fit there are none of another one.
        self.labels_, self.voters_, self.copies_ = task.labels, votes.voters, dict(copies)
        self._keep_members(fitted, held_out, (merged, balance) if blind else None)
        return self

    def out_of_fold_proba(self, X: Any, y: Any) -> npt.NDArray[np.float64]:
        """Return P(class) of the validation items of `fit`, which networks may have trained on.

        It is the average of the members, as in `predict_proba`, except that an item is predicted
        only by networks that were not trained on it. Give the same items in the same order.
        """
        self.check_fitted()
        gold = self.task_.held_out(self.inputs_of(X), in_order_of(X, y, "y", "X"))
        probas = out_of_fold_probas(self.members_, gold.inputs, gold.gold)
        return _weighted(np.array(list(self.member_weights_.values())), probas)

    def fine_tune(self, X: Any, y: Any) -> FineTuning:
        """Learn a few gold items, as `EndToEndModel.fine_tune`; they replace the offsets."""
        done = super().fine_tune(X, y)
        self.offsets_ = None
        self.end_model_ = self._average()
        return done

    def soft_labels(self, X: Any, votes: Any) -> npt.NDArray[np.float64]:
        """Return the members' average soft labels: (n_items, n_classes)."""
        self.check_fitted()
        self.check_votes(votes)
        merged, X = self.task_.without_copies(votes, self.copies_), self.inputs_of(X, votes)
        members = self._label_members()
        total = sum(weight for _, _, weight in members)
        with warnings.catch_warnings(action="ignore", category=WieselWarning):
            parts = [
                weight / total * self._member_soft_labels(m, X, merged) for _, m, weight in members
            ]
        return np.sum(parts, axis=0)

    def saved_values(self) -> dict[str, Any]:
        """Return the weights of the members and the copies among the voters."""
        return {
            "member_weights": self.member_weights_,
            "copies": self.copies_,
            "offsets": None if self.offsets_ is None else np.asarray(self.offsets_).tolist(),
            "own_members": self.members is not None,
        }

    @classmethod
    def from_members(
        cls, members: Sequence[EndToEndModel], options: dict[str, Any], saved: Saved
    ) -> Self:
        """Return the committee of restored members."""
        if saved.values["own_members"]:
            options = {**options, "members": [copy.copy(member) for member in members]}
        model = cls(members[0].network, **options)
        model.check_options()
        model.labels_, model.voters_ = members[0].labels_, tuple(saved.manifest["voters"])
        weights = model.task_.check_weights(saved.values["member_weights"])
        # Soft labels are an average over the members that read votes.
        of_votes = [not isinstance(member, Supervised) for member in members]
        fits = len(weights) == len(members) and np.any([*compress(weights.values(), of_votes)])
        if not fits or any(own.labels_ != model.labels_ for own in members):
            raise SavedModelError(
                "The weights or labels of the saved committee do not match its members."
            )
        model.member_weights_ = weights
        model.copies_ = model.task_.check_copies(saved.values["copies"], model.voters_)
        model.members_ = tuple(members)
        model.offsets_ = model.task_.check_offsets(saved.values.get("offsets"))
        model.end_model_ = model._average()
        return model

    def _check_options(self) -> None:
        check_training_numbers(self)
        check_number(self, "networks", self.networks, low=1, whole=True)
        check_class_balance(self)
        given = self.members
        if given is None:
            return
        for name in ("checkpoint", "class_balance"):
            if getattr(self, name) is not None:
                raise ParameterError(
                    f"The {name!r} option of Committee is for its default members: give each of "
                    f"your own members a {name} of its own.",
                    option=name,
                )
        of_methods = isinstance(given, Sequence) and all(
            isinstance(m, EndToEndModel) for m in given
        )
        if not of_methods or not given:
            raise ParameterError(
                "The 'members' option of Committee must be a list of methods, such as "
                f"[TwoStage(MajorityVote(), net), WeaSEL(net)]; got {given!r:.60}. "
                "The number of networks of each default member is the option 'networks'.",
                option="members",
            )

    def _members(self, task: Task, balance: Any, with_gold_votes: bool) -> Members:
        if self.members is not None:
            found: Members = {}
            for member in self.members:
                found[_free_name(member, found)] = copy.deepcopy(member)
            return found
        shared = {**self.shared_options(), "class_balance": balance}
        return default_members(
            self.end_model, task.n_classes, with_gold_votes, self.networks, **shared
        )

    def _label_members(self) -> list[tuple[str, Any, Any]]:
        """The members with soft labels: their names and weights."""
        named = zip(self.member_weights_.items(), self.members_, strict=True)
        return [(name, m, weight) for (name, weight), m in named if not isinstance(m, Supervised)]

    def _member_soft_labels(self, member: Any, X: Any, votes: Any) -> npt.NDArray[np.float64]:
        """The soft labels of a member, which may be the user's own method."""
        source = f"The soft labels by {type(member).__name__}"
        return self.task_.checked_proba(member.soft_labels(X, votes), source, votes.n_items)

    def _average(self) -> nn.Module:
        networks = [member.end_model_ for member in self.members_]
        return self.task_.average(networks, list(self.member_weights_.values()), self.offsets_)

    def _keep_members(
        self,
        fitted: Members,
        validation: Validation | None,
        blind: tuple[FitInputs, Any] | None,
    ) -> None:
        members, task = list(fitted.values()), self.task_
        n_networks = np.array([max(1, len(member.members_)) for member in members])
        # A member that has collapsed on a label has no weight for it, unless all have.
        able = task.able([member.history_ for member in members])
        weights, proba = (n_networks * able.T).T, None
        weights, self.offsets_ = weights / weights.sum(axis=0), None
        networks = [member.end_model_ for member in members]
        combined = None if blind is None else task.combined(networks, weights, *blind)
        if combined is not None:
            weights, self.offsets_ = combined.weights, combined.offsets
        if validation is not None:
            # Networks that learned from few gold items are poor and too confident.
            of_gold = [isinstance(member, Supervised) for member in members]
            weights[of_gold] *= gold_share(len(validation.gold))
            probas = out_of_fold_probas(members, validation.inputs, validation.gold)
            weights = weights / weights.sum(axis=0)
            for place, own, gold in task.judged(probas, validation):
                rows = np.flatnonzero(weights[:, *place] > 0)
                weights[rows, *place] = greedy_weights(own[rows], gold, weights[rows, *place])
            proba = _weighted(weights, probas)
        self.members_ = tuple(members)
        self.member_weights_ = dict(
            zip(fitted, weights.tolist() if weights.ndim == 1 else weights, strict=True)
        )
        self.end_model_ = self._average()
        # The member that learns from gold has other items, too: its curves compare with no other's.
        losses = [(isinstance(m, Supervised), getattr(m, "loss", None)) for m in members]
        self.history_ = History.of_members([member.history_ for member in members], losses)
        self.trained_on_ = members[0].trained_on_
        self._select_for_all(validation, proba)
        if combined is not None:
            self.selection_["agreement"] = combined.agreement
        if validation is not None and _GOLD in fitted:
            seen = inputs_digest(validation.inputs).hex()
            self.selection_["trained_on_gold"] = {"items": len(validation.gold), "digest": seen}

    def vote_effects(self, one: Any, votes: Any) -> Any:
        """Return the effects of the votes on one item, and each member's soft label."""
        merged = self.task_.without_copies(votes, self.copies_)
        members = self._label_members()
        with warnings.catch_warnings(action="ignore", category=WieselWarning):
            parts = {name: m.vote_effects(one, merged) for name, m, _ in members}
        weights = {name: weight for name, _, weight in members}
        return self.task_.mean_effects(parts, weights, votes, self.copies_)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        raise NotImplementedError("a committee trains its members")


def default_members(
    end_model: nn.Module,
    n_classes: int,
    with_gold_votes: bool = False,
    networks: int = 2,
    seed: int = 0,
    **options: Any,
) -> Members:
    """Return the default members of a committee, unfitted, by name.

    The label models are majority vote, EM over votes and features, and votes weighted by how well
    the features confirm them. Members that learn from features have twice the networks. For
    multi-class tasks, EM is also trained with the mutual-information loss, which is robust to
    classes with too many votes. If the gold items have votes, further members weigh the voters by
    their precision on these items.
    `experiments/decisions.md` explains how they were chosen.

    >>> import torch
    >>> list(default_members(torch.nn.Linear(4, 2), n_classes=2))
    ['majority_vote', 'feature_em', 'feature_checked']
    >>> list(default_members(torch.nn.Linear(4, 3), n_classes=3))
    ['majority_vote', 'feature_em', 'feature_checked', 'feature_em_mig']
    """
    stages: dict[str, tuple[LabelModel, str]] = {
        "majority_vote": (MajorityVote(), "ce"),
        "feature_em": (FeatureEM(), "ce"),
        "feature_checked": (FeatureChecked(), "ce"),
    }
    if n_classes > 2:
        stages["feature_em_mig"] = FeatureEM(), "mig"
    if with_gold_votes:
        stages["gold_weighted"] = GoldWeighted(), "ce"
    if with_gold_votes and n_classes > 2:
        stages["gold_weighted_mig"] = GoldWeighted(), "mig"
    members: Members = {}
    for name, (label_model, loss) in stages.items():
        network = reseeded(end_model, seed) if members else end_model
        twice = isinstance(label_model, FeatureLabelModel)
        own: dict[str, Any] = {"loss": loss, "seed": seed}
        if options.get("class_balance") is None:
            own["class_balance"] = "auto"
        if options.get("checkpoint") is not None:
            # Members with the same loss form one stack, and a stack has one checkpoint.
            own["checkpoint"] = f"{options['checkpoint']}.{loss}"
        own["members"] = networks * (1 + twice)
        members[name] = TwoStage(label_model, network, **{**options, **own})
        seed += own["members"]
    return members


def _free_name(member: EndToEndModel, taken: Members) -> str:
    """A unique name: that of the label model, if any, or of the method; numbered if taken."""
    name = method_name(type(member.label_model if isinstance(member, TwoStage) else member))
    if isinstance(member, TwoStage) and member.loss != "ce":
        name = f"{name}_{member.loss}"
    return name if name not in taken else f"{name}_{len(taken) + 1}"


def _planned(
    members: Members, given: FitInputs, validation: GoldSet | None
) -> dict[str, list[PlannedFit]]:
    """Plan all networks of all members; label models with the same options are fitted once."""
    parts = {name: separate(member) for name, member in members.items()}
    # A copy of the inputs: what the label models share is freed when all are planned.
    fits = plan_all([part for own in parts.values() for part in own], replace(given), validation)
    return {name: [fit for fit in fits if fit.model in own] for name, own in parts.items()}


def _fitted(
    members: Members,
    fits: dict[str, list[PlannedFit]],
    given: FitInputs,
    validation: GoldSet | None,
    any_collapsed: bool,
) -> Members:
    """Train all planned fits, as stacks if possible, and return the usable members.

    With `any_collapsed`, one that predicts a single class is one of them: its weight decides.
    """
    train_all([fit for own in fits.values() for fit in own], quiet=True)
    fitted: Members = {}
    for name, own in fits.items():
        member = members[name]
        if len(own) > 1:
            # The networks that learned from gold cannot be validated on it as a whole.
            member.join(begun([fit.model for fit in own]), None if name == _GOLD else validation)
        member.recover(given, validation)
        fitted[name] = member
    kept = begun(list(fitted.values()))
    usable = {name: member for name, member in fitted.items() if member in kept}
    return usable if any_collapsed else _healthy(usable)


def _healthy(fitted: Members) -> Members:
    """The members that have not collapsed to one class; all if those that read votes all have."""
    kept = {name: m for name, m in fitted.items() if not m.task_.collapsed(m.history_).all()}
    if len(kept) == len(fitted) or not kept.keys() - {_GOLD}:
        return fitted
    dropped = [name for name in fitted if name not in kept]
    warn_user(
        f"Left out of the committee, because they predict a single class: {', '.join(dropped)}.",
        WieselWarning,
    )
    return kept


def _weighted(
    weights: npt.NDArray[np.float64], probas: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The weighted sum over members; weights are (members,), or (members, n_labels)."""
    if weights.ndim == 1:
        return np.asarray(np.tensordot(weights, probas, axes=1))
    return np.asarray((weights[:, None] * probas).sum(axis=0))
