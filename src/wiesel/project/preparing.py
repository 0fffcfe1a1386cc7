"""The stages before training: rows, votes and end-model inputs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wiesel.errors import DataError
from wiesel.labels import ABSTAIN
from wiesel.lfs import LabelingFunction
from wiesel.project.labels import gold_of, with_labeled_dev
from wiesel.project.leftovers import remove_leftovers
from wiesel.project.rows import project_classes, read_splits
from wiesel.project.settings import Project
from wiesel.project.training import Say, TrainingSet
from wiesel.project.vectors import check_inputs, make_vectors
from wiesel.project.voting import Votes, cast_votes, project_lfs
from wiesel.votes import VoteMatrix

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """Everything up to training."""

    data: TrainingSet
    votes: Votes
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint of every labeling function."""
    lfs: Sequence[LabelingFunction] = ()


def prepare(project: Project, say: Say, methods: Sequence[str] = ()) -> Prepared:
    """Run the stages before training: rows, votes and end-model inputs.

    Rows that the `methods` or the features cannot use are rejected before any slow step.
    """
    cache = project.output_folder / ".cache"
    lfs = project_lfs(project)
    named = None if lfs is None else lfs.labels
    if project.classes:
        project_classes(project, named)
    labels, splits = read_splits(project, named)
    of_file = set(splits)
    splits = with_labeled_dev(project, splits, labels)
    if "supervised" in methods and (splits["train"].gold == ABSTAIN).all():
        raise DataError(
            "'supervised' learns from gold labels, and the training rows have none: leave it out."
        )
    check_inputs(project, splits)
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in splits.items())
    say("read", f"{sizes} items, classes {', '.join(labels)}")
    cache.mkdir(parents=True, exist_ok=True)
    if removed := remove_leftovers(project.output_folder):
        say("cleaned", f"{len(removed)} half-written files of runs that were killed")
    start = time.perf_counter()
    votes = cast_votes(project, lfs, splits, labels, cache)
    known = f", {votes.known} of {votes.total} parts reused" if votes.total else ""
    slowest = f", {votes.slowest}" if votes.slowest else ""
    took = f"{time.perf_counter() - start:.1f} s{slowest}"
    say("votes", f"{_described(votes)}{known} ({took})")
    if warning := one_sided(votes.train):
        say("warning", warning)
    start = time.perf_counter()
    vectors = make_vectors(project, splits, cache, [votes.train])
    how = "reused" if vectors.reused else f"{time.perf_counter() - start:.1f} s"
    say("features", f"{vectors.description} ({how})")
    fingerprints = {} if lfs is None else {lf.name: lf.fingerprint for lf in lfs}
    gold = gold_of(project, splits["train"], labels, splits.keys() != of_file)
    if n_gold := int((gold.y != ABSTAIN).sum()):
        say("labels", f"{n_gold:,} of the training rows have one, which the models learn")
    data = TrainingSet(
        project, labels, splits, vectors, votes.train, votes.by_split.get("dev"), gold
    )
    return Prepared(data, votes, fingerprints, () if lfs is None else lfs.lfs)


def one_sided(votes: VoteMatrix) -> str:
    """Return a warning if all votes are for one class, else an empty text.

    >>> from wiesel import VoteMatrix
    >>> one_sided(VoteMatrix.from_dense([[1], [-1]], ["ham", "spam"], ["prize"]))
    "Every vote is for 'spam', none for 'ham': from these votes no method can learn what is not \
'spam'. Add a voter for 'ham'."
    """
    named = np.unique(votes.class_index)
    if len(named) != 1:
        return ""
    only = votes.labels.names[int(named[0])]
    others = " or ".join(repr(name) for name in votes.labels if name != only)
    return (
        f"Every vote is for {only!r}, none for {others}: from these votes no method can learn "
        f"what is not {only!r}. Add a voter for {others}."
    )


def _described(votes: Votes) -> str:
    train = votes.train
    voters = "1 voter" if train.n_voters == 1 else f"{train.n_voters:,} voters"
    return f"{voters}, {100 * train.covered.mean():.1f} % of train covered"
