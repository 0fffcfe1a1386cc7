"""A tiny project: forty messages, two labeling functions, two epochs."""

from pathlib import Path

import pytest

TOML = """\
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
"""
LFS = """
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


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The folder of the tiny project."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "wiesel.toml").write_text(TOML)
    (folder / "lfs.py").write_text(LFS)
    (folder / "train.csv").write_text(messages("m", 40, with_labels=False))
    (folder / "dev.csv").write_text(messages("d", 12, with_labels=True))
    (folder / "test.csv").write_text(messages("t", 12, with_labels=True))
    return folder
