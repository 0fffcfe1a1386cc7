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
from wiesel.end_to_end.checks import (
    check_class_balance,
    gold_items,
    gold_validation,
    is_classifier,
    validation_items,
)
from wiesel.end_to_end.evidence_models import FeatureChecked, FeatureEM, FeatureLabelModel
from wiesel.end_to_end.fine_tuning import FineTuning, checked_gold, learn_gold
from wiesel.end_to_end.plan import (
    FitInputs,
    FitPlan,
    GoldItems,
    GoldSet,
    PlannedFit,
    plan_all,
    split_networks,
    started,
    train_all,
)
from wiesel.end_to_end.storage import Saved
from wiesel.end_to_end.supervised import Supervised
from wiesel.end_to_end.two_stage import TwoStage
from wiesel.errors import ParameterError, SavedModelError, WieselWarning, warn_user
from wiesel.label_models import ClassBalance, LabelModel, MajorityVote
from wiesel.nn.stacking import reseeded
from wiesel.parameters import check_number
from wiesel.registry import method_name
from wiesel.tables import in_order_of
from wiesel.tasks import OneLabelTask, SpansTask, Task
from wiesel.training import History, Objective
from wiesel.votes import require_votes

__all__ = ["PRIOR_LABELS", "Committee", "default_members", "learned_levels", "with_votes"]

Members = dict[str, EndToEndModel]
Array = npt.NDArray[np.float64]

_GOLD = "gold"
"""The name of the member that learns gold labels alone."""
PRIOR_LABELS = 4.0
"""How many gold labels it takes to change the levels of networks and votes by much."""
_LEAST_PROBA = 1e-6
_VOTE_LEVELS = (0.5, 0.5)
"""How much networks and soft labels are worth together, before gold tells."""
_SHRINKAGE = 50.0
"""With this many gold items, a network that learned them alone counts half as much as others."""
_SEEDS_APART = 50
"""The seeds of the networks that learn gold alone come so far after the first one's."""


