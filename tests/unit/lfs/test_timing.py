"""Who is slow is named while labeling functions run, and afterwards."""

from types import SimpleNamespace

import pytest

from wiesel import apply_lfs, keywords, labeling_function
from wiesel.lfs import failures
from wiesel.lfs.engines import LocalEngine
from wiesel.lfs.failures import timing
from wiesel.progress import listening

SECONDS = [0.0]
"""What the clock of the tests shows."""


@labeling_function
def patient(row):
    SECONDS[0] += 0.002
    return "ham"


@labeling_function
def quick(row):
    return None


ROWS = [{"text": "a free prize"}] * 200


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may stop a quick function for longer than a slow one takes.
    monkeypatch.setattr(failures, "time", SimpleNamespace(perf_counter=lambda: SECONDS[0]))


def test_every_function_has_its_time_and_the_slow_one_is_told():
    told: list[str] = []
    rule = keywords("spam", ["free"], column="text", name="prize")
    with timing() as clock, listening(told.append):
        apply_lfs(
            [rule, patient, quick], ROWS, labels=["ham", "spam"], engine=LocalEngine(workers=1)
        )
    assert clock.seconds == {"prize": 0.0, "patient": pytest.approx(0.4), "quick": 0.0}
    assert any("now 'patient'" in text for text in told)
    assert told[-1].startswith("3 labeling functions: 200 rows")


def test_nobody_is_named_where_all_is_quick():
    with timing() as clock:
        apply_lfs([quick], ROWS, labels=["ham", "spam"])
    assert clock.slowest() == ""
