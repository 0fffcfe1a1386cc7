"""A project that is trained in half a second, and the command line without a process of its own."""

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

TINY_TOML = """\
classes = ["billing", "technical"]

[data]
train = "train.csv"
dev = "dev.csv"
test = "test.csv"

[votes]
lfs = ["lfs.py"]

[features]
kind = "tfidf"
n_dimensions = 3

[end_model]
name = "linear"

[method]
name = "majority_vote"
baselines = []

[training]
epochs = 2
lr = 0.05
epoch_size = 320
"""
TINY_LFS = """
from wiesel import keywords, labeling_function

money = keywords("billing", ["invoice", "refund"], column="text", name="money")

@labeling_function
def crash(row):
    return "technical" if "crash" in row["text"] else None
"""
TEXTS = {
    "billing": ("the invoice is wrong", "I want a refund", "my bill has an error"),
    "technical": ("the app will crash", "a crash after the update", "I cannot log in"),
}


def messages(prefix: str, n_items: int, with_labels: bool) -> str:
    lines = ["id,text,label" if with_labels else "id,text"]
    for place in range(n_items):
        label = ("billing", "technical")[place % 2]
        text = TEXTS[label][place % 3]
        lines.append(f"{prefix}{place},{text}" + (f",{label}" if with_labels else ""))
    return "\n".join(lines) + "\n"


def tiny_project(place: Path) -> Path:
    """A tiny project: forty messages, two labeling functions, two epochs."""
    folder = place / "tiny"
    folder.mkdir()
    (folder / "wiesel.toml").write_text(TINY_TOML)
    (folder / "lfs.py").write_text(TINY_LFS)
    (folder / "train.csv").write_text(messages("m", 40, with_labels=False))
    (folder / "dev.csv").write_text(messages("d", 12, with_labels=True))
    (folder / "test.csv").write_text(messages("t", 12, with_labels=True))
    return folder


def assert_no_places(model: Path) -> None:
    """No file of a saved model names a place of the machine that wrote it."""
    files = [file for file in model.rglob("*") if file.is_file()]
    assert any(file.name == "manifest.json" for file in files)
    place = model.parent
    while not any(place.glob("wiesel.toml")):
        place = place.parent
    names = {str(place.resolve()), tempfile.gettempdir(), str(Path.home()), sys.prefix, os.getcwd()}
    for file in files:
        content = file.read_bytes()
        found = [name for name in names if len(name) > 1 and name.encode() in content]
        assert not found, file


def forge(model: Path, **changes: Any) -> None:
    """Change a manifest as somebody would who knows how its checksum is made."""
    manifest = json.loads((model / "manifest.json").read_text()) | changes
    manifest.pop("sha256")
    text = json.dumps(manifest, sort_keys=True)
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (model / "manifest.json").write_text(json.dumps(manifest))


def run_wiesel(*words: object, **options: Any) -> Any:
    """Run `wiesel WORDS...` and return what came of it."""
    from typer.testing import CliRunner

    from wiesel.cli.main import app

    return CliRunner().invoke(app, [*map(str, words)], **options)
