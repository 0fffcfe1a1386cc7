"""Tables in files: what comes back, and what a wrong file is told."""

import gzip
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from wiesel.errors import DataError
from wiesel.io import explained, read_batches, read_rows, scan_rows, write_rows
from wiesel.io.rows import _parquet_metadata, refuse_oversized

ROWS = {
    "id": ["m1", "m2", "m3"],
    "text": ["free prize", "a, b", "zwölf\nZeilen"],
    "n": [1, 2, None],
}


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.tsv", "a.jsonl", "a.ndjson", "a.CSV"])
def test_rows_come_back_as_they_were_written(tmp_path: Path, name: str) -> None:
    write_rows(ROWS, tmp_path / name)
    assert read_rows(tmp_path / name).to_dict(as_series=False) == ROWS


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl"])
def test_batches_hold_all_rows_in_order(tmp_path: Path, name: str) -> None:
    write_rows({"n": range(10)}, tmp_path / name)
    batches = list(read_batches(tmp_path / name, batch_size=4))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert pl.concat(batches)["n"].to_list() == list(range(10))


def test_batches_can_be_left_before_the_end(tmp_path: Path) -> None:
    write_rows({"n": range(1000)}, tmp_path / "a.csv")
    assert next(read_batches(tmp_path / "a.csv", batch_size=10))["n"].to_list() == list(range(10))


def test_columns_are_chosen_and_ordered(tmp_path: Path) -> None:
    write_rows(ROWS, tmp_path / "a.csv")
    assert read_rows(tmp_path / "a.csv", ["n", "id"]).columns == ["n", "id"]


def test_a_word_late_in_a_column_of_numbers_makes_it_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n" + "1\n" * 5000 + "many\n")
    assert read_rows(tmp_path / "a.csv")["n"].to_list()[-1] == "many"


def test_a_key_late_in_json_lines_is_a_column(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n' * 500 + '{"a": 2, "late": "x"}\n')
    assert read_rows(tmp_path / "a.jsonl")["late"].to_list()[-1] == "x"


def test_a_pattern_reads_all_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    for part in (2, 1):
        write_rows({"n": [part]}, tmp_path / f"part-{part}.parquet")
    assert read_rows(tmp_path / "part-*.parquet")["n"].to_list() == [1, 2]
    assert scan_rows(f"{tmp_path}/part-?.parquet").collect().height == 2


@pytest.mark.parametrize("extension", ["parquet", "csv", "jsonl"])
def test_brackets_in_the_name_of_a_file_are_no_pattern(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"mails [1].{extension}"
    write_rows({"n": [7]}, path)
    assert read_rows(path)["n"].to_list() == [7]


def test_a_pattern_is_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows({"n": [7]}, tmp_path / "a.csv")
    monkeypatch.chdir(tmp_path)
    assert read_rows("*.csv")["n"].to_list() == [7]


def test_a_pattern_without_a_match_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No file matches the pattern .*part-\*"):
        read_rows(tmp_path / "part-*.parquet")


def test_a_pattern_of_two_formats_is_refused(tmp_path: Path) -> None:
    write_rows({"n": [1]}, tmp_path / "part.csv")
    write_rows({"n": [1]}, tmp_path / "part.jsonl")
    with pytest.raises(DataError, match="several formats: 'csv', 'jsonl'"):
        read_rows(tmp_path / "part.*")


def test_a_folder_is_read_as_all_its_tables(tmp_path: Path) -> None:
    for number in (2, 1):
        write_rows({"n": [number]}, tmp_path / f"part-{number}.csv")
    (tmp_path / "notes.txt").write_text("not a table")
    (tmp_path / ".hidden.csv").write_text("n\n9\n")
    assert read_rows(tmp_path)["n"].to_list() == [1, 2]
    assert [batch["n"][0] for batch in read_batches(tmp_path, batch_size=1)] == [1, 2]
    write_rows({"n": [1]}, tmp_path / "part.jsonl")
    with pytest.raises(DataError, match=r"several formats.*/\*\.csv"):
        read_rows(tmp_path)


def _cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _damage_a_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20:40] = b"x" * 20
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_cut_in_half, r"part-1\.parquet cannot be read as parquet.*is it complete"),
        (_damage_a_page, r"part-1\.parquet cannot be read as parquet"),
        (lambda path: write_rows({"n": [1]}, path), r"part-1.*lacks the column 'text' of .*part-0"),
        (
            lambda path: write_rows({"n": [1], "text": ["a"], "x": [1]}, path),
            r"part-1.*has the column 'x', which .*part-0.* lacks",
        ),
        (
            lambda path: write_rows({"n": ["1"], "text": ["a"]}, path),
            r"part-1.*column 'n' is String, and that of .*part-0\.parquet is Int64",
        ),
    ],
)
def test_the_one_file_of_many_that_does_not_fit_is_named(
    tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    for number in range(3):
        write_rows({"n": [1] * 50, "text": ["a text"] * 50}, tmp_path / f"part-{number}.parquet")
    change(tmp_path / "part-1.parquet")
    for path in (tmp_path, tmp_path / "part-*"):
        with pytest.raises(DataError, match=message):
            read_rows(path)
        with pytest.raises(DataError, match=message):
            list(read_batches(path))


def test_a_missing_file_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    write_rows(ROWS, tmp_path / "reviews.parquet")
    with pytest.raises(DataError, match=r"no file .*review\.parquet\. Did you mean 'reviews"):
        read_rows(tmp_path / "review.parquet")


def test_a_missing_file_without_a_near_name_lists_the_folder(tmp_path: Path) -> None:
    write_rows(ROWS, tmp_path / "reviews.parquet")
    with pytest.raises(DataError, match=r"no file .*x\.csv.* has 'reviews.parquet'"):
        read_rows(tmp_path / "x.csv")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the folder .*nowhere does not exist"):
        read_rows(tmp_path / "nowhere" / "a.csv")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "inner.csv").mkdir()
    with pytest.raises(DataError, match=r"is a folder, not a file.*is empty"):
        read_rows(tmp_path / "inner.csv")


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(DataError, match=f"{name} is empty"):
        read_rows(tmp_path / name)


