"""The script that compares fits finds a difference, and finds none where there is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fits import END_TO_END, EVIDENCE, LABEL_MODELS

from wiesel.catalog import METHODS

SCRIPT = Path(__file__).with_name("fits.py")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_method_of_one_label_is_fitted():
    assert {*LABEL_MODELS, *EVIDENCE, *END_TO_END, "two_stage", "hidden_markov"} == set(METHODS)


@pytest.mark.slow
def test_a_changed_fit_is_found(tmp_path: Path):
    only = ("--only", "three classes/one_coin")
    assert run("--write", tmp_path / "before.json", *only).returncode == 0
    same = run("--compare", tmp_path / "before.json", *only)
    assert same.returncode == 0
    assert "1 fits compared: 0 differences" in same.stdout
    before = json.loads((tmp_path / "before.json").read_text())
    before["three classes/one_coin"]["proba"]["hash"] = "another"
    (tmp_path / "before.json").write_text(json.dumps(before))
    other = run("--compare", tmp_path / "before.json", *only)
    assert other.returncode == 1
    assert "three classes/one_coin: proba differs, by 0 in the values shown" in other.stdout
