"""TwoStage: a label model makes soft labels, then the end model is trained on them."""

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.base import ONLY_NETWORKS, ExplainedModel
from wiesel.end_to_end.checks import check_class_balance, gold_validation, is_classifier
from wiesel.end_to_end.evidence_models.base import fit_label_model
from wiesel.end_to_end.fine_tuning import gold_folds, keep_honest
from wiesel.end_to_end.plan import (
    FitInputs,
    FitPlan,
    GoldItems,
    GoldSet,
    PlannedFit,
    train_options,
)
from wiesel.end_to_end.sklearn_stage import fit_classifier
from wiesel.end_to_end.storage import Saved
from wiesel.errors import ParameterError
from wiesel.label_models import ClassBalance, LabelModel
from wiesel.label_models.base import unfitted_label_model
from wiesel.parameters import check_choice
from wiesel.tasks import OneLabelTask, SeveralLabelsTask, SpansTask
from wiesel.training import History, Objective, Record
from wiesel.training.loop import predict_logits

__all__ = ["TwoStage"]


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
    loss: Literal["ce", "mig", "ordinal"] = "ce"
    """`ce` is the cross-entropy to the soft labels. `mig` is the mutual-information loss, which is
    robust to classes with too many votes. `ordinal` is for ordered classes: the squared distance of
    cumulative probabilities, so that a neighbor of the truth is a small mistake."""
    class_balance: ClassBalance | Literal["votes", "validation", "auto"] = None
    """P(class) for the label model and for `mig`: numbers, or where to estimate it (`auto` is the
    validation set if there is one, else the votes). None lets the label model decide, and is
    uniform for `mig`."""
    hard: bool = False
    """Train on the most probable class instead of on the soft label."""
    calibrated: bool = False
    """With several labels: fit a scale and an offset of every label's logit on the validation items
    (Platt scaling)."""

    tasks = (OneLabelTask.kind, SeveralLabelsTask.kind, SpansTask.kind)
    differ_in_plan = (*ONLY_NETWORKS, "loss", "checkpoint")
    differ_in_stack = ("seed", "lr", "end_model", "label_model", "class_balance", "hard")

    label_model_: Any = field(init=False, repr=False)
    """The fitted label model; for several labels a `PerLabel`, with one for each label."""

    def soft_labels(self, X: Any, votes: Any) -> npt.NDArray[np.float64]:
        """Return the label model's soft labels; X is used only if it learned from features."""
        self.check_votes(votes)
        return self.task_.soft_labels(self.label_model_, votes, X)

    def vote_effects(self, one: Any, votes: Any) -> Any:
        """Return the effects of the votes on one item; `one` is the item as a batch.

        A vote's weight is the change of the label model's log-probabilities without this vote.
        """
        return self.task_.label_model_effects(self.label_model_, one, votes)

    def saved_values(self) -> dict[str, Any]:
        """Return the label model's options and learned attributes, except its arrays."""
        return {"label_model": self.task_.label_model_contents(self.label_model_)[0]}

    def saved_files(self) -> dict[str, bytes]:
        """Return the label model's arrays."""
        return self.task_.label_model_contents(self.label_model_)[1]

    @classmethod
    def restored_options(cls, saved: Saved) -> dict[str, Any]:
        """Return the label model, unfitted."""
        values = saved.values["label_model"]
        return {"label_model": unfitted_label_model(values.get("label_model", values))}

    def restore_learned(self, saved: Saved) -> None:
        """Restore the fitted label model."""
        values = saved.values["label_model"]
        self.label_model_ = self.task_.restored_label_model(values, saved.files, self.voters_)

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "loss", self.loss, ("ce", "mig", "ordinal"))
        check_class_balance(self)
        if not isinstance(self.label_model, LabelModel):
            raise ParameterError(
                "The first argument of TwoStage is a label model such as MajorityVote(); "
                f"got {self.label_model!r:.60}."
            )
        self.label_model.check_options()

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
                    "classifier trains itself: leave members out.",
                    option="members",
                )
            for option in ("engine", "hooks"):
                if getattr(given, option) is not None:
                    raise ParameterError(
                        "A scikit-learn classifier trains itself, in this process: leave "
                        f"{option} out.",
                        option=option,
                    )
            return self._fit_classifier(given, validation)
        return super().fit_given(given, validation)

    def _plan(
        self, given: FitInputs, validation: GoldSet | None, network: nn.Module | None
    ) -> FitPlan:
        plan = super()._plan(given, validation, network)
        balance = None if self.class_balance is None else plan.class_balance
        fit = partial(fit_label_model, given=given, whole=plan)
        label_model, soft_labels = plan.task.fit_label_model(self.label_model, plan, balance, fit)
        if self.hard:
            soft_labels = plan.task.hardened(soft_labels)
        return replace(plan, targets=soft_labels, learned={"label_model_": label_model})

    def _fit_classifier(self, given: FitInputs, validation: GoldSet | None) -> Self:
        """Fit with a scikit-learn classifier as the end model."""
        self.check_options()
        plan = self._plan(given, validation, None)
        module = fit_classifier(self.end_model, plan, given.labeled)
        # Checked again: only now is there a classifier that may not fit the validation items.
        held_out = gold_validation(validation, plan.task, module)
        record: Record = {"epoch": 1}
        if held_out is not None:
            proba = predict_logits(module, held_out.inputs).double().exp().numpy()
            record[f"validation_{held_out.metric}"] = held_out.score(proba)
        history = History([record], best_epoch=None if held_out is None else 1)
        objective = Objective()
        objective.end_model = module
        options = train_options(self, plan)
        self.finish(PlannedFit(self, plan, objective, plan.data, options), history)
        if given.labeled is not None:
            self._keep_honest(plan, given.labeled)
        return self

    def _keep_honest(self, plan: FitPlan, gold: GoldItems) -> None:
        """Predict gold items by classifiers that left out their fold."""
        known: Any = gold.known
        proba = np.empty((len(gold), len(self.labels_)))
        for fold in gold_folds(known.gold, self.seed):
            judge = fit_classifier(self.end_model, plan, gold, fold)
            proba[fold] = known.of_rows(fold).proba_by(judge)
        keep_honest(self, gold, proba)

    def _objective(self, end_model: nn.Module, plan: FitPlan) -> Objective:
        balance = None if self.class_balance is None else plan.class_balance
        targets: npt.NDArray[np.float64] = plan.targets  # type: ignore[assignment]
        return plan.task.objective(end_model, targets, plan.votes, self.loss, balance)
