import json
import math
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from wiesel.errors import SavedModelError
from wiesel.training import History
from wiesel.training.history import Checkpoint, MemberProgress, read_checkpoint, write_checkpoint


def checkpoint(best: bool = True) -> Checkpoint:
    weights = {"layer.weight": torch.arange(6.0).view(2, 3), "steps": torch.tensor(3)}
    return Checkpoint(
        weights=weights,
        optimizer={0: {"step": torch.tensor(4.0), "exp_avg": torch.ones(2, 3)}},
        random_states=[torch.get_rng_state()],
        progress=[
            MemberProgress(
                History([{"epoch": 1, "loss": 0.5}], best_epoch=1 if best else None),
                0.75 if best else -math.inf,
                {name: value + 1 for name, value in weights.items()} if best else None,
            )
        ],
    )


@pytest.mark.parametrize("best", [True, False])
def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path, best: bool):
    written = checkpoint(best)
    write_checkpoint(tmp_path / "run.ckpt", written, "abc")
    read = read_checkpoint(tmp_path / "run.ckpt", "abc")
    assert read is not None
    ours, theirs = read.progress[0], written.progress[0]
    assert (ours.history, ours.best_score) == (theirs.history, theirs.best_score)
    assert (ours.best_weights is None) is (theirs.best_weights is None)
    for name, value in written.weights.items():
        assert torch.equal(read.weights[name], value)
    assert torch.equal(read.random_states[0], written.random_states[0])
    assert torch.equal(read.optimizer[0]["exp_avg"], torch.ones(2, 3))


def test_where_there_is_none_yet_nothing_is_read(tmp_path: Path):
    assert read_checkpoint(tmp_path / "run.ckpt", "abc") is None


def test_it_contains_tensors_and_json_and_no_pickle(tmp_path: Path):
    write_checkpoint(tmp_path / "run.ckpt", checkpoint(), "abc")
    content = (tmp_path / "run.ckpt").read_bytes()
    # A safetensors file: the length of a JSON header, the header, then plain numbers.
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    assert json.loads(header["__metadata__"]["wiesel"])["format"] == 3
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(content)  # noqa: S301 - that it is none is the point
    assert not content.startswith(b"PK"), "torch.save writes zip files with pickles"


def test_writing_again_replaces_it_and_leaves_nothing_behind(tmp_path: Path):
    for best in (True, False):
        write_checkpoint(tmp_path / "deep" / "run.ckpt", checkpoint(best), "abc")
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["run.ckpt"]
    read = read_checkpoint(tmp_path / "deep" / "run.ckpt", "abc")
    assert read is not None
    assert read.progress[0].best_weights is None


def test_tied_weights_can_be_written(tmp_path: Path):
    shared = torch.ones(3)
    tied = Checkpoint({"a": shared, "b": shared}, {}, [torch.get_rng_state()], [MemberProgress()])
    write_checkpoint(tmp_path / "run.ckpt", tied, "abc")
    read = read_checkpoint(tmp_path / "run.ckpt", "abc")
    assert read is not None
    assert torch.equal(read.weights["b"], shared)


class TestRefusals:
    def file(self, folder: Path) -> Path:
        write_checkpoint(folder / "run.ckpt", checkpoint(), "abc")
        return folder / "run.ckpt"

    def test_that_of_another_run(self, tmp_path: Path):
        with pytest.raises(SavedModelError, match=r"other options or other data.*of its own"):
            read_checkpoint(self.file(tmp_path), "xyz")

    @pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.999])
    def test_a_truncated_one(self, tmp_path: Path, share: float):
        file = self.file(tmp_path)
        content = file.read_bytes()
        file.write_bytes(content[: int(share * len(content))])
        with pytest.raises(SavedModelError, match=r"not a readable checkpoint.*Delete it"):
            read_checkpoint(file, "abc")

    def test_one_with_any_byte_changed(self, tmp_path: Path):
        file = self.file(tmp_path)
        content = file.read_bytes()
        positions = range(0, len(content), max(1, len(content) // 60))
        for position in positions:
            changed = bytearray(content)
            changed[position] ^= 0x41
            file.write_bytes(bytes(changed))
            with pytest.raises(SavedModelError, match=r"run\.ckpt"):
                read_checkpoint(file, "abc")
        assert len(positions) > 30

    def test_a_file_of_something_else(self, tmp_path: Path):
        (tmp_path / "notes.txt").write_text("do not lose me")
        with pytest.raises(SavedModelError, match="not a readable checkpoint"):
            read_checkpoint(tmp_path / "notes.txt", "abc")
        save_file({"weight": torch.ones(2)}, tmp_path / "weights.safetensors")
        with pytest.raises(SavedModelError, match="is not a checkpoint; give the run a file of"):
            read_checkpoint(tmp_path / "weights.safetensors", "abc")
        with pytest.raises(SavedModelError, match="not a readable checkpoint"):
            read_checkpoint(tmp_path, "abc")

    @pytest.mark.parametrize(
        ("about", "words"),
        [
            ({"format": 99}, "format 99; this version reads format 3"),
            ({"format": 3}, "is inconsistent"),
            ([1, 2], "is inconsistent"),
            ({"format": 3, "fingerprint": "abc"}, "is inconsistent"),
            ({"format": 3, "fingerprint": "abc", "standings": 5}, "is inconsistent"),
        ],
        ids=str,
    )
    def test_one_that_was_made_up(self, tmp_path: Path, about, words: str):
        from wiesel.training.history import _digest

        tensors = {"random_states": torch.get_rng_state()[None]}
        text = json.dumps(about)
        metadata = {"wiesel": text, "sha256": _digest(text, tensors)}
        save_file(tensors, tmp_path / "run.ckpt", metadata=metadata)
        with pytest.raises(SavedModelError, match=words):
            read_checkpoint(tmp_path / "run.ckpt", "abc")
