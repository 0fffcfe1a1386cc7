"""Looking into a trained WeaSEL: how it weighs voters, and why an item got its label."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wiesel.end_to_end.checks import check_lengths
from wiesel.end_to_end.explaining import as_batch, check_one_item, pushes_of
from wiesel.end_to_end.weasel.confirmation import numbered_votes, without
from wiesel.end_to_end.weasel.encoding import encoder_features, feature_width
from wiesel.errors import FeatureError
from wiesel.explain import Explanation, predicted_class
from wiesel.nn.encoders import encode_votes, label_logits
from wiesel.training import TrainingData, as_inputs
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.weasel.model import WeaSEL

__all__ = ["describe_item", "weigh_voters"]

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


def _of_voted_class(
    by_class: npt.NDArray[np.float64], votes: VoteMatrix
) -> npt.NDArray[np.float64]:
    """The accuracy for the class a voter voted for; where it abstains, the mean over classes."""
    weights = by_class.mean(axis=1)
    if by_class.shape[1] > 1:
        weights[votes.voter_index] = by_class[votes.voter_index, votes.class_index]
    return weights
