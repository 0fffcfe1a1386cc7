"""Spouse with an LSTM, and what explains the paper's results on spouse.

    python -m experiments spouse_lstm [--seeds N] [--epochs N] [--jobs N] [--recorded]

Runs the experiments of `spouse_lstm`, and writes the page from these runs, those of table 1, and
the paper's own votes. An interrupted study resumes where it stopped.
"""

import argparse
import sys
from collections.abc import Mapping

import numpy as np
from benchmarks.harness import markdown_table
from sklearn.metrics import f1_score

from experiments.framework.definitions import Effort
from experiments.framework.runner import Record
from experiments.framework.tables import (
    cost_sentence,
    figure_of_paper,
    mean_of,
    percentages,
    write_page,
)
from experiments.studies import paper, spouse_lstm
from experiments.studies.table1 import results as results_of_table_1
from wiesel import VoteMatrix, load_dataset

SET = "spouse"
VOTING_ONLY = "WeaSEL, no weight for LFs that abstain"
METHODS = (
    *("majority vote", "majority vote, hard as in the code", "Snorkel", "Triplet-Mean"),
    *("WeaSEL-random", "WeaSEL", VOTING_ONLY),
)


Runs = Mapping[str, list[Record]]
"""The runs of every seed by the title of their method."""


def main(argv: list[str]) -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog=spouse_lstm.STORE, description=__doc__)
    parser.add_argument("--seeds", type=int, default=spouse_lstm.SEEDS)
    parser.add_argument("--epochs", type=int, default=spouse_lstm.EPOCHS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--recorded", action="store_true", help="show what is finished only")
    given = parser.parse_args(argv)
    lstm = spouse_lstm.results(given.seeds, given.epochs, given.recorded, given.jobs)
    votes_alone = load_dataset("spouse_votes").test
    perceptron = results_of_table_1(Effort(recorded=True), [SET])[SET]
    command = f"python -m experiments spouse_lstm --seeds {given.seeds} --epochs {given.epochs}"
    f1 = f1_of_votes(votes_alone.votes, votes_alone.gold)
    show(lstm, perceptron, f1, command + " --recorded" * given.recorded)


def show(lstm: Runs, perceptron: Runs, votes_alone: float, command: str) -> None:
    """Write the findings, then the LSTM's results, then those of the perceptron."""
    rows = [
        (
            title,
            mean_of(records, "f1"),
            mean_of(records, "auc"),
            mean_of(perceptron.get(title, []), "f1"),
            mean_of(perceptron.get(title, []), "auc"),
            figure_of_paper(paper.TABLE_1.get(title, {}).get(SET)),
        )
        for title, records in lstm.items()
    ]
    header = ("", "LSTM, F1", "LSTM, ROC-AUC", "perceptron, F1", "perceptron, ROC-AUC", "paper, F1")
    records = [record for own in lstm.values() for record in own]
    cost = sum(record["cpu_seconds"] for record in records)
    lines = [
        *what_lstm_says(lstm, perceptron),
        *what_votes_say(perceptron, votes_alone),
        "",
        "## With an LSTM, with the perceptron of table 1, and in the paper",
        "",
        "Test figures on spouse in percent; epoch and threshold were chosen on validation.",
        "Sentences are cut around the persons. The paper's training candidates, its tokens and its",
        "three LSTMs are not ours.",
        "",
        markdown_table(header, rows),
        "",
        cost_sentence(len(records), cost),
        "",
        "## What the threshold does",
        "",
        _thresholds(lstm, perceptron),
    ]
    write_page(spouse_lstm.STORE, command, lines)


def what_lstm_says(lstm: Runs, perceptron: Runs) -> list[str]:
    """Describe whether the paper's kind of network gives the paper's results and ranking."""
    vote, weasel = lstm["majority vote"], lstm["WeaSEL"]
    if not (vote and weasel):
        return ["- Whether an LSTM makes the difference is open: its runs are not finished."]
    papers = {title: paper.TABLE_1[title][SET].mean for title in ("majority vote", "WeaSEL")}
    ours = {"majority vote": _mean(vote, "f1"), "WeaSEL": _mean(weasel, "f1")}
    lead = ours["WeaSEL"] - ours["majority vote"]
    verdict = "ahead" if lead > 0 else "behind"
    seeds = min(len(vote), len(weasel))
    before = {title: _mean(perceptron[title], "f1") for title in ours}
    vote_f1, weasel_f1 = ours["majority vote"], ours["WeaSEL"]
    said = (
        f"- **The network**: with an LSTM ({seeds} seed{'s' * (seeds != 1)}) majority vote has "
        f"{vote_f1:.1f} F1, {vote_f1 - before['majority vote']:+.1f} to the perceptron of table 1, "
        f"and WeaSEL {weasel_f1:.1f}, {weasel_f1 - before['WeaSEL']:+.1f}; the paper has "
        f"{papers['majority vote']:.2f} and {papers['WeaSEL']:.2f}. WeaSEL is {verdict} by "
        f"{abs(lead):.1f} points; in the paper it is ahead by "
        f"{papers['WeaSEL'] - papers['majority vote']:.1f}."
    )
    if lstm["Snorkel"]:
        said += f" Snorkel with the same network has {_mean(lstm['Snorkel'], 'f1'):.1f}."
    return [said]


def what_votes_say(perceptron: Runs, votes_alone: float) -> list[str]:
    """Describe the score of votes alone, and the effect of threshold and weights on F1."""
    papers = {title: paper.TABLE_1[title][SET].mean for title in ("majority vote", "WeaSEL")}
    f1, half, auc = (
        {title: _mean(perceptron[title], name) for title in METHODS}
        for name in ("f1", "f1_at_half", "auc")
    )
    tuned = [f1[title] - half[title] for title in METHODS]
    return [
        f"- **The votes alone** (the paper's own test votes, `spouse_votes`; majority, no network; "
        f"no majority is *no*) have {votes_alone:.2f} F1. The paper's majority vote with a network "
        f"has {papers['majority vote']:.2f}, its WeaSEL {papers['WeaSEL']:.2f}. So its lead of "
        f"{papers['WeaSEL'] - papers['majority vote']:.1f} points comes as much from a low figure "
        "of majority vote, which votes without any network exceed, as from WeaSEL.",
        f"- **The threshold** is worth {min(tuned):.0f} to {max(tuned):.0f} points: networks learn "
        f"from covered items, of which far more are positive than of all. The method is worth "
        f"{max(f1.values()) - min(f1.values()):.0f}.",
        f"- **The order** is one of thresholds, too: with the perceptron, AUC lies between "
        f"{min(auc.values()):.1f} and {max(auc.values()):.1f} for all of them, and WeaSEL with "
        f"{f1['WeaSEL']:.1f} F1 has {auc['WeaSEL']:.1f} AUC, majority vote with "
        f"{f1['majority vote']:.1f} has {auc['majority vote']:.1f}.",
        f"- **Weight for LFs that abstain**: without it WeaSEL has {f1[VOTING_ONLY]:.1f} F1 "
        f"instead of {f1['WeaSEL']:.1f}.",
        "- **The training candidates** of the paper are not public: their share cannot be had.",
    ]


def _thresholds(lstm: Runs, perceptron: Runs) -> str:
    header = ("", "F1, threshold 1/2", "F1, tuned threshold", "ROC-AUC")
    named = {f"perceptron, {title}": perceptron[title] for title in METHODS}
    named |= {f"LSTM, {title}": records for title, records in lstm.items()}
    columns = ("f1_at_half", "f1", "auc")
    rows = [(title, *(mean_of(own, name) for name in columns)) for title, own in named.items()]
    return markdown_table(header, rows)


def _mean(records: list[Record], name: str) -> float:
    return float(percentages(records, name).mean())


def f1_of_votes(votes: VoteMatrix, gold: np.ndarray) -> float:
    """Return the F1 of the binary majority vote, in percent; a tie or no vote is the first class.

    >>> votes = VoteMatrix.from_dense([[1, -1], [1, 0], [-1, -1], [1, 1]], ["no", "yes"])
    >>> f1_of_votes(votes, np.array([1, 1, 0, 1]))
    80.0
    """
    counts = votes.counts()
    return 100 * float(f1_score(gold, counts[:, 1] > counts[:, 0]))


if __name__ == "__main__":
    main(sys.argv[1:])
