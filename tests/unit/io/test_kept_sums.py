"""Sums that outlast their process: nothing is added up twice, and nothing stale is believed."""

import os
from pathlib import Path

import numpy as np
import pytest

from wiesel import DawidSkene, Snorkel, Triplet, VoteMatrix, summarize
from wiesel.datasets import make_votes
from wiesel.io import VoteParts, vote_parts, write_votes
from wiesel.io.vote_parts import KeptSums
from wiesel.label_models.base import LabelModel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    votes, _ = make_votes(120, 6, coverage=0.7, accuracies=0.8)
    for number in range(4):
        part = votes[number * 30 : (number + 1) * 30]
        write_votes(part, tmp_path / f"part-{number}.parquet", layout="list")
    return tmp_path


def parts(folder: Path) -> VoteParts:
    return VoteParts(folder, keep=folder / "sums")


def n_read(votes: VoteParts) -> int:
    assert votes.kept is not None
    return votes.kept.n_read


def test_a_folder_of_sums_that_another_process_makes_meanwhile_is_used(folder: Path, monkeypatch):
    kept, is_dir = KeptSums(folder / "sums", sorted(folder.glob("*.parquet"))), Path.is_dir

    def made_meanwhile(path: Path) -> bool:
        found = is_dir(path)
        if path == kept.folder:
            os.makedirs(path, exist_ok=True)
        return found

    monkeypatch.setattr(Path, "is_dir", made_meanwhile)
    assert kept.sum(n_items)[0].tolist() == [120]


def n_items(part: VoteMatrix) -> tuple[np.ndarray]:
    return (np.array([part.n_items]),)


class Killed(BaseException):
    """Stands for the end of the process."""


def interrupted(folder: Path, model: LabelModel, after: int, monkeypatch: pytest.MonkeyPatch):
    """Fit until some files have been read; return how many sums over files were done."""
    read = vote_parts.read_votes
    seen: list[Path] = []

    def mortal(file: Path) -> VoteMatrix:
        if len(seen) == after:
            raise Killed
        seen.append(file)
        return read(file)

    with monkeypatch.context() as patched:
        patched.setattr(vote_parts, "read_votes", mortal)
        with pytest.raises(Killed):
            model.fit(parts(folder))


def test_a_fit_with_many_steps_reads_every_file_only_twice(folder: Path) -> None:
    """Once for the number of votes, and once for the patterns of votes, which fit into memory."""
    votes = parts(folder)
    model = DawidSkene(max_iter=20, tol=0.0, stop_at_drift=False).fit(votes)
    assert len(model.evidence_) == 20
    assert n_read(votes) == 2 * len(votes)


@pytest.mark.parametrize("after", [1, 4, 5])
def test_a_fit_that_was_killed_reads_only_the_files_that_are_left(
    after: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model() -> DawidSkene:
        return DawidSkene(max_iter=3, tol=0.0, stop_at_drift=False)

    plain = VoteParts(folder, keep=folder / "other")
    whole = model().fit(plain)
    interrupted(folder, model(), after, monkeypatch)
    rest = parts(folder)
    again = model().fit(rest)
    assert n_read(rest) == n_read(plain) - after
    np.testing.assert_array_equal(again.confusions_, whole.confusions_)


def test_models_share_the_sums_that_they_have_in_common(folder: Path) -> None:
    Snorkel().fit(parts(folder))
    more = parts(folder)
    Triplet().fit(more)
    assert n_read(more) == 0


def test_a_summary_is_looked_up_the_second_time(folder: Path) -> None:
    first = summarize(parts(folder))
    again = parts(folder)
    assert summarize(again).frame.equals(first.frame)
    assert n_read(again) == 0


def test_files_that_changed_are_summed_anew_and_their_old_sums_removed(folder: Path) -> None:
    summarize(parts(folder))
    old = set((folder / "sums").iterdir())
    votes, _ = make_votes(120, 6, coverage=0.2, seed=5)
    write_votes(votes[90:], folder / "part-3.parquet", layout="list")
    changed = parts(folder)
    assert summarize(changed).frame.equals(summarize(changed.read()).frame)
    assert n_read(changed) == 3 * 4
    assert old.isdisjoint((folder / "sums").iterdir())


def test_a_damaged_sum_is_made_anew(folder: Path) -> None:
    expected = summarize(parts(folder)).frame
    for file in (folder / "sums").iterdir():
        file.write_bytes(file.read_bytes()[:40])
    assert summarize(parts(folder)).frame.equals(expected)


def test_a_function_without_a_name_is_summed_without_being_kept(folder: Path) -> None:
    votes = parts(folder)
    for factor in (1, 2):  # two functions that nothing tells apart but what they do
        (total,) = votes.sum(lambda part, factor=factor: (np.array([factor * part.n_items]),))
        assert total == factor * 120
    assert not (folder / "sums").exists()


def test_large_sums_are_written_after_several_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vote_parts, "_SMALL", 16)  # six voters and two classes: far more
    interrupted(folder, DawidSkene(), 3, monkeypatch)
    rest = parts(folder)
    assert DawidSkene().fit(rest).predict_proba(rest.read()).shape == (120, 2)
