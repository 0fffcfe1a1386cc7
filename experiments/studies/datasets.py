"""The data sets of the tables: sizes, coverage, labeling functions.

python -m experiments datasets
"""

import numpy as np
from benchmarks.harness import markdown_table

from experiments.framework.definitions import Effort
from experiments.framework.methods import dataset_of
from experiments.framework.tables import UNKNOWN, write_page
from experiments.studies.table1 import OF_PAPER, PART_OF, SETS
from wiesel import MajorityVote
from wiesel.io import Split

PAPER = {
    "spouse": "22,254 / 2,811 / 2,701, 9 LFs, 25.8 %",
    "imdb_136": "25,000 / 250 / 24,750, 136 LFs, 83.1 %",
    "imdb_12": "25,000 / 250 / 24,750, 12 LFs, 88.0 %",
    "amazon_175": "160,000 / 500 / 39,500, 175 LFs, -",
}
"""Sizes, LFs and coverage of the training items in the paper, if known."""

HEADER = (
    "",
    "train / valid / test",
    "LFs",
    "coverage of train",
    "votes per covered item",
    "share of positive, test",
    "accuracy of a vote, test",
    "accuracy of majority vote, covered test",
    "features",
    "in the paper",
)


def main(argv: list[str]) -> None:
    """Print the table and write it as Markdown."""
    Effort.parsed(argv, __doc__)
    ours = [name for name in SETS if name not in (*OF_PAPER, *PART_OF)]
    rows = [row_of(name) for name in (*OF_PAPER, *ours)]
    write_page("datasets", "python -m experiments datasets", [markdown_table(HEADER, rows)])


def row_of(name: str) -> list[str]:
    """Return one line of the table."""
    dataset = dataset_of(name)
    train, test = dataset.train, dataset.test
    sizes = " / ".join(f"{len(split):,}" for split in (train, dataset.valid, test))
    votes = train.votes
    return [
        name if name in OF_PAPER else f"{name} (ours)",
        sizes,
        str(votes.n_voters),
        f"{votes.covered.mean():.1%}",
        f"{votes.n_votes / votes.covered.sum():.1f}",
        f"{(test.gold == 1).mean():.1%}",
        f"{vote_accuracy(test):.1%}",
        f"{majority_accuracy(test):.1%}",
        str(train.features.shape[1]),
        PAPER.get(name, UNKNOWN),
    ]


def vote_accuracy(split: Split) -> float:
    """Return the share of right votes."""
    votes = split.votes
    return float(np.mean(votes.class_index == split.gold[votes.item_index]))


def majority_accuracy(split: Split) -> float:
    """Return the accuracy of the majority vote; a tie counts half."""
    votes = split.votes
    shares = MajorityVote(hard=True).fit(votes).predict_proba(votes)
    return float(shares[np.arange(len(split)), split.gold][votes.covered].mean())


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
