"""TwoStage: first a label model makes soft labels, then the end model learns them."""

import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import nn

from wiesel.end_to_end.base import EndToEndModel, Given, GoldSet
from wiesel.end_to_end.checks import check_lengths, gold_validation
from wiesel.end_to_end.explaining import as_batch, check_one_item, pushes_of
from wiesel.end_to_end.fingerprints import run_fingerprint
from wiesel.end_to_end.sklearn_stage import fit_classifier, is_classifier
from wiesel.end_to_end.soft_labels import SoftLabelObjective
from wiesel.end_to_end.storage import Saved
from wiesel.errors import ParameterError, SavedModelError
from wiesel.explain import Explanation, predicted_class
from wiesel.label_models import LabelModel
from wiesel.label_models.storage import (
    fitted_label_model,
    label_model_arrays,
    label_model_values,
    unfitted_label_model,
)
from wiesel.labels import ABSTAIN
from wiesel.parameters import check_choice
from wiesel.training import History, Objective, Record, TrainingData, Validation
from wiesel.training.validation import predict_logits
from wiesel.votes import VoteMatrix

__all__ = ["TwoStage"]

_ARRAYS = "label_model.safetensors"


@dataclass(eq=False)
class TwoStage(EndToEndModel):
    """A label model first, then the end model on its soft labels (Ratner et al. 2016).

    The label model is fitted on the votes alone. The end model minimizes the cross-entropy to its
    soft labels on the covered items (or the mutual-information loss of Max-MIG).

    >>> import torch
    >>> from wiesel import MajorityVote
    >>> from wiesel.datasets.synthetic import make_features, make_votes
    >>> votes, gold = make_votes(200, n_voters=5)
    >>> X = make_features(gold, n_features=4)
    >>> model = TwoStage(MajorityVote(), torch.nn.Linear(X.shape[1], 2), epochs=5, lr=0.01)
    >>> model.fit(X, votes).soft_labels(X, votes).shape
    (200, 2)
    """

    label_model: LabelModel
    """Any label model. It is copied; the fitted one is `label_model_`."""
    end_model: nn.Module
    """Your network: any module that returns logits; or a scikit-learn classifier, which learns
    from rows weighted with the soft labels. It is copied, never changed."""
    _: KW_ONLY
    loss: Literal["ce", "mig"] = "ce"
    """`ce` is the cross-entropy to the soft labels, `mig` the mutual-information loss."""
    hard: bool = False
    """Train on the most probable class instead of on the soft label."""

    label_model_: LabelModel = field(init=False, repr=False)
    """The fitted label model."""

    def fit(self, X: Any, votes: VoteMatrix, validation: GoldSet | None = None) -> Self:
        """Fit the label model on the votes, then the end model on its soft labels.

        `validation=(X, y)` selects the epoch and the threshold; a scikit-learn classifier has no
        epochs.
        """
        return super().fit(X, votes, validation)

    def soft_labels(self, X: Any, votes: VoteMatrix) -> npt.NDArray[np.float64]:
        """Return what the label model says of the votes; X is not looked at."""
        self.check_fitted()
        return self.label_model_.predict_proba(votes)

    def explain(self, x: Any, votes: VoteMatrix) -> Explanation:
        """Return which voter pushed one item which way: `model.explain(X[17], votes[17])`.

        A vote's weight is how far the label model's log-probabilities move when it is left out.
        """
        self.check_fitted()
        check_one_item(votes)
        votes.check_same_voters(self.voters_, self.labels_)
        end_proba = self.predict_proba(as_batch(x))[0]
        proba = self.label_model_.predict_proba(_each_left_out(votes))
        log_proba = np.log(np.clip(proba, 1e-12, None))
        added = log_proba[0] - log_proba[1:]
        explained = predicted_class(end_proba.tolist(), self.threshold_)
        return Explanation(
            item=votes.ids[0],
            labels=self.labels_,
            end_proba=tuple(end_proba.tolist()),
            soft_label=tuple(proba[0].tolist()),
            pushes=pushes_of(votes, added, np.abs(added).max(axis=1), explained),
            n_abstaining=votes.n_voters - votes.n_votes,
            # A label model hears only those that vote.
            abstaining_share=0.0,
            threshold=self.threshold_,
        )

    def saved_values(self) -> dict[str, Any]:
        """Return the label model's options and what it learned, but for its arrays."""
        return {"label_model": label_model_values(self.label_model_)}

    def saved_files(self) -> dict[str, bytes]:
        """Return the label model's arrays."""
        return {_ARRAYS: label_model_arrays(self.label_model_)}

    @classmethod
    def restored_options(cls, saved: Saved) -> dict[str, Any]:
        """Return the label model, unfitted."""
        return {"label_model": unfitted_label_model(saved.values["label_model"])}

    def restore_learned(self, saved: Saved) -> None:
        """Bring back the fitted label model."""
        values, arrays = saved.values["label_model"], saved.files[_ARRAYS]
        self.label_model_ = fitted_label_model(values, arrays)
        if (self.label_model_.labels_, self.label_model_.voters_) != (self.labels_, self.voters_):
            raise SavedModelError("The saved label model is of other classes or other voters.")

    def _check_options(self) -> None:
        super()._check_options()
        check_choice(self, "loss", self.loss, ("ce", "mig"))
        if not isinstance(self.label_model, LabelModel):
            raise ParameterError(
                "The first argument of TwoStage is a label model such as MajorityVote(); "
                f"got {self.label_model!r:.60}."
            )

    def _training_data(self, data: TrainingData, validation: Validation | None) -> TrainingData:
        data = super()._training_data(data, validation)
        votes: VoteMatrix = data.votes  # type: ignore[assignment]
        self.label_model_ = copy.deepcopy(self.label_model).fit(votes)
        soft_labels = self.label_model_.predict_proba(votes)
        if self.hard:
            soft_labels = np.eye(votes.n_classes)[soft_labels.argmax(axis=1)]
        # The votes have done their work: without them no step makes them dense.
        return replace(data, votes=None, targets=soft_labels)

    def _share(self, fitted: Self) -> None:
        self.label_model_ = copy.deepcopy(fitted.label_model_)

    def _fit(self, given: Given, validation: GoldSet | None) -> Self:
        if is_classifier(self.end_model) and self.members == 1:
            return self._fit_classifier(given.data, validation)
        return super()._fit(given, validation)

    def _fit_classifier(self, data: TrainingData, validation: GoldSet | None) -> Self:
        """What `_fit` does, for an end model that trains itself."""
        self.check_options()
        labels = self._label_space(data.votes)
        check_lengths(data)
        voters = data.votes.voters  # type: ignore[union-attr]
        data = self._training_data(data, None)
        module = fit_classifier(self.end_model, data, len(labels))
        held_out = gold_validation(validation, labels, module)
        record: Record = {"epoch": 1}
        if held_out is not None:
            proba = predict_logits(module, held_out.inputs).double().exp().numpy()
            record[f"validation_{held_out.metric}"] = held_out.score(proba)
        self.labels_, self.voters_, self.end_model_ = labels, voters, module
        self.members_ = ()
        self.history_ = History([record], best_epoch=None if held_out is None else 1)
        fingerprint = run_fingerprint(self, data, held_out)
        self.trained_on_ = {"items": len(data.items), "fingerprint": fingerprint}
        self._select(held_out)
        return self

    def _objective(
        self, end_model: nn.Module, data: TrainingData, validation: Validation | None
    ) -> Objective:
        return SoftLabelObjective(end_model, self.loss)


def _each_left_out(votes: VoteMatrix) -> VoteMatrix:
    """One item's votes, then once more for every vote, without it."""
    repeated = votes[np.zeros(votes.n_votes + 1, dtype=np.int64)].vote_rows()
    cells = np.zeros((votes.n_votes + 1, votes.n_voters, votes.n_classes), dtype=np.float32)
    cells[:, votes.voter_index] = repeated.reshape(len(cells), votes.n_votes, votes.n_classes)
    cells[np.arange(1, len(cells)), votes.voter_index] = 0
    if votes.distribution is not None:
        return VoteMatrix.from_proba(cells, votes.labels, votes.voters)
    classes = np.where(cells.any(axis=2), cells.argmax(axis=2), ABSTAIN)
    return VoteMatrix.from_dense(classes, votes.labels, votes.voters)
