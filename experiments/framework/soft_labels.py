"""The first stage of the two-stage baselines: from votes to soft labels."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from experiments.framework.planted import votes_of
from experiments.framework.runner import Record, Run
from wiesel import VoteMatrix
from wiesel.io import Dataset
from wiesel.label_models import LabelModel, Snorkel, Triplet

SNORKEL: tuple[dict[str, Any], ...] = (
    {"epochs": 100, "lr": 0.01, "l2": 0.0},
    {"epochs": 200, "lr": 0.05, "l2": 0.0},
    {"epochs": 2000, "lr": 0.0003, "l2": 0.0},
    {"epochs": 500, "lr": 0.003, "l2": 0.0},
    {"epochs": 1000, "lr": 0.003, "l2": 0.1},
    {"epochs": 5000, "lr": 0.01, "l2": 0.0},
)
"""The six configurations that the paper's code selects from."""

MANY_VOTERS = 200
"""With more voters the long configurations take hours; only the first, the default, is used."""

TRIPLETS = {"triplet": "random", "triplet_mean": "mean", "triplet_median": "median"}
"""How each of the three methods aggregates over the triplets of a voter."""

LABEL_MODELS = ("snorkel", *TRIPLETS)


def as_one_voter(run: Run, dataset: Dataset) -> tuple[VoteMatrix, Record]:
    """Return the label model's soft labels as the votes of one probabilistic voter.

    The majority vote of this voter is the soft label itself, so `TwoStage(MajorityVote())` learns
    it. The second result is the configuration selected on validation.
    """
    votes, held_out = votes_of(run, dataset)
    if run.method == "snorkel":
        model, noted = chosen_snorkel(votes, held_out, dataset.valid.gold)
    else:
        # The paper's code gives triplets the class balance; we use that of the validation rows.
        balance = np.bincount(dataset.valid.gold, minlength=len(dataset.labels))
        model = Triplet(aggregate=TRIPLETS[run.method], seed=run.seed)
        model.fit(votes, class_balance=balance / balance.sum())
        noted = {}
    return _one_voter(model.predict_proba(votes), votes), noted


def chosen_snorkel(
    votes: VoteMatrix, held_out: VoteMatrix, gold: npt.NDArray[np.int64]
) -> tuple[LabelModel, Record]:
    """Return the configuration whose soft labels have the best ranking on validation."""
    configurations = SNORKEL if votes.n_voters <= MANY_VOTERS else SNORKEL[:1]
    candidates = []
    for configuration in configurations:
        model = Snorkel(optimizer="sgd", **configuration).fit(votes)
        area = float(roc_auc_score(gold, model.predict_proba(held_out)[:, 1]))
        candidates.append((area, model, configuration))
    area, model, configuration = max(candidates, key=lambda candidate: candidate[0])
    return model, {"label_model": configuration, "label_model_validation": area}


def _one_voter(proba: npt.NDArray[np.float64], votes: VoteMatrix) -> VoteMatrix:
    proba = np.where(votes.covered[:, None], proba, 0)
    return VoteMatrix.from_proba(proba[:, None, :], votes.labels, ["label model"])
