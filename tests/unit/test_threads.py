"""One thread where threads do not pay; afterwards everything is as it was."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - its BLAS library, too, gets the two threads of each test
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from wiesel import MajorityVote, TwoStage
from wiesel.datasets import make_features, make_votes
from wiesel.end_to_end.evidence_models import FeatureChecked
from wiesel.errors import WieselWarning
from wiesel.label_models import REGISTRY
from wiesel.threads import fitting_threads, map_in_threads, one_thread, usable_cores
from wiesel.votes import VoteMatrix


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """What a user has on two cores, whatever the machine and the setting of the tests."""
    before = torch.get_num_threads()
    with threadpool_limits(2, user_api="blas"):
        torch.set_num_threads(2)
        yield
        assert blas_threads() == {2}
        assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_pools_are_limited_inside_and_restored_after_an_error() -> None:
    assert blas_threads() == {2}
    seen: list[Any] = []

    @one_thread()
    def fail() -> None:
        seen.append((blas_threads(), torch.get_num_threads()))
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert seen == [({1}, 1)]
    assert blas_threads() == {2}


def test_a_limit_inside_a_limit_ends_with_the_outer_one() -> None:
    with one_thread():
        with one_thread():
            pass
        assert blas_threads() == {1}
        assert torch.get_num_threads() == 1


def test_threads_that_overlap_leave_no_limit_behind() -> None:
    """If each restored what it found, the last one out would leave one thread for good."""
    other_in, first_out = threading.Event(), threading.Event()

    @one_thread()
    def other() -> None:
        other_in.set()
        first_out.wait(900)

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        assert other_in.wait(900)
    first_out.set()
    thread.join()
    assert blas_threads() == {2}


LATE = """
from threadpoolctl import threadpool_info
from wiesel.threads import one_thread

def counts():
    return sorted(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

import numpy
with one_thread():
    before = len(counts())
    import scipy.linalg
    with one_thread():
        assert len(counts()) > before, "SciPy has no BLAS library of its own"
        assert set(counts()) == {1}, counts()
assert set(counts()) == {2}, counts()
"""


def test_a_library_that_is_loaded_inside_the_limit_is_limited_too() -> None:
    """The first fit of a process imports SciPy inside the limit, and was several times slower."""
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", LATE], env={**os.environ, **threads}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


SEEN: set[int] = set()


class WatchedVotes(VoteMatrix):
    """Votes that note how many threads BLAS has whenever a model looks at them."""

    @property
    def n_items(self) -> int:
        SEEN.update(blas_threads())
        return super().n_items


def watched(votes: VoteMatrix) -> WatchedVotes:
    fields = ("indptr", "voter_index", "class_index", "labels", "voters", "ids", "distribution")
    return WatchedVotes(*(getattr(votes, name) for name in fields))


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_label_models_use_one_thread(name: str) -> None:
    votes = watched(make_votes(60, 4, accuracies=0.9, coverage=0.9)[0])
    cls: Any = REGISTRY[name].cls
    model = cls(weights=[1.0] * 4) if name == "weighted_vote" else cls()
    SEEN.clear()
    model.fit(votes)
    assert {1} == SEEN
    SEEN.clear()
    model.predict_proba(votes)
    assert {1} == SEEN


def test_label_models_with_features_use_one_thread() -> None:
    seen: list[set[int]] = []

    class Watched(FeatureChecked):
        def _fit_evidence(self, *arguments: Any) -> Any:
            seen.append(blas_threads())
            return super()._fit_evidence(*arguments)

    votes, _ = make_votes(60, n_voters=4, seed=0)
    with pytest.warns(WieselWarning, match="do not confirm"):
        Watched().fit(votes, X=np.random.default_rng(0).normal(size=(60, 3)))
    assert seen == [{1}]


def test_a_large_network_keeps_its_threads() -> None:
    with fitting_threads(torch.nn.Linear(3, 2)):
        assert torch.get_num_threads() == 1
    with fitting_threads(torch.nn.Linear(2_000, 1_001, device="meta")):
        assert torch.get_num_threads() == 2


def test_where_there_is_one_thread_already_parameters_are_not_counted() -> None:
    class Uncounted(torch.nn.Linear):
        def parameters(self, recurse: bool = True) -> Any:
            raise AssertionError("every evaluation would walk through the whole network")

    with one_thread():
        with fitting_threads(Uncounted(3, 2)):
            assert blas_threads() == {1}
            assert torch.get_num_threads() == 1
        assert blas_threads() == {1}


@pytest.mark.parametrize("n_threads", [1, 3])
def test_pieces_come_in_order_and_are_taken_a_few_ahead(n_threads: int) -> None:
    taken = 0

    def pieces() -> Iterator[int]:
        nonlocal taken
        for piece in range(50):
            taken += 1
            yield piece

    for done, (piece, blas, of_torch) in enumerate(
        map_in_threads(lambda p: (p, blas_threads(), torch.get_num_threads()), pieces(), n_threads)
    ):
        assert (piece, blas, of_torch) == (done, {1}, 1)
        assert taken <= done + n_threads + 1
    assert done == 49


@pytest.mark.parametrize("pieces", [[], [-7]])
def test_a_single_piece_starts_no_thread(pieces: list[int]) -> None:
    seen: list[Any] = []

    def noted(piece: int) -> int:
        seen.append((threading.current_thread(), blas_threads()))
        return abs(piece)

    assert list(map_in_threads(noted, pieces, n_threads=3)) == [abs(piece) for piece in pieces]
    assert seen == [(threading.current_thread(), {1})] * len(pieces)


def test_the_error_of_a_piece_reaches_the_caller_and_ends_the_work() -> None:
    started: list[int] = []

    def refuse_two(piece: int) -> int:
        started.append(piece)
        if piece == 2:
            raise ValueError("piece 2")
        return piece

    with pytest.raises(ValueError, match="piece 2"):
        list(map_in_threads(refuse_two, range(100), n_threads=2))
    assert max(started) < 10


def test_who_stops_early_leaves_nothing_limited() -> None:
    results = map_in_threads(abs, range(100), n_threads=2)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert blas_threads() == {2}


def test_cores_are_those_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert usable_cores() == 1
    for unusable in ("0", "many", "2,1"):
        monkeypatch.setenv("OMP_NUM_THREADS", unusable)
        assert usable_cores() >= 1


class Counting(torch.nn.Linear):
    """A network that notes how many threads it has whenever it is called."""

    seen: ClassVar[list[int]] = []

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        self.seen.append(torch.get_num_threads())
        return super().forward(values)


def test_a_small_network_has_one_thread_from_the_first_trial_to_the_last_prediction() -> None:
    votes, gold = make_votes(60, n_voters=4, coverage=0.9)
    X = make_features(gold, n_features=3)
    Counting.seen.clear()
    model = TwoStage(MajorityVote(), Counting(3, 2), epochs=1).fit(X, votes, (X[:20], gold[:20]))
    model.predict_proba(X)
    assert len(Counting.seen) > 3
    assert set(Counting.seen) == {1}


def test_tables_of_embeddings_do_not_make_a_network_large() -> None:
    table = torch.nn.Embedding(10**6, 50, device="meta")
    with fitting_threads(torch.nn.Sequential(table, torch.nn.LSTM(50, 8))):
        assert torch.get_num_threads() == 1


def test_a_network_of_unknown_size_counts_as_small() -> None:
    with fitting_threads(torch.nn.LazyLinear(2)):
        assert torch.get_num_threads() == 1
