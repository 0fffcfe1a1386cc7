"""The votes of a run: those of the data set, or with synthetic voters.

The options of a run: `copies` (the truth and this many copies of one random voter), `coins` (the
truth and this many independent random voters), `adversaries` (the LFs of the data set and this many
copies of an adversarial LF), `silent` (the names of LFs whose votes are left out). `draw` seeds the
random voters; without it, the run's seed does.
"""

import numpy as np
import numpy.typing as npt

from experiments.framework.runner import Run
from wiesel import ABSTAIN, LabelSpace, VoteMatrix
from wiesel.io import Dataset

VOTE_OPTIONS = ("copies", "coins", "adversaries", "silent", "draw")

ADVERSARY = "excellent"
"""The LF of imdb_12 that votes positive; the adversary votes negative where it abstains."""

Classes = npt.NDArray[np.int64]


def votes_of(run: Run, dataset: Dataset) -> tuple[VoteMatrix, VoteMatrix]:
    """Return the votes on the training and on the validation items."""
    train, valid = dataset.train, dataset.valid
    if "adversaries" in run.options:
        count = run.options["adversaries"]
        return with_adversaries(train.votes, count), with_adversaries(valid.votes, count)
    if "silent" in run.options:
        heard = [name for name in train.votes.voters if name not in run.options["silent"]]
        return train.votes.select(heard), valid.votes.select(heard)
    if not is_planted(run):
        return train.votes, valid.votes
    draw = run.options.get("draw", run.seed)
    columns = duplicated if "copies" in run.options else independent
    count = run.options["copies" if "copies" in run.options else "coins"]
    votes = columns(train.gold, dataset.labels, count, np.random.default_rng(draw))
    held_out = columns(valid.gold, dataset.labels, count, np.random.default_rng([draw, 1]))
    return votes, held_out.select(votes.voters)


def is_planted(run: Run) -> bool:
    """Whether all votes of the run are synthetic."""
    return "copies" in run.options or "coins" in run.options


def duplicated(
    gold: Classes, labels: LabelSpace, copies: int, rng: np.random.Generator
) -> VoteMatrix:
    """Return the votes of the truth and of `copies` copies of one coin, columns shuffled."""
    coin = rng.integers(0, len(labels), size=len(gold))
    return _shuffled([gold, *([coin] * copies)], labels, rng)


def independent(
    gold: Classes, labels: LabelSpace, coins: int, rng: np.random.Generator
) -> VoteMatrix:
    """Return the votes of the truth and of `coins` independent coins, columns shuffled."""
    flips = rng.integers(0, len(labels), size=(coins, len(gold)))
    return _shuffled([gold, *flips], labels, rng)


def with_adversaries(votes: VoteMatrix, count: int) -> VoteMatrix:
    """Return the votes with added copies of the adversary."""
    dense = votes.dense()
    own = dense[:, votes.voters.index(ADVERSARY)]
    against = np.where(own == ABSTAIN, votes.labels.index("negative"), own)
    names = [*votes.voters, *(f"adversary_{copy}" for copy in range(count))]
    return VoteMatrix.from_dense(
        np.column_stack([dense, *([against] * count)]), votes.labels, names
    )


def _shuffled(columns: list[Classes], labels: LabelSpace, rng: np.random.Generator) -> VoteMatrix:
    names = ["truth", *(f"coin_{coin}" for coin in range(len(columns) - 1))]
    order = rng.permutation(len(columns))
    votes = np.column_stack([columns[position] for position in order])
    return VoteMatrix.from_dense(votes, labels, [names[position] for position in order])
