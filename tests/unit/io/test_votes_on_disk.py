"""Votes in a folder are used as votes in memory: the same tables, models and soft labels."""

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from wiesel import MajorityVote, OneCoin, Snorkel, findings, keywords, summarize
from wiesel.analysis import agreement
from wiesel.datasets import make_votes
from wiesel.errors import DataError, LabelingFunctionError, VoteError
from wiesel.io import VoteParts, read_votes, write_soft_label_parts, write_votes
from wiesel.lfs import apply_lfs, apply_lfs_to_folder
from wiesel.lfs.engines import LocalEngine
from wiesel.votes import VoteMatrix

SPAM = keywords("spam", ["free"], column="text", name="gifts")
HAM = keywords("ham", ["see"], column="text", name="ham")
LABELS = ["ham", "spam"]


@pytest.fixture
def matrix() -> VoteMatrix:
    return make_votes(90, 4, n_classes=3, coverage=0.8, accuracies=0.8)[0]


@pytest.fixture
def parts(matrix: VoteMatrix, tmp_path: Path) -> VoteParts:
    (tmp_path / "votes").mkdir()
    for number, start in enumerate((0, 40, 70)):
        stop = (40, 70, 90)[number]
        write_votes(matrix[start:stop], tmp_path / "votes" / f"part-{number}.parquet")
    return VoteParts(tmp_path / "votes")


def test_tables_of_parts_are_those_of_the_whole(matrix: VoteMatrix, parts: VoteParts) -> None:
    gold = make_votes(90, 4, n_classes=3, coverage=0.8, accuracies=0.8)[1]
    model = OneCoin().fit(matrix)
    whole, streamed = summarize(matrix, gold, model), summarize(parts, gold, model)
    assert streamed.frame.equals(whole.frame)
    assert streamed.caption == whole.caption
    assert findings(parts, gold).frame.equals(findings(matrix, gold).frame)
    order = ["first", "second"]
    pairs = agreement(matrix).frame.sort(order)
    assert agreement(parts).frame.sort(order).drop("kappa").equals(pairs.drop("kappa"))
    assert agreement(parts).frame.sort(order)["kappa"].to_list() == pytest.approx(
        pairs["kappa"].to_list()
    )


def test_gold_of_another_length_is_refused(parts: VoteParts) -> None:
    with pytest.raises(DataError, match="3 gold labels for 90 items"):
        summarize(parts, gold=[0, 1, 2])


def test_pairs_of_too_many_voters_are_refused(
    parts: VoteParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["wiesel.analysis.agreement"], "_SUMMED_CELLS", 10)
    with pytest.raises(VoteError, match="pairs of 4 voters and 3 classes"):
        agreement(parts)


def test_soft_labels_are_predicted_and_written_part_by_part(
    matrix: VoteMatrix, parts: VoteParts, tmp_path: Path
) -> None:
    model = Snorkel().fit(parts)
    assert model.predict_proba(parts) == pytest.approx(model.predict_proba(matrix))
    assert model.predict(parts).tolist() == model.predict(matrix).tolist()
    told: list[tuple[int, int]] = []
    files = write_soft_label_parts(
        model, parts, tmp_path / "labels", lambda k, n: told.append((k, n))
    )
    assert told == [(1, 3), (2, 3), (3, 3)]
    frame = pl.concat([pl.read_parquet(file) for file in files])
    assert frame["id"].to_list() == matrix.ids.tolist()
    assert frame.drop("id").to_numpy() == pytest.approx(model.predict_proba(matrix))


class Counting(MajorityVote):
    """A label model that counts how often it is asked."""

    asked = 0

    def predict_proba(self, votes: Any) -> Any:
        Counting.asked += 1
        return super().predict_proba(votes)


def test_soft_labels_that_are_done_are_not_done_again(parts: VoteParts, tmp_path: Path) -> None:
    model, place = Counting().fit(parts), tmp_path / "labels"
    Counting.asked = 0
    write_soft_label_parts(model, parts, place)
    (place / "part-1.parquet").unlink()  # as if it had been killed before
    write_soft_label_parts(model, parts, place)
    assert Counting.asked == 4
    os.utime(parts.files[2], ns=(1, 1))  # other votes
    write_soft_label_parts(model, parts, place)
    assert Counting.asked == 5
    write_soft_label_parts(Counting().fit(parts, class_balance=[0.6, 0.2, 0.2]), parts, place)
    assert Counting.asked == 8


