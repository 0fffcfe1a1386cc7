import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from wiesel import LabelSpace, MajorityVote, VoteMatrix, load_model, saving
from wiesel.errors import SavedModelError
from wiesel.project.starter import write_starter
from wiesel.saving import (
    decoded,
    encoded,
    read_folder,
    read_json,
    read_manifest,
    write_file,
    write_folder,
)

FILES = {"data.bin": b"\x00\x01\x02", "notes.txt": b"hello"}


def test_a_folder_comes_back_as_it_was_written(tmp_path: Path):
    write_folder(tmp_path / "model", {"class": "X", "names": ["ä", "b"]}, FILES)
    manifest, files = read_folder(tmp_path / "model")
    assert files == FILES
    assert manifest["names"] == ["ä", "b"]
    assert manifest["format"] == 1
    assert read_manifest(tmp_path / "model") == manifest


def test_missing_parents_are_made_and_nothing_else_is_left(tmp_path: Path):
    write_folder(tmp_path / "a" / "b" / "model", {}, FILES)
    assert [entry.name for entry in (tmp_path / "a" / "b").iterdir()] == ["model"]


class TestReplacing:
    def test_an_earlier_model_is_replaced_as_a_whole(self, tmp_path: Path):
        write_folder(tmp_path / "model", {"n": 1}, FILES)
        write_folder(tmp_path / "model", {"n": 2}, {"other.bin": b"x"})
        manifest, files = read_folder(tmp_path / "model")
        assert (manifest["n"], files) == (2, {"other.bin": b"x"})
        assert [entry.name for entry in tmp_path.iterdir()] == ["model"]

    def test_an_empty_folder_is_filled(self, tmp_path: Path):
        (tmp_path / "model").mkdir()
        write_folder(tmp_path / "model", {}, FILES)
        assert read_folder(tmp_path / "model")[1] == FILES

    def test_a_folder_of_something_else_is_left_alone(self, tmp_path: Path):
        thesis = tmp_path / "thesis"
        thesis.mkdir()
        (thesis / "chapter.tex").write_text("years of work")
        with pytest.raises(SavedModelError, match=r"not a saved model.*Choose another place"):
            write_folder(thesis, {}, FILES)
        assert (thesis / "chapter.tex").read_text() == "years of work"

    def test_a_manifest_of_somebody_else_s_does_not_make_a_model(self, tmp_path: Path):
        """Web applications have a manifest.json too."""
        app = tmp_path / "app"
        app.mkdir()
        (app / "manifest.json").write_text(json.dumps({"name": "app", "icons": []}))
        with pytest.raises(SavedModelError, match="exists and is not a saved model"):
            write_folder(app, {}, FILES)
        assert (app / "manifest.json").exists()

    def test_a_model_with_files_of_the_user_s_beside_it_is_left_alone(self, tmp_path: Path):
        write_folder(tmp_path / "model", {"n": 1}, FILES)
        (tmp_path / "model" / "evaluation.csv").write_text("mine")
        with pytest.raises(SavedModelError, match=r"also holds 'evaluation\.csv'.*would delete"):
            write_folder(tmp_path / "model", {"n": 2}, FILES)
        assert read_manifest(tmp_path / "model")["n"] == 1

    def test_a_file_is_left_alone(self, tmp_path: Path):
        (tmp_path / "model").write_text("a file")
        with pytest.raises(SavedModelError, match="not a saved model"):
            write_folder(tmp_path / "model", {}, FILES)

    def test_a_link_to_a_model_keeps_pointing_at_it(self, tmp_path: Path):
        write_folder(tmp_path / "v1", {"n": 1}, FILES)
        (tmp_path / "latest").symlink_to("v1")
        for n in (2, 3):
            write_folder(tmp_path / "latest", {"n": n}, FILES)
        assert (tmp_path / "latest").is_symlink()
        assert read_manifest(tmp_path / "v1")["n"] == 3
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["latest", "v1"]


