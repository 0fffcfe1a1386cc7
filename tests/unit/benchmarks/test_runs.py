"""The benchmark of a whole run sums up what the stages took."""

import pytest
from benchmarks import runs


@pytest.mark.parametrize(
    ("told", "stage"),
    [
        ("votes 51 functions", "votes"),
        ("train committee", "committee"),
        ("train 250 labels alone", "labels alone"),
        ("train committee without labels", "committee without labels"),
        ("reused the features", "report"),
    ],
)
def test_a_line_of_the_run_belongs_to_a_stage(told: str, stage: str) -> None:
    assert runs._stage(told) == stage


def test_scores_stand_beside_the_models() -> None:
    row = {
        "stages": {"features": 10.0, "committee": 5.0},
        "scores": {"committee": 0.85},
        "cpu_seconds": 15.0,
        "again_cpu_seconds": 0.5,
    }
    lines = [line.split("|")[1:-1] for line in runs.results_table([row]).splitlines()]
    cells = {line[0].strip(): [cell.strip() for cell in line[1:]] for line in lines}
    assert cells["committee"] == ["5.0 s", "85.0%"]
    assert cells["again, nothing changed"][0] == "0.500 s"
