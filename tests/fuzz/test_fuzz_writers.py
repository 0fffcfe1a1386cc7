"""Several processes that write the same files at the same moment: nothing is lost or mixed."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import writers
from attacks import Tally, tries

from tiny_project import tiny_project
from wiesel import VoteMatrix
from wiesel.io import LabelStore, write_votes
from wiesel.lfs import VoteCache
from wiesel.lfs.chat import AnswerCache
from wiesel.project.lf_set import LFSet
from wiesel.project.seen import was_run
from wiesel.project.settings import read_project

N_PROCESSES = 3
Told = list[Any]


@pytest.fixture(scope="module")
def processes() -> Iterator[Pool]:
    """Processes that stay: starting one takes longer than what it writes."""
    with multiprocessing.get_context("spawn").Pool(N_PROCESSES) as pool:
        yield pool


def check_rules(folder: Path, told: Told) -> None:
    found = {entry.name: not entry.off for entry in LFSet(read_project(folder)).read().entries}
    wanted = {name: on for own in told for name, on in own.items()}
    assert len(wanted) == sum(map(len, told)), "two processes were told the same name"
    assert found == wanted


def check_labels(folder: Path, told: Told) -> None:
    answers = LabelStore(folder / "labels.sqlite").answers()
    for who, own in enumerate(told):
        rows = answers.filter(answers["person"] == f"ada{who}")
        assert dict(zip(rows["item"], rows["label"], strict=True)) == own


def check_projects(folder: Path, told: Told) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        assert all(was_run(Path(file)) for own in told for file in own)


def check_vote_cache(folder: Path, told: Told) -> None:
    keys = sorted({key for own in told for key in own})
    found = VoteCache(folder).get(keys)
    assert {key: len(votes.rows) for key, votes in found.items()} == {k: int(k[3:]) for k in keys}


def check_answers(folder: Path, told: Told) -> None:
    keys = [key for own in told for key in own]
    assert sorted(AnswerCache(str(folder / "answers.sqlite")).get(keys)) == sorted(keys)


def check_names_of_runs(folder: Path, told: Told) -> None:
    names = [name for own in told for name in own]
    assert len(set(names)) == len(names)


CHECKS: dict[str, Callable[[Path, Told], None]] = {
    "rules": check_rules,
    "labels": check_labels,
    "projects": check_projects,
    "vote_cache": check_vote_cache,
    "answers": check_answers,
    "names_of_runs": check_names_of_runs,
    "features": lambda folder, told: None,
    "votes": lambda folder, told: None,
    "models": lambda folder, told: None,
    "bundles": lambda folder, told: None,
    "sums": lambda folder, told: None,
}
"""What is there in the end, by what was written; the writers check what they read meanwhile."""


def test_writers(processes: Pool, tmp_path: Path) -> None:
    tally, kinds = Tally("concurrent writers"), list(CHECKS)
    for number, rng in enumerate(tries("concurrent writers", least=len(kinds))):
        what, place = kinds[number % len(kinds)], tmp_path / str(number)
        place.mkdir()
        folder = prepared(place)
        moment, n = time.time() + 0.05, rng.randrange(2, 12)
        seeds = [rng.random() for _ in range(N_PROCESSES)]
        jobs = [(moment, what, folder, who, n, seed) for who, seed in enumerate(seeds)]
        told = processes.starmap(writers.at, jobs, chunksize=1)
        CHECKS[what](folder, told)
        hidden = [
            path for path in folder.rglob(".*") if path.suffix in (".unfinished", ".previous")
        ]
        assert not hidden, (what, hidden)
        tally.counts[f"writes of {what.replace('_', ' ')}"] += n * N_PROCESSES
    tally.report()


def prepared(place: Path) -> Path:
    """A project whose rules are only data, and files of votes to sum over."""
    folder = tiny_project(place)
    toml = folder / "wiesel.toml"
    toml.write_text(toml.read_text().replace('lfs = ["lfs.py"]', 'lfs = ["rules.toml"]'))
    votes = VoteMatrix.from_dense(np.ones((6, 1), int), writers.CLASSES)
    for number in range(3):
        write_votes(votes, folder / f"part-{number}.parquet")
    return folder
