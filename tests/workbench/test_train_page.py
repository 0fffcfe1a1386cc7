"""The page for training without a browser: which methods it offers."""

import asyncio
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from event_loop import in_a_loop

from wiesel.catalog import METHODS
from wiesel.tasks import OneLabelTask

OF_ONE_LABEL = {name for name, method in METHODS.items() if OneLabelTask.kind in method.cls.tasks}
train_page = pytest.importorskip("wiesel.workbench.train_page")
jobs = pytest.importorskip("wiesel.workbench.jobs")


def offered(gold: list[int], shown: list[str]) -> dict[str, str]:
    """What the list holds once it is used."""
    jobs = SimpleNamespace(current=lambda: None)
    project = SimpleNamespace(task=OneLabelTask.kind)
    space = SimpleNamespace(project=project, train=SimpleNamespace(gold=np.array(gold)))
    page = train_page.TrainPage(SimpleNamespace(space=space, jobs=jobs))
    page.methods = SimpleNamespace(options={name: name for name in shown})
    page.methods.set_options = lambda options: setattr(page.methods, "options", options)
    in_a_loop(page.offer_all_methods())
    return page.methods.options


def test_all_methods_are_offered_and_what_was_shown_keeps_its_place():
    # The browser names a choice by its position.
    found = offered([-1, 0], ["weasel", "majority_vote"])
    assert list(found)[:2] == ["weasel", "majority_vote"]
    assert set(found) == OF_ONE_LABEL
    assert "encoder" in found["weasel"]


def test_training_on_gold_alone_is_offered_only_with_gold():
    assert OF_ONE_LABEL - set(offered([-1, -1], ["weasel"])) == {"supervised"}


def test_a_method_that_is_not_installed_stays_in_the_list():
    assert offered([0], ["gone", "weasel"])["gone"] == "gone"


def test_curves_say_how_far_they_are():
    records = [{"epoch": k, "epochs": 8, "loss": 1 / k} for k in (1, 2, 3)]
    options = train_page._curves({"committee, seed 0": records}, "loss")
    assert [each["name"] for each in options["series"]] == ["committee: loss, epoch 3 of 8"]
    assert options["title"]["text"] == "loss by epoch"


def test_slow_work_before_the_first_epoch_is_told_until_its_stage_is_done():
    found = jobs.Progress()
    assert train_page._state(found) == "starting"
    lines = [
        {"stage": "votes", "text": "3 voters"},
        {"progress": "sentence embeddings: 50 of 200 texts"},
    ]
    for line in lines:
        jobs._add_line(found, line)
    assert train_page._state(found) == "sentence embeddings: 50 of 200 texts"
    jobs._add_line(found, {"stage": "features", "text": "minilm, 384 columns"})
    assert train_page._state(found) == "features: minilm, 384 columns"


def test_a_run_that_was_just_started_is_shown_though_an_older_one_is_read_late(monkeypatch):
    # A page that opens reads the latest run; on a busy machine, Start is pressed meanwhile.
    started, shown = threading.Event(), []
    monkeypatch.setattr(train_page, "words", lambda text, *_: shown.append(text))

    def progress(name: str) -> train_page.Progress:
        assert name != "old" or started.wait(60)
        return train_page.Progress(end="finished" if name == "old" else "")

    page = train_page.TrainPage(
        SimpleNamespace(jobs=SimpleNamespace(current=lambda: None, progress=progress))
    )
    page.losses = page.scores = SimpleNamespace(options={}, update=lambda: None)
    page.state = nullcontext()
    page.state.clear = lambda: None

    async def open_and_start() -> None:
        page.name = "old"
        opening = asyncio.create_task(page._show_progress())
        await asyncio.sleep(0)
        page.name, page.ended = "new", False
        await page._show_progress()
        started.set()
        await opening

    in_a_loop(open_and_start())
    assert shown == ["Run new: starting"]
    assert not page.ended  # so the page goes on to follow it
