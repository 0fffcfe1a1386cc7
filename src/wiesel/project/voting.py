"""The second stage: votes on every split; only changed labeling functions run again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wiesel.errors import DataError
from wiesel.io import Split, read_answers, read_votes
from wiesel.labels import LabelSpace
from wiesel.lfs import VoteCache, apply_lfs, load_lfs
from wiesel.lfs.loading import LoadedLFs
from wiesel.lfs.timing import timing
from wiesel.project.rows import places_of, refuse_several_labels
from wiesel.project.settings import Project
from wiesel.votes import VoteMatrix

__all__ = ["Votes", "cast_votes", "project_lfs"]


@dataclass(frozen=True)
class Votes:
    """The votes on every split that has any, and how many of them came from the cache."""

    by_split: Mapping[str, VoteMatrix]
    known: int = 0
    """The number of labeling functions whose votes on a split were in the cache."""
    total: int = 0
    slowest: str = ""
    """The slowest labeling functions, if voting was slow."""

    @property
    def train(self) -> VoteMatrix:
        """The votes to learn from."""
        return self.by_split["train"]


def project_lfs(project: Project) -> LoadedLFs | None:
    """Return the labeling functions of a project; None if votes come from another source."""
    refuse_several_labels(project)
    if not project.votes.lfs:
        return None
    return load_lfs(*(project.path(file) for file in project.votes.lfs))


def cast_votes(
    project: Project,
    lfs: LoadedLFs | None,
    splits: Mapping[str, Split],
    labels: LabelSpace,
    cache: Path,
) -> Votes:
    """Return the votes of labeling functions, crowd workers, or a file."""
    if lfs is not None:
        return _applied(project, lfs, splits, labels, VoteCache(cache / "lf_votes.sqlite"))
    settings, train = project.votes, splits["train"]
    if settings.answers:
        votes = read_answers(
            project.path(settings.answers),
            item=settings.item,
            voter=settings.voter,
            label=settings.label,
            labels=labels,
            items=train.ids,
        )
        return Votes({"train": votes})
    if settings.file:
        path = project.path(settings.file)
        votes = read_votes(path, labels=labels)
        votes = votes[places_of(train.ids, votes.ids, path, "votes", "training items")]
        return Votes({"train": votes})
    own = {name: split.votes for name, split in splits.items() if split.votes is not None}
    if "train" not in own:
        raise DataError(f"{project.file}: the data have no votes; name lfs = [...] in [votes].")
    return Votes(own)


def _applied(
    project: Project,
    lfs: LoadedLFs,
    splits: Mapping[str, Split],
    labels: LabelSpace,
    cache: VoteCache,
) -> Votes:
    with timing() as clock:
        votes = {
            name: apply_lfs(
                lfs,
                split.rows,
                labels=labels,
                cache=cache,
                on_error=project.votes.on_error,  # type: ignore[arg-type]
                ids="id",
                timeout=project.votes.timeout,
            )
            for name, split in splits.items()
        }
    return Votes(votes, cache.hits, cache.hits + cache.misses, clock.slowest())
