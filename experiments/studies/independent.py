"""One perfect labeling function among up to 100 independent coin flips.

    python -m experiments independent [--full] [--seeds N] [--jobs N]

Voter 1 is the truth, the others are independent coin flips; the columns are shuffled. The paper
claims full recovery up to about ten coins.
"""

from experiments.studies.random_voters import Study

STUDY = Study(
    name="independent",
    option="coins",
    counts=(1, 2, 3, 5, 10, 25, 50, 100),
    reduced=(3, 10, 25, 100),
    shown=(10,),
    encoder_epochs=100,
)


def main(argv: list[str]) -> None:
    """Run what is missing, and write the table and the figure."""
    STUDY.main(argv, __doc__)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
