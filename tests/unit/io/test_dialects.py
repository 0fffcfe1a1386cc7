"""CSV as people have it: separators, encodings, byte order marks, workbooks."""

from pathlib import Path

import pytest

from wiesel.errors import DataError, WieselWarning
from wiesel.io import read_batches, read_rows
from wiesel.io.dialects import dialect_of, separator_of

ROWS = [("1", "caf\u00e9, na\u00efve", "ham"), ("2", "said; done", "spam")]


def written(path: Path, separator: str, encoding: str) -> Path:
    quoted = [f'"{text}"' if separator in text else text for _, text, _ in ROWS]
    lines = [separator.join(("key", "text", "label"))]
    lines += [
        separator.join((key, text, label))
        for (key, _, label), text in zip(ROWS, quoted, strict=True)
    ]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_and_marks_are_seen(tmp_path: Path, separator: str, encoding: str) -> None:
    frame = read_rows(written(tmp_path / "mails.csv", separator, encoding))
    assert frame.columns == ["key", "text", "label"]
    assert frame["text"].to_list() == [text for _, text, _ in ROWS]


@pytest.mark.parametrize("name", ["latin-1", "cp1252"])
def test_what_windows_writes_is_read_and_told(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "mails.csv", ";", name)
    with pytest.warns(WieselWarning, match=r"mails\.csv is not UTF-8; it was read as cp1252"):
        frame = read_rows(path)
    assert frame["text"][0] == ROWS[0][1]


def test_what_is_given_is_not_guessed(tmp_path: Path) -> None:
    path = written(tmp_path / "mails.csv", ";", "latin-1")
    frame = read_rows(path, separator=";", encoding="latin-1")
    assert frame["text"].to_list() == [text for _, text, _ in ROWS]
    assert dialect_of(path, separator="tab", encoding="latin-1").separator == "\t"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"separator": "::"}, "A separator is one character"),
        ({"encoding": "latn-1"}, "There is no encoding 'latn-1'"),
        ({"encoding": "rot13"}, "There is no encoding 'rot13'"),
        ({"encoding": "zlib"}, "There is no encoding 'zlib'"),
        ({"encoding": "punycode"}, "There is no encoding 'punycode'"),
        ({"encoding": "\0"}, "There is no encoding"),
        ({"encoding": "ascii"}, "not encoded as ascii: the first wrong byte is in line 2"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, given: dict[str, str], words: str) -> None:
    path = written(tmp_path / "mails.csv", ",", "utf-8")
    with pytest.raises(DataError, match=words):
        read_rows(path, **given)


def test_utf8_that_was_damaged_is_not_taken_for_windows(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_bytes("text\nm\u00fcde\n".encode() + b"caf\xe9 bar\n")
    with pytest.raises(DataError, match=r"is not UTF-8 text: .* in line 3"):
        read_rows(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("text\none; two\nthree; four\n", ","),
        ("id,text\n1,one; two\n2,three; four\n", ","),
        ("id;text\n1;a, b\n2;c, d, e\n", ";"),
        ('id;text\n1;"a; b"\n2;c\n', ";"),
        ("id;text\n1;a\x0bb\n2;c\u2028d\n", ";"),
        ("a,b,c\n1,2\n", ","),
        ("", ","),
    ],
)
def test_the_separator_is_what_makes_rows_alike(text: str, expected: str) -> None:
    assert separator_of(text) == expected


def test_files_of_a_pattern_may_be_written_differently(tmp_path: Path) -> None:
    written(tmp_path / "part1.csv", ",", "utf-8")
    written(tmp_path / "part2.csv", ";", "utf-16")
    assert len(read_rows(tmp_path / "part*.csv")) == 4
    assert sum(map(len, read_batches(tmp_path / "part*.csv", batch_size=3))) == 4


def test_a_row_that_is_too_long_is_told_by_the_separator_that_is_used(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    lines = ["id;text", *(f"{k};fine, really" for k in range(40)), "41;a;b"]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="has 3 fields in line 42 but 2 in the header"):
        read_rows(path)


@pytest.mark.parametrize("name", ["mails.xlsx", "mails.XLS", "mails.ods"])
def test_workbooks_are_refused_with_the_way_out(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(DataError, match="Save the sheet as 'CSV UTF-8'"):
        read_rows(tmp_path / name)


def test_a_workbook_with_the_name_of_a_table_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_bytes(b"PK\x03\x04\x14\x00\x08\x08\xff")
    with pytest.raises(DataError, match=r"spreadsheet or a zip file.*'CSV UTF-8'"):
        read_rows(path)
