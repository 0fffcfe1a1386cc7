"""Vote files: exact round trips, tables of others, and files that are wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from wiesel import VoteMatrix
from wiesel.errors import DataError, VoteError
from wiesel.io import read_votes, write_rows, write_votes
from wiesel.io.files import read_unchanged, write_text
from wiesel.io.rows import refuse_oversized

LABELS = ["ham", "spam"]
PROBA = np.array([[[0.9, 0.1], [0.0, 0.0]], [[0, 0], [0, 0]], [[0.25, 0.75], [0.5, 0.5]]])


def note_of(path: Path) -> dict[str, Any]:
    return json.loads(pl.read_parquet_metadata(path)["wiesel"])


def with_note(path: Path, frame: pl.DataFrame, **changes: object) -> Path:
    """The same file with another table or other metadata, as a hostile hand would make it."""
    note = {**note_of(path), **changes}
    frame.write_parquet(path, metadata={"wiesel": json.dumps(note)})
    return path


@pytest.mark.parametrize("layout", ["wide", "list", "auto"])
def test_votes_come_back_exactly(tmp_path: Path, votes: VoteMatrix, layout: Any) -> None:
    write_votes(votes, tmp_path / "v.parquet", layout)
    back = read_votes(tmp_path / "v.parquet")
    assert back.equals(votes)
    assert back.ids.dtype == votes.ids.dtype


def test_repeated_answers_come_back_exactly(tmp_path: Path) -> None:
    table = {"task": [1, 1, 2], "who": ["a", "a", "b"], "said": ["ham", "spam", "spam"]}
    votes = VoteMatrix.from_long(table, item="task", voter="who", label="said", duplicates="all")
    write_votes(votes, tmp_path / "v.parquet")
    assert read_votes(tmp_path / "v.parquet").equals(votes)


@pytest.mark.parametrize("layout", ["wide", "list"])
@pytest.mark.parametrize(
    "ids", [["b", "a", "ü"], [3, 1, 2], np.array([3, 1, 2], np.uint8), [0.5, 1.5, 2.5]]
)
def test_ids_keep_their_values_and_type(tmp_path: Path, ids: Any, layout: Any) -> None:
    votes = VoteMatrix.from_dense([[0], [-1], [1]], LABELS, ["a"], ids)
    write_votes(votes, tmp_path / "v.parquet", layout)
    back = read_votes(tmp_path / "v.parquet")
    assert back.equals(votes)
    assert back.ids.dtype == votes.ids.dtype


def test_distributions_and_uncovered_items_come_back(tmp_path: Path) -> None:
    votes = VoteMatrix.from_proba(PROBA, LABELS, ids=["x", "y", "z"])
    write_votes(votes, tmp_path / "v.parquet")
    back = read_votes(tmp_path / "v.parquet")
    assert back.equals(votes)
    assert back.covered.tolist() == [True, False, True]


@pytest.mark.parametrize("layout", ["wide", "list"])
@pytest.mark.parametrize("shape", [(3, 2), (3, 0), (0, 2)])
def test_votes_of_nobody_come_back(tmp_path: Path, shape: tuple[int, int], layout: Any) -> None:
    votes = VoteMatrix.from_dense(np.full(shape, -1), LABELS)
    write_votes(votes, tmp_path / "v.parquet", layout)
    assert read_votes(tmp_path / "v.parquet").equals(votes)


def test_probabilistic_votes_of_nobody_stay_probabilistic(tmp_path: Path) -> None:
    votes = VoteMatrix.from_proba(np.zeros((2, 2, 2)), LABELS)
    write_votes(votes, tmp_path / "v.parquet")
    assert read_votes(tmp_path / "v.parquet").equals(votes)


def test_a_wide_file_opens_as_a_table_of_class_names(tmp_path: Path, votes: VoteMatrix) -> None:
    write_votes(votes, tmp_path / "v.parquet")
    table = pl.read_parquet(tmp_path / "v.parquet")
    assert table.columns == ["id", "keyword", "link", "length"]
    assert table["length"].to_list() == [None, None, "spam", "ham"]


def test_a_voter_may_be_called_id(tmp_path: Path) -> None:
    votes = VoteMatrix.from_dense([[0, 1]], LABELS, ["id", "_id"])
    write_votes(votes, tmp_path / "v.parquet")
    assert read_votes(tmp_path / "v.parquet").equals(votes)


def test_many_voters_get_the_list_layout(tmp_path: Path) -> None:
    dense = np.full((2, 1001), -1)
    dense[0, 1000] = 1
    votes = VoteMatrix.from_dense(dense, LABELS)
    write_votes(votes, tmp_path / "v.parquet")
    assert note_of(tmp_path / "v.parquet")["layout"] == "list"
    assert pl.read_parquet(tmp_path / "v.parquet")["voters"].to_list() == [[1000], []]
    assert read_votes(tmp_path / "v.parquet").equals(votes)


def test_voters_of_a_vote_file_can_be_chosen(tmp_path: Path, votes: VoteMatrix) -> None:
    write_votes(votes, tmp_path / "v.parquet")
    assert read_votes(tmp_path / "v.parquet", voters="l*").voters == ("link", "length")
    assert read_votes(tmp_path / "v.parquet", voters=["length"]).voters == ("length",)


def test_other_classes_than_expected_are_refused(tmp_path: Path, votes: VoteMatrix) -> None:
    write_votes(votes, tmp_path / "v.parquet")
    with pytest.raises(VoteError, match=r"v.parquet: These votes have LabelSpace\('ham', 'spam'\)"):
        read_votes(tmp_path / "v.parquet", labels=["spam", "ham"])


@pytest.mark.parametrize("cells", [["spam", None], [1, -1], [1, None], [1.0, float("nan")]])
@pytest.mark.parametrize("name", ["v.parquet", "v.jsonl"])
def test_tables_of_others_are_read(tmp_path: Path, cells: list[object], name: str) -> None:
    table = {"mail": ["a", "b"], "lf_x": cells, "lf_y": [None, 0], "text": ["t", "u"]}
    write_rows(table, tmp_path / name)
    got = read_votes(tmp_path / name, labels=LABELS, id_column="mail", voters="lf_*")
    assert got.dense().tolist() == [[1, -1], [-1, 0]]
    assert got.voters == ("lf_x", "lf_y")
    assert got.ids.tolist() == ["a", "b"]


def test_without_arguments_a_table_of_others_is_refused(tmp_path: Path) -> None:
    write_rows({"lf": ["spam", "ham"]}, tmp_path / "v.csv")
    with pytest.raises(
        DataError,
        match=r"v.csv: .*give their names in order, labels=.*The cells hold 'ham', 'spam'",
    ):
        read_votes(tmp_path / "v.csv")


def test_a_name_that_is_no_class_is_located(tmp_path: Path) -> None:
    write_rows({"lf": ["spam", "spma"]}, tmp_path / "v.csv")
    with pytest.raises(VoteError, match=r"v.csv: 'lf' voted 'spma' on row 1"):
        read_votes(tmp_path / "v.csv", labels=LABELS)


def test_a_pattern_that_matches_no_voter_is_refused(tmp_path: Path) -> None:
    write_rows({"lf": ["spam"]}, tmp_path / "v.csv")
    with pytest.raises(DataError, match=r"pattern 'x\*'. There are 'lf'"):
        read_votes(tmp_path / "v.csv", labels=LABELS, voters="x*")


def test_a_voter_that_is_no_column_is_refused(tmp_path: Path) -> None:
    write_rows({"lf_a": ["spam"]}, tmp_path / "v.csv")
    with pytest.raises(DataError, match=r"'lf_b' \(a voter\). Did you mean 'lf_a'"):
        read_votes(tmp_path / "v.csv", labels=LABELS, voters=["lf_b"])


def test_missing_ids_are_refused(tmp_path: Path) -> None:
    write_rows({"id": ["a", None], "lf": ["spam", "spam"]}, tmp_path / "v.parquet")
    with pytest.raises(VoteError, match="ids must not be missing; 1 are"):
        read_votes(tmp_path / "v.parquet", labels=LABELS, id_column="id")


def test_repeated_ids_are_refused(tmp_path: Path) -> None:
    write_rows({"id": ["a", "a"], "lf": ["spam", "spam"]}, tmp_path / "v.csv")
    with pytest.raises(VoteError, match=r"unique; repeated: 'a'"):
        read_votes(tmp_path / "v.csv", labels=LABELS, id_column="id")


def test_ids_of_mixed_kinds_are_not_written(tmp_path: Path) -> None:
    ids = np.array([("a", 1), ("b", 2)], dtype="O,O").astype(object)
    votes = VoteMatrix.from_dense([[0], [1]], LABELS, ["a"], ids)
    with pytest.raises(VoteError, match="numbers or text"):
        write_votes(votes, tmp_path / "v.parquet")


def test_votes_are_written_as_parquet_only(tmp_path: Path, votes: VoteMatrix) -> None:
    with pytest.raises(DataError, match="written as Parquet"):
        write_votes(votes, tmp_path / "v.csv")


def test_a_wide_table_holds_no_distributions(tmp_path: Path) -> None:
    with pytest.raises(VoteError, match="layout='list'"):
        write_votes(VoteMatrix.from_proba(PROBA, LABELS), tmp_path / "v.parquet", "wide")


def test_an_unknown_layout_is_refused(tmp_path: Path, votes: VoteMatrix) -> None:
    with pytest.raises(DataError, match=r"no layout 'wid'. Did you mean 'wide'"):
        write_votes(votes, tmp_path / "v.parquet", "wid")  # type: ignore[arg-type]


def test_a_later_format_asks_for_an_upgrade(tmp_path: Path, votes: VoteMatrix) -> None:
    write_votes(votes, tmp_path / "v.parquet")
    path = with_note(tmp_path / "v.parquet", pl.read_parquet(tmp_path / "v.parquet"), format=99)
    with pytest.raises(DataError, match=r"format number 99.*upgrade"):
        read_votes(path)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "3",
        "null",
        '{"kind": "votes"}',
        '{"kind": "votes", "format": 1}',
        '{"kind": "model", "format": 1}',
        '{"kind": "votes", "format": 1, "layout": "list", "id_column": "id", "labels": 3}',
        '{"kind": "votes", "format": 1, "layout": "list", "id_column": "id", "labels": ["a", "a"]}',
    ],
)
def test_strange_metadata_is_refused(tmp_path: Path, text: str) -> None:
    pl.DataFrame({"id": [1]}).write_parquet(tmp_path / "v.parquet", metadata={"wiesel": text})
    with pytest.raises(DataError, match="not a file of votes"):
        read_votes(tmp_path / "v.parquet")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"voters": [[1, 0], [2]]}, "not in order"),
        ({"voters": [[1, 1], [2]]}, "one appears twice"),
        ({"voters": [[0, 7], [2]]}, "voter index is outside"),
        ({"voters": [[0, -1], [2]]}, "voter index is outside"),
        ({"classes": [[0, 9], [1]]}, "class index is outside"),
        ({"classes": [[0], [1]]}, "disagree on the number of votes"),
        ({"id": [4, 4]}, "unique; repeated: 4"),
        ({"voters": [[0, None], [2]]}, "is missing"),
        ({"classes": [[0, None], [1]]}, "is missing"),
        ({"voters": [[0.0, 1.5], [2.0]]}, "lists of voters hold Float64, not whole numbers"),
        ({"classes": [[0.4, 1.0], [1.0]]}, "lists of classes hold Float64"),
    ],
)
def test_altered_lists_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    votes = VoteMatrix.from_dense([[0, 1, -1], [-1, -1, 1]], LABELS)
    write_votes(votes, tmp_path / "v.parquet", "list")
    frame = pl.read_parquet(tmp_path / "v.parquet").with_columns(
        **{name: pl.Series(values) for name, values in change.items()}
    )
    with pytest.raises(VoteError, match=words):
        read_votes(with_note(tmp_path / "v.parquet", frame))


def test_a_number_too_large_for_its_type_does_not_wrap_around(tmp_path: Path) -> None:
    write_votes(VoteMatrix.from_dense([[0]], LABELS), tmp_path / "v.parquet", "list")
    frame = pl.read_parquet(tmp_path / "v.parquet").with_columns(classes=pl.Series([[1 << 16]]))
    with pytest.raises(DataError, match=r"v.parquet cannot be read"):
        read_votes(with_note(tmp_path / "v.parquet", frame))


@pytest.mark.parametrize("row", [[0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], [0.25, 0.75]])
def test_altered_distributions_are_refused(tmp_path: Path, row: list[float]) -> None:
    votes = VoteMatrix.from_proba([[[0.75, 0.25]]], LABELS)
    write_votes(votes, tmp_path / "v.parquet")
    frame = pl.read_parquet(tmp_path / "v.parquet").with_columns(proba=pl.Series([[row]]))
    with pytest.raises(VoteError, match="does not sum to 1, or has another largest entry"):
        read_votes(with_note(tmp_path / "v.parquet", frame))


def test_an_item_selected_twice_is_not_written(tmp_path: Path, votes: VoteMatrix) -> None:
    with pytest.raises(VoteError, match="must be unique; repeated: 0"):
        write_votes(votes[[0, 0]], tmp_path / "v.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_lost_column_is_named(tmp_path: Path, votes: VoteMatrix) -> None:
    for layout, column in (("wide", "link"), ("list", "classes")):
        write_votes(votes, tmp_path / "v.parquet", layout)  # type: ignore[arg-type]
        frame = pl.read_parquet(tmp_path / "v.parquet").drop(column)
        with pytest.raises(DataError, match=f"v.parquet: There is no column '{column}'"):
            read_votes(with_note(tmp_path / "v.parquet", frame))


def test_a_missing_vote_file_is_answered_with_the_nearest_name(
    tmp_path: Path, votes: VoteMatrix
) -> None:
    write_votes(votes, tmp_path / "votes.parquet")
    with pytest.raises(DataError, match=r"Did you mean 'votes.parquet'"):
        read_votes(tmp_path / "vote.parquet")


@pytest.mark.parametrize("layout", ["wide", "list"])
def test_a_file_that_is_replaced_while_it_is_read_is_read_as_one(tmp_path, monkeypatch, layout):
    """The metadata of one file and the votes of another would be other votes altogether."""
    path = tmp_path / "votes.parquet"
    first = VoteMatrix.from_dense([[0], [1]], ["ham", "spam"], ["ann"])
    second = VoteMatrix.from_dense([[0], [1], [0]], ["spam", "ham"], ["ann"])
    write_votes(first, path, layout)
    replaced = []

    def replacing_it(files, *options):
        if not replaced:
            replaced.append(True)
            write_votes(second, path, layout)
        return refuse_oversized(files, *options)

    monkeypatch.setattr("wiesel.io.vote_files.refuse_oversized", replacing_it)
    assert read_votes(path).equals(second)


def test_a_file_that_changes_with_every_reading_is_refused(tmp_path):
    path, numbers = tmp_path / "notes.txt", iter(range(10**6))

    def read():
        write_text(path, "x" * next(numbers))

    path.touch()
    with pytest.raises(DataError, match=r"notes\.txt was changed each of the 50 times"):
        read_unchanged(path, read)


def test_a_small_file_that_claims_more_votes_than_fit_into_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = VoteMatrix.from_dense(np.zeros((100_000, 1), np.int16), ["ham", "spam"])
    write_votes(votes, tmp_path / "v.parquet")
    monkeypatch.setattr("wiesel.io.rows.free_memory", lambda: 2**21)
    # 100,000 ids and 100,000 votes of at least 16 bytes are 3.2 million bytes.
    with pytest.raises(DataError, match=r"v\.parquet.* 100,000 rows and 200,000 values.*several"):
        read_votes(tmp_path / "v.parquet")
    monkeypatch.setattr("wiesel.io.rows.free_memory", lambda: 2**22)
    assert read_votes(tmp_path / "v.parquet").n_votes == 100_000
