"""The label page without a browser: an answer that cannot be saved is not lost."""

from types import SimpleNamespace

import pytest
from event_loop import in_a_loop

from wiesel.io import LabelStore

label_page = pytest.importorskip("wiesel.workbench.label_page")


@pytest.fixture
def page(tmp_path, monkeypatch):
    store = LabelStore(tmp_path / "labels.sqlite")
    space = SimpleNamespace(has_lfs=False, labels=["ham", "spam"], store=store)
    desk = SimpleNamespace(space=space, changed=lambda labels_only: None)
    page = label_page.LabelPage(desk, {})
    page.waiting = [{"item": name, "purpose": "learn"} for name in ("m1", "m2", "m3")]
    monkeypatch.setattr(page, "_show", lambda: None)
    monkeypatch.setattr(page, "_fetch_soon", lambda: None)
    page.notes = []
    notify = lambda text, **how: page.notes.append(text)  # noqa: E731
    monkeypatch.setattr("wiesel.workbench.desk.ui.notify", notify)
    yield page
    store.release()


def test_an_answer_that_is_not_saved_keeps_its_row(page, tmp_path):
    page.person = "ada"
    in_a_loop(page.answer("ham"))
    assert (page.done, page.waiting[0]["item"]) == (1, "m2")
    page.desk.space.store.release()  # else what is in its log counts
    (tmp_path / "labels.sqlite").write_bytes(b"no database " * 100)
    in_a_loop(page.answer("ham"))
    assert (page.done, page.waiting[0]["item"]) == (1, "m2")
    assert "cannot be used" in page.notes[0]


def test_the_name_of_resolved_disagreements_saves_nothing(page):
    page.person = "resolved"
    in_a_loop(page.answer("ham"))
    assert page.done == 0
    assert "No person can be named" in page.notes[0]
