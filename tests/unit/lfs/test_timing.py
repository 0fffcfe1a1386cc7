"""Who is slow is named while labeling functions run, and afterwards."""

import time

from wiesel import apply_lfs, keywords, labeling_function
from wiesel.lfs.engines import LocalEngine
from wiesel.lfs.timing import timing
from wiesel.progress import listening


@labeling_function
def patient(row):
    time.sleep(0.002)
    return "ham"


@labeling_function
def quick(row):
    return None


ROWS = [{"text": "a free prize"}] * 200


def test_every_function_has_its_time_and_the_slow_one_is_told():
    told: list[str] = []
    rule = keywords("spam", ["free"], column="text", name="prize")
    with timing() as clock, listening(told.append):
        apply_lfs(
            [rule, patient, quick], ROWS, labels=["ham", "spam"], engine=LocalEngine(workers=1)
        )
    assert set(clock.seconds) == {"prize", "patient", "quick"}
    assert max(clock.seconds, key=clock.seconds.__getitem__) == "patient"
    assert any("now 'patient'" in text for text in told)
    assert told[-1].startswith("3 labeling functions: 200 rows")


def test_nobody_is_named_where_all_is_quick():
    with timing() as clock:
        apply_lfs([quick], ROWS, labels=["ham", "spam"])
    assert clock.slowest() == ""