@dataclass(eq=False)
class Committee(ExplainedModel):
    """The default: networks trained on several label models, averaged.

    No label model is best on all data, and without gold nothing shows which one is best here. So
    several are combined (see `default_members`). Each has its own networks; all networks are
    trained as stacks, and their probabilities are averaged. Copies of a voter count once.

    A member that contradicts the others loses weight: its networks count the 8th power of its
    agreement with them. Without gold, the shares of the predictions on items with votes are brought
    to the class balance, half-way if that is an estimate (`offsets_`). With gold, all networks are
    fine-tuned on it (`fine_tune`), further ones learn the gold labels alone, and these labels
    decide how much either kind counts.

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
    shares of its predictions become the class balance, or go half-way to its estimate. None with
    gold or members of your own."""
    vote_levels_: Any = field(init=False, repr=False)
    """How much the logits of the networks and of the soft labels are worth where predictions use
    votes, and what is added for each class; None is half of each, as long as no gold with votes was
    learned."""
    copies_: dict[str, Any] = field(init=False, repr=False)
    """Maps each voter that is a copy to the voter it copies; with several labels, by label."""

    tasks = TwoStage.tasks
    fits_itself = True

    def with_gold(self, given: FitInputs, gold: Any) -> FitInputs:
        """Return the arguments of `fit` with gold labels in the form of `fit`, checked."""
        # `fit_given` decides whether they are usable, together with those of `validation`.
        if gold is None:
            return given
        return replace(given, labeled=gold_items(gold, given, self._task(given)))

    def fit_given(self, given: FitInputs, validation: GoldSet | None) -> Self:
        """Fit on what `fit_inputs` returned."""
        self.check_options()
        task, votes = self._task(given), given.votes
        copies = task.copies(votes)
        held_out = None
        if task.learns_gold:
            held_out = validation_items(validation, gold_validation(validation, task, None), votes)
            validation = None
        gold = held_out if given.labeled is None else given.labeled.joined(held_out, task)
        gold = None if gold is None else checked_gold(gold, task)
        merged = replace(given, votes=task.without_copies(votes, copies), labeled=None)
        if gold is not None and self.train_on_gold:
            on_gold = None if gold.votes is None else task.without_copies(gold.votes, copies)
            merged = replace(merged, labeled=replace(gold, votes=on_gold))
        balance = task.member_balance(
            self.class_balance, merged.votes, None if gold is None else gold.sample
        )
        members = self._members(task, balance)
        # If one member has to fall back, the others make up for it.
        with warnings.catch_warnings(action="ignore", category=WieselWarning):
            fits = _planned(members, merged, validation)
        compares = self.members is None and task.compares_members
        fitted = _fitted(members, fits, merged, validation, any_collapsed=compares)
        # Learned attributes are set last: after a failed fit there are none of another one.
        self.labels_, self.voters_, self.copies_ = task.labels, votes.voters, dict(copies)
        learns = (
            gold is not None
            and self.train_on_gold
            and not any(m.history_.interrupted for m in fitted.values())
        )
        if gold is not None and learns:
            self._add_gold(fitted, gold, task)
        compared = (merged, balance if gold is None else None) if compares else None
        self._keep_members(fitted, 0 if gold is None else len(gold), compared)
        if gold is not None and learns:
            learn_gold(self, gold)
            self._weigh_labels()
        elif gold is not None and gold.sample is not None:
            self._tune(gold.sample, gold.sample.proba_by(self.end_model_))
        self._learn_vote_levels(gold if learns else None)
        return self

    def _learn_vote_levels(self, gold: GoldItems | None) -> None:
        self.vote_levels_ = None
        if gold is None or gold.votes is None or self.task_.kind != OneLabelTask.kind:
            return
        inputs, votes = gold.known.inputs, gold.votes
        known = np.flatnonzero(votes.covered)
        if len(known):
            proba, soft = self.out_of_fold_proba(inputs), self.soft_labels(inputs, votes)
            truth = np.asarray(gold.known.gold)[known]
            self.vote_levels_ = learned_levels(proba[known], soft[known], truth, _VOTE_LEVELS)

    def proba_with_votes(self, X: Any, votes: Any, proba: Array) -> Array:
        """Return P(class) from the networks and, where there are votes, from the soft labels.

        ::

            softmax(b + l_networks log P_networks(class | x) + l_votes log P_members(class | votes))

        The levels and b are learned from gold items with votes; without them both levels are 0.5.
        """
        if self.task_.kind == SpansTask.kind:
            return super().proba_with_votes(X, votes, proba)
        if self.task_.kind != OneLabelTask.kind:
            raise ParameterError(
                "Predictions that use votes are for items with one label and for spans: leave the "
                "votes out."
            )
        require_votes(votes)
        votes = in_order_of(X, votes, "votes", "X")
        if len(proba) != votes.n_items:
            raise ParameterError(f"X has {len(proba)} items, the votes have {votes.n_items}.")
        levels, offsets = self.vote_levels_ or (_VOTE_LEVELS, 0.0)
        return with_votes(proba, self.soft_labels(X, votes), votes.covered, levels, offsets)

    def fine_tune(self, X: Any, y: Any) -> FineTuning:
        """Learn a few gold items, as `EndToEndModel.fine_tune`; they replace the offsets."""
        done = super().fine_tune(X, y)
        self.offsets_ = None
        self._weigh_labels()
        return done

    def soft_labels(self, X: Any, votes: Any) -> Array:
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
            "vote_levels": None
            if self.vote_levels_ is None
            else [part.tolist() for part in self.vote_levels_],
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
        levels = saved.values.get("vote_levels")
        model.vote_levels_ = _check_vote_levels(levels, model.task_.n_classes)
        model.end_model_ = model._average()
        return model

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_number(self, "networks", self.networks, low=1, whole=True)
        check_class_balance(self)

    def _check_members(self) -> None:
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

    def _members(self, task: Task, balance: Any) -> Members:
        if self.members is not None:
            found: Members = {}
            for member in self.members:
                found[_free_name(member, found)] = copy.deepcopy(member)
            return found
        shared = {**self.shared_options(), "class_balance": balance}
        of_task = task.member_label_models()
        if of_task is not None:
            stages = {name: (model, "ce") for name, model in of_task.items()}
            return _members_of(self.end_model, stages, self.networks, shared)
        return default_members(self.end_model, task.n_classes, self.networks, **shared)

    def _label_members(self) -> list[tuple[str, Any, Any]]:
        """The members with soft labels: their names and weights."""
        named = zip(self.member_weights_.items(), self.members_, strict=True)
        return [(name, m, weight) for (name, weight), m in named if not isinstance(m, Supervised)]

    def _member_soft_labels(self, member: Any, X: Any, votes: Any) -> Array:
        """The soft labels of a member, which may be the user's own method."""
        source = f"The soft labels by {type(member).__name__}"
        n_rows = self.task_.n_rows(votes)
        return self.task_.checked_proba(member.soft_labels(X, votes), source, n_rows)

    def _average(self) -> nn.Module:
        networks = [member.end_model_ for member in self.members_]
        return self.task_.average(networks, list(self.member_weights_.values()), self.offsets_)

    def _add_gold(self, fitted: Members, gold: GoldItems, task: Task) -> None:
        """Add a default member that learns gold labels alone; so far, its networks are untrained.

        What votes get wrong everywhere, networks that have learned votes hardly forget.
        """
        if self.members is not None or is_classifier(self.end_model):
            return
        if task.kind != OneLabelTask.kind:
            return
        seed = self.seed + _SEEDS_APART
        options = {**self.shared_options(), "seed": seed, "checkpoint": None}
        member = Supervised(
            reseeded(self.end_model, seed), members=2 * self.networks, labels=task.labels, **options
        )
        given = FitInputs(gold.known.inputs, gold=gold.known.gold, labels=task.labels)
        parts = split_networks(member)
        for part in parts:
            part.planned(given, None).finish(History([{"epoch": 1}]))
        member.join(parts)
        fitted[_GOLD] = member

    def _keep_members(
        self, fitted: Members, n_gold: int, compared: tuple[FitInputs, Any] | None
    ) -> None:
        members, task = list(fitted.values()), self.task_
        n_networks = np.array([max(1, len(member.members_)) for member in members])
        # A member that has collapsed on a label has no weight for it, unless all have.
        able = task.able([member.history_ for member in members])
        weights = (n_networks * able.T).T.astype(np.float64)
        # Networks that learned from few gold items alone are poor and too confident.
        of_gold = np.array([isinstance(member, Supervised) for member in members])
        weights[of_gold] *= n_gold / (n_gold + _SHRINKAGE)
        self.offsets_, agreement = None, None
        if compared is not None:
            networks = [
                member.end_model_ for member in members if not isinstance(member, Supervised)
            ]
            combined: Any = task.combined(networks, weights[~of_gold], *compared)
            agreement = combined.agreement
            weights[~of_gold] = combined.weights * weights[~of_gold].sum()
            # Labels move the shares of the predictions by themselves, and better.
            self.offsets_ = None if n_gold else combined.offsets
        weights = weights / weights.sum(axis=0)
        self.members_ = tuple(members)
        self.member_weights_ = dict(
            zip(fitted, weights.tolist() if weights.ndim == 1 else weights, strict=True)
        )
        self.end_model_ = self._average()
        losses = [(isinstance(m, Supervised), getattr(m, "loss", None)) for m in members]
        self.history_ = History.of_members([member.history_ for member in members], losses)
        self.trained_on_ = members[0].trained_on_
        self._select_for_all(None, None)
        if agreement is not None and not n_gold:
            self.selection_["agreement"] = agreement

    def vote_effects(self, one: Any, votes: Any) -> Any:
        """Return the effects of the votes on one item, and each member's soft label."""
        merged = self.task_.without_copies(votes, self.copies_)
        members = self._label_members()
        with warnings.catch_warnings(action="ignore", category=WieselWarning):
            parts = {name: m.vote_effects(one, merged) for name, m, _ in members}
        weights = {name: weight for name, _, weight in members}
        return self.task_.mean_effects(parts, weights, votes, self.copies_)

    def _weigh_labels(self) -> None:
        """Give the members that learned labels alone the share that labels decided, if they did."""
        share = self.selection_["trained_on_gold"].get("alone")
        if share is not None:
            of_gold = np.array([isinstance(member, Supervised) for member in self.members_])
            weights = np.array(list(self.member_weights_.values()))
            for rows, total in ((of_gold, share), (~of_gold, 1 - share)):
                weights[rows] *= total / weights[rows].sum()
            self.member_weights_ = dict(zip(self.member_weights_, weights.tolist(), strict=True))
        self.end_model_ = self._average()

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        raise NotImplementedError("a committee trains its members")


