"""The Ray engine without a cluster: cutting files, sending functions, voting on one piece."""

import json
import sys
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from wiesel import LabelSpace, VoteMatrix, apply_lfs, expression, keywords, labeling_function
from wiesel.errors import DataError, LabelingFunctionError, MissingExtraError, ParameterError
from wiesel.io import RayVoteParts, read_votes, write_votes
from wiesel.io.ray_session import _groups
from wiesel.lfs import RayEngine, apply_lfs_to_folder, load_lfs
from wiesel.lfs.batch import RowSource
from wiesel.lfs.engines import Job
from wiesel.lfs.engines.pieces import Piece, cut, part_name, task_of, vote_on_piece, votes_in

LABELS = LabelSpace("ham", "spam")
SPAM = keywords("spam", ["free"], column="text")


@labeling_function
def short(row, limit=9):
    return "ham" if len(row["text"]) < limit else None


@labeling_function
def broken(row):
    return "spam" if 1 / (row["n"] - 5) > 0 else None


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    """Ten mails in one file and four in another."""
    texts = ["free " * (n % 3) + "mail" for n in range(14)]
    rows = pl.DataFrame({"id": [f"m{n}" for n in range(14)], "n": range(14), "text": texts})
    rows[:10].write_parquet(tmp_path / "mails-a.parquet", row_group_size=3)
    rows[10:].write_parquet(tmp_path / "mails-b.parquet")
    return tmp_path / "mails-*.parquet"


def job_of(lfs: list, mails: Path, stop: bool = True) -> Job:
    return Job(tuple(lfs), RowSource(mails, "id"), LABELS, None, stop)


def test_files_are_cut_into_pieces_that_cover_every_row_once_and_in_order(mails: Path):
    pieces = cut(RowSource(mails), 4)
    spans = [(Path(p["file"]).stem, p["first"], p["count"], p["start"]) for p in pieces]
    assert spans == [
        ("mails-a", 0, 4, 0),
        ("mails-a", 4, 4, 4),
        ("mails-a", 8, 2, 8),
        ("mails-b", 0, 4, 10),
    ]
    assert [piece["number"] for piece in pieces] == [0, 1, 2, 3]


@pytest.mark.parametrize("ids", ["id", None])
def test_the_votes_on_all_pieces_are_those_of_the_local_engine(mails: Path, ids: str | None):
    lfs = [SPAM, short, expression("ham", pl.col("n") > 11, name="late")]
    job = Job(tuple(lfs), RowSource(mails, ids), LABELS)
    task = json.loads(json.dumps(task_of(job)))  # it is plain data
    records = [vote_on_piece(piece, task) for piece in cut(job.source, 4)]
    votes = VoteMatrix.concatenate([votes_in(record) for record in records])
    assert votes.equals(apply_lfs(lfs, mails, labels=LABELS, ids=ids))


def test_a_piece_voted_on_again_replaces_its_own_file(mails: Path, tmp_path: Path):
    folder = tmp_path / "votes"
    folder.mkdir()
    job = job_of([SPAM, short], mails)
    piece, task = cut(job.source, 4)[1], task_of(job, folder)
    records = [vote_on_piece(piece, task) for _ in range(2)]
    assert [record["votes"] for record in records] == [b"", b""]
    assert [file.name for file in folder.iterdir()] == [part_name(1)]
    assert read_votes(folder / part_name(1)).ids.tolist() == ["m4", "m5", "m6", "m7"]


def test_failures_and_errors_are_told_with_the_row_of_the_whole_table(mails: Path):
    job = job_of([broken], mails, stop=False)
    second = cut(job.source, 4)[1]
    report = json.loads(vote_on_piece(second, task_of(job))["report"])
    assert report["failures"][0]["item"] == "row 5 (id 'm5')"
    assert "ZeroDivisionError" in report["failures"][0]["reason"]


def test_a_file_that_shrank_meanwhile_is_an_error(mails: Path):
    job = job_of([SPAM], mails)
    last = cut(job.source, 4)[-1]
    report = json.loads(vote_on_piece(Piece(**{**last, "count": 9}), task_of(job))["report"])
    assert report["error"] == "DataError"
    assert "has changed" in report["message"]


