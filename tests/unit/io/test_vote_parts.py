"""Votes in parts: the same sums and the same fits as votes in one piece, one part at a time."""

import weakref
from pathlib import Path

import numpy as np
import pytest

from wiesel import VoteMatrix
from wiesel.errors import DataError, VoteError
from wiesel.io import VoteParts, write_votes
from wiesel.label_models import REGISTRY
from wiesel.label_models.base import LabelModel

LABELS = ["ham", "spam", "news"]


def planted_votes(n_items: int = 240, seed: int = 3) -> VoteMatrix:
    """Six voters of accuracy 0.55 to 0.9 that abstain on a third of the items."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, size=n_items, p=[0.5, 0.3, 0.2])
    accuracies = np.linspace(0.55, 0.9, 6)
    right = rng.random((n_items, 6)) < accuracies
    wrong = (truth[:, None] + rng.integers(1, 3, (n_items, 6))) % 3
    dense = np.where(right, truth[:, None], wrong)
    return VoteMatrix.from_dense(np.where(rng.random((n_items, 6)) < 0.33, -1, dense), LABELS)


def written(votes: VoteMatrix, folder: Path, ends: tuple[int, ...] = (90, 100, 101)) -> VoteParts:
    """The votes in parts of 90, 10 and 1 items, and a part with the rest."""
    starts = (0, *ends)
    for number, (start, end) in enumerate(zip(starts, (*ends, len(votes)), strict=True)):
        write_votes(votes[start:end], folder / f"part-{number}.parquet")
    return VoteParts(folder)


def learned(model: LabelModel) -> dict[str, np.ndarray]:
    names = [name for name in model.learned_names() if name not in ("labels_", "voters_")]
    return {
        name: np.asarray(getattr(model, name), dtype=float)
        for name in names
        if hasattr(model, name) and getattr(model, name) is not None
    }


def test_parts_know_their_voters_classes_and_number_of_items(tmp_path: Path):
    votes = planted_votes()
    parts = written(votes, tmp_path)
    assert (parts.labels, parts.voters, parts.n_items) == (votes.labels, votes.voters, 240)
    assert [len(part) for part in parts] == [90, 10, 1, 139]
    assert parts.read().equals(votes)


@pytest.mark.parametrize("name", REGISTRY)
def test_a_fit_on_parts_equals_the_fit_on_all_votes(name: str, tmp_path: Path):
    votes = planted_votes()
    parts = written(votes, tmp_path)
    whole, summed = REGISTRY[name].cls().fit(votes), REGISTRY[name].cls().fit(parts)
    np.testing.assert_allclose(
        summed.predict_proba(votes), whole.predict_proba(votes), rtol=1e-6, atol=1e-9
    )
    found = learned(summed)
    assert "class_balance_" in found
    for attribute, value in learned(whole).items():
        np.testing.assert_allclose(found[attribute], value, rtol=1e-5, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*outweighs all votes:wiesel.errors.WieselWarning")
def test_a_fit_on_parts_of_probabilistic_votes_equals_the_fit_on_all(tmp_path: Path):
    rng = np.random.default_rng(0)
    votes = VoteMatrix.from_proba(rng.dirichlet([1, 1, 1], (120, 5)), LABELS)
    parts = written(votes, tmp_path)
    model = REGISTRY["dawid_skene"].cls
    np.testing.assert_allclose(
        model().fit(parts).predict_proba(votes), model().fit(votes).predict_proba(votes), rtol=1e-6
    )


def test_only_one_part_is_in_memory_at_a_time(tmp_path: Path):
    parts = written(planted_votes(), tmp_path, ends=(40, 80, 120, 160, 200))
    seen: list[weakref.ref[VoteMatrix]] = []

    def statistic(part: VoteMatrix) -> tuple[np.ndarray, ...]:
        assert not [each for each in seen if each() is not None]
        seen.append(weakref.ref(part))
        return part.counts().sum(axis=0), np.array([len(part)])

    counts, n_items = parts.sum(statistic)
    assert len(seen) == 6
    assert n_items.tolist() == [240]
    assert counts.sum() == planted_votes().n_votes


def test_parts_of_other_voters_are_refused_by_file(tmp_path: Path, votes: VoteMatrix):
    write_votes(votes, tmp_path / "a.parquet")
    write_votes(votes.select(["link"]), tmp_path / "b.parquet")
    with pytest.raises(VoteError, match=r"b\.parquet has other voters"):
        VoteParts(tmp_path)


def test_an_item_in_two_parts_is_refused_when_all_are_read(tmp_path: Path, votes: VoteMatrix):
    write_votes(votes, tmp_path / "a.parquet")
    write_votes(votes, tmp_path / "b.parquet")
    with pytest.raises(VoteError, match="must be unique; repeated: 0"):
        VoteParts(tmp_path).read()


def test_files_of_others_and_empty_folders_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match="No file matches"):
        VoteParts(tmp_path)
    with pytest.raises(DataError, match="no parts"):
        VoteParts([])
    planted_votes().to_long().write_parquet(tmp_path / "long.parquet")
    with pytest.raises(DataError, match=r"long\.parquet.*not written by write_votes"):
        VoteParts(tmp_path)
