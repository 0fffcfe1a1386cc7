"""A real browser against a real server: what the tests of the workbench share."""

import shutil
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from patience import PATIENCE

from live_server import FLAGS, Server, chromium


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start the workbench of a project; it is stopped after the test."""
    pytest.importorskip("nicegui", reason="the extra 'workbench' is not installed")
    started: list[Server] = []

    def start(project: Path, *options: str) -> Server:
        started.append(Server(project, *options))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def serve_once() -> Iterator[Callable[..., Server]]:
    """Start the workbench of a project for tests of a module that do not disturb each other."""
    pytest.importorskip("nicegui", reason="the extra 'workbench' is not installed")
    started: dict[Path, Server] = {}

    def start(project: Path) -> Server:
        if project not in started:
            started[project] = Server(project)
        return started[project]

    yield start
    for server in started.values():
        server.stop()


class Browser:
    """One headless Chromium for all tests of this folder that a worker runs in a row."""

    def __init__(self) -> None:
        self.driver: Any = None
        self.running: Any = None

    def launched(self) -> Any:
        if self.running is None:
            playwright = pytest.importorskip("playwright.sync_api", reason="it is not installed")
            path = chromium()
            self.driver = playwright.sync_playwright()
            launch = self.driver.__enter__().chromium.launch
            self.running = launch(executable_path=path, args=FLAGS, timeout=PATIENCE)
        return self.running

    def close(self) -> None:
        if self.running is not None:
            self.running.close()
            self.running = None
        if self.driver is not None:
            self.driver.__exit__(None, None, None)
            self.driver = None


BROWSER = Browser()


# Playwright's event loop runs in this thread for as long as the browser is open, and nothing else
# that needs a loop (a notebook) can. So the browser closes before a worker takes a test of another
# folder.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    yield
    if nextitem is None or nextitem.path.parent != item.path.parent:
        BROWSER.close()


@pytest.fixture
def browser() -> Any:
    return BROWSER.launched()


class Errors(list[str]):
    """What went wrong in a page."""


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open an address in a browser of its own; errors in the page fail the test."""
    contexts, errors = [], Errors()

    def open_(address: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        # By default Playwright asks at every frame, for which the page is drawn again and again.
        page.wait_for_function = partial(page.wait_for_function, polling=100)
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not errors


PROJECT = """\
classes = ["billing", "technical"]

[data]
train = "train.csv"
{splits}
[votes]
lfs = ["rules.toml"]

[features]
n_dimensions = 20

[end_model]
name = "linear"

[method]
name = "majority_vote"
baselines = []

[training]
epochs = 3
lr = 0.05
"""


@pytest.fixture
def empty_project(tmp_path: Path) -> Path:
    """Messages of two kinds, and nothing else: no labeling function, no label."""
    return write_empty_project(tmp_path)


@pytest.fixture(scope="module")
def read_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same and 9,400 more, for tests of a module that leave no labeling function in it."""
    folder = write_empty_project(tmp_path_factory.mktemp("read"))
    rows = pl.read_csv(folder / "train.csv", infer_schema=False)
    numbers = range(len(rows), 10_000)
    texts = [f"message {number} about " * 4 for number in numbers]
    more = pl.DataFrame({"id": [f"train-{number}" for number in numbers], "text": texts})
    pl.concat([rows, more], how="diagonal").write_csv(folder / "train.csv")
    return folder


def write_empty_project(place: Path) -> Path:
    from wiesel.project import write_starter

    starter = place / "starter"
    write_starter(starter)
    folder = place / "mails"
    folder.mkdir()
    shutil.copyfile(starter / "train.csv", folder / "train.csv")
    shutil.copyfile(starter / "test.csv", folder / "test.csv")
    (folder / "wiesel.toml").write_text(PROJECT.format(splits='test = "test.csv"\n'))
    return folder
