"""Looking into a trained WeaSEL: how it weighs voters, and why an item got its label."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from wiesel.end_to_end.checks import check_lengths
from wiesel.end_to_end.confirmation import numbered_votes, without
from wiesel.end_to_end.encoding import encoder_features, feature_width
from wiesel.errors import FeatureError
from wiesel.explain import Explanation, Push, predicted_class
from wiesel.nn.encoders import encode_votes, label_logits
from wiesel.training import TrainingData, as_inputs
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.weasel import WeaSEL

__all__ = ["as_batch", "check_one_item", "describe_item", "pushes_of", "weigh_voters"]

Weighed = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
_ITEMS = 2048


@torch.no_grad()
def weigh_voters(model: "WeaSEL", X: Any, votes: VoteMatrix, encoder_X: Any) -> Weighed:
    """Return the accuracies of the voters and the soft labels of items: of an ensemble, means."""
    model.check_fitted()
    if model.members_:
        weighed = [weigh_voters(member, X, votes, encoder_X) for member in model.members_]
        return np.mean([part[0] for part in weighed], axis=0), np.mean(
            [part[1] for part in weighed], axis=0
        )
    votes.check_same_voters(model.voters_, model.labels_)
    if model.unheard_:
        votes = without(votes, numbered_votes(model.unheard_, model.voters_, model.labels_))
    inputs = as_inputs(X if encoder_X is None else encoder_X)
    features = encoder_features(inputs, None, model.encoder_features)
    if feature_width(features) != model.encoder_width_:
        raise FeatureError(
            f"The encoder was trained on {model.encoder_width_} features; "
            f"these items have {feature_width(features)}."
        )
    data = TrainingData(inputs, votes, features)
    check_lengths(data)
    log_prior = torch.from_numpy(np.log(model.class_balance_))
    accuracies, proba = [], []
    for batch in data.batches(data.items, _ITEMS):
        votes_part: Tensor = batch.votes  # type: ignore[assignment]
        encoded = encode_votes(votes_part, model.encoding, batch.features)
        weights = model.encoder_(encoded, votes_part)
        logits = label_logits(weights, votes_part).double() + log_prior
        accuracies.append(weights.double())
        proba.append(torch.softmax(logits, dim=1))
    return torch.cat(accuracies).numpy(), torch.cat(proba).numpy()


def describe_item(model: "WeaSEL", x: Any, votes: VoteMatrix, encoder_X: Any) -> Explanation:
    """Return which voter pushed one item which way."""
    check_one_item(votes)
    one = as_batch(x)
    features = None if encoder_X is None else as_batch(encoder_X)
    end_proba = model.predict_proba(one)[0]
    accuracies, soft_labels = weigh_voters(model, one, votes, features)
    # One column for each class, or a single one that holds for every class.
    by_class = accuracies[0] if accuracies.ndim == 3 else accuracies[0][:, None]
    weights = _of_voted_class(by_class, votes)
    voted = votes.voter_index
    total = float(np.abs(weights).sum()) or 1.0
    explained = predicted_class(end_proba.tolist(), model.threshold_)
    return Explanation(
        item=votes.ids[0],
        labels=model.labels_,
        end_proba=tuple(end_proba.tolist()),
        soft_label=tuple(soft_labels[0].tolist()),
        pushes=pushes_of(votes, by_class[voted] * votes.vote_rows(), weights[voted], explained),
        n_abstaining=votes.n_voters - len(voted),
        abstaining_share=1 - float(np.abs(weights[voted]).sum()) / total,
        threshold=model.threshold_,
    )


def check_one_item(votes: VoteMatrix) -> None:
    """Refuse to explain several items at once."""
    if votes.n_items != 1:
        raise FeatureError(
            f"explain() is about one item; got votes on {votes.n_items}. "
            "Call it as model.explain(X[17], votes[17])."
        )


def pushes_of(
    votes: VoteMatrix,
    added: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    explained: int,
) -> tuple[Push, ...]:
    """Return who pushed one item where, strongest first.

    `added` is what each vote adds to the logit of each class, `weights` how much its voter counts.
    """
    # Against the mean of the other classes: a vote for another class pushes away.
    others = (added.sum(axis=1) - added[:, explained]) / (votes.n_classes - 1)
    effects = added[:, explained] - others
    pushes = [
        Push(
            votes.voters[voter],
            votes.labels.names[votes.class_index[k]],
            float(weights[k]),
            float(effects[k]),
        )
        for k, voter in enumerate(votes.voter_index)
    ]
    return tuple(sorted(pushes, key=lambda push: -abs(push.effect)))


def _of_voted_class(
    by_class: npt.NDArray[np.float64], votes: VoteMatrix
) -> npt.NDArray[np.float64]:
    """The accuracy for the class a voter voted for; where it abstains, the mean over classes."""
    weights = by_class.mean(axis=1)
    if by_class.shape[1] > 1:
        weights[votes.voter_index] = by_class[votes.voter_index, votes.class_index]
    return weights


def as_batch(x: Any) -> Any:
    """One item, as `X[17]` gives it, as a batch of one; a matrix of one row is one already."""
    if isinstance(x, tuple):
        x = x[0]
    if isinstance(x, dict):
        return {key: np.asarray(value)[None] for key, value in x.items()}
    if sp.issparse(x):
        x = x.toarray()  # type: ignore[attr-defined]
    array = x if isinstance(x, Tensor) else np.asarray(x)
    return array if array.ndim == 2 and array.shape[0] == 1 else array[None]