def test_functions_of_a_changed_file_are_refused(mails: Path, tmp_path: Path):
    file = tmp_path / "lfs.py"
    head = "from wiesel import labeling_function\n@labeling_function\ndef f(row):\n    return "
    file.write_text(head + "'ham'")
    task = task_of(job_of(list(load_lfs(file)), mails))
    file.write_text(head + "'spam'")
    report = json.loads(vote_on_piece(cut(RowSource(mails), 4)[0], task)["report"])
    assert "not the same on another machine" in report["message"]
    file.unlink()
    report = json.loads(
        vote_on_piece(cut(RowSource(mails), 4)[0], task | {"search_path": ["/nowhere"]})["report"]
    )
    assert "cannot be loaded on another machine" in report["message"]


def test_a_function_that_cannot_be_sent_is_named(mails: Path):
    lock = threading.Lock()

    @labeling_function
    def locked(row):
        with lock:
            return "spam"

    with pytest.raises(LabelingFunctionError, match=r"'locked' cannot be sent .*load_lfs"):
        task_of(job_of([SPAM, locked], mails))


def test_ray_that_is_not_installed_is_an_error_with_the_cure(
    mails: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'wiesel\[ray\]'"):
        apply_lfs(SPAM, mails, labels=LABELS, engine="ray")
    with pytest.raises(MissingExtraError, match=r"wiesel\[ray\]"):
        apply_lfs_to_folder(SPAM, mails, tmp_path / "votes", labels=LABELS)
    assert not list(tmp_path.glob("*votes*"))


@pytest.mark.parametrize("rows", [[{"text": "free"}], "mails.csv"])
def test_rows_that_are_not_in_parquet_files_are_refused(
    rows: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("mails.csv").write_text("text\nfree\n")
    with pytest.raises(DataError, match=r"reads Parquet files.*write_rows"):
        apply_lfs(SPAM, rows, labels=LABELS, engine="ray")


def test_missing_columns_empty_files_and_a_cache_are_refused(mails: Path, tmp_path: Path):
    with pytest.raises(DataError, match="no column 'subject'"):
        apply_lfs(keywords("spam", ["x"], column="subject"), mails, labels=LABELS, engine="ray")
    pl.DataFrame({"text": []}, schema={"text": pl.String}).write_parquet(tmp_path / "no.parquet")
    with pytest.raises(DataError, match="no rows"):
        apply_lfs(SPAM, tmp_path / "no.parquet", labels=LABELS, engine="ray")
    with pytest.raises(ParameterError, match="no cache"):
        apply_lfs(SPAM, mails, labels=LABELS, engine="ray", cache=tmp_path / "cache")
    with pytest.raises(ParameterError, match="part_rows"):
        RayEngine(part_rows=0)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379"])
def test_an_address_without_a_cluster_is_refused_at_once(mails: Path, address: str):
    pytest.importorskip("ray")
    with pytest.raises(ParameterError, match=f"no Ray cluster at '{address}'.*ray start"):
        apply_lfs(SPAM, mails, labels=LABELS, engine=RayEngine(address))


def test_a_folder_that_exists_is_not_overwritten(mails: Path, tmp_path: Path):
    with pytest.raises(DataError, match="exists already"):
        apply_lfs_to_folder(SPAM, mails, tmp_path, labels=LABELS)


@pytest.mark.parametrize(("n_groups", "sizes"), [(1, [5]), (2, [2, 3]), (9, [1, 1, 1, 1, 1])])
def test_every_file_is_summed_in_one_group(n_groups: int, sizes: list[int]):
    files = [Path(f"{n}.parquet") for n in range(5)]
    groups = _groups(files, n_groups)
    assert [len(group) for group in groups] == sizes
    assert [file for group in groups for file in group] == files


def test_parts_on_a_cluster_have_full_paths_and_are_read_here_all_the_same(
    votes: VoteMatrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_votes(votes[:1], tmp_path / part_name(0))
    write_votes(votes[1:], tmp_path / part_name(1))
    monkeypatch.chdir(tmp_path)
    parts = RayVoteParts(".")
    assert all(file.is_absolute() for file in parts.files)
    assert np.array_equal(parts.read().dense(), votes.dense())
