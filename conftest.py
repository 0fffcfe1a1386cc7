"""What doctests and tests share: a tiny vote matrix and the place of the real data."""

import gc
import os
import random
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

# The networks of the tests are tiny: on a busy machine, two threads mostly wait for each other.
# NumPy and torch read this when they are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from wiesel import VoteMatrix, registry

# What is imported and collected lives until the end; searching it for garbage is in vain.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let tests run in another order, with other networks."""
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="another order, and other initial weights"
    )


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Pass over modules without tests and examples: what they import costs seconds to load."""
    if collection_path.suffix != ".py" or collection_path.name.startswith("test_"):
        return None
    return None if _has_examples(collection_path) else True


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Look for examples only where there are any: most files of tests have none."""
    found = yield
    if _has_examples(file_path):
        return found
    return [one for one in found if not isinstance(one, DoctestModule)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests of each: what a file's tests share is still made once."""
    if config.option.shuffle is None:
        return
    rng = random.Random(config.option.shuffle)
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    groups = list(files.values())
    rng.shuffle(groups)
    for group in groups:
        rng.shuffle(group)
    items[:] = [item for group in groups for item in group]


def pytest_collection_finish() -> None:
    """From here on, search only what the tests make for garbage."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Draw initial weights from one seed in each test, whatever ran before it in this process."""
    if "torch" in sys.modules:  # torch itself begins with a random seed in every process
        generator = sys.modules["torch"].default_generator
        generator.manual_seed(item.config.option.shuffle or 0)


def _has_examples(file: Path) -> bool:
    return file.suffix == ".py" and ">>>" in file.read_text(encoding="utf-8")


def tiny_votes() -> VoteMatrix:
    """Four items, three voters, two classes; small enough to check by hand."""
    return VoteMatrix.from_dense(
        [[0, 0, -1], [0, 1, -1], [1, 1, 1], [-1, 1, 0]],
        labels=["ham", "spam"],
        voters=["keyword", "link", "length"],
    )


@pytest.fixture
def votes() -> VoteMatrix:
    """The tiny vote matrix."""
    return tiny_votes()


@pytest.fixture(autouse=True, scope="session")
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["votes"] = tiny_votes()


@pytest.fixture(autouse=True)
def _only_our_methods() -> Iterator[None]:
    """Forget the methods that a test or an example has registered."""
    yield
    for index in registry._REGISTRIES:
        for name, method in list(index._methods.items()):
            home = sys.modules.get(method.cls.__module__)
            ours = method.package == "wiesel" and hasattr(home, method.cls.__name__)
            if not ours:
                del index._methods[name]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, or a skip where there is none."""
    folder = os.environ.get("WIESEL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("WIESEL_DATA is not set: the real data sets are not at hand")
    return Path(folder)
