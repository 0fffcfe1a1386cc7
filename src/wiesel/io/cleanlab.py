"""Converts votes to and from the format of cleanlab."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from wiesel.errors import DataError, MissingExtraError
from wiesel.labels import ABSTAIN, LabelSpace, as_indices
from wiesel.votes import VoteMatrix

__all__ = ["from_cleanlab", "to_cleanlab"]


def to_cleanlab(votes: VoteMatrix) -> Any:
    """Return votes as cleanlab's `labels_multiannotator`: a pandas table of class indices.

    Items are rows, voters are columns, and a missing value is an abstention. cleanlab requires an
    answer for every item and from every voter, so those without one are left out; the index has the
    item ids. For cleanlab's `pred_probs`, use `out_of_sample_proba(model, X, votes)`, in the same
    order.

    >>> to_cleanlab(votes).columns.tolist()
    ['keyword', 'link', 'length']
    """
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise MissingExtraError("cleanlab takes a table of pandas: pip install pandas") from None
    dense = votes.dense().astype(np.float64)
    dense[dense == ABSTAIN] = np.nan
    has_votes = np.bincount(votes.voter_index, minlength=votes.n_voters) > 0
    table = pandas.DataFrame(dense, index=votes.ids, columns=list(votes.voters))
    return table.loc[votes.covered, has_votes]


def from_cleanlab(answers: Any, labels: LabelSpace | Sequence[str]) -> VoteMatrix:
    """Return the votes in `labels_multiannotator`: class indices, missing for an abstention.

    An array with one label per item is treated as a table with one voter, 'given label'.

    >>> from_cleanlab(np.array([0, 1, 1]), ["ham", "spam"]).voters
    ('given label',)
    """
    if getattr(answers, "ndim", np.ndim(answers)) == 1:
        column = as_indices(answers)[:, None]
        return VoteMatrix.from_dense(column, labels, ["given label"])
    if not hasattr(answers, "columns"):
        return VoteMatrix.from_dense(as_indices(answers), labels)
    if not answers.index.is_unique:
        raise DataError("The index of the answers has an item twice.")
    voters = [str(name) for name in answers.columns]
    return VoteMatrix.from_dense(
        as_indices(answers.to_numpy()), labels, voters, answers.index.to_numpy()
    )
