"""What doctests and tests share: a tiny vote matrix and the place of the real data."""

import os
from pathlib import Path
from typing import Any

import pytest

from wiesel import VoteMatrix


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


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["votes"] = tiny_votes()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, or a skip where there is none."""
    folder = os.environ.get("WIESEL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("WIESEL_DATA is not set: the real data sets are not at hand")
    return Path(folder)
