"""One perfect labeling function and a coin flip, duplicated up to 2,000 times.

    python -m experiments duplicates [--full] [--seeds N] [--jobs N]

Voter 1 is the truth, voter 2 a coin flip, repeated; the columns are shuffled. A label model that
assumes independent voters trusts the repeated coin. WeaSEL should come within 0.01 AUC of the same
network trained on the truth, for any number of copies.
"""

from experiments.framework.definitions import Row
from experiments.studies.random_voters import Study

OWN_COINS = (
    Row("WeaSEL, one-hot votes, a coin for each seed", "weasel", {"draw": None}),
    Row("majority vote, a coin for each seed", "majority_vote", {"draw": None}),
)
"""In the other rows, all seeds share one coin, so that they can be trained together."""

STUDY = Study(
    name="duplicates",
    option="copies",
    counts=(2, 5, 25, 100, 500, 2000),
    reduced=(2, 25, 500, 2000),
    shown=(500,),
    extra=OWN_COINS,
)


def main(argv: list[str]) -> None:
    """Run what is missing, and write the table and the figure."""
    STUDY.main(argv, __doc__)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
