"""Looking into a trained WeaSEL: how it weighs voters, and why an item got its label."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wiesel.end_to_end.checks import check_lengths
from wiesel.end_to_end.encoding import encoder_features, feature_width
from wiesel.errors import FeatureError
from wiesel.explain import Explanation, Push
from wiesel.nn.encoders import encode_votes, label_logits
from wiesel.training import TrainingData, as_inputs
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.weasel import WeaSEL

__all__ = ["as_batch", "describe_item", "weigh_voters"]

Weighed = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
_ITEMS = 2048


@torch.no_grad()
def weigh_voters(model: "WeaSEL", X: Any, votes: VoteMatrix, encoder_X: Any) -> Weighed:
    """Return the accuracies of the voters and the soft labels of items."""
    model.check_fitted()
    votes.check_same_voters(model.voters_, model.labels_)
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
        weights = model.encoder_(encode_votes(votes_part, model.encoding, batch.features))
        logits = label_logits(weights, votes_part).double() + log_prior
        accuracies.append(weights.double())
        proba.append(torch.softmax(logits, dim=1))
    return torch.cat(accuracies).numpy(), torch.cat(proba).numpy()


def describe_item(model: "WeaSEL", x: Any, votes: VoteMatrix, encoder_X: Any) -> Explanation:
    """Return which voter pushed one item which way."""
    if votes.n_items != 1:
        raise FeatureError(
            f"explain() is about one item; got votes on {votes.n_items}. "
            "Call it as model.explain(X[17], votes[17])."
        )
    one = as_batch(x)
    features = None if encoder_X is None else as_batch(encoder_X)
    end_proba = model.predict_proba(one)[0]
    accuracies, soft_labels = weigh_voters(model, one, votes, features)
    weights = accuracies[0] if accuracies.ndim == 2 else _of_voted_class(accuracies[0], votes)
    voted = votes.voter_index
    total = float(np.abs(weights).sum()) or 1.0
    return Explanation(
        item=votes.ids[0],
        labels=model.labels_,
        end_proba=tuple(end_proba.tolist()),
        soft_label=tuple(soft_labels[0].tolist()),
        pushes=_pushes(votes, weights, int(end_proba.argmax())),
        n_abstaining=votes.n_voters - len(voted),
        abstaining_share=1 - float(np.abs(weights[voted]).sum()) / total,
    )


def _pushes(
    votes: VoteMatrix, weights: npt.NDArray[np.float64], explained: int
) -> tuple[Push, ...]:
    rows = votes.vote_rows().astype(np.float64)
    # Against the mean of the other classes: a vote for another class pushes away.
    others = (rows.sum(axis=1) - rows[:, explained]) / (votes.n_classes - 1)
    effects = weights[votes.voter_index] * (rows[:, explained] - others)
    pushes = [
        Push(
            votes.voters[voter],
            votes.labels.names[votes.class_index[k]],
            float(weights[voter]),
            float(effects[k]),
        )
        for k, voter in enumerate(votes.voter_index)
    ]
    return tuple(sorted(pushes, key=lambda push: -abs(push.effect)))


def _of_voted_class(
    accuracies: npt.NDArray[np.float64], votes: VoteMatrix
) -> npt.NDArray[np.float64]:
    """Class-conditional accuracies: the one of the class voted for; a mean where abstaining."""
    weights = accuracies.mean(axis=1)
    weights[votes.voter_index] = accuracies[votes.voter_index, votes.class_index]
    return weights


def as_batch(x: Any) -> Any:
    """One item as a batch of one; what already is a batch of one stays."""
    if isinstance(x, dict):
        return {key: np.asarray(value)[None] for key, value in x.items()}
    array = x if isinstance(x, Tensor) else np.asarray(x)
    return array[None] if array.ndim == 1 or array.shape[0] != 1 else array
