"""Inspection of a trained WeaSEL: voter weights, and the effects of votes on an item."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wiesel.end_to_end.vote_payloads import DensePayload, statistic_columns
from wiesel.end_to_end.weasel.encoding import feature_width
from wiesel.end_to_end.weasel.several_labels import weigh_labels
from wiesel.end_to_end.weasel.spans import weigh_tokens
from wiesel.errors import FeatureError
from wiesel.label_models.pair_statistics import place_statistics
from wiesel.nn.encoders import encode_votes, label_logits
from wiesel.tasks import SpansTask
from wiesel.tasks.one_label import VoteEffects
from wiesel.training import TrainingData
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.weasel.model import WeaSEL

__all__ = ["weigh_item", "weigh_voters"]

Weighed = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
_ITEMS = 2048


@torch.no_grad()
def weigh_voters(model: "WeaSEL", X: Any, votes: Any, encoder_X: Any) -> Weighed:
    """Return the voters' accuracies and the items' soft labels; means for an ensemble."""
    model.check_fitted()
    X = X if encoder_X is not None else model.inputs_of(X, votes)
    if model.members_:
        weighed = [weigh_voters(member, X, votes, encoder_X) for member in model.members_]
        return np.mean([part[0] for part in weighed], axis=0), np.mean(
            [part[1] for part in weighed], axis=0
        )
    model.check_votes(votes)
    if model.task_.kind == SpansTask.kind:
        return weigh_tokens(model, votes)
    given = model.fit_inputs(X if encoder_X is None else encoder_X, votes)
    features = given.features
    if feature_width(features) != model.encoder_width_:
        raise FeatureError(
            f"The encoder was trained on {model.encoder_width_} features; "
            f"these items have {feature_width(features)}."
        )
    model.task_.check_items(given)
    if model.grid_ is not None:
        return weigh_labels(model, given, features, votes)
    statistics = place_statistics(model.statistics, votes.voters)
    payload = DensePayload(votes, given.inputs, features, statistics)
    data = TrainingData(given.inputs, payload=payload)
    log_prior = torch.from_numpy(np.log(model.class_balance_))
    accuracies, proba = [], []
    for batch in data.batches(data.items, _ITEMS):
        votes_part: Tensor = batch.payload.votes
        encoded = encode_votes(votes_part, model.encoding, batch.payload.features)
        weights = model.encoder_(encoded, votes_part)
        logits = label_logits(weights, votes_part).double() + log_prior
        accuracies.append(weights.double())
        proba.append(torch.softmax(logits, dim=1))
    return torch.cat(accuracies).numpy(), torch.cat(proba).numpy()


def weigh_item(model: "WeaSEL", one: Any, votes: VoteMatrix, encoder_X: Any) -> VoteEffects:
    """Return the effects of the votes on one item; `one` is the item as a batch."""
    accuracies, soft_labels = weigh_voters(model, one, votes, encoder_X)
    # One column for each class, or a single one for all classes.
    all_of_them = accuracies[0] if accuracies.ndim == 3 else accuracies[0][:, None]
    by_class, of_statistics = np.split(all_of_them, [votes.n_voters])
    weights = _of_voted_class(by_class, votes)
    voted = votes.voter_index
    total = float(np.abs(weights).sum()) or 1.0
    return VoteEffects(
        added=by_class[voted] * votes.vote_rows() + _from_statistics(model, votes, of_statistics),
        weights=weights[voted],
        soft_label=soft_labels[0],
        abstaining_share=1 - float(np.abs(weights[voted]).sum()) / total,
    )


def _from_statistics(
    model: "WeaSEL", votes: VoteMatrix, weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """What statistics add to the logits; it is attributed to the vote of their first voter."""
    added = np.zeros((votes.n_votes, votes.n_classes))
    statistics = place_statistics(model.statistics, votes.voters)
    if not statistics:
        return added
    by_class = np.zeros((votes.n_classes, votes.n_voters))
    by_class[:, votes.voter_index] = votes.vote_rows().T
    columns = statistic_columns(torch.from_numpy(by_class), statistics).numpy()
    for (_, first, _), weight, column in zip(statistics, weights, columns.T, strict=True):
        added[votes.voter_index == first] += weight * column
    return added


def _of_voted_class(
    by_class: npt.NDArray[np.float64], votes: VoteMatrix
) -> npt.NDArray[np.float64]:
    """The accuracy for the class a voter voted for; the mean over classes if it abstains."""
    weights = by_class.mean(axis=1)
    if by_class.shape[1] > 1:
        weights[votes.voter_index] = by_class[votes.voter_index, votes.class_index]
    return weights