def test_a_header_without_rows_is_refused_whole_and_in_batches(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n")
    with pytest.raises(DataError, match="columns but no rows"):
        read_rows(tmp_path / "a.csv")
    with pytest.raises(DataError, match="columns but no rows"):
        list(read_batches(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("name", "content", "position", "line"),
    [
        ("a.csv", b"id,text\n1,caf\xe9 \xc3\xbc bar\n", 13, 2),
        ("a.jsonl", b'{"a": "x"}\n{"a": "\xff"}\n', 18, 2),
        ("a.tsv", b"id\ttext\n\x001\t\xff\n", 11, 2),
    ],
)
def test_bytes_that_are_not_utf8_are_located(
    tmp_path: Path, name: str, content: bytes, position: int, line: int
) -> None:
    (tmp_path / name).write_bytes(content)
    expected = f"not UTF-8 text: the first wrong byte is at position {position}, in line {line}"
    with pytest.raises(DataError, match=expected):
        read_rows(tmp_path / name)


def test_a_bad_byte_beyond_the_first_block_is_located(tmp_path: Path) -> None:
    # One mebibyte of two-byte characters, shifted by one so that a block cuts one in two.
    good = b"text\n" + "ü".encode() * (1 << 19) + b"\n"
    (tmp_path / "a.csv").write_bytes(good + b"\xe9\n")
    with pytest.raises(DataError, match=f"at position {len(good)}, in line 3"):
        read_rows(tmp_path / "a.csv")


def test_broken_json_is_located(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n{"a":\n')
    with pytest.raises(DataError, match="no valid JSON in line 3"):
        read_rows(tmp_path / "a.jsonl")


def test_a_json_line_that_is_no_object_is_located(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n[1, 2]\n')
    with pytest.raises(DataError, match="a list in line 2; each line is one object"):
        read_rows(tmp_path / "a.jsonl")


def test_a_csv_row_that_is_too_long_is_located(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,text\n1,"x, y"\n2,x, y\n')
    with pytest.raises(DataError, match="3 fields in line 3 but 2 in the header"):
        read_rows(tmp_path / "a.csv")


@pytest.mark.parametrize("column", ["id", "text", "label"])
def test_a_row_that_is_too_long_is_located_whatever_is_read(tmp_path: Path, column: str) -> None:
    """Otherwise the text would end at its comma, and the label be the rest of the text."""
    (tmp_path / "a.csv").write_text("id,text,label\n1,free,spam\n2,hello, you,ham\n")
    told = "4 fields in line 3 but 3 in the header"
    with pytest.raises(DataError, match=told):
        read_rows(tmp_path / "a.csv", [column])
    with pytest.raises(DataError, match=told):
        list(read_batches(tmp_path / "a.csv", [column]))


@pytest.mark.parametrize("level", [1, 6, 9])
def test_compressed_text_is_refused(tmp_path: Path, level: int) -> None:
    """A megabyte of it may unpack to a gigabyte, past all limits on lines."""
    for name, packed in (("a.csv", zlib.compress), ("b.csv", gzip.compress)):
        (tmp_path / name).write_bytes(packed(b"id,text\n1,free\n", level))
        with pytest.raises(DataError, match=f"{name} is compressed"):
            read_rows(tmp_path / name)


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,id\n1,2\n")
    with pytest.raises(DataError, match="'id' appears twice"):
        read_rows(tmp_path / "a.csv")


def test_a_wrong_column_is_answered_with_the_nearest(tmp_path: Path) -> None:
    write_rows(ROWS, tmp_path / "a.csv")
    with pytest.raises(
        DataError, match=r"'texts' \(requested from .*a.csv\)\. Did you mean 'text'"
    ):
        read_rows(tmp_path / "a.csv", ["texts"])


@pytest.mark.parametrize(
    ("name", "words"), [("a.doc", "the extension '.doc'"), ("a", "no extension")]
)
def test_an_unknown_extension_lists_what_is_read(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(DataError, match=f"{words}.*'.parquet', '.csv', '.tsv', '.jsonl'"):
        read_rows(tmp_path / name)


def test_half_a_parquet_file_is_refused(tmp_path: Path) -> None:
    write_rows(ROWS, tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a.parquet cannot be read as parquet.*complete\?"):
        read_rows(tmp_path / "a.parquet")


def test_text_under_the_name_of_a_parquet_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("id,text\n1,hello\n")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        read_rows(tmp_path / "a.parquet")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    write_rows(ROWS, tmp_path / "a.csv")
    (tmp_path / "a.csv").chmod(0)
    with pytest.raises(DataError, match=r"a.csv cannot be read"):
        read_rows(tmp_path / "a.csv")


def test_a_batch_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="batch_size=0"):
        next(read_batches(tmp_path / "a.csv", batch_size=0))


def test_lists_do_not_go_into_csv(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'tags' hold lists.*Parquet or JSONL"):
        write_rows({"id": [1], "tags": [["a", "b"]]}, tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_writing_into_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        write_rows(ROWS, tmp_path / "nowhere" / "a.csv")


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    write_rows({"n": [1]}, path)

    def disk_full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_rows({"n": [2]}, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.parquet"]
    assert read_rows(path)["n"].to_list() == [1]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    write_rows(ROWS, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").stat().st_mode == plain.stat().st_mode


def test_damage_that_makes_polars_panic_is_told_with_the_file():
    words = r"votes\.parquet cannot be read as parquet.*complete"
    with pytest.raises(DataError, match=words), explained("votes.parquet"):
        raise pl.exceptions.PanicException("Thrift out of range")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """A limit on the size of files fails as a full disk does."""
    script = (
        "import resource, sys, numpy; from wiesel.io import replacing, write_rows\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "def array():\n"
        "    with replacing(sys.argv[1] + '/X.npy') as file, file.open('wb') as handle:\n"
        "        numpy.save(handle, numpy.zeros(5000))\n"
        "rows = {'n': [str(n) for n in range(5000)]}\n"
        "for write in (array, lambda: write_rows(rows, sys.argv[1] + '/rows.csv')):\n"
        "    try: write()\n"
        "    except (OSError, ValueError) as error: print(error)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert ["X.npy" in said[0], "rows.csv" in said[1]] == [True, True]
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_says_it_does_not_fit_is_refused(tmp_path, monkeypatch):
    write_rows({"a": [0] * 2000, "b": [0] * 2000}, tmp_path / "rows.parquet")
    monkeypatch.setattr("wiesel.io.rows.free_memory", lambda: 3000)
    with pytest.raises(DataError, match=r"rows\.parquet.* 2,000 rows and 4,000 values"):
        read_rows(tmp_path / "rows.parquet")
    monkeypatch.setattr("wiesel.io.rows.free_memory", lambda: 2000 * 8)
    assert read_rows(tmp_path / "rows.parquet", ["b"]).width == 1  # what is not read needs nothing


@pytest.mark.parametrize(
    "rows",
    [
        {"text": ["a long text, which is one hundred times the same"] * 1000},
        {"text": ["long" * 12_000]},
        {"texts": [["spam"] * 1000]},
        {"scores": [[0.5] * 6000, []]},
    ],
)
def test_a_small_file_of_large_values_is_refused(rows, tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    pl.DataFrame(rows).write_parquet(path)
    assert path.stat().st_size < 3000
    monkeypatch.setattr("wiesel.io.rows.free_memory", lambda: 40_000)
    with pytest.raises(DataError, match=r"do not fit into memory.*Check who wrote it"):
        read_rows(path)
    monkeypatch.setattr("wiesel.io.rows.free_memory", lambda: 200_000)
    assert len(read_rows(path)) == len(pl.DataFrame(rows))


def test_the_metadata_of_a_parquet_file_is_that_which_arrow_reads(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    columns = {"id": range(3000), "text": ["x" * (n % 9) for n in range(3000)], "n": [0.5] * 3000}
    columns |= {f"list_{k}": [[True], None, [False, True]] * 1000 for k in range(20)}
    pl.DataFrame(columns).write_parquet(tmp_path / "rows.parquet", row_group_size=700)
    known = parquet.ParquetFile(tmp_path / "rows.parquet").metadata
    found = _parquet_metadata(tmp_path / "rows.parquet")
    assert (found[3], len(found[4])) == (known.num_rows, known.num_row_groups)
    assert known.num_row_groups == 5
    for group, own in enumerate(found[4]):
        for place, chunk in enumerate(own[1]):
            same = known.row_group(group).column(place)
            told = chunk[3]
            assert b".".join(told[3]).decode() == same.path_in_schema
            assert (told[5], told[6]) == (same.num_values, same.total_uncompressed_size)
            assert (told[1] == 6) == (same.physical_type == "BYTE_ARRAY")


@pytest.mark.parametrize("tail", [b"", b"\x00", b"\xff" * 40, b"\x19\xfc" + b"\xff" * 9 + b"\x01"])
def test_damaged_metadata_are_left_to_what_reads_them(tail, tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1" + tail + len(tail).to_bytes(4, "little") + b"PAR1")
    refuse_oversized([path])
    with pytest.raises(DataError, match=r"rows\.parquet"):
        read_rows(path)


def test_chosen_columns_of_a_csv_file_come_in_order(tmp_path: Path) -> None:
    rows = {"id": range(5000), "text": ["free"] * 5000, "n": [1] * 5000}
    write_rows(rows, tmp_path / "a.csv")
    batches = list(read_batches(tmp_path / "a.csv", ["text", "id"], batch_size=700))
    assert all(batch.columns == ["text", "id"] for batch in batches)
    assert [number for batch in batches for number in batch["id"]] == list(range(5000))


@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("scheme", ["file:", "s3:", "http:"])
def test_a_file_named_like_an_address_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, extension: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(ROWS, f"{scheme}rows.{extension}")
    assert read_rows(f"{scheme}rows.{extension}")["id"].to_list() == ROWS["id"]


@pytest.mark.parametrize("extension", ["csv", "tsv"])
def test_quotes_in_the_name_of_a_column_come_back(tmp_path: Path, extension: str) -> None:
    rows = {'"': ["a"], 'says "no"': ['"b"'], "c": [1]}
    write_rows(rows, tmp_path / f"a.{extension}")
    assert read_rows(tmp_path / f"a.{extension}").to_dict(as_series=False) == rows
    assert read_rows(tmp_path / f"a.{extension}", ['says "no"']).columns == ['says "no"']
