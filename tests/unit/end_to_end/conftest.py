"""Networks that tests make are drawn from one seed, test by test."""

from collections.abc import Iterator

import pytest

from wiesel.training import seeded


@pytest.fixture(autouse=True)
def _drawn_from_one_seed() -> Iterator[None]:
    with seeded(0):
        yield
