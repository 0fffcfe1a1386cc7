"""A small folder of mails, labeling functions, and a way to run the command line in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from wiesel.cli.main import app

LFS = """
from wiesel import LabelSpace, keywords, labeling_function

labels = LabelSpace("ham", "spam")
gifts = keywords("spam", ["free", "prize"], column="text", name="gifts")

@labeling_function
def short(row):
    return "ham" if len(row["text"]) < 12 else None
"""
MAILS = "id,text,label\nm1,A free prize for you,spam\nm2,see you,ham\nm3,free at 8?,ham\n"

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with lfs.py and mails.csv; the current folder of the test."""
    (tmp_path / "lfs.py").write_text(LFS)
    (tmp_path / "mails.csv").write_text(MAILS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def wiesel() -> Run:
    """Run `wiesel WORDS...` and return what came of it."""
    return lambda *words, **options: CliRunner().invoke(app, [*map(str, words)], **options)


@pytest.fixture
def wiesel_json(wiesel: Run) -> Callable[..., dict[str, Any]]:
    """Run `wiesel WORDS... --json` and return the parsed answer."""

    def run(*words: object, exit_code: int = 0) -> dict[str, Any]:
        result = wiesel(*words, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    return run