class Crash(BaseException):
    """The machine stops here: nothing can catch it and nothing is cleaned up."""


class TestCrash:
    """At every step of saving, a crash leaves the old model or the new one."""

    @pytest.mark.parametrize("step", ["write_synced", "os.rename"])
    @pytest.mark.parametrize("call", [0, 1, 2])
    def test_a_crash_at_any_step_leaves_a_whole_model(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, call: int
    ):
        write_folder(tmp_path / "model", {"n": 1}, FILES)
        real = os.rename if step == "os.rename" else saving.write_synced
        calls = []

        def failing(*arguments):
            calls.append(arguments)
            if len(calls) == call + 1:
                raise Crash
            return real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", lambda *a, **k: None)
            patch.setattr(os if step == "os.rename" else saving, step.removeprefix("os."), failing)
            try:
                write_folder(tmp_path / "model", {"n": 2}, FILES)
                crashed = False
            except Crash:
                crashed = True
        manifest, files = read_folder(tmp_path / "model")
        assert files == FILES
        assert manifest["n"] == (1 if crashed else 2)
        write_folder(tmp_path / "model", {"n": 3}, FILES)
        assert read_manifest(tmp_path / "model")["n"] == 3

    def test_saving_again_after_a_crash_between_the_renames_loses_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """The old model waits beside its place; it must not be deleted before the new is there."""
        write_folder(tmp_path / "model", {"n": 1}, FILES)
        os.rename(tmp_path / "model", tmp_path / ".model.previous")
        rename, rmtree = os.rename, shutil.rmtree

        def crash_at_the_last_step(source, target):
            if str(source).endswith("unfinished"):
                raise Crash
            rename(source, target)

        def remove_what_was_replaced(folder, **options):
            if str(folder).endswith(".previous"):
                rmtree(folder, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", crash_at_the_last_step)
            patch.setattr(shutil, "rmtree", remove_what_was_replaced)
            with pytest.raises(Crash):
                write_folder(tmp_path / "model", {"n": 2}, FILES)
        assert read_manifest(tmp_path / "model")["n"] == 1

    def test_a_half_written_file_never_takes_the_place_of_a_whole_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        write_file(tmp_path / "run.ckpt", b"old")

        def half(file: Path, content: bytes) -> None:
            file.write_bytes(content[:2])
            raise Crash

        with monkeypatch.context() as patch:
            patch.setattr("wiesel.unfinished.write_synced", half)
            with pytest.raises(Crash):
                write_file(tmp_path / "run.ckpt", b"new content")
        assert (tmp_path / "run.ckpt").read_bytes() == b"old"
        assert [entry.name for entry in tmp_path.iterdir()] == ["run.ckpt"]

    def test_an_error_while_saving_leaves_no_unfinished_folder(self, tmp_path: Path):
        with pytest.raises(SavedModelError, match="cannot be named"):
            write_folder(tmp_path / "model", {}, {"../escape": b"x"})
        assert list(tmp_path.iterdir()) == []


class TestOtherFiles:
    def test_a_folder_with_files_that_are_no_part_of_the_model_is_refused(self, tmp_path: Path):
        write_folder(tmp_path / "model", {}, FILES)
        (tmp_path / "model" / "lfs.py").write_text("print('run me')")
        with pytest.raises(SavedModelError, match=r"also holds 'lfs\.py'.*not part of the model"):
            read_folder(tmp_path / "model")

    def test_what_file_managers_leave_does_not_matter(self, tmp_path: Path):
        write_folder(tmp_path / "model", {}, FILES)
        (tmp_path / "model" / ".DS_Store").write_bytes(b"icons")
        assert read_folder(tmp_path / "model")[1] == FILES


class TestSizes:
    def test_a_file_of_another_size_is_refused_before_it_is_read(self, tmp_path: Path):
        write_folder(tmp_path / "model", {}, FILES)
        with (tmp_path / "model" / "data.bin").open("r+b") as file:
            file.truncate(2**40)  # sparse: it takes no room on the disk
        with pytest.raises(SavedModelError, match="not what was saved"):
            read_folder(tmp_path / "model")

    def test_a_file_that_cannot_fit_is_refused_whatever_the_manifest_says(self, tmp_path: Path):
        write_folder(tmp_path / "model", {}, FILES)
        manifest = read_manifest(tmp_path / "model")
        del manifest["bytes"]
        manifest["sha256"] = saving._manifest_digest(manifest)
        (tmp_path / "model" / "manifest.json").write_text(json.dumps(manifest))
        with (tmp_path / "model" / "data.bin").open("r+b") as file:
            file.truncate(2**42)
        with pytest.raises(SavedModelError, match=r"4,398,046,511,104 bytes, more than can be"):
            read_folder(tmp_path / "model")

    def test_a_manifest_without_end_is_refused(self, tmp_path: Path):
        write_folder(tmp_path / "model", {}, FILES)
        with (tmp_path / "model" / "manifest.json").open("r+b") as file:
            file.truncate(2**40)
        with pytest.raises(SavedModelError, match="more than can be read"):
            read_manifest(tmp_path / "model")


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path: Path):
    """A limit on the size of files fails as a full disk does: without saying which file."""
    script = (
        "import resource, sys; from wiesel.saving import write_folder\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_folder(sys.argv[1], {}, {'data.bin': bytes(5000)})\n"
        "except OSError as error: print(error.filename)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip().endswith("data.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_problem_of_writing_names_what_was_to_be_written(tmp_path: Path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write, target in (
        (lambda: write_file(tmp_path / "p.csv", b"x"), tmp_path / "p.csv"),
        (
            lambda: write_folder(tmp_path / "model", {"kind": "test"}, {"a": b"x"}),
            tmp_path / "model" / "a",
        ),
        (lambda: write_starter(tmp_path / "new"), tmp_path / "new" / "README.md"),
    ):
        with pytest.raises(OSError, match="No space left") as caught:
            write()
        assert caught.value.filename == str(target)
    assert [file.name for file in tmp_path.rglob("*")] == ["new"]


def test_a_reader_during_saves_gets_one_of_the_models(tmp_path: Path):
    """Readers once mixed two models and called them damaged."""
    contents = [{"data.bin": bytes([n]) * 40_000, "more.bin": bytes([n])} for n in range(2)]
    write_folder(tmp_path / "model", {"n": 0}, contents[0])
    stop, problems, n_read = threading.Event(), [], 0

    def write() -> None:
        try:
            for n in range(60):
                write_folder(tmp_path / "model", {"n": n % 2}, contents[n % 2])
        except (OSError, SavedModelError) as error:
            problems.append(error)
        finally:
            stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set() or n_read == 0:
        manifest, files = read_folder(tmp_path / "model")
        assert files == contents[manifest["n"]]
        n_read += 1
    writer.join()
    assert not problems


def test_two_processes_that_save_to_one_place_leave_one_of_the_models(tmp_path: Path):
    script = (
        "import sys; from wiesel.saving import write_folder\n"
        "for n in range(40): write_folder(sys.argv[1], {'by': sys.argv[2]}, {'a.bin': b'x'})"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model")]
    writers = [subprocess.Popen([*command, str(n)]) for n in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert read_folder(tmp_path / "model")[1] == {"a.bin": b"x"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_folder_that_is_missing_for_a_moment_can_be_saved_to(tmp_path: Path, monkeypatch):
    target = tmp_path / "model"
    write_folder(target, {}, {"a.bin": b"x"})
    looked, look = [], Path.iterdir

    def replaced_at_first(folder: Path):
        if folder == target and not looked:
            looked.append(folder)
            raise FileNotFoundError(folder)  # between the two renames of another process
        return look(folder)

    monkeypatch.setattr(Path, "iterdir", replaced_at_first)
    write_folder(target, {}, {"a.bin": b"y"})
    assert looked
    assert read_folder(target)[1] == {"a.bin": b"y"}


class TestReadingJson:
    def test_what_is_no_json_is_said_so(self):
        for content in (b"", b"{", b"\xff\xfe", b"{]", b'{"a": 1} x'):
            with pytest.raises(SavedModelError, match=r"m\.json is not readable JSON"):
                read_json(content, "m.json")

    @pytest.mark.parametrize("depth", [60, 5000, 200_000])
    def test_deep_nesting_is_refused(self, depth: int):
        with pytest.raises(SavedModelError, match="not readable JSON"):
            read_json(b"[" * depth + b"]" * depth, "m.json")

    def test_what_nests_a_little_is_read(self):
        assert read_json(b'{"a": [[[1]]]}', "m.json") == {"a": [[[1]]]}


class TestValues:
    @pytest.mark.parametrize(
        "value",
        [None, True, 3, 2.5, "text", "", [1, "a"], (1, (2, 3)), {"a": {"b": (1,)}}, [[], {}]],
        ids=str,
    )
    def test_plain_values_come_back_as_they_were(self, value):
        again = decoded(json.loads(json.dumps(encoded(value))))
        assert again == value
        assert type(again) is type(value)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int16, bool, np.uint8])
    def test_arrays_come_back_with_their_type(self, dtype):
        array = np.array([[0, 1], [1, 0]], dtype=dtype)
        again = decoded(json.loads(json.dumps(encoded(array))))
        assert np.array_equal(again, array)
        assert again.dtype == array.dtype

    def test_numpy_numbers_label_spaces_and_paths(self):
        assert encoded(np.float64(2.5)) == 2.5
        assert encoded(np.int16(3)) == 3
        assert encoded(Path("a/b")) == "a/b"
        labels = LabelSpace("ham", "spam")
        assert decoded(encoded(labels)) == labels

    @pytest.mark.parametrize(
        "value",
        [object(), {1: 2}, b"bytes", {1, 2}, 1j, np.array(["a"]), np.array([None]), len],
        ids=["object", "int_key", "bytes", "set", "complex", "text", "objects", "function"],
    )
    def test_what_is_no_data_is_refused_with_its_type(self, value):
        with pytest.raises(SavedModelError, match=f"{type(value).__name__} cannot be saved"):
            encoded(value)

    @pytest.mark.parametrize(
        "value",
        [
            {"$array": [1], "dtype": "|O"},
            {"$array": [1], "dtype": "<U9"},
            {"$array": [1]},
            {"$array": ["x"], "dtype": "<f8"},
            {"$array": [[1], [2, 3]], "dtype": "<f8"},
            {"$array": [300], "dtype": "|u1"},
            {"$array": [1], "dtype": 5},
            {"$labels": ["one"]},
            {"$labels": [1, 2]},
            {"$labels": 7},
            {"$tuple": 5},
        ],
        ids=str,
    )
    def test_made_up_values_are_refused(self, value):
        with pytest.raises(SavedModelError, match=r"stored value cannot be read|classes"):
            decoded(value)


def test_a_label_model_is_saved_and_found_by_its_manifest(tmp_path: Path, votes: VoteMatrix):
    MajorityVote(hard=True, ties="lowest").fit(votes).save(tmp_path / "model")
    assert read_manifest(tmp_path / "model")["class"] == "MajorityVote"
    loaded = load_model(tmp_path / "model")
    assert (loaded.hard, loaded.ties) == (True, "lowest")


@pytest.mark.parametrize("text", [b'{"labels": ["\\ud83d"]}', b'{"\\ud83d": 1}'])
def test_half_a_character_is_refused(text: bytes) -> None:
    with pytest.raises(SavedModelError, match=r"is not readable JSON: .*surrogates"):
        read_json(text, "manifest.json")
    assert read_json(b'{"labels": ["\\ud83d\\ude00", NaN]}', "manifest.json")["labels"][0] == "😀"
