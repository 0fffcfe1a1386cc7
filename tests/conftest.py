"""What tests of several folders share."""

import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, settings

from tiny_project import run_wiesel, tiny_project

# The same examples every time: a run that passes here passes elsewhere. `make fuzz` looks further.
# And however long they take: a busy machine must not fail them.
settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")
if os.environ.get("WIESEL_JITTER"):
    import jitter  # noqa: F401 - adds noise to what is drawn, before a test draws anything

MAIL_LFS = """
from wiesel import LabelSpace, keywords, labeling_function

labels = LabelSpace("ham", "spam")
gifts = keywords("spam", ["free", "prize"], column="text", name="gifts")

@labeling_function
def short(row):
    return "ham" if len(row["text"]) < 12 else None
"""
MAILS = "id,text,label\nm1,A free prize for you,spam\nm2,see you,ham\nm3,free at 8?,ham\n"


@pytest.fixture(autouse=True, scope="session")
def _width_of_a_terminal() -> Iterator[None]:
    """Tables are as wide as the terminal: here always the same, wherever the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        yield


@pytest.fixture(autouse=True, scope="session")
def _commands_are_built_once() -> Iterator[None]:
    """Typer's runner builds all commands anew for every call: longer than most of them take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests note the projects that they run in a place of their own."""
    place = tmp_path_factory.getbasetemp() / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place))
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with lfs.py and mails.csv; the current folder of the test."""
    (tmp_path / "lfs.py").write_text(MAIL_LFS)
    (tmp_path / "mails.csv").write_text(MAILS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def wiesel() -> Callable[..., Any]:
    """Run `wiesel WORDS...` and return what came of it."""
    return run_wiesel


@pytest.fixture
def wiesel_json(wiesel: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Run `wiesel WORDS... --json` and return the parsed answer."""

    def run(*words: object, exit_code: int = 0) -> dict[str, Any]:
        result = wiesel(*words, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A tiny project: forty messages, two labeling functions, two epochs."""
    return tiny_project(tmp_path)
