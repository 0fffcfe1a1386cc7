"""A real Ray cluster of two nodes on this machine: the same votes, the same fits, a lost node."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from ray_functions import (
    deadly,
    endless,
    fails_late,
    long_text,
    off_the_list,
    patient,
    unsure,
    wordy,
)
from ray_nodes import ON_RAY, PATIENT, added_node, connected_cluster

from wiesel import (
    LabelSpace,
    VoteMatrix,
    apply_lfs,
    expression,
    keywords,
    lookup,
    regex,
    threshold,
)
from wiesel.errors import DataError, LabelingFunctionError, VoteError
from wiesel.io import RayVoteParts, VoteParts, read_votes, write_votes
from wiesel.label_models import REGISTRY
from wiesel.lfs import FailureLog, RayEngine, apply_lfs_to_folder, load_lfs
from wiesel.lfs.engines import ray_engine

pytestmark = ON_RAY

LABELS = LabelSpace("ham", "spam")
LFS = [
    keywords("spam", ["free", "prize"], column="text"),
    regex("spam", r"x{4}", column="text"),
    threshold("ham", "n", below=12),
    expression("ham", pl.col("n") % 7 == 0, name="sevenths"),
    lookup("spam", {("m3",), ("m44",)}, columns=["id"], name="known"),
    wordy,
    long_text,
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """The head of a cluster, to which this process is connected."""
    with connected_cluster(n_nodes=1, num_cpus=1) as own:
        yield own


@pytest.fixture
def second_node(cluster: Any) -> Any:
    """The other node, added again if a test has killed it."""
    if not cluster.worker_nodes:
        added_node(cluster, num_cpus=1)
    return next(iter(cluster.worker_nodes))


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    """Sixty mails, forty in one file and twenty in another."""
    texts = [("free " if n % 3 == 0 else "") + "x" * (n % 9) + " word" * (n % 5) for n in range(60)]
    rows = pl.DataFrame({"id": [f"m{n}" for n in range(60)], "n": range(60), "text": texts})
    rows[:40].write_parquet(tmp_path / "mails-a.parquet", row_group_size=11)
    rows[40:].write_parquet(tmp_path / "mails-b.parquet")
    return tmp_path / "mails-*.parquet"


@pytest.mark.parametrize("lfs", [LFS, [*LFS, unsure]], ids=["hard", "probabilistic"])
@pytest.mark.usefixtures("second_node")
def test_votes_are_those_of_the_local_engine_in_the_same_order(lfs: list, mails: Path):
    there = apply_lfs(lfs, mails, labels=LABELS, ids="id", engine=RayEngine(part_rows=16))
    here = apply_lfs(lfs, mails, labels=LABELS, ids="id")
    assert here.n_votes > 100
    assert there.equals(here)


@pytest.mark.usefixtures("second_node")
def test_the_engine_is_found_by_its_name_and_rows_are_numbered(mails: Path, tmp_path: Path):
    file = tmp_path / "lfs.py"
    file.write_text(
        "from wiesel import labeling_function\n"
        "@labeling_function\n"
        "def fifth(row):\n"
        "    return 'spam' if row['n'] % 5 == 0 else None\n"
    )
    votes = apply_lfs(load_lfs(file), mails, labels=LABELS, engine="ray")
    assert votes.ids[votes.covered].tolist() == list(range(0, 60, 5))


@pytest.mark.usefixtures("second_node")
def test_errors_and_failures_are_those_of_the_local_engine(mails: Path):
    for lf, kind in ((fails_late, LabelingFunctionError), (off_the_list, VoteError)):
        with pytest.raises(kind) as here:
            apply_lfs([LFS[0], lf], mails, labels=LABELS, ids="id")
        with pytest.raises(kind) as there:
            apply_lfs([LFS[0], lf], mails, labels=LABELS, ids="id", engine="ray")
        assert str(there.value) == str(here.value)
    logs = FailureLog(), FailureLog()
    for log, engine in zip(logs, ("local", RayEngine(part_rows=16)), strict=True):
        apply_lfs(fails_late, mails, labels=LABELS, ids="id", on_error=log, engine=engine)
    assert logs[1].failures == logs[0].failures
    assert logs[0].counts == {"fails_late": 1}


@pytest.mark.usefixtures("second_node")
def test_a_fit_on_the_cluster_equals_the_fit_here(tmp_path: Path):
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 120)
    dense = np.where(rng.random((120, 5)) < 0.75, truth[:, None], 1 - truth[:, None])
    votes = VoteMatrix.from_dense(np.where(rng.random((120, 5)) < 0.3, -1, dense), LABELS)
    for number in range(4):
        write_votes(votes[30 * number : 30 * number + 30], tmp_path / f"part-{number}.parquet")
    parts = RayVoteParts(tmp_path)
    assert len(REGISTRY) > 5
    for method in REGISTRY.values():
        there, here = method.cls().fit(parts), method.cls().fit(votes)
        np.testing.assert_allclose(
            there.predict_proba(votes), here.predict_proba(votes), rtol=1e-6, atol=1e-9
        )


@pytest.mark.usefixtures("second_node")
def test_a_part_that_is_gone_is_an_error_that_names_it(votes: VoteMatrix, tmp_path: Path):
    write_votes(votes, tmp_path / "part-0.parquet")
    parts = RayVoteParts(tmp_path)
    (tmp_path / "part-0.parquet").unlink()
    with pytest.raises(DataError, match=r"no file .*part-0\.parquet"):
        parts.sum(lambda part: (part.counts(),))


def output_of(words: list[str], folder: Path, **environment: str) -> str:
    """What Python prints, run in a folder."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | PATIENT | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("second_node")