def test_soft_labels_do_not_overwrite_votes(parts: VoteParts, tmp_path: Path) -> None:
    model = MajorityVote().fit(parts)
    with pytest.raises(DataError, match="is a file of votes"):
        write_soft_label_parts(model, parts, tmp_path / "votes")
    with pytest.raises(DataError, match="is a file; soft labels"):
        write_soft_label_parts(model, parts, parts.files[0])
    twice = VoteParts([parts.files[0], parts.files[0]])
    with pytest.raises(DataError, match="the same name"):
        write_soft_label_parts(model, twice, tmp_path / "labels")


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    place = tmp_path / "mails"
    place.mkdir()
    texts = [["free prize", "see you"], ["hello"], ["free", "see", "free see"]]
    for number, rows in enumerate(texts):
        pl.DataFrame({"text": rows}).write_parquet(place / f"mails-{number}.parquet")
    return place


def test_votes_of_different_functions_that_start_at_the_same_time_are_not_mixed(
    mails: Path, tmp_path: Path
) -> None:
    def vote(folder: Path, lf: Any) -> str:
        try:
            apply_lfs_to_folder(lf, mails, folder, labels=LABELS, engine="local")
        except DataError as error:
            return str(error)
        return lf.name

    with ThreadPoolExecutor(4) as threads:
        for number in range(8):
            folder = tmp_path / f"votes-{number}"
            told = list(threads.map(partial(vote, folder), [SPAM, HAM, SPAM, HAM]))
            (name,) = {each for each in told if "votes of other labeling functions" not in each}
            for file in folder.glob("*.parquet"):
                assert list(read_votes(file).voters) == [name]


def test_votes_of_a_folder_of_rows_are_those_of_all_rows(mails: Path, tmp_path: Path) -> None:
    parts = apply_lfs_to_folder(
        [SPAM, HAM], mails, tmp_path / "votes", labels=LABELS, engine="local"
    )
    again = tmp_path / "again"
    alike = apply_lfs_to_folder([SPAM, HAM], mails, again, labels=LABELS, engine=LocalEngine())
    assert [file.name for file in alike.files] == [file.name for file in parts.files]
    for rows in (mails, mails / "*.parquet"):
        whole = apply_lfs([SPAM, HAM], rows, labels=LABELS)
        assert parts.read().equals(whole)


def test_rows_that_were_voted_on_are_not_voted_on_again(mails: Path, tmp_path: Path) -> None:
    place = tmp_path / "votes"
    apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")
    before = {file.name: file.stat().st_mtime_ns for file in place.glob("*.parquet")}
    (place / "mails-1.parquet").unlink()  # as if it had been killed before
    pl.DataFrame({"text": ["no"] * 3}).write_parquet(mails / "mails-2.parquet")  # other rows
    parts = apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")
    after = {file.name: file.stat().st_mtime_ns for file in place.glob("*.parquet")}
    assert [name for name in sorted(after) if after[name] == before[name]] == ["mails-0.parquet"]
    assert parts.read().ids.tolist() == list(range(6))
    assert read_votes(place / "mails-2.parquet").n_votes == 0


def test_names_with_dots_stay_apart(tmp_path: Path) -> None:
    for name in ("part.0.parquet", "part.1.parquet"):
        pl.DataFrame({"text": ["free"]}).write_parquet(tmp_path / name)
    parts = apply_lfs_to_folder(SPAM, tmp_path, tmp_path / "v", labels=LABELS, engine="local")
    assert [file.name for file in parts.files] == ["part.0.parquet", "part.1.parquet"]


def test_files_without_rows_have_no_votes(mails: Path, tmp_path: Path) -> None:
    place = tmp_path / "votes"
    apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")
    empty = pl.DataFrame(schema={"text": pl.String})
    empty.write_parquet(mails / "mails-1.parquet")
    parts = apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")
    assert [file.name for file in parts.files] == ["mails-0.parquet", "mails-2.parquet"]
    assert VoteParts(place).read().ids.tolist() == list(range(5))
    for file in mails.iterdir():
        empty.write_parquet(file)
    with pytest.raises(DataError, match="all files have columns but no rows"):
        apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")


def test_the_file_that_stops_the_work_is_named(mails: Path, tmp_path: Path) -> None:
    from wiesel import labeling_function

    @labeling_function
    def reads_any_column(row: Any) -> None:
        return None

    pl.DataFrame({"body": ["free"]}).write_parquet(mails / "mails-1.parquet")
    with pytest.raises(DataError, match=r"mails-1\.parquet: 'gifts' reads the column 'text'"):
        apply_lfs_to_folder(
            [SPAM, reads_any_column], mails, tmp_path / "votes", labels=LABELS, engine="local"
        )


