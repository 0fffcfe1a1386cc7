"""The addresses of the workbench."""

from fastapi import Request
from nicegui import ui

from wiesel.workbench.data_page import DataPage
from wiesel.workbench.desk import Desk
from wiesel.workbench.label_page import LabelPage
from wiesel.workbench.layout import frame
from wiesel.workbench.lfs_page import LFsPage
from wiesel.workbench.results_page import ResultsPage
from wiesel.workbench.train_page import TrainPage

__all__ = ["add_pages"]


def add_pages(desk: Desk) -> None:
    """Add the five pages."""

    @ui.page("/", title="Data")
    def data(request: Request) -> None:
        with frame(desk, "/"):
            DataPage(desk, request.query_params.get("selection", "")).build()

    @ui.page("/lfs", title="LFs")
    def lfs() -> None:
        with frame(desk, "/lfs"):
            LFsPage(desk).build()

    @ui.page("/label", title="Label")
    def label() -> None:
        with frame(desk, "/label"):
            LabelPage(desk).build()

    @ui.page("/train", title="Train")
    def train() -> None:
        with frame(desk, "/train"):
            TrainPage(desk).build()

    @ui.page("/results", title="Results")
    def results(request: Request) -> None:
        with frame(desk, "/results"):
            ResultsPage(desk, request.query_params.get("run", "")).build()