def default_members(
    end_model: nn.Module,
    n_classes: int,
    networks: int = 2,
    seed: int = 0,
    **options: Any,
) -> Members:
    """Return the default members of a committee, unfitted, by name.

    The label models are majority vote, EM over votes and features, and votes weighted by how well
    the features confirm them. Members that learn from features have twice the networks. For
    multi-class tasks, EM is also trained with the mutual-information loss, which is robust to
    classes with too many votes. `experiments/decisions.md` explains how they were chosen.

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
    if options.get("class_balance") is None:
        options["class_balance"] = "auto"
    return _members_of(end_model, stages, networks, {"seed": seed, **options})


def _members_of(
    end_model: nn.Module,
    stages: Mapping[str, tuple[LabelModel, str]],
    networks: int,
    options: Mapping[str, Any],
) -> Members:
    """A two-stage method for each label model and loss, with seeds of their own."""
    members: Members = {}
    seed = options["seed"]
    for name, (label_model, loss) in stages.items():
        network = reseeded(end_model, seed) if members else end_model
        twice = isinstance(label_model, FeatureLabelModel)
        own: dict[str, Any] = {"loss": loss, "seed": seed}
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
    parts = {name: split_networks(member) for name, member in members.items()}
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
            member.join(started([fit.model for fit in own]), validation)
        member.recover(given, validation)
        fitted[name] = member
    kept = started(list(fitted.values()))
    usable = {name: member for name, member in fitted.items() if member in kept}
    return usable if any_collapsed else _healthy(usable)


def _healthy(fitted: Members) -> Members:
    """The members that have not collapsed to one class; all members if all have."""
    kept = {name: m for name, m in fitted.items() if not m.task_.collapsed(m.history_).all()}
    if len(kept) in (0, len(fitted)):
        return fitted
    dropped = [name for name in fitted if name not in kept]
    warn_user(
        f"Left out of the committee, because they predict a single class: {', '.join(dropped)}.",
        WieselWarning,
    )
    return kept


def with_votes(
    proba: Array,
    soft_labels: Array,
    covered: npt.NDArray[np.bool_],
    levels: Sequence[float] | Array,
    offsets: Array | float = 0.0,
) -> Array:
    """Return P(class) from a model's and from soft labels, where there are votes.

    >>> with_votes(np.array([[0.5, 0.5]]), np.array([[0.8, 0.2]]), np.array([True]), (1.0, 1.0))
    array([[0.8, 0.2]])
    """
    found: Array = np.array(proba, dtype=np.float64)
    logits = offsets + np.tensordot(np.asarray(levels), _logs(proba, soft_labels), 1)
    found[covered] = np.exp(_log_softmax(logits[covered]))
    return found


def _check_vote_levels(saved: Any, n_classes: int) -> tuple[Array, Array] | None:
    """Return the levels and offsets that were saved, checked; None if there are none."""
    if saved is None:
        return None
    levels, offsets = (np.asarray(part, dtype=np.float64) for part in saved)
    finite = np.isfinite(levels).all() and np.isfinite(offsets).all()
    if levels.shape != (2,) or offsets.shape != (n_classes,) or not finite:
        raise SavedModelError("The saved levels of model and votes do not fit its classes.")
    return levels, offsets


def _logs(*probas: Array) -> Array:
    return np.log(np.clip(np.stack(probas), _LEAST_PROBA, 1))


def learned_levels(
    proba: Array,
    soft_labels: Array,
    truth: npt.NDArray[np.int64],
    prior: Sequence[float],
    prior_labels: float = PRIOR_LABELS,
) -> tuple[Array, Array]:
    """Return the levels and offsets under which both together predict known classes best."""
    from scipy.optimize import minimize

    logs = _logs(proba, soft_labels)
    n_classes = logs.shape[2]
    one_hot = np.eye(n_classes)[truth]
    start = np.concatenate([prior, np.zeros(n_classes)])
    ridge = np.concatenate([[prior_labels] * 2, [prior_labels / 4] * n_classes])

    def loss(learned: Array) -> tuple[float, Array]:
        log_proba = _log_softmax(learned[2:] + np.tensordot(learned[:2], logs, 1))
        errors = np.exp(log_proba) - one_hot
        away = learned - start
        gradient = np.concatenate([(errors * logs).sum(axis=(1, 2)), errors.sum(axis=0)])
        return -float((one_hot * log_proba).sum()) + float(ridge @ away**2) / 2, (
            gradient + ridge * away
        )

    bounds = [(0.0, None)] * 2 + [(None, None)] * n_classes
    found = np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
    return found[:2], found[2:]


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_proba: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_proba
