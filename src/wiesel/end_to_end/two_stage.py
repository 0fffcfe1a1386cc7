"""TwoStage: a label model makes soft labels, then the end model is trained on them."""

import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.base import ONLY_NETWORKS
from wiesel.end_to_end.checks import gold_validation, is_classifier
from wiesel.end_to_end.explaining import (
    ExplainedModel,
    VoteEffects,
    check_one_item,
    log_proba,
)
from wiesel.end_to_end.plan import (
    FitInputs,
    FitPlan,
    GoldSet,
    PlannedFit,
    can_choose,
    check_class_balance,
    options_key,
    train_options,
)
from wiesel.end_to_end.readings import EvidenceLabelModel, FeatureLabelModel
from wiesel.end_to_end.sklearn_stage import fit_classifier
from wiesel.end_to_end.storage import Saved
from wiesel.errors import ParameterError, SavedModelError
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.storage import (
    fitted_label_model,
    label_model_arrays,
    label_model_values,
    unfitted_label_model,
)
from wiesel.labels import ABSTAIN, as_indices, checked_proba
from wiesel.parameters import check_choice
from wiesel.training import History, Objective, Record, as_inputs
from wiesel.training.objective import SoftLabelObjective
from wiesel.training.validation import predict_logits
from wiesel.votes import VoteMatrix

__all__ = ["TwoStage", "each_left_out", "fit_label_model", "proba_of_votes"]

_ARRAYS = "label_model.safetensors"
_STACKED = ("seed", "lr", "end_model", "label_model", "class_balance", "hard")
"""Options in which the models of one stack may differ: each network has its own targets."""