def test_unfinished_votes_and_votes_on_other_rows_are_pointed_out(
    mails: Path, tmp_path: Path
) -> None:
    place, last = tmp_path / "votes", mails / "mails-2.parquet"
    complete = last.read_bytes()
    last.write_bytes(b"PAR1 damaged")
    with pytest.raises(DataError, match=r"mails-2\.parquet"):
        apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")
    with pytest.warns(UserWarning, match=r"not complete: 'mails-2.parquet' of 3 files are missing"):
        assert VoteParts(place).n_items == 3
    last.write_bytes(complete)
    apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")
    assert VoteParts(place).n_items == 6
    last.unlink()
    with pytest.warns(UserWarning, match=r"were not read now: 'mails-2.parquet'"):
        apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")


def test_votes_of_other_functions_are_not_mixed(mails: Path, tmp_path: Path) -> None:
    place = tmp_path / "votes"
    apply_lfs_to_folder(SPAM, mails, place, labels=LABELS, engine="local")
    with pytest.raises(DataError, match="votes of other labeling functions"):
        apply_lfs_to_folder(HAM, mails, place, labels=LABELS, engine="local")
    with pytest.raises(DataError, match="not of `wiesel apply`"):
        apply_lfs_to_folder(HAM, mails, mails, labels=LABELS, engine="local")


def test_a_function_that_fails_ends_the_work_and_leaves_what_is_done(
    mails: Path, tmp_path: Path
) -> None:
    from wiesel import labeling_function

    @labeling_function
    def fragile(row: Any) -> str | None:
        return "ham" if row["text"] != "hello" else str(1 / 0)

    place = tmp_path / "votes"
    with pytest.raises(LabelingFunctionError, match=r"mails-1\.parquet: 'fragile' failed on row 0"):
        apply_lfs_to_folder(fragile, mails, place, labels=LABELS, engine="local")
    assert [file.name for file in place.glob("*.parquet")] == ["mails-0.parquet"]
    with pytest.warns(UserWarning, match="fragile"):
        parts = apply_lfs_to_folder(
            fragile, mails, place, labels=LABELS, engine="local", on_error="abstain"
        )
    assert parts.n_items == 6


def test_the_verbs_take_folders_and_patterns(folder: Path, wiesel: Callable[..., Any]) -> None:
    for number, text in enumerate(("A free prize for you", "see you", "free at 8?")):
        rows = {"id": [f"m{number}", f"n{number}"], "text": [text, "a text that is quite long"]}
        pl.DataFrame(rows).write_parquet(folder / f"rows-{number}.parquet")
    applied = wiesel(
        "apply", "rows-*.parquet", "--lfs", "lfs.py", "--id", "id", "-o", "votes", "--json"
    )
    assert applied.exit_code == 0, applied.output
    assert json.loads(applied.stdout)["n_items"] == 6
    for place in ("votes", "votes/rows-*.parquet"):
        shown = wiesel("inspect", place, "--json")
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout)["n_items"] == 6
    gold = folder / "gold.csv"
    gold.write_text("id,label\nm0,spam\nm1,ham\n")
    shown = wiesel("inspect", "votes", "--gold", "gold.csv", "--json")
    assert json.loads(shown.stdout)["voters"][0]["support"] == 1
    for place in ("votes", "votes/rows-*.parquet", "vot*/rows-[012].parquet"):
        fitted = wiesel("fit", "majority_vote", place, "-o", "model", "--json")
        assert fitted.exit_code == 0, fitted.output
    written = wiesel("soft-labels", "model", "votes", "-o", "labels")
    assert written.exit_code == 0, written.output
    labels = pl.read_parquet(folder / "labels" / "*.parquet")
    assert labels.columns == ["id", "p: ham", "p: spam"]
    assert len(labels) == 6
    table = wiesel("soft-labels", "model", "votes", "-o", "labels.parquet")
    assert "name a folder, such as labels, instead" in table.stderr
    one = wiesel("soft-labels", "model", "votes/rows-0.parquet", "-o", "one.csv")
    assert one.exit_code == 0, one.output
    assert pl.read_csv(folder / "one.csv")["p: spam"][0] == 1.0
    cached = wiesel("apply", "mails.csv", "--lfs", "lfs.py", "-o", "other", "--cache", "kept.db")
    assert cached.exit_code != 0
    assert "skips finished files" in cached.output
    assert np.isclose(labels.drop("id").to_numpy().sum(axis=1), 1).all()


def test_commands_keep_sums_of_many_items_only(
    parts: VoteParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wiesel.cli import annotation_files

    place = tmp_path / "votes"
    assert annotation_files.votes_in(place).kept is None  # type: ignore[union-attr]
    monkeypatch.setattr(annotation_files, "_MANY_ITEMS", 90)
    for path in (place, place / "part-*.parquet"):
        votes = annotation_files.votes_in(path)
        assert isinstance(votes, VoteParts)
        assert votes.kept is not None
        assert votes.kept.folder == place / ".sums"
    summarize(votes)
    assert annotation_files.votes_in(place).n_items == 90, "the sums are no part of the votes"
