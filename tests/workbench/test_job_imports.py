"""A run of the workbench imports nothing from the folder in which the server was started."""

import subprocess
import sys
from pathlib import Path

import pytest

from wiesel.workbench.jobs import _import_options


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A module in the current folder, and the places to import from without that folder."""
    (tmp_path / "trap.py").write_text("print('sprung')")
    places = [place for place in sys.path if place]
    monkeypatch.chdir(tmp_path)
    return places


def imported() -> bool:
    command = [sys.executable, *_import_options(), "-m", "trap"]
    return "sprung" in subprocess.run(command, capture_output=True, text=True).stdout


def test_the_script_does_not_import_from_it(
    trap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", trap)
    assert not imported()


def test_python_with_m_does_as_its_user_asked(
    trap: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *trap])
    assert imported()
