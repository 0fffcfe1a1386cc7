"""What the paper's figures on spouse owe to what, as far as votes and finished runs can tell."""

from collections.abc import Mapping

import numpy as np
from benchmarks.harness import markdown_table
from sklearn.metrics import f1_score

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record
from experiments.framework.tables import mean_of, percentages
from experiments.studies import paper
from experiments.studies.table1 import results as results_of_table_1
from wiesel import VoteMatrix, load_dataset

SET = "spouse"
VOTING_ONLY = "WeaSEL, no weight for LFs that abstain"
METHODS = (
    *("majority vote", "majority vote, hard as in the code", "Snorkel", "Triplet-Mean"),
    *("WeaSEL-random", "WeaSEL", VOTING_ONLY),
)


def evidence() -> list[str]:
    """Return the section, from the paper's vote matrices and the recorded runs of table 1."""
    votes_alone = load_dataset("spouse_votes").test
    runs = results_of_table_1(Effort(recorded=True), [SET])[SET]
    return told(votes_alone.votes, votes_alone.gold, runs)


def told(votes: VoteMatrix, gold: np.ndarray, runs: Mapping[str, list[Record]]) -> list[str]:
    """Return what votes without a network reach, and what threshold and weighing do to F1."""
    votes_alone = f1_of_votes(votes, gold)
    papers = {title: paper.TABLE_1[title][SET] for title in ("majority vote", "WeaSEL")}
    header = ("perceptron, 3 seeds", "F1, threshold 1/2", "F1, tuned threshold", "ROC-AUC")
    rows = [
        (title, *(mean_of(runs[title], name) for name in ("f1_at_half", "f1", "auc")))
        for title in METHODS
    ]
    f1, half, auc = (
        {title: percentages(runs[title], name).mean() for title in METHODS}
        for name in ("f1", "f1_at_half", "auc")
    )
    tuned = [f1[title] - half[title] for title in METHODS]
    return [
        "## What the paper's figures owe to what",
        "",
        markdown_table(header, rows),
        "",
        f"- **The votes alone** (the paper's own test votes, `spouse_votes`; majority, no network; "
        f"no majority is *no*) have {votes_alone:.2f} F1. The paper's majority vote with a network "
        f"has {papers['majority vote']:.2f}, its WeaSEL {papers['WeaSEL']:.2f}.",
        f"- **The threshold** is worth {min(tuned):.0f} to {max(tuned):.0f} points: networks learn "
        f"from covered items, of which far more are positive than of all. The method is worth "
        f"{max(f1.values()) - min(f1.values()):.0f}.",
        f"- **The order** is one of thresholds, too: AUC lies between {min(auc.values()):.1f} and "
        f"{max(auc.values()):.1f} for all of them, and WeaSEL with {f1['WeaSEL']:.1f} F1 has "
        f"{auc['WeaSEL']:.1f} AUC, majority vote with {f1['majority vote']:.1f} has "
        f"{auc['majority vote']:.1f}.",
        f"- **Weight for LFs that abstain**: without it WeaSEL has {f1[VOTING_ONLY]:.1f} F1 "
        f"instead of {f1['WeaSEL']:.1f}.",
        f"- So the paper's lead of {papers['WeaSEL'] - papers['majority vote']:.1f} points over "
        "majority vote comes as much from a low figure of majority vote, which votes without any "
        "network exceed, as from WeaSEL. Whether its LSTMs or its training candidates, which "
        "are not public, made the rest, only runs with an LSTM can tell.",
    ]


def f1_of_votes(votes: VoteMatrix, gold: np.ndarray) -> float:
    """Return the F1 of the majority of two classes, in percent; a tie or silence is the first.

    >>> votes = VoteMatrix.from_dense([[1, -1], [1, 0], [-1, -1], [1, 1]], ["no", "yes"])
    >>> f1_of_votes(votes, np.array([1, 1, 0, 1]))
    80.0
    """
    counts = votes.counts()
    return 100 * float(f1_score(gold, counts[:, 1] > counts[:, 0]))
