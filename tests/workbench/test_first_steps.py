"""The first steps without a browser: they are for new users only."""

from pathlib import Path

import pytest

pytest.importorskip("nicegui", reason="the extra 'workbench' is not installed")

from wiesel.workbench import desk as desks


def test_steps_are_counted_and_kept_but_not_for_who_has_a_run(
    empty_project: Path, monkeypatch: pytest.MonkeyPatch
):
    desk = desks.Desk.open(empty_project)
    monkeypatch.setattr(desks, "kept_runs", lambda project: ["a run"])
    desk.count("opened")
    assert desk.counts == {}
    monkeypatch.setattr(desks, "kept_runs", lambda project: [])
    desk.count("opened")
    monkeypatch.setattr(desks, "kept_runs", lambda project: ["the first run"])
    desk.count("opened")
    assert desk.counts == {"opened": 2}
    assert desks.Desk.open(empty_project).counts == {"opened": 2}
    desk.close()
