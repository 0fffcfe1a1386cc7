"""Models that commit 055702e saved load, and answer as they did then."""

import json
from typing import Any

import pytest
from saved_models import ANSWERS, MODELS, answers, load

EXPECTED: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_model_of_version_0_1_answers_as_before(name: str):
    expected = dict(EXPECTED[name])
    if "thresholds_" in expected:  # today's name is that of any task
        expected["threshold_"] = expected.pop("thresholds_")
    found = answers(load(name), expected.pop("data"))
    assert found.keys() >= expected.keys()
    for what, value in expected.items():
        assert_same(found[what], value, f"{name}, {what}")


def test_every_saved_model_is_asked():
    assert {folder.name for folder in MODELS.iterdir()} == EXPECTED.keys()
    assert len(EXPECTED) > 60


def test_a_difference_is_found():
    with pytest.raises(AssertionError, match="a, b, 1"):
        assert_same({"b": [0.0, 0.30002]}, {"b": [0.0, 0.3]}, "a")
    assert_same({"b": [0.0, 0.300001], "new": 1}, {"b": [0.0, 0.3]}, "a")


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Compare plain data: figures to 1e-5, everything else exactly; new keys may be added."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        for key, value in expected.items():
            assert key in found, f"{where}: no {key}"
            assert_same(found[key], value, f"{where}, {key}")
    elif isinstance(expected, list):
        assert isinstance(found, list), where
        assert len(found) == len(expected), where
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}, {place}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-5, rel=1e-5), where
    else:
        assert found == expected, where