@dataclass(eq=False)
class TwoStage(ExplainedModel):
    """A label model first, then the end model on its soft labels (Ratner et al. 2016).

    The label model is fitted on the votes. A label model such as `FeatureChecked` also uses the
    features, or the gold labels of `validation`. The end model minimizes the cross-entropy to
    the soft labels on the covered items (or the mutual-information loss of Max-MIG).

    >>> import torch
    >>> from wiesel import MajorityVote
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> model = TwoStage(MajorityVote(), torch.nn.Linear(X.shape[1], 2), epochs=1, lr=0.01)
    >>> model.fit(X, votes).soft_labels(X, votes).shape
    (200, 2)
    """

    label_model: LabelModel
    """Any label model. It is copied; the fitted one is `label_model_`."""
    end_model: nn.Module
    """Your network: any module that returns logits; or a scikit-learn classifier, which learns from
    rows weighted by the soft labels. `fit` trains a copy."""
    _: KW_ONLY
    loss: Literal["ce", "mig"] = "ce"
    """`ce` is the cross-entropy to the soft labels. `mig` is the mutual-information loss, which is
    robust to classes with too many votes."""
    class_balance: ClassBalance | Literal["votes", "validation", "auto"] = None
    """P(class) for the label model and for `mig`: numbers, or where to estimate it (`auto` is the
    validation set if there is one, else the votes). None lets the label model decide, and is
    uniform for `mig`."""
    hard: bool = False
    """Train on the most probable class instead of on the soft label."""

    label_model_: LabelModel = field(init=False, repr=False)
    """The fitted label model."""

    def soft_labels(self, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return the label model's soft labels; X is used only if it learned from features."""
        self.check_fitted()
        return proba_of_votes(self.label_model_, votes, X)

    def vote_effects(self, one: Any, votes: VoteMatrix) -> VoteEffects:
        """Return the effects of the votes on one item; `one` is the item as a batch.

        A vote's weight is the change of the label model's log-probabilities without this vote.
        """
        check_one_item(votes)
        repeated = as_inputs(one).take(np.zeros(votes.n_votes + 1, dtype=np.int64))
        proba = proba_of_votes(self.label_model_, each_left_out(votes), repeated)
        added = log_proba(proba[0]) - log_proba(proba[1:])
        return VoteEffects(added, np.abs(added).max(axis=1), proba[0])

    def saved_values(self) -> dict[str, Any]:
        """Return the label model's options and learned attributes, except its arrays."""
        return {"label_model": label_model_values(self.label_model_)}

    def saved_files(self) -> dict[str, bytes]:
        """Return the label model's arrays."""
        return {_ARRAYS: label_model_arrays(self.label_model_)}

    @classmethod
    def restored_options(cls, saved: Saved) -> dict[str, Any]:
        """Return the label model, unfitted."""
        return {"label_model": unfitted_label_model(saved.values["label_model"])}

    def restore_learned(self, saved: Saved) -> None:
        """Restore the fitted label model."""
        values, arrays = saved.values["label_model"], saved.files[_ARRAYS]
        self.label_model_ = fitted_label_model(values, arrays)
        if (self.label_model_.labels_, self.label_model_.voters_) != (self.labels_, self.voters_):
            raise SavedModelError("The saved label model belongs to other classes or other voters.")

    def _check_options(self) -> None:
        super()._check_options()
        check_choice(self, "loss", self.loss, ("ce", "mig"))
        check_class_balance(self)
        if not isinstance(self.label_model, LabelModel):
            raise ParameterError(
                "The first argument of TwoStage is a label model such as MajorityVote(); "
                f"got {self.label_model!r:.60}."
            )

    def plan_key(self) -> str:
        """Return a key that is equal for models with the same plan: the same soft labels."""
        return options_key(self, (*ONLY_NETWORKS, "loss", "checkpoint"))

    def stack_key(self) -> str:
        """Return a key that is equal for models whose networks can be trained as one stack."""
        return options_key(self, _STACKED)

    @property
    def fits_itself(self) -> bool:  # type: ignore[override]
        """Whether the end model is a scikit-learn classifier, which trains itself."""
        return is_classifier(self.end_model)

    def fit_given(self, given: FitInputs, validation: GoldSet | None) -> Self:
        """Fit on the result of `fit_inputs`."""
        if self.fits_itself:
            if self.members != 1:
                raise ParameterError(
                    f"members={self.members!r} averages networks of several seeds; a scikit-learn "
                    "classifier trains itself: leave members out."
                )
            if given.engine is not None:
                raise ParameterError(
                    "A scikit-learn classifier trains itself, in this process: leave engine out."
                )
            return self._fit_classifier(given, validation)
        return super().fit_given(given, validation)

    def _plan(
        self, given: FitInputs, validation: GoldSet | None, network: nn.Module | None
    ) -> FitPlan:
        plan = super()._plan(given, validation, network)
        balance = None if self.class_balance is None else plan.class_balance
        label_model, soft_labels = fit_label_model(self.label_model, plan, balance, given)
        if self.hard:
            soft_labels = np.eye(len(plan.labels))[soft_labels.argmax(axis=1)]
        return replace(plan, targets=soft_labels, learned={"label_model_": label_model})

    def _fit_classifier(self, given: FitInputs, validation: GoldSet | None) -> Self:
        """Fit with a scikit-learn classifier as the end model."""
        self.check_options()
        plan = self._plan(given, validation, None)
        module = fit_classifier(self.end_model, plan)
        # Checked again: only now is there a classifier that may not fit the validation items.
        held_out = gold_validation(validation, plan.labels, module)
        record: Record = {"epoch": 1}
        if held_out is not None:
            proba = predict_logits(module, held_out.inputs).double().exp().numpy()
            record[f"validation_{held_out.metric}"] = held_out.score(proba)
        history = History([record], best_epoch=None if held_out is None else 1)
        objective = Objective()
        objective.end_model = module
        options = train_options(self, len(plan.labels), can_choose(held_out))
        self.finish(PlannedFit(self, plan, objective, plan.data, options), history)
        return self

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        balance = None if self.class_balance is None else plan.class_balance
        return SoftLabelObjective(end_model, plan.targets, self.loss, balance)  # type: ignore[arg-type]


def fit_label_model(
    label_model: LabelModel,
    plan: FitPlan,
    class_balance: npt.NDArray[np.float64] | None,
    given: FitInputs | None = None,
) -> tuple[LabelModel, npt.NDArray[np.float64]]:
    """Return a fitted copy of a label model, and its soft labels for all items of the plan.

    Some label models also use the plan's features or gold. `given` are the inputs of several fits,
    which share their linear models.
    """
    fitted = copy.deepcopy(label_model)
    votes: VoteMatrix = plan.votes  # type: ignore[assignment]
    if not isinstance(fitted, EvidenceLabelModel):
        return fitted, _checked(fitted, fitted.fit_predict_proba(votes, class_balance), votes)
    gold = None
    if plan.gold_votes is not None and plan.validation is not None:
        gold = plan.gold_votes, plan.validation.gold
    linear = None
    if given is not None and isinstance(fitted, FeatureLabelModel):
        linear = given.linear_models
    inputs = plan.data.inputs
    soft_labels = fitted.fit_predict_proba(votes, class_balance, inputs, gold, linear)
    return fitted, _checked(fitted, soft_labels, votes)


def proba_of_votes(label_model: LabelModel, votes: VoteMatrix, X: Any) -> npt.NDArray[np.float64]:
    """Return the soft labels of a fitted label model; X counts if it learned from features."""
    if isinstance(label_model, EvidenceLabelModel):
        return _checked(label_model, label_model.predict_proba(votes, X), votes)
    return _checked(label_model, label_model.predict_proba(votes), votes)


def _checked(label_model: LabelModel, proba: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
    """The soft labels of a label model, which may be the user's own."""
    source = f"The soft labels by {type(label_model).__name__}"
    return checked_proba(proba, votes.labels, source, votes.n_items)


def each_left_out(votes: VoteMatrix) -> VoteMatrix:
    """Return one item's votes, followed by a copy for each vote with that vote removed."""
    repeated = votes[np.zeros(votes.n_votes + 1, dtype=np.int64)].vote_rows()
    cells = np.zeros((votes.n_votes + 1, votes.n_voters, votes.n_classes), dtype=np.float32)
    cells[:, votes.voter_index] = repeated.reshape(len(cells), votes.n_votes, votes.n_classes)
    cells[np.arange(1, len(cells)), votes.voter_index] = 0
    if votes.distribution is not None:
        return VoteMatrix.from_proba(cells, votes.labels, votes.voters)
    classes = np.where(cells.any(axis=2), cells.argmax(axis=2), ABSTAIN)
    return VoteMatrix.from_dense(as_indices(classes), votes.labels, votes.voters)