def test_a_row_that_ends_its_process_is_told_and_may_be_set_aside(
    mails: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    engine = RayEngine(part_rows=2)  # the search for the row ends few processes
    words = r"'deadly' failed on row 17 \(id 'm17'\): it e"
    with monkeypatch.context() as patch:
        patch.setattr(ray_engine, "_ATTEMPTS", 1)  # each ends a process; below all three are made
        with pytest.raises(LabelingFunctionError, match=words):
            apply_lfs(deadly, mails, labels=LABELS, ids="id", engine=engine)
    caplog.clear()
    log = FailureLog()
    parts = apply_lfs_to_folder(
        [LFS[0], deadly], mails, tmp_path / "votes", labels=LABELS, ids="id", engine=engine,
        on_error=log,
    )  # fmt: skip
    harmless = [LFS[0], deadly.with_params(on=-1)]
    dense = apply_lfs(harmless, mails, labels=LABELS, ids="id").dense()
    dense[17, 1] = -1
    assert parts.read().dense().tolist() == dense.tolist()
    assert parts.read().ids.tolist() == [f"m{n}" for n in range(60)]
    assert [(failure.lf, failure.item) for failure in log.failures] == [
        ("deadly", "row 17 (id 'm17')")
    ]
    assert [record.args[1:3] for record in caplog.records] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.usefixtures("second_node")
def test_a_row_on_which_a_function_never_ends_is_told_and_may_be_set_aside(mails: Path):
    options = {"labels": LABELS, "ids": "id", "engine": RayEngine(part_rows=30), "timeout": 2}
    words = r"'endless' failed on row 17 \(id 'm17'\): no answer within 2 s"
    with pytest.raises(LabelingFunctionError, match=words):
        apply_lfs(endless, mails, **options)
    log = FailureLog()
    lfs = [LFS[0], endless, long_text]
    votes = apply_lfs(lfs, mails, on_error=log, **options)
    harmless = [LFS[0], endless.with_params(on=-1), long_text]
    dense = apply_lfs(harmless, mails, labels=LABELS, ids="id").dense()
    dense[17, 1] = -1
    assert votes.dense().tolist() == dense.tolist()
    assert votes.ids.tolist() == [f"m{n}" for n in range(60)]
    assert [(failure.lf, failure.item) for failure in log.failures] == [
        ("endless", "row 17 (id 'm17')")
    ]


def test_a_cluster_of_its_own_imports_nothing_from_here_and_ends_with_the_call(
    mails: Path, tmp_path: Path
):
    folder = tmp_path / "downloaded"
    folder.mkdir()
    (folder / "polars.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\n")
    (folder / "lfs.toml").write_text(
        'labels = ["ham", "spam"]\n[[lf]]\nkind = "keywords"\nlabel = "spam"\n'
        'keywords = ["free"]\ncolumn = "text"\n'
    )
    words = ["apply", str(mails), "--lfs", "lfs.toml", "--engine", "ray:local", "--id", "id"]
    words += ["-o", "votes.parquet", "--json"]
    code = f"""
import sys
from wiesel.cli.main import main
sys.argv = ["wiesel", *{words!r}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
import ray
print(ray.is_initialized())
"""
    said = output_of(["-P", "-c", code], folder)
    answer, _, connected = said.strip().rpartition("\n")
    assert json.loads(answer)["n_votes"] == 20
    assert connected == "False"
    assert not (tmp_path / "executed").exists()
    here = apply_lfs(load_lfs(folder / "lfs.toml"), mails, labels=LABELS, ids="id")
    assert read_votes(folder / "votes.parquet").equals(here)


def test_every_row_is_labelled_once_when_a_node_is_lost_in_the_middle(
    cluster: Any, second_node: Any, mails: Path, tmp_path: Path
):
    lost = second_node.node_id
    notes = tmp_path / "notes"
    notes.mkdir()

    def kill_the_node_that_works() -> None:
        while not list(notes.glob(f"*-on-{lost}")) and not stopped.wait(0.05):
            pass
        cluster.remove_node(second_node, allow_graceful=False)
        (notes / "go").touch()

    stopped = threading.Event()
    killer = threading.Thread(target=kill_the_node_that_works)
    killer.start()
    try:
        lfs = [*LFS, patient.with_params(folder=str(notes))]
        engine = RayEngine(part_rows=8)
        parts = apply_lfs_to_folder(
            lfs, mails, tmp_path / "votes", labels=LABELS, ids="id", engine=engine
        )
    finally:
        stopped.set()
        killer.join()
    begun = {note.name.partition("-on-")[0] for note in notes.glob(f"*-on-{lost}")}
    again = {
        note.name.partition("-on-")[0] for note in notes.glob("*-on-*") if lost not in note.name
    }
    assert begun
    assert begun <= again
    assert isinstance(parts, VoteParts)
    assert [len(part) for part in parts] == [8, 8, 8, 8, 8, 8, 8, 4]
    assert sorted(os.listdir(tmp_path / "votes")) == [file.name for file in parts.files]
    assert parts.read().ids.tolist() == [f"m{n}" for n in range(60)]
    assert parts.read().equals(apply_lfs(lfs, mails, labels=LABELS, ids="id"))
