"""The addresses of the workbench."""

from collections.abc import Callable
from typing import Any

from fastapi import Request
from nicegui import ui

from wiesel.project.settings import ONE_LABEL, SEVERAL_LABELS, SPANS
from wiesel.workbench.crowd_page import CrowdPage
from wiesel.workbench.data_page import DataPage
from wiesel.workbench.desk import Desk
from wiesel.workbench.entrance import Entrance, EntrancePage
from wiesel.workbench.label_page import LabelPage
from wiesel.workbench.label_results import LabelResultsPage
from wiesel.workbench.label_sets_page import LabelSetPage
from wiesel.workbench.layout import PAGES, frame
from wiesel.workbench.lfs_page import LFsPage
from wiesel.workbench.map_page import MapPage
from wiesel.workbench.mark_page import MarkPage
from wiesel.workbench.results_page import ResultsPage
from wiesel.workbench.train_page import TrainPage

__all__ = ["add_pages"]


_LABEL_PAGES = {ONE_LABEL: LabelPage, SEVERAL_LABELS: LabelSetPage, SPANS: MarkPage}
"""What rows are labeled with, by kind of task."""


def add_pages(entrance: Entrance) -> None:
    """Add the six pages; while there is no project, the way to one is in their place."""
    builders: dict[str, Callable[[Desk, dict[str, str]], Any]] = {
        "/": DataPage,
        "/map": MapPage,
        "/lfs": lambda desk, query: (CrowdPage if desk.space.has_crowd else LFsPage)(desk),
        "/label": lambda desk, query: _LABEL_PAGES[desk.space.project.task](desk, query),
        "/train": lambda desk, query: TrainPage(desk),
        "/results": lambda desk, query: _results(desk)(desk, query.get("run", "")),
    }
    for address, name in PAGES:
        _add(entrance, address, name, builders[address])


def _results(desk: Desk) -> type[ResultsPage]:
    return ResultsPage if desk.space.project.task == ONE_LABEL else LabelResultsPage


def _add(
    entrance: Entrance, address: str, name: str, builder: Callable[[Desk, dict[str, str]], Any]
) -> None:
    @ui.page(address, title=name)
    def page(request: Request) -> None:
        desk = entrance.desk
        if desk is None:
            EntrancePage(entrance).build()
            return
        with frame(desk, address):
            builder(desk, dict(request.query_params)).build()
