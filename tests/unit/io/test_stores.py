"""Results under keys in a file, files in memory, and folders that appear when they are whole."""

from pathlib import Path

import polars as pl
import pytest

from wiesel.errors import DataError
from wiesel.io.exchange import Exchange, read_exchanged, write_exchanged
from wiesel.io.files import appearing_folder, content_of, read_text
from wiesel.io.stores import KeyedStore


def test_what_was_put_is_found_by_another_process(tmp_path: Path) -> None:
    KeyedStore(tmp_path / "deep" / "x.sqlite").put({"a": b"1", "b": b"2"})
    KeyedStore(tmp_path / "deep" / "x.sqlite").put({"a": b"3"})
    found = KeyedStore(tmp_path / "deep" / "x.sqlite").get(["a", "b", "c"])
    assert found == {"a": b"3", "b": b"2"}


def test_a_file_that_is_no_store_is_told_and_may_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_text("something else, and long enough to have a header" * 10)
    with pytest.raises(DataError, match=r"x\.sqlite cannot be used.*deleted at any time"):
        KeyedStore(tmp_path / "x.sqlite").get(["a"])


def test_shorter_rows_written_over_longer_ones_leave_nothing_of_them() -> None:
    with Exchange(room=1000) as exchange:
        file = exchange.file("rows")
        write_exchanged(pl.DataFrame({"text": ["long" * 1000] * 50}), file)
        write_exchanged(pl.DataFrame({"text": ["é", None]}), file)
        assert read_exchanged(file)["text"].to_list() == ["é", None]
        write_exchanged(b"votes", file)
        assert content_of(file) == b"votes"
    assert not file.exists()


def _fill_half(folder: Path) -> None:
    with appearing_folder(folder) as unfinished:
        (unfinished / "part").touch()
        raise ZeroDivisionError


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        _fill_half(tmp_path / "votes")
    assert list(tmp_path.iterdir()) == []
    with appearing_folder(tmp_path / "votes") as unfinished:
        (unfinished / "part").touch()
        assert not (tmp_path / "votes").exists()
    assert [file.name for file in (tmp_path / "votes").iterdir()] == ["part"]
    with pytest.raises(DataError, match="exists already"), appearing_folder(tmp_path / "votes"):
        pass


def test_text_in_another_encoding_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_bytes("a = 1\nb = 'café'\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"rules\.toml, line 2: this is not UTF-8"):
        read_text(tmp_path / "rules.toml")
